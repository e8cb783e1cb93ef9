"""All state of one task: what handlers change, what a commit carries, what an abort forgets, what the disk gets.

The life of a change: dirty → `changes()` into the Kafka transaction → `committed()` makes it pending → `write_local()`
puts it, with its changelog offset, into the backend. `aborted()` and `rollback()` forget what is dirty.
Invariant: the backend never holds what Kafka has not committed, and never an offset without its data.
Invariant: one writer, the task's loop. Nothing here is thread-safe.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from streamlet.ids import StoreName
from streamlet.state.backend import Backend, Batch, Change
from streamlet.state.bind import bind, unbind
from streamlet.state.declaration import Declaration
from streamlet.state.entries import RESERVED, Entries, Undo
from streamlet.state.errors import BadStoredValue
from streamlet.state.handle import NO_KEY, State
from streamlet.state.spec import StoreSpec
from streamlet.state.store import Store
from streamlet.state.values import MISSING, VERSION


@dataclass(frozen=True, slots=True)
class Counters:
    """What metrics show of one task's state. Reads of a cached Value outside `prefetch` are not counted: they cost less than counting."""

    hits: int
    misses: int
    entries: int
    dirty: int
    pending_entries: int
    pending_bytes: int


@dataclass(frozen=True, slots=True)
class Mutation:
    """A value a handler got, changed in place and did not `set`: the change is lost."""

    store: StoreName
    key: bytes


class TaskState:
    """All state of one task. Its only writer is the task's loop, which sets `key` before each record."""

    __slots__ = (
        "_backend",
        "_cache_entries",
        "_changes",
        "_checking",
        "_commit",
        "_commits",
        "_first",
        "_handles",
        "_journal_at_changes",
        "_mutated",
        "_stores",
        "_stream_time_committed",
        "journal",
        "key",
        "stream_time",
    )

    def __init__(self, specs: Sequence[StoreSpec], backend: Backend, *, cache_entries: int = 100_000, checking: bool = False) -> None:
        assert len({spec.name for spec in specs}) == len(specs), "every store is there once"
        self.key: bytes = NO_KEY
        self._backend = backend
        self._cache_entries = cache_entries
        self._checking = checking
        self._mutated: list[Mutation] = []
        self.journal: list[Undo] = []  # its length is a mark, see `mark`; read by the loop, written by the stores
        self._stores = {spec.name: Store(spec, backend, self.journal, checking=checking) for spec in specs}
        self._first = next(iter(self._stores.values()), None)
        self._handles: list[State] = []
        self._changes: dict[StoreName, list[Change]] | None = None
        self._journal_at_changes = 0
        self._commits: list[tuple[int, int, Mapping[str, bytes]]] = []  # (number, now_ms, meta) of commits not wholly written
        self._commit = 0  # number of the newest commit
        times = [read_time(data) for name in self._stores if (data := backend.get(name, RESERVED)) is not None]
        self.stream_time: int = max(times, default=-1)  # largest event time seen, in ms; -1 before the first
        self._stream_time_committed = self.stream_time

    # What handlers get

    def handle(self, what: Declaration | StoreSpec) -> State:
        """The object for a handler's parameter. It works on the current key, on the task, or on any key, as declared."""
        if isinstance(what, StoreSpec):
            what = Declaration.of(what)
        state = bind(what, self, {spec.name: self._stores[spec.name] for spec in what.specs})
        self._handles.append(state)
        return state

    def set_stream_time(self, time_ms: int) -> None:
        """Advance the task's event time; it never goes back."""
        self.stream_time = max(self.stream_time, time_ms)

    # One batch

    def prefetch(self, store: StoreName, keys: Iterable[bytes]) -> None:
        """Read what a batch will need in one go: `keys` are the record keys of a Value or Log store. Others read when asked."""
        self._stores[store].prefetch(keys)

    def mark(self) -> int:
        """Where to roll back to if the next record fails."""
        return len(self.journal)

    def rollback(self, mark: int) -> None:
        """Undo everything since `mark`."""
        journal = self.journal
        assert mark <= len(journal), "a mark lives no longer than its batch"
        if self._checking:
            for entries in self._tables():
                entries.forgive(mark)
        while len(journal) > mark:
            dirty, key, before = journal.pop()
            if before is MISSING:
                del dirty[key]
            else:
                dirty[key] = before

    def end_batch(self) -> None:
        """The batch's records are done: what they changed can only be aborted as a whole. No record is current any more."""
        if self._checking:
            self._mutated = self.unset_mutations()  # as long as the journal tells what was set
        self.journal.clear()
        self.key = NO_KEY

    # One commit

    def changes(self) -> dict[StoreName, list[Change]]:
        """What changed since the last commit, as it goes on the changelogs. Stores without changes are not listed."""
        changes = {name: changed for name, store in self._stores.items() if (changed := store.changes())}
        if self._first is not None and self.stream_time != self._stream_time_committed:
            changes.setdefault(self._first.name, []).append((RESERVED, write_time(self.stream_time)))
        self._changes, self._journal_at_changes = changes, len(self.journal)
        return changes

    def committed(self, offsets: Mapping[StoreName, int], meta: Mapping[str, bytes] | None = None, *, now_ms: int = 0) -> None:
        """Kafka committed exactly what `changes()` gave last. `offsets` are the next changelog offsets of the stores that changed."""
        changes = self._changes
        assert changes is not None, "changes() comes before committed()"
        assert len(self.journal) == self._journal_at_changes, "nothing may change between changes() and committed()"
        assert changes.keys() <= offsets.keys(), "every changed store has a new changelog offset"
        self.journal.clear()
        self._changes = None
        self._stream_time_committed = self.stream_time
        self._commit += 1
        for name, offset in offsets.items():
            self._stores[name].committed(changes.get(name, []), offset, self._commit)
        if offsets or meta:
            self._commits.append((self._commit, now_ms, meta or {}))
        self._trim()

    def aborted(self) -> None:
        """Forget everything since the last commit."""
        self.journal.clear()
        self._changes = None
        self.stream_time = self._stream_time_committed
        for store in self._stores.values():
            store.aborted()
        for entries in self._tables() if self._checking else ():
            entries.forgive(0)

    def write_local(self, max_entries: int | None = None) -> bool:
        """Write pending commits to the backend; whether any are left.

        Without a bound all stores go in one batch. With one, a call writes one store's oldest whole commits, about that many
        entries: each store then stands at some commit, with that commit's offset, and restore goes on from there for each.
        """
        stores = [store for store in self._stores.values() if store.layers]
        if max_entries is not None and sum(store.pending_entries for store in stores) > max_entries:
            oldest = min(stores, key=lambda store: store.layers[0].commit)
            taken = [oldest.take(max_entries)]
        else:
            taken = [store.take(None) for store in stores]
        untouched = [store.layers[0].commit for store in stores if all(item.store != store.name for item in taken)]
        left = min([*untouched, *(item.next_commit for item in taken if item.next_commit is not None)], default=self._commit + 1)
        done = [entry for entry in self._commits if entry[0] < left]
        meta = {name: data for _, _, entry in done for name, data in entry.items()}
        if taken or meta:
            self._backend.apply(
                Batch(
                    {item.store: item.changes for item in taken if item.changes},
                    {item.store: item.offset for item in taken},
                    meta,
                )
            )
        for item in taken:
            self._stores[item.store].written(item)
        del self._commits[: len(done)]
        return bool(self._commits)

    @property
    def pending_bytes(self) -> int:
        """Bytes of committed changes that the backend lacks."""
        return sum(store.pending_bytes for store in self._stores.values())

    @property
    def pending_since_ms(self) -> int | None:
        """`now_ms` of the oldest commit that the backend lacks; None if it has them all."""
        return self._commits[0][1] if self._commits else None

    # Looking at it

    def counters(self) -> Counters:
        """Numbers for metrics."""
        tables = self._tables()
        return Counters(
            hits=sum(entries.hits for entries in tables),
            misses=sum(entries.misses for entries in tables),
            entries=sum(len(entries.cache) for entries in tables),
            dirty=sum(len(entries.dirty) for entries in tables),
            pending_entries=sum(store.pending_entries for store in self._stores.values()),
            pending_bytes=self.pending_bytes,
        )

    def unset_mutations(self) -> list[Mutation]:
        """Values that were changed in place since the last call and never `set`. Only in checking mode."""
        found = [Mutation(entries.store, key) for entries in self._tables() for key in entries.take_mutated()]
        found, self._mutated = self._mutated + found, []
        return found

    def close(self) -> None:
        """Forget what is not written, which Kafka has; every handle raises from now on. The backend stays open."""
        for store in self._stores.values():
            store.close()
        for handle in self._handles:
            unbind(handle)
        self.key = NO_KEY

    def _tables(self) -> list[Entries]:
        return [entries for store in self._stores.values() for entries in store.tables()]

    def _trim(self) -> None:
        tables = self._tables()
        held = sum(len(entries.cache) for entries in tables)
        if held > self._cache_entries:
            for entries in tables:
                entries.trim(len(entries.cache) - len(entries.cache) * self._cache_entries // held)


def write_time(time_ms: int) -> bytes:
    """Stream time as it is stored under the reserved key."""
    return VERSION + time_ms.to_bytes(8, "big", signed=True)


def read_time(data: bytes) -> int:
    """Read what `write_time` wrote."""
    if data[:1] != VERSION or len(data) != 9:
        raise BadStoredValue("stream time", "a time", f"{data!r} is not one")
    return int.from_bytes(data[1:], "big", signed=True)
