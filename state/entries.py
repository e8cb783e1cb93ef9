"""The layers between a handler and the backend, for the entries of one store.

dirty    changed since the last commit: lost at an abort, undone at a failed record
cache    read or committed before: what the last commit left, as far as it was looked at
pending  committed to Kafka, not yet written to the backend
backend  the local copy

Reads take the first layer that knows the key. `dirty` and `cache` hold what the codec keeps (objects or bytes),
`pending` and the backend hold stored bytes.
Invariant: without `dirty`, the layers show exactly the last commit.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple, NoReturn, Protocol

from streamlet.ids import StoreName
from streamlet.state.backend import Backend, Change, Scan
from streamlet.state.errors import OutsideTask, ReservedKey
from streamlet.state.values import ABSENT, MISSING, Gap, ValueCodec

RESERVED: bytes = b"\xff\xfestreamlet/stream-time\xfe\xff"  # no UTF-8, no 0x00 0x00: only a hostile bytes key could equal it

Undo = tuple[dict[bytes, object], bytes, object]  # (dirty, key, what it held before or MISSING)


class Journal(Protocol):
    """Where changes are noted for undoing: a list in a task, a deque that keeps nothing for state made by hand."""

    def append(self, undo: Undo, /) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Undo]: ...


class Handed(NamedTuple):
    """A mutable value that a handler got."""

    key: bytes
    value: object
    held: bytes  # its bytes when it was given
    at: int  # length of the journal then


class Gone:
    """Stands where a layer was, once it may not be used any more: any use raises."""

    __slots__ = ("_store",)

    def __init__(self, store: str) -> None:
        self._store = store

    def __getattr__(self, name: str) -> NoReturn:
        raise OutsideTask(self._store)

    def __iter__(self) -> NoReturn:
        raise OutsideTask(self._store)


class Entries:
    """The entries of one store that share a codec. Its only writer is the task's loop."""

    __slots__ = (
        "backend",
        "cache",
        "closed",
        "codec",
        "dirty",
        "fresh",
        "handed",
        "hits",
        "journal",
        "misses",
        "noted",
        "order",
        "packed_bytes",
        "pending",
        "store",
    )

    def __init__(
        self, store: StoreName, codec: ValueCodec, backend: Backend, journal: Journal, pending: dict[bytes, bytes | None], *, checking: bool
    ) -> None:
        self.store = store
        self.codec = codec
        self.backend = backend
        self.journal = journal
        self.pending = pending
        self.dirty: dict[bytes, object] = {}
        self.cache: dict[bytes, object] = {}
        self.order: list[bytes] | None = None  # keys of dirty and pending, sorted, from the first scan on; may name keys that left
        self.fresh: list[bytes] = []  # keys that `order` lacks
        self.handed: list[Handed] | None = [] if checking else None  # what handlers were given
        self.noted = True  # all changes come through `write`, so `order` can be kept up; a Value changes `dirty` itself
        self.packed_bytes = 0  # of the last `changes`
        self.closed = False
        self.hits = 0
        self.misses = 0

    def read(self, key: bytes) -> object:
        """What the cache keeps for this key, or ABSENT."""
        held = self.dirty.get(key, MISSING)
        if held is MISSING:
            held = self.cache.get(key, MISSING)
            if held is MISSING:
                return self.load(key)
        self.hits += 1
        return held

    def load(self, key: bytes) -> object:
        """Bring a key that neither `dirty` nor `cache` knows into the cache."""
        if key == RESERVED:
            raise ReservedKey(self.store)
        self.misses += 1
        data = self.pending.get(key, MISSING)
        if data is MISSING:
            data = self.backend.get(self.store, key)
        held = ABSENT if data is None or isinstance(data, Gap) else self.codec.thaw(self.store, data)
        self.cache[key] = held
        return held

    def write(self, key: bytes, held: object) -> None:
        """Change one entry; ABSENT deletes. The hot path of Value repeats these lines."""
        dirty = self.dirty
        before = dirty.get(key, MISSING)
        if before is MISSING and self.order is not None:
            self.fresh.append(key)
        self.journal.append((dirty, key, before))
        dirty[key] = held

    def give(self, key: bytes, held: object) -> object:
        """The value for the handler; a mutable one comes as a copy."""
        value = self.codec.give(held)
        if self.handed is not None and not self.codec.frozen and isinstance(held, bytes):
            self.handed.append(Handed(key, value, held, len(self.journal)))
        return value

    def take_mutated(self) -> list[bytes]:
        """Keys whose value a handler changed in place and did not set, then or later. The journal has what was set over."""
        handed, self.handed = self.handed or [], None if self.handed is None else []
        set_over = {(key, before) for dirty, key, before in (self.journal if handed else ()) if dirty is self.dirty}
        mutated: list[bytes] = []
        for key, value, before, _ in handed:
            now = self.codec.encode(value)
            if now not in (before, self.dirty.get(key, MISSING), self.cache.get(key, MISSING)) and (key, now) not in set_over:
                mutated.append(key)
        return mutated

    def forgive(self, mark: int) -> None:
        """What was given since `mark` belongs to a record that failed: whatever it did to it has vanished anyway."""
        if self.handed:
            self.handed = [given for given in self.handed if given.at < mark]

    def prefetch(self, keys: Iterable[bytes]) -> None:
        """Load the distinct keys that are not at hand with one multi-get."""
        wanted = set(keys)
        missing = wanted.difference(self.cache).difference(self.dirty)
        self.hits += len(wanted) - len(missing)
        if not missing:
            return
        if RESERVED in missing:
            raise ReservedKey(self.store)
        self.misses += len(missing)
        cache, thaw, store = self.cache, self.codec.thaw, self.store
        if self.pending:
            pending = self.pending
            for key in missing.intersection(pending):
                data = pending[key]
                cache[key] = ABSENT if data is None else thaw(store, data)
            missing.difference_update(pending)
        asked = list(missing)
        for key, data in zip(asked, self.backend.get_many(store, asked), strict=True):
            cache[key] = ABSENT if data is None else thaw(store, data)

    def changes(self) -> list[Change]:
        """The dirty entries as stored bytes, in the order they were first changed."""
        dirty = self.dirty
        if RESERVED in dirty:
            raise ReservedKey(self.store)
        packed = self.codec.pack(dirty.values())
        self.packed_bytes = sum(map(len, dirty)) + sum(map(len, filter(None, packed)))  # in C: half of a Python loop's time
        return list(zip(dirty, packed, strict=True))

    def committed(self) -> None:
        """What was dirty is now what the last commit left."""
        self.cache.update(self.dirty)
        self.dirty.clear()

    def aborted(self) -> None:
        """Back to what the last commit left."""
        self.dirty.clear()

    def trim(self, excess: int) -> None:
        """Forget the oldest clean entries."""
        cache = self.cache
        for key in list(islice(cache, excess)):
            del cache[key]

    def close(self) -> None:
        """From now on every use raises. The layers are replaced rather than flagged, so that reads need not ask."""
        self.closed = True
        self.order = None
        gone = Gone(self.store)
        for layer in ("backend", "cache", "dirty", "journal", "pending"):
            setattr(self, layer, gone)

    def pending_shrank(self) -> None:
        """`order` named keys that were written to the backend: build it anew when it is next needed."""
        self.order = None
        self.fresh.clear()

    def scan(self, start: bytes, stop: bytes | None, reverse: bool = False) -> Iterator[tuple[bytes, object]]:
        """All entries in [start, stop) in key order, as they are now: later changes do not show."""
        overlay = self._overlay(start, stop, reverse)
        stored = self.backend.scan(self.store, start, stop, reverse)
        codec, store = self.codec, self.store
        return _merge(overlay, stored, lambda data: codec.thaw(store, data), reverse)

    def scan_keys(self, start: bytes, stop: bytes | None, reverse: bool = False) -> Iterator[bytes]:
        """The keys `scan` would give, without looking at values."""
        overlay = self._overlay(start, stop, reverse)
        stored = self.backend.scan(self.store, start, stop, reverse)
        return (key for key, _ in _merge(overlay, stored, _nothing, reverse))

    def _overlay(self, start: bytes, stop: bytes | None, reverse: bool) -> list[tuple[bytes, object]]:
        """What dirty and pending say about a range."""
        order = self._sorted_keys()
        keys = order[bisect_left(order, start) : len(order) if stop is None else bisect_left(order, stop)]
        if reverse:
            keys.reverse()
        overlay: list[tuple[bytes, object]] = []
        for key in keys:
            held = self.dirty.get(key, MISSING)
            if held is MISSING:
                if key not in self.pending:
                    continue
                data = self.pending[key]
                # the bytes are thawed when they are reached: this layer also lists keys of the store's other entries
                held = ABSENT if data is None else _Stored(data)
            overlay.append((key, held))
        return overlay

    def _sorted_keys(self) -> list[bytes]:
        order, fresh = self.order, self.fresh
        if order is None:
            order = sorted({*self.dirty, *self.pending})
            self.order = order if self.noted else None
        elif len(fresh) > 32:
            self.order = order = sorted({*order, *fresh})
        else:
            for key in fresh:
                at = bisect_left(order, key)
                if at == len(order) or order[at] != key:
                    insort(order, key)
        fresh.clear()
        return order


class _Stored:
    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


def _nothing(data: bytes) -> object:
    return data


def _merge(
    overlay: list[tuple[bytes, object]], stored: Scan, thaw: Callable[[bytes], object], reverse: bool
) -> Iterator[tuple[bytes, object]]:
    """Both in key order; where both know a key, the overlay is right. The reserved key is nobody's entry."""
    front = deque(overlay)
    for key, data in stored:
        while front and (front[0][0] > key if reverse else front[0][0] < key):
            over, held = front.popleft()
            if held is not ABSENT and over != RESERVED:
                yield over, thaw(held.data) if isinstance(held, _Stored) else held
        if front and front[0][0] == key:
            _, held = front.popleft()
            if held is not ABSENT and key != RESERVED:
                yield key, thaw(held.data) if isinstance(held, _Stored) else held
        elif key != RESERVED:
            yield key, thaw(data)
    for over, held in front:
        if held is not ABSENT and over != RESERVED:
            yield over, thaw(held.data) if isinstance(held, _Stored) else held
