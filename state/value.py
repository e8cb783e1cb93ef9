"""One value per key. Its methods are the hottest lines of the product: every one of them is measured by
benchmarks/state_micro.py, and they look into the layers themselves instead of calling.
"""

from typing import Generic, NoReturn, Self, TypeVar, cast, overload

from streamlet.state.entries import Entries, Journal
from streamlet.state.errors import AmbiguousTruth
from streamlet.state.handle import TASK_KEY, Fixed, Place, State, lone_entries
from streamlet.state.values import ABSENT, INT_MAX, INT_MIN, MISSING, loose_value_codec

V = TypeVar("V")


class Value(State, Generic[V]):
    """One value of type V for the current key. `Value(2)` makes one by hand, for unit tests."""

    __slots__ = ("_at", "_cache", "_dirty", "_entries", "_exact", "_frozen", "_journal")
    _at: Place
    _entries: Entries
    _dirty: dict[bytes, object]
    _cache: dict[bytes, object]
    _journal: Journal

    @overload
    def __init__(self) -> None: ...
    @overload
    def __init__(self, initial: V, /) -> None: ...
    def __init__(self, *initial: object) -> None:
        self._bind(lone_entries(loose_value_codec()), Fixed(TASK_KEY))
        for value in initial:
            self.set(cast("V", value))

    @classmethod
    def _over(cls, entries: Entries, at: Place) -> Self:
        made = cls.__new__(cls)
        made._bind(entries, at)
        return made

    def _bind(self, entries: Entries, at: Place) -> None:
        self._at = at
        self._entries = entries
        self._dirty = entries.dirty
        self._cache = entries.cache
        self._journal = entries.journal
        self._exact = entries.codec.exact
        self._frozen = entries.codec.frozen

    def _unbind(self) -> None:
        """The task is gone: take over the layers that its entries have now, all of which raise."""
        self._bind(self._entries, self._at)

    @overload
    def get(self) -> V | None: ...
    @overload
    def get(self, default: V) -> V: ...
    def get(self, default: V | None = None) -> V | None:
        """The value, or the default if there is none. A mutable value is a copy: `set` it to keep a change."""
        key = self._at.key
        held = self._dirty.get(key, MISSING)
        if held is MISSING:
            held = self._cache.get(key, MISSING)
            if held is MISSING:
                held = self._entries.load(key)
        if held is ABSENT:
            return default
        return held if self._frozen else self._entries.give(key, held)  # type: ignore[return-value] # the codec keeps only V

    def set(self, value: V) -> V:
        """Keep this value; returns it."""
        held: object = value
        if type(value) is not self._exact or not INT_MIN <= value <= INT_MAX:  # type: ignore[operator] # exact means a number
            held = self._entries.codec.hold(self._entries.store, value)
            if self._frozen:
                value = held  # type: ignore[assignment] # the codec keeps only V
        key = self._at.key
        dirty = self._dirty
        self._journal.append((dirty, key, dirty.get(key, MISSING)))
        dirty[key] = held
        return value

    def add(self, amount: V) -> V:
        """Add to the value, starting from `amount` if there is none; returns the new value."""
        key = self._at.key
        dirty = self._dirty
        before = held = dirty.get(key, MISSING)
        if held is MISSING:
            held = self._cache.get(key, MISSING)
            if held is MISSING:
                held = self._entries.load(key)
        if held is ABSENT:
            value: object = amount
        else:
            value = (held if self._frozen else self._entries.give(key, held)) + amount  # type: ignore[operator] # V decides, as in Python
        if type(value) is not self._exact or not INT_MIN <= value <= INT_MAX:  # type: ignore[operator] # exact means a number
            return self.set(value)  # type: ignore[arg-type] # `set` refuses what is no V
        self._journal.append((dirty, key, before))
        dirty[key] = value
        return value  # type: ignore[return-value] # its type was compared

    def delete(self) -> None:
        """Hold nothing any more."""
        self._entries.write(self._at.key, ABSENT)

    def exists(self) -> bool:
        """Whether a value is held."""
        return self._entries.read(self._at.key) is not ABSENT

    def __bool__(self) -> NoReturn:
        raise AmbiguousTruth

    def __repr__(self) -> str:
        held = self._entries.read(self._at.key)
        return "Value()" if held is ABSENT else f"Value({self._entries.codec.give(held)!r})"


def bound_value(entries: Entries, at: Place) -> Value[object]:
    """A value over the entries of a task."""
    return Value[object]._over(entries, at)
