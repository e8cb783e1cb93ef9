"""What Map, Log and Set share: many entries below one key, found by a prefix."""

from typing import NamedTuple

from streamlet.state.entries import Entries
from streamlet.state.handle import Place, State
from streamlet.state.keys import END


class Spot(NamedTuple):
    """Where a collection lies."""

    entries: Entries
    at: Place
    path: bytes  # E(field) of each map around it
    scoped: bool  # key-level: E(key) comes first


class Collection(State):
    """Entries whose keys begin with E(key) and the fields of the maps around it; a task-level one has no key part."""

    __slots__ = ("_at", "_entries", "_path", "_scoped")
    _at: Place
    _entries: Entries
    _path: bytes
    _scoped: bool

    def _settle(self, spot: Spot) -> None:
        self._entries, self._at, self._path, self._scoped = spot

    def _prefix(self) -> bytes:
        if self._scoped:
            return self._at.key.replace(b"\x00", b"\x00\xff") + END + self._path
        return self._path
