"""One store of a task: its entries, and the commits that the backend does not have yet.

Invariant: `pending` is what the layers say, the later one winning.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from streamlet.ids import StoreName
from streamlet.state.backend import Backend, Change, Columns
from streamlet.state.entries import Entries, Journal
from streamlet.state.keys import part
from streamlet.state.spec import Kind, Scope, StoreSpec
from streamlet.state.values import presence_codec, value_codec

HEADER = b"h"  # Log: E(key) 'h' → (head, tail)
ELEMENT = b"e"  # Log: E(key) 'e' u64 → element


@dataclass(frozen=True, slots=True)
class Layer:
    """What one commit changed in one store."""

    commit: int
    changes: list[Change]
    offset: int
    size: int  # bytes


@dataclass(frozen=True, slots=True)
class Taken:
    """The oldest commits of a store, combined for one write."""

    store: StoreName
    changes: Columns
    offset: int
    layers: int
    next_commit: int | None  # the first commit left behind


class Store:
    """Its only writer is the task's loop."""

    __slots__ = ("entries", "headers", "layers", "name", "pending", "spec")

    def __init__(self, spec: StoreSpec, backend: Backend, journal: Journal, *, checking: bool) -> None:
        self.spec = spec
        self.name = spec.name
        self.pending: dict[bytes, bytes | None] = {}
        self.layers: deque[Layer] = deque()
        codec = presence_codec() if spec.kind is Kind.SET else value_codec(spec.value, spec.codec, checking=checking)
        self.entries = Entries(spec.name, codec, backend, journal, self.pending, checking=checking)
        self.entries.noted = spec.kind is not Kind.VALUE
        self.headers: Entries | None = None
        if spec.kind is Kind.LOG:
            self.headers = Entries(spec.name, value_codec(tuple[int, int]), backend, journal, self.pending, checking=False)

    def tables(self) -> tuple[Entries, ...]:
        """All entries of the store; those of one codec apart from those of another."""
        return (self.entries,) if self.headers is None else (self.entries, self.headers)

    def prefetch(self, keys: Iterable[bytes]) -> None:
        """Load what the given record keys will surely need."""
        if self.spec.scope is Scope.TASK:
            return
        if self.spec.kind is Kind.VALUE:
            self.entries.prefetch(keys)
        elif self.headers is not None and not self.spec.fields:
            self.headers.prefetch([part(key) + HEADER for key in keys])

    def changes(self) -> list[Change]:
        """All dirty entries as stored bytes."""
        changes = self.entries.changes()
        return changes if self.headers is None else changes + self.headers.changes()

    def committed(self, changes: list[Change], offset: int, commit: int) -> None:
        """Keep what Kafka committed until the backend has it."""
        for entries in self.tables():
            entries.committed()
        self.pending.update(changes)
        size = sum([entries.packed_bytes for entries in self.tables()])
        self.layers.append(Layer(commit, changes, offset, size))

    def aborted(self) -> None:
        """Forget what is dirty."""
        for entries in self.tables():
            entries.aborted()

    @property
    def pending_entries(self) -> int:
        """How many entries wait for the backend, combined."""
        return len(self.pending)

    @property
    def pending_bytes(self) -> int:
        """How many bytes of changes wait for the backend, each commit's counted."""
        return sum(layer.size for layer in self.layers)

    def take(self, max_entries: int | None) -> Taken:
        """The oldest commits, at least one and about `max_entries`, combined and sorted. They stay until `written`."""
        layers, count = list(self.layers), 0
        merged: dict[bytes, bytes | None] = {}
        if max_entries is not None:
            for layer in layers:
                if count and len(merged) + len(layer.changes) > max_entries:
                    break
                merged.update(layer.changes)
                count += 1
        if count == len(layers) or max_entries is None:
            merged, count = self.pending, len(layers)
        left = layers[count].commit if count < len(layers) else None
        keys = sorted(merged)
        return Taken(self.name, Columns(keys, [*map(merged.__getitem__, keys)]), layers[count - 1].offset, count, left)

    def written(self, taken: Taken) -> None:
        """The backend has these commits now."""
        for _ in range(taken.layers):
            self.layers.popleft()
        self.pending.clear()
        for layer in self.layers:
            self.pending.update(layer.changes)
        for entries in self.tables():
            entries.pending_shrank()

    def close(self) -> None:
        """From now on every use of these entries raises."""
        for entries in self.tables():
            entries.close()
