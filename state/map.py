"""Many values per key, each stored, read and logged on its own, in the order of their fields.

Iteration shows the map as it was when it began: changing the map meanwhile is allowed and does not show.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, Self, TypeVar, cast, overload

from streamlet.state.collection import Collection, Spot
from streamlet.state.errors import BadDeclaration
from streamlet.state.handle import Fixed, lone_entries
from streamlet.state.keys import KeyCodec, after, loose_key_codec, split
from streamlet.state.values import ABSENT, loose_value_codec, plus

K = TypeVar("K")
V = TypeVar("V")

Inner = Callable[[Spot], Collection]  # makes the collection that a nested map holds per field


class Map(Collection, Generic[K, V]):
    """Values of type V by field of type K, for the current key. `Map({"a": 1})` makes one by hand, for unit tests."""

    __slots__ = ("_field", "_inner")
    _field: KeyCodec
    _inner: Inner | None  # None: V is a value; else V is itself a collection

    def __init__(self, initial: Mapping[K, V] | None = None) -> None:
        self._bind(Spot(lone_entries(loose_value_codec()), Fixed(b""), b"", False), loose_key_codec(), None)
        for field, value in (initial or {}).items():
            if isinstance(value, Map):
                self._nest()
                inner = cast("Map[object, object]", self[field])
                for below, leaf in cast("Map[object, object]", value).items():
                    inner[below] = leaf
            else:
                self[field] = value

    @classmethod
    def _over(cls, spot: Spot, field: KeyCodec, inner: Inner | None) -> Self:
        made = cls.__new__(cls)
        made._bind(spot, field, inner)
        return made

    def _bind(self, spot: Spot, field: KeyCodec, inner: Inner | None) -> None:
        self._settle(spot)
        self._field, self._inner = field, inner

    def _nest(self) -> None:
        """A map made by hand from maps holds maps."""
        if self._inner is None:
            codec = loose_key_codec()
            self._inner = lambda spot: bound_map(spot, codec, None)

    def __getitem__(self, field: K) -> V:
        """The value, or KeyError. In a map of maps: the inner map, empty or not."""
        key = self._prefix() + self._field.part(field)
        if self._inner is not None:
            return self._view(key)
        held = self._entries.read(key)
        if held is ABSENT:
            raise KeyError(field)
        return cast("V", self._entries.give(key, held))

    @overload
    def get(self, field: K) -> V | None: ...
    @overload
    def get(self, field: K, default: V) -> V: ...
    def get(self, field: K, default: V | None = None) -> V | None:
        """The value, or the default if there is none. A mutable value is a copy: `set` it to keep a change."""
        key = self._prefix() + self._field.part(field)
        if self._inner is not None:
            return self._view(key) if self._has_any(key) else default
        held = self._entries.read(key)
        return default if held is ABSENT else cast("V", self._entries.give(key, held))

    def set(self, field: K, value: V) -> V:
        """Keep this value; returns it."""
        if self._inner is not None:
            raise _nested(self._entries.store, "set")
        held = self._entries.codec.hold(self._entries.store, value)
        self._entries.write(self._prefix() + self._field.part(field), held)
        return cast("V", held) if self._entries.codec.frozen else value

    def __setitem__(self, field: K, value: V) -> None:
        self.set(field, value)

    def add(self, field: K, amount: V) -> V:
        """Add to the field's value, starting from `amount` if there is none; returns the new value."""
        if self._inner is not None:
            raise _nested(self._entries.store, "add")
        entries = self._entries
        key = self._prefix() + self._field.part(field)
        held = entries.read(key)
        value = amount if held is ABSENT else plus(entries.give(key, held), amount)
        held = entries.codec.hold(entries.store, value)
        entries.write(key, held)
        return cast("V", held if entries.codec.frozen else value)

    @overload
    def pop(self, field: K) -> V: ...
    @overload
    def pop(self, field: K, default: V, /) -> V: ...
    @overload
    def pop(self, field: K, default: None, /) -> V | None: ...
    def pop(self, field: K, *default: V | None) -> V | None:
        """Remove the field and return what it held; without a default, KeyError if it held nothing."""
        if self._inner is not None:
            raise _nested(self._entries.store, "pop")
        key = self._prefix() + self._field.part(field)
        held = self._entries.read(key)
        if held is ABSENT:
            if not default:
                raise KeyError(field)
            return default[0]
        value = cast("V", self._entries.codec.give(held))
        self._entries.write(key, ABSENT)
        return value

    def __delitem__(self, field: K) -> None:
        """Remove the field; KeyError if it held nothing. In a map of maps: everything below it."""
        key = self._prefix() + self._field.part(field)
        if self._inner is None:
            if self._entries.read(key) is ABSENT:
                raise KeyError(field)
            self._entries.write(key, ABSENT)
            return
        below = list(self._entries.scan_keys(key, after(key)))
        if not below:
            raise KeyError(field)
        for found in below:
            self._entries.write(found, ABSENT)

    def __contains__(self, field: K) -> bool:
        key = self._prefix() + self._field.part(field)
        return self._entries.read(key) is not ABSENT if self._inner is None else self._has_any(key)

    def items(self, start: K | None = None, stop: K | None = None, reverse: bool = False) -> Iterator[tuple[K, V]]:
        """Fields in [start, stop) and their values, in the order of the fields, as they are now."""
        prefix = self._prefix()
        low = prefix if start is None else prefix + self._field.part(start)
        high = after(prefix) if stop is None else prefix + self._field.part(stop)
        if self._inner is None:
            return self._leaves(len(prefix), self._entries.scan(low, high, reverse))
        return self._views(len(prefix), self._entries.scan_keys(low, high, reverse))

    def keys(self, start: K | None = None, stop: K | None = None, reverse: bool = False) -> Iterator[K]:
        """Fields in [start, stop), in their order, as they are now."""
        return (field for field, _ in self.items(start, stop, reverse))

    def values(self, start: K | None = None, stop: K | None = None, reverse: bool = False) -> Iterator[V]:
        """Values of the fields in [start, stop), in the order of the fields, as they are now."""
        return (value for _, value in self.items(start, stop, reverse))

    def __iter__(self) -> Iterator[K]:
        return self.keys()

    def __len__(self) -> int:
        """How many fields there are: scans the keys of them all, so its cost grows with the collection. To ask for any, use `bool`."""
        return sum(1 for _ in self.keys())

    def __bool__(self) -> bool:
        return self._has_any(self._prefix())

    def clear(self) -> None:
        """Remove every field, each with its own change on the changelog."""
        prefix = self._prefix()
        for key in list(self._entries.scan_keys(prefix, after(prefix))):
            self._entries.write(key, ABSENT)

    def __repr__(self) -> str:
        return f"Map({dict(self.items())!r})"

    def _leaves(self, skip: int, found: Iterator[tuple[bytes, object]]) -> Iterator[tuple[K, V]]:
        decode, give = self._field.decode, self._entries.give
        for key, held in found:
            yield cast("K", decode(split(key, skip)[0])), cast("V", give(key, held))

    def _views(self, skip: int, found: Iterator[bytes]) -> Iterator[tuple[K, V]]:
        last = b""
        for key in found:
            if last and key.startswith(last):
                continue
            raw, end = split(key, skip)
            last = key[:end]
            yield cast("K", self._field.decode(raw)), self._view(last)

    def _view(self, key: bytes) -> V:
        """The collection below this key, bound to it for good."""
        assert self._inner is not None, "only maps of collections have views"
        return cast("V", self._inner(Spot(self._entries, self._at, key, False)))

    def _has_any(self, prefix: bytes) -> bool:
        return next(self._entries.scan_keys(prefix, after(prefix)), None) is not None


def bound_map(spot: Spot, field: KeyCodec, inner: Inner | None) -> Map[object, object]:
    """A map over the entries of a task."""
    return Map[object, object]._over(spot, field, inner)


def _nested(store: str, method: str) -> BadDeclaration:
    return BadDeclaration(
        store, "Map[..., Map[...]]", f"an inner map is not a value, so `{method}` cannot take it", "Write outer[a][b] = value."
    )
