"""A sequence per key that grows at its end and shrinks at its front, each element stored on its own.

A header (head, tail) tells where it begins and ends. An empty log has no header, so nothing is left of it.
Iteration shows the log as it was when it began.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Self, TypeVar, cast

from streamlet.state.collection import Collection, Spot
from streamlet.state.entries import Entries
from streamlet.state.handle import Fixed, lone_entries
from streamlet.state.store import ELEMENT, HEADER
from streamlet.state.values import ABSENT, loose_value_codec

V = TypeVar("V")

AFTER_ELEMENT = b"f"


class Log(Collection, Generic[V]):
    """Elements of type V in the order they came, for the current key. `Log([1, 2])` makes one by hand, for unit tests."""

    __slots__ = ("_headers",)
    _headers: Entries

    def __init__(self, initial: Iterable[V] = ()) -> None:
        self._bind(Spot(lone_entries(loose_value_codec()), Fixed(b""), b"", False), lone_entries(loose_value_codec()))
        for element in initial:
            self.append(element)

    @classmethod
    def _over(cls, spot: Spot, headers: Entries) -> Self:
        made = cls.__new__(cls)
        made._bind(spot, headers)
        return made

    def _bind(self, spot: Spot, headers: Entries) -> None:
        self._settle(spot)
        self._headers = headers

    def append(self, element: V) -> None:
        """Put an element at the end."""
        prefix = self._prefix()
        held = self._entries.codec.hold(self._entries.store, element)
        head, tail = self._bounds(prefix)
        self._entries.write(_key(prefix, tail), held)
        self._headers.write(prefix + HEADER, (head, tail + 1))

    def pop_first(self) -> V:
        """Take the oldest element; IndexError if there is none."""
        prefix = self._prefix()
        head, tail = self._bounds(prefix)
        if head == tail:
            raise IndexError("pop_first from an empty Log: ask `if log:` before")
        key = _key(prefix, head)
        value = cast("V", self._entries.codec.give(self._present(key)))
        self._drop(prefix, head, head + 1, tail)
        return value

    def keep_last(self, count: int) -> int:
        """Drop the oldest elements until at most `count` are left; returns how many were dropped."""
        if count < 0:
            raise ValueError(f"keep_last({count}): a log cannot keep less than 0 elements")
        prefix = self._prefix()
        head, tail = self._bounds(prefix)
        excess = max(0, tail - head - count)
        self._drop(prefix, head, head + excess, tail)
        return excess

    def drop_while(self, test: Callable[[V], bool]) -> int:
        """Drop elements from the oldest on as long as `test` holds for them; returns how many were dropped."""
        prefix = self._prefix()
        head, tail = self._bounds(prefix)
        stop = head
        while stop < tail and test(cast("V", self._entries.codec.give(self._present(_key(prefix, stop))))):
            stop += 1
        self._drop(prefix, head, stop, tail)
        return stop - head

    def clear(self) -> None:
        """Drop every element."""
        self.keep_last(0)

    def __getitem__(self, index: int) -> V:
        prefix = self._prefix()
        head, tail = self._bounds(prefix)
        place = index + (head if index >= 0 else tail)
        if not head <= place < tail:
            raise IndexError(f"Log index {index} is out of range: it has {tail - head} elements")
        key = _key(prefix, place)
        return cast("V", self._entries.give(key, self._present(key)))

    def __iter__(self) -> Iterator[V]:
        prefix = self._prefix()
        give = self._entries.give
        return (cast("V", give(key, held)) for key, held in self._entries.scan(prefix + ELEMENT, prefix + AFTER_ELEMENT))

    def __reversed__(self) -> Iterator[V]:
        prefix = self._prefix()
        give = self._entries.give
        return (cast("V", give(key, held)) for key, held in self._entries.scan(prefix + ELEMENT, prefix + AFTER_ELEMENT, reverse=True))

    def __len__(self) -> int:
        """How many elements there are, without reading them: the ends are known."""
        head, tail = self._bounds(self._prefix())
        return tail - head

    def __repr__(self) -> str:
        return f"Log({list(self)!r})"

    def _bounds(self, prefix: bytes) -> tuple[int, int]:
        held = self._headers.read(prefix + HEADER)
        return (0, 0) if held is ABSENT else cast("tuple[int, int]", held)

    def _present(self, key: bytes) -> object:
        held = self._entries.read(key)
        assert held is not ABSENT, "every place between head and tail holds an element"
        return held

    def _drop(self, prefix: bytes, head: int, stop: int, tail: int) -> None:
        for place in range(head, stop):
            self._entries.write(_key(prefix, place), ABSENT)
        if stop > head:
            self._headers.write(prefix + HEADER, ABSENT if stop == tail else (stop, tail))


def _key(prefix: bytes, place: int) -> bytes:
    return prefix + ELEMENT + place.to_bytes(8, "big")


def bound_log(spot: Spot, headers: Entries) -> Log[object]:
    """A log over the entries of a task."""
    return Log[object]._over(spot, headers)
