"""From type hints to stores: what `total: Value[int]` in a signature declares.

Everything wrong with a state hint is said here, when the handler is declared.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated, Any, Final, TypeVar, cast, get_args, get_origin

from streamlet.ids import StoreName, checked_name
from streamlet.state.by_key import ByKey
from streamlet.state.errors import BadDeclaration, NotYet
from streamlet.state.group import Group, group_fields
from streamlet.state.handle import State
from streamlet.state.keys import hint_name, key_codec
from streamlet.state.log import Log
from streamlet.state.map import Map
from streamlet.state.set import Set
from streamlet.state.spec import AnyCodec, Kind, Scope, StoreSpec
from streamlet.state.value import Value
from streamlet.state.values import value_codec

S = TypeVar("S", bound=State)


class _Mark(Enum):
    PER_TASK = "per task"


PER_TASK: Final = _Mark.PER_TASK
PerTask = Annotated[S, PER_TASK]  # transparent to type checkers: inside the handler it is just S


class View(Enum):
    """How a handler sees its stores."""

    CURRENT_KEY = "this record's key"
    TASK = "the whole task"
    BY_KEY = "any key of the task"


@dataclass(frozen=True, slots=True)
class StateOptions:
    """What `state(...)` says about a store beyond its type."""

    name: str | None = None
    ttl_ms: int | None = None
    codec: AnyCodec | None = None


def state(
    *, name: str | None = None, ttl: object | None = None, codec: AnyCodec | None = None
) -> Any:  # Any: it stands as default of any state
    """Options of a store, in Annotated[Value[int], ...] or as the default of the parameter."""
    if ttl is not None:
        raise NotYet("Expiry of state (ttl=)", "Leave ttl= out and delete what you no longer need in the handler.")
    return StateOptions(None if name is None else checked_name("store", name), None, codec)


@dataclass(frozen=True, slots=True)
class Declaration:
    """One state parameter: the stores behind it, and how the handler sees them."""

    name: str
    specs: tuple[StoreSpec, ...]
    view: View
    group: type[Group] | None = None
    fields: tuple[str, ...] = ()  # of the group, one per spec

    @classmethod
    def of(cls, spec: StoreSpec) -> "Declaration":
        """The plain view of one store."""
        return cls(spec.name, (spec,), View.TASK if spec.scope is Scope.TASK else View.CURRENT_KEY)


def is_state(hint: object) -> bool:
    """Whether a parameter with this hint is state."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    origin = get_origin(hint) or hint
    return isinstance(origin, type) and issubclass(origin, State)


def declare_state(name: str, hint: object, *, key: object | None, options: StateOptions | None = None) -> Declaration:
    """What a state hint declares. `name` is the default store name, `key` the hint of the record key, None if it has none."""
    marks: tuple[object, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *rest = get_args(hint)
        marks = tuple(rest)
    given = next((mark for mark in marks if isinstance(mark, StateOptions)), None)
    if given is not None and options is not None:
        raise BadDeclaration(name, hint_name(hint), "it has options twice", "Keep one of Annotated[..., state(...)] and = state(...).")
    options = given or options or StateOptions()
    name = checked_name("store", options.name or name)
    view = View.TASK if PER_TASK in marks else View.CURRENT_KEY
    if get_origin(hint) is ByKey:
        if view is View.TASK:
            raise BadDeclaration(
                name, hint_name(hint), "PerTask and ByKey exclude each other", "ByKey sees key-level state: leave PerTask out."
            )
        key, hint = _by_key_args(name, hint, key)
        view = View.BY_KEY
    if view is not View.TASK:
        _check_record_key(name, hint, key)
    scope = Scope.TASK if view is View.TASK else Scope.KEY
    group = _as_group(hint)
    if group is not None:
        return _declare_group(name, group, None if scope is Scope.TASK else key, view, options)
    return Declaration(name, (_spec(name, hint, None if scope is Scope.TASK else key, scope, options),), view)


def _as_group(hint: object) -> type[Group] | None:
    return hint if isinstance(hint, type) and issubclass(hint, Group) else None


def _by_key_args(name: str, hint: object, key: object | None) -> tuple[object, object]:
    declared, inner = get_args(hint)
    if key is not None and key_codec(declared) is not key_codec(key) and hint_name(declared) != hint_name(key):
        raise BadDeclaration(
            name, hint_name(hint), f"the records are keyed by {hint_name(key)}", f"Write ByKey[{hint_name(key)}, {hint_name(inner)}]."
        )
    return declared, inner


def _check_record_key(name: str, hint: object, key: object | None) -> None:
    if key is None:
        raise BadDeclaration(
            name,
            hint_name(hint),
            "its topic has no key type, so there is no key to keep state by",
            f"Add key= to the topic, or write PerTask[{hint_name(hint)}] for one state per task.",
        )
    key_codec(key)


def _declare_group(name: str, group: type[Group], key: object | None, view: View, options: StateOptions) -> Declaration:
    fields = group_fields(group)
    if not fields:
        raise BadDeclaration(name, group.__name__, "the group has no states", "Annotate some: balance: Value[int].")
    if options.codec is not None:
        raise BadDeclaration(
            name, group.__name__, "codec= belongs to one store", "Put it on the field: balance: Annotated[Value[X], state(codec=...)]."
        )
    specs: list[StoreSpec] = []
    for field, hint in fields.items():
        inner = hint_name(get_args(hint)[0] if get_origin(hint) is Annotated else hint)
        if not is_state(hint) or get_origin(hint) is ByKey or _as_group(hint) is not None:
            raise BadDeclaration(
                f"{name}.{field}", inner, "a group holds Value, Map, Log and Set only", "Change the annotation of that field."
            )
        if PER_TASK in get_args(hint):
            raise BadDeclaration(f"{name}.{field}", inner, "a group is as a whole per key or per task", "Write PerTask around the group.")
        declared = declare_state(f"{name}-{field}", hint, key=key if key is not None else str)
        scope = Scope.TASK if view is View.TASK else Scope.KEY
        specs.append(replace(declared.specs[0], scope=scope, key=key))
    return Declaration(name, tuple(specs), view, group, tuple(fields))


def _spec(name: str, hint: object, key: object | None, scope: Scope, options: StateOptions) -> StoreSpec:
    kind, fields, value = _shape(name, hint, hint)
    for field in fields:
        key_codec(field)
    if kind is Kind.SET:
        if options.codec is not None:
            raise BadDeclaration(name, hint_name(hint), "a Set stores no values", "Leave codec= out.")
    else:
        value_codec(value, options.codec)
    return StoreSpec(StoreName(name), kind, scope, key, fields, value, options.ttl_ms, options.codec)


def _shape(name: str, whole: object, hint: object) -> tuple[Kind, tuple[object, ...], object | None]:
    origin, args = get_origin(hint), cast("tuple[object, ...]", get_args(hint))
    if origin is Value and hint is whole:
        return Kind.VALUE, (), args[0]
    if origin is Log:
        return Kind.LOG, (), args[0]
    if origin is Set:
        return Kind.SET, args, None
    if origin is Map:
        if is_state(args[1]):
            kind, fields, value = _shape(name, whole, args[1])
            return kind, (args[0], *fields), value
        return Kind.MAP, (args[0],), args[1]
    if origin is Value:
        raise BadDeclaration(name, hint_name(whole), "a Map holds values already", f"Write Map[..., {hint_name(args[0])}].")
    if isinstance(hint, type) and issubclass(hint, State) and not issubclass(hint, Group):
        raise BadDeclaration(
            name, hint_name(whole), "it does not say what it holds", f"Write {hint.__name__}[...], for example Value[int]."
        )
    raise BadDeclaration(name, hint_name(whole), "only Map, Log and Set can stand inside a Map", "Change the hint.")
