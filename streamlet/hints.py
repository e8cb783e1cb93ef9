"""Type hints as values: resolving, unwrapping, comparing and printing them.

Handlers are checked against their sources with these, once, when they are declared. What cannot be judged at run time
(protocols, type variables, foreign generics) is let through: the type checker has the last word there.
"""

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Protocol, Union, cast, get_args, get_origin

from streamlet.declaration import DeclarationError, place_of

NONE = type(None)


def resolve_hints(function: Callable[..., object], local_names: Mapping[str, object], subject: str) -> dict[str, object]:
    """All hints of a function as objects; `local_names` are those visible where it was decorated."""
    try:
        hints: dict[str, object] = typing.get_type_hints(function, localns=dict(local_names), include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise UnreadableHints(subject, str(error), place_of(function)) from error
    return hints


class UnreadableHints(DeclarationError):
    """A hint names something that cannot be found while the decorator runs."""

    def __init__(self, subject: str, reason: str, place: str | None) -> None:
        self.reason = reason
        super().__init__(
            subject,
            f"its type hints cannot be read ({reason}). A name in them is (1) defined later in the file, (2) imported under "
            "`if TYPE_CHECKING:`, or (3) local to a function that is not the one the decorator runs in",
            "move the definition above the handler, import it at run time, or move the class to the module's top level",
            None,
            place,
        )


def plain(hint: object) -> object:
    """The hint without `Annotated`, `type` aliases and the like; a `NewType` stays itself."""
    while True:
        origin = get_origin(hint)
        if origin is Annotated:
            hint = get_args(hint)[0]
        elif (aliased := _aliased(hint)) is not None:
            hint = aliased
        elif (generic := _aliased(origin)) is not None:
            hint = cast("_Subscriptable", generic)[get_args(hint)]
        else:
            return NONE if hint is None else hint


class _Subscriptable(Protocol):
    """A generic alias: its parameters are still open."""

    def __getitem__(self, arguments: tuple[object, ...], /) -> object: ...


def _aliased(hint: object) -> object | None:
    """What a `type X = ...` stands for; None if the hint is no alias. Aliases have no common class before 3.12."""
    return cast("object | None", getattr(hint, "__value__", None)) if type(hint).__name__ == "TypeAliasType" else None


def metadata(hint: object) -> tuple[object, ...]:
    """What `Annotated` carries, outermost last."""
    while (aliased := _aliased(hint)) is not None:
        hint = aliased
    return tuple(getattr(hint, "__metadata__", ())) if get_origin(hint) is Annotated else ()


def members(hint: object) -> tuple[object, ...]:
    """The members of a union, flattened; anything else is its own only member."""
    hint = plain(hint)
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(member for part in get_args(hint) for member in members(part))
    return (hint,)


def union(hints: collections.abc.Iterable[object]) -> object:
    """One hint that admits all of these."""
    distinct = list(dict.fromkeys(member for hint in hints for member in members(hint)))
    return Union[tuple(distinct)] if len(distinct) > 1 else distinct[0]  # noqa: UP007  (built at run time)


def without_none(hint: object) -> object:
    """The hint with `None` taken out of its union; `None` alone stays."""
    rest = [member for member in members(hint) if member is not NONE]
    return union(rest) if rest else NONE


def admits_none(hint: object) -> bool:
    """Whether `None` is a value of this hint."""
    return any(member is NONE or member is Any or member is object for member in members(hint))


def is_assignable(given: object, wanted: object) -> bool:
    """Whether every value of `given` is a value of `wanted`; true where that cannot be judged."""
    return all(any(_fits(one, other) for other in members(wanted)) for one in members(given))


def _fits(given: object, wanted: object) -> bool:
    if given == wanted or wanted is Any or wanted is object or given is Any:
        return True
    if isinstance(given, typing.TypeVar) or isinstance(wanted, typing.TypeVar) or is_protocol(wanted):
        return True
    if get_origin(given) is Literal:
        values = get_args(given)
        if get_origin(wanted) is Literal:
            return all(value in get_args(wanted) for value in values)
        return all(_fits(cast("object", type(value)), wanted) for value in values)
    if isinstance(given, typing.NewType):
        return _fits(plain(given.__supertype__), wanted)
    if isinstance(wanted, typing.NewType) or get_origin(wanted) is Literal:
        return False
    return _classes_fit(given, wanted)


def _classes_fit(given: object, wanted: object) -> bool:
    have, need = get_origin(given) or given, get_origin(wanted) or wanted
    if typing.is_typeddict(have):
        return have is need or need in (dict, collections.abc.Mapping, collections.abc.MutableMapping)
    if typing.is_typeddict(need):
        return False
    if not (isinstance(have, type) and isinstance(need, type)):
        return True
    if not (issubclass(have, need) or (need is float and have is int) or (need is complex and have in (int, float))):
        return False
    inner, outer = get_args(given), get_args(wanted)
    if have is need and len(inner) == len(outer):
        return all(one is Ellipsis or other is Ellipsis or is_assignable(one, other) for one, other in zip(inner, outer, strict=True))
    return True


def is_protocol(hint: object) -> bool:
    """Whether the hint is a structural type, which only a type checker can judge."""
    return bool(getattr(get_origin(hint) or hint, "_is_protocol", False))


def shown(hint: object) -> str:
    """The hint as a person writes it."""
    if hint is NONE or hint is None:
        return "None"
    if hint is Ellipsis:
        return "..."
    if isinstance(hint, list):
        return f"[{', '.join(shown(part) for part in cast('list[object]', hint))}]"  # of Callable[[...], ...]
    if get_origin(hint) is Annotated:
        return shown(get_args(hint)[0])
    if get_origin(hint) is Literal:
        return f"Literal[{', '.join(repr(value) for value in get_args(hint))}]"
    if len(parts := members(hint)) > 1:
        return " | ".join(shown(part) for part in parts)
    name = getattr(get_origin(hint) or hint, "__name__", None)
    if name is None:
        return repr(hint).replace("typing.", "")
    arguments = get_args(hint)
    return f"{name}[{', '.join(shown(argument) for argument in arguments)}]" if arguments else str(name)


def shown_default(parameter: inspect.Parameter) -> str:
    """The default as it would be written after the parameter, for messages."""
    return "" if parameter.default is inspect.Parameter.empty else " = …"
