"""Many distinct elements per key, each stored on its own, in their order.

Iteration shows the set as it was when it began.
"""

from collections.abc import Iterable, Iterator
from typing import Generic, Self, TypeVar, cast

from streamlet.state.collection import Collection, Spot
from streamlet.state.handle import Fixed, lone_entries
from streamlet.state.keys import KeyCodec, after, loose_key_codec, split
from streamlet.state.values import ABSENT, presence_codec

E = TypeVar("E")


class Set(Collection, Generic[E]):
    """Elements of type E for the current key. `Set({1})` makes one by hand, for unit tests."""

    __slots__ = ("_element",)
    _element: KeyCodec

    def __init__(self, initial: Iterable[E] = ()) -> None:
        self._bind(Spot(lone_entries(presence_codec()), Fixed(b""), b"", False), loose_key_codec())
        for element in initial:
            self.add(element)

    @classmethod
    def _over(cls, spot: Spot, element: KeyCodec) -> Self:
        made = cls.__new__(cls)
        made._bind(spot, element)
        return made

    def _bind(self, spot: Spot, element: KeyCodec) -> None:
        self._settle(spot)
        self._element = element

    def add(self, element: E) -> bool:
        """Put the element in; whether it was new."""
        key = self._prefix() + self._element.part(element)
        if self._entries.read(key) is not ABSENT:
            return False
        self._entries.write(key, True)
        return True

    def discard(self, element: E) -> bool:
        """Take the element out; whether it was there."""
        key = self._prefix() + self._element.part(element)
        if self._entries.read(key) is ABSENT:
            return False
        self._entries.write(key, ABSENT)
        return True

    def __contains__(self, element: E) -> bool:
        return self._entries.read(self._prefix() + self._element.part(element)) is not ABSENT

    def __iter__(self) -> Iterator[E]:
        prefix = self._prefix()
        decode, skip = self._element.decode, len(prefix)
        return (cast("E", decode(split(key, skip)[0])) for key in self._entries.scan_keys(prefix, after(prefix)))

    def __len__(self) -> int:
        """How many elements there are: scans the keys of them all, so its cost grows with the collection. To ask for any, use `bool`."""
        prefix = self._prefix()
        return sum(1 for _ in self._entries.scan_keys(prefix, after(prefix)))

    def __bool__(self) -> bool:
        prefix = self._prefix()
        return next(self._entries.scan_keys(prefix, after(prefix)), None) is not None

    def clear(self) -> None:
        """Take every element out, each with its own change on the changelog."""
        prefix = self._prefix()
        for key in list(self._entries.scan_keys(prefix, after(prefix))):
            self._entries.write(key, ABSENT)

    def __repr__(self) -> str:
        return f"Set({list(self)!r})"


def bound_set(spot: Spot, element: KeyCodec) -> Set[object]:
    """A set over the entries of a task."""
    return Set[object]._over(spot, element)
