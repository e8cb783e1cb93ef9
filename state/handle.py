"""What all state types share: where they stand, and what they do when nobody may use them.

A handle reads its key from a place: the task (the current record's key), or a fixed key (PerTask, ByKey).
Misuse costs the hot path nothing: outside a record the key cannot be hashed, after a task the layers are gone.
"""

from collections import deque
from typing import Final, NoReturn, Protocol, TypeVar, cast

from streamlet.ids import StoreName
from streamlet.state.entries import Entries, Undo
from streamlet.state.errors import OutsideTask
from streamlet.state.memory import MemoryBackend
from streamlet.state.values import ValueCodec, loose_value_codec

TASK_KEY: Final = b"v"  # the one key of a task-level Value


class Place(Protocol):
    """Where a handle finds the key it works on."""

    @property
    def key(self) -> bytes: ...


class Fixed:
    """A place that does not move."""

    __slots__ = ("key",)

    def __init__(self, key: bytes) -> None:
        self.key = key


class State:
    """Base of all state types: what a handler's parameter may be."""

    __slots__ = ()


S = TypeVar("S", bound=State)


class _NoKey:
    """Stands where a key would be while no record is handled: any use of it raises."""

    __slots__ = ()

    def __hash__(self) -> NoReturn:
        raise OutsideTask("of this task")

    def __eq__(self, other: object) -> NoReturn:
        raise OutsideTask("of this task")

    def __getattr__(self, name: str) -> NoReturn:
        raise OutsideTask("of this task")


NO_KEY: Final = cast("bytes", _NoKey())  # typed as what it replaces, since the hot path must not check


def lone_entries(codec: ValueCodec) -> Entries:
    """Entries that belong to no task, for state made by hand in unit tests."""
    return Entries(StoreName("made by hand"), codec, MemoryBackend(), deque[Undo](maxlen=0), {}, checking=False)


def gone_entries(store: str) -> Entries:
    """Entries that nobody may touch."""
    entries = Entries(StoreName(store), loose_value_codec(), MemoryBackend(), deque[Undo](maxlen=0), {}, checking=False)
    entries.close()
    return entries
