"""Things that belong together, found by joining pairs."""

from typing import Generic, TypeVar

T = TypeVar("T")


class Groups(Generic[T]):
    """Disjoint groups that grow together: joining two things joins all they were joined with."""

    def __init__(self) -> None:
        """No groups yet."""
        self._parent: dict[T, T] = {}

    def knows(self, thing: T) -> bool:
        """Whether the thing was ever joined with another."""
        return thing in self._parent

    def root(self, thing: T) -> T:
        """The one member that stands for the whole group."""
        while (parent := self._parent.setdefault(thing, thing)) != thing:
            thing = parent
        return thing

    def join(self, one: T, other: T) -> None:
        """Make two groups one."""
        self._parent[self.root(other)] = self.root(one)
