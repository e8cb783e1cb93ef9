"""From declarations to the objects handlers get."""

from collections.abc import Iterator, Mapping
from heapq import merge
from typing import Annotated, cast, get_args, get_origin

from streamlet.ids import StoreName
from streamlet.state.by_key import bound_by_key
from streamlet.state.collection import Spot
from streamlet.state.declaration import Declaration, View
from streamlet.state.entries import Entries
from streamlet.state.errors import OutsideTask
from streamlet.state.group import Group
from streamlet.state.handle import TASK_KEY, Fixed, Place, State
from streamlet.state.keys import key_codec, split
from streamlet.state.log import bound_log
from streamlet.state.map import Inner, bound_map
from streamlet.state.set import bound_set
from streamlet.state.spec import Kind, Scope, StoreSpec
from streamlet.state.store import ELEMENT, Store
from streamlet.state.value import Value, bound_value


def bind(declared: Declaration, task: Place, stores: Mapping[StoreName, Store]) -> State:
    """The object for a parameter, over the stores of a task."""
    if declared.view is not View.BY_KEY:
        return _bind_at(declared, task, stores)
    codec = key_codec(declared.specs[0].key)
    tables = [stores[spec.name] for spec in declared.specs]

    def keys() -> Iterator[bytes]:
        return _distinct(merge(*[_record_keys(store) for store in tables]))

    return bound_by_key(codec, lambda key: _bind_at(declared, OpenPlace(key, tables[0].entries), stores), keys)


class OpenPlace:
    """A fixed key of a task that may be closed meanwhile."""

    __slots__ = ("_entries", "_key")

    def __init__(self, key: bytes, entries: Entries) -> None:
        self._key, self._entries = key, entries

    @property
    def key(self) -> bytes:
        """The key, as long as its task is open."""
        if self._entries.closed:
            raise OutsideTask(self._entries.store)
        return self._key


def unbind(state: State) -> None:
    """Make a handle raise at any use: its task is closed."""
    if isinstance(state, Value):
        cast("Value[object]", state)._unbind()
    elif isinstance(state, Group):
        for inner in vars(state).values():
            unbind(inner)


def make_by_hand(hint: object) -> State:
    """Empty state of this type that belongs to no task."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return cast("State", (get_origin(hint) or hint)())  # type: ignore[operator] # a state class, by declaration


def _bind_at(declared: Declaration, at: Place, stores: Mapping[StoreName, Store]) -> State:
    if declared.group is None:
        return _bind_one(declared.specs[0], at, stores[declared.specs[0].name])
    group = declared.group.__new__(declared.group)
    for field, spec in zip(declared.fields, declared.specs, strict=True):
        setattr(group, field, _bind_one(spec, at, stores[spec.name]))
    return group


def _bind_one(spec: StoreSpec, at: Place, store: Store) -> State:
    scoped = spec.scope is Scope.KEY
    if spec.kind is Kind.VALUE:
        return bound_value(store.entries, at if scoped else Fixed(TASK_KEY))
    return _maker(spec, store, 0)(Spot(store.entries, at, b"", scoped))


def _maker(spec: StoreSpec, store: Store, depth: int) -> Inner:
    """What makes the collection `depth` maps below the key."""
    last = depth == len(spec.fields) - 1
    if spec.kind is Kind.LOG and depth == len(spec.fields):
        headers = store.headers
        assert headers is not None, "a Log store has headers"
        return lambda spot: bound_log(spot, headers)
    field = key_codec(spec.fields[depth])
    if last and spec.kind is Kind.SET:
        return lambda spot: bound_set(spot, field)
    inner = None if last and spec.kind is Kind.MAP else _maker(spec, store, depth + 1)
    return lambda spot: bound_map(spot, field, inner)


def _record_keys(store: Store) -> Iterator[bytes]:
    """Record keys that hold something, in order, some perhaps several times."""
    found = store.entries.scan_keys(b"", None)
    if store.spec.kind is Kind.VALUE:
        return found
    if store.spec.kind is Kind.LOG and not store.spec.fields:
        return (raw for raw, rest in map(_cut, found) if rest.startswith(ELEMENT))
    return (raw for raw, _ in map(_cut, found))


def _cut(key: bytes) -> tuple[bytes, bytes]:
    raw, end = split(key)
    return raw, key[end:]


def _distinct(ordered: Iterator[bytes]) -> Iterator[bytes]:
    last: bytes | None = None
    for key in ordered:
        if key != last:
            yield key
        last = key
