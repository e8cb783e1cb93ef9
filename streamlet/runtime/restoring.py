"""Keeping local copies up with their changelogs, several tasks side by side, in slices between batches.

A copy is followed from the moment it is added; once it is aimed at where its writer stopped, it is complete when it has
got there. A small tail is replayed here, a slice at a time and for a bounded share of the time, so that running tasks are
not disturbed. A large one is read by a child process that writes sorted files, which this process only takes in.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from streamlet.changelog.bulk import BulkFailed, BulkJob, BulkRestore
from streamlet.changelog.replay import ChangelogGap, Partition, Read, Replay
from streamlet.errors import StreamletError
from streamlet.ids import StoreName, TaskId
from streamlet.runtime.progress import RestoreWatch
from streamlet.runtime.task import COMMIT_TIME
from streamlet.state.backend import Backend, Batch
from streamlet.state.errors import WriteFailed

log = logging.getLogger("streamlet.restore")

_SLICE_RECORDS: Final = 2000
BULK_OFFSETS: Final = 50_000  # from here on a child process pays for its start
_SHARE: Final = 0.2  # of the loop's time goes to following while tasks run
_WHOLE_EVERY_MS: Final = 60_000  # how often a followed copy notes that it is up to date


class ReplaySource(Protocol):
    """Reads changelog partitions in slices: production's is in changelog/kafka.py."""

    def add(self, partition: Partition, offset: int) -> None: ...
    def remove(self, partition: Partition) -> None: ...
    def read(self, most: int, timeout_s: float) -> list[Read]: ...
    def known_end(self, partition: Partition) -> int | None: ...


@dataclass(frozen=True, slots=True)
class StoreReplay:
    """The replay of one store of one task into its backend."""

    task: TaskId
    store: StoreName
    backend: Backend
    replay: Replay
    empty: bool  # no local copy: sorted files may be taken in


@dataclass(frozen=True, slots=True)
class Restored:
    """A task whose copy is complete, and what that took; or why it cannot be."""

    task: TaskId
    records: int
    took_s: float
    failure: StreamletError | None = None


@dataclass(frozen=True, slots=True)
class RestoreProgress:
    """How far a task is that is not complete yet."""

    records: int
    left: int  # offsets, over all its stores
    running_s: float


@dataclass(slots=True)
class _Copy:
    """One task's copy under way."""

    items: dict[StoreName, StoreReplay]
    began: float
    began_ms: int
    whole_at_ms: int
    aimed: bool = False
    aimed_at: float = 0.0
    records: int = 0
    failure: StreamletError | None = None
    busy: set[StoreName] = field(default_factory=set[StoreName])  # stores that a child process reads, or will

    @property
    def complete(self) -> bool:
        return self.aimed and not self.busy and all(item.replay.done for item in self.items.values())


class Restorer:
    """Add copies, aim them, drain: each call does a bounded piece of work and names the tasks that are complete."""

    def __init__(
        self,
        source: ReplaySource,
        start_bulk: "StartBulk",
        watch: RestoreWatch,
        *,
        bulk_offsets: int = BULK_OFFSETS,
        processors: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self._source, self._start_bulk, self._watch = source, start_bulk, watch
        self._bulk_offsets, self._clock, self._now_ms = bulk_offsets, clock, now_ms
        self._processors = processors or os.cpu_count() or 1
        self._copies: dict[TaskId, _Copy] = {}
        self._following: dict[Partition, StoreReplay] = {}
        self._queued: list[StoreReplay] = []
        self._bulk: dict[Partition, tuple[StoreReplay, BulkRestore]] = {}
        self._finished_records = 0
        self._rest_until = 0.0

    @property
    def busy(self) -> bool:
        """Whether a copy is awaited: one that only follows its owner is not."""
        return any(copy.aimed for copy in self._copies.values())

    @property
    def following(self) -> bool:
        """Whether there is any copy at all to keep up."""
        return bool(self._copies)

    @property
    def left(self) -> int:
        """Offsets still to go over all copies that are awaited."""
        return sum(self._left(copy) for copy in self._copies.values() if copy.aimed)

    @property
    def records(self) -> int:
        """Records replayed so far, over all tasks."""
        return self._finished_records + sum(map(self._records, self._copies.values()))

    def progress(self) -> list[tuple[TaskId, RestoreProgress]]:
        """Every task that is awaited and not complete."""
        now = self._clock()
        awaited = [(task, copy) for task, copy in self._copies.items() if copy.aimed]
        return [(task, RestoreProgress(self._records(copy), self._left(copy), now - copy.began)) for task, copy in awaited]

    def lags(self) -> dict[TaskId, int]:
        """How far each copy is behind the end of its changelogs."""
        return {task: sum(self._lag(item) for item in copy.items.values()) for task, copy in self._copies.items()}

    def add(self, task: TaskId, replays: Iterable[StoreReplay]) -> None:
        """Begin to follow a task's changelogs. Until it is aimed, the target of each replay is only the end as last seen."""
        now_ms = self._now_ms()
        copy = self._copies[task] = _Copy({item.store: item for item in replays}, self._clock(), now_ms, whole_at_ms=now_ms)
        for item in copy.items.values():
            if item.backend.meta(COMMIT_TIME) is None:  # deletions are kept long enough for a copy begun now, whole or not
                item.backend.apply(Batch(changes={}, offsets={}, meta=_time(now_ms)))
            if item.empty and item.replay.left >= self._bulk_offsets:
                copy.busy.add(item.store)
                self._queued.append(item)
            else:
                self._follow(item)

    def aim(self, task: TaskId, targets: Mapping[StoreName, int]) -> None:
        """The task's last writer stopped at these offsets: it is complete when the copy has them."""
        copy = self._copies[task]
        copy.aimed, copy.aimed_at = True, self._clock()
        for store, item in copy.items.items():
            item.replay.aim(targets.get(store, 0))

    def loosen(self, task: TaskId) -> None:
        """The task is not to begin here after all; its copy goes on following."""
        copy = self._copies[task]
        copy.aimed = False
        for item in copy.items.values():
            item.replay.by_position = item.replay.done = False

    def has(self, task: TaskId) -> bool:
        """Whether the task's copy is followed."""
        return task in self._copies

    def forget(self, task: TaskId) -> None:
        """Stop following a task; what was applied stays."""
        copy = self._copies.pop(task)
        self._finished_records += copy.records
        self._queued = [item for item in self._queued if item.task != task]
        for item in copy.items.values():
            if self._following.pop(item.replay.partition, None) is not None:
                self._source.remove(item.replay.partition)
            bulk = self._bulk.pop(item.replay.partition, None)
            if bulk is not None:
                bulk[1].close()

    def drain(self, timeout_s: float, *, beside_running: bool) -> list[Restored]:
        """Do one slice of work; the tasks returned are complete, or cannot be, and are followed no longer."""
        self._start_children(self._processors - 1 if beside_running else self._processors)
        for item, child in list(self._bulk.values()):
            self._take_in(item, child)
        began = self._clock()
        if self._following and began >= self._rest_until:
            for read in self._source.read(_SLICE_RECORDS, timeout_s):
                self._apply(read)
            if beside_running:
                self._rest_until = self._clock() + (self._clock() - began) * (1 / _SHARE - 1)
        done = [self._finish(task) for task, copy in list(self._copies.items()) if copy.complete or copy.failure]
        self._watch.look(self)
        return done

    def close(self) -> None:
        """End what is under way; a later start replays it again."""
        self._watch.end()
        for _, child in self._bulk.values():
            child.close()
        self._bulk.clear()

    def _finish(self, task: TaskId) -> Restored:
        copy = self._copies[task]
        if copy.failure is None:
            offsets = {item.store: item.replay.offset for item in copy.items.values()}
            for backend in {id(item.backend): item.backend for item in copy.items.values()}.values():  # a task has one, or none
                backend.apply(Batch(changes={}, offsets=offsets, meta=_time(copy.whole_at_ms)))  # nothing older than that is missing
        self.forget(task)
        return Restored(task, copy.records, self._clock() - copy.aimed_at if copy.aimed else 0.0, copy.failure)

    def _records(self, copy: _Copy) -> int:
        partitions = [item.replay.partition for item in copy.items.values()]
        return copy.records + sum(self._bulk[partition][1].records for partition in partitions if partition in self._bulk)

    def _left(self, copy: _Copy) -> int:
        return sum(max(0, item.replay.target - self._position(item)) for item in copy.items.values())

    def _position(self, item: StoreReplay) -> int:
        bulk = self._bulk.get(item.replay.partition)
        return item.replay.offset if bulk is None else max(item.replay.offset, bulk[1].at)

    def _lag(self, item: StoreReplay) -> int:
        if item.replay.at_end:
            return 0
        end = self._source.known_end(item.replay.partition) if item.replay.partition in self._following else None
        return max(0, (item.replay.target if end is None else end) - self._position(item))

    def _start_children(self, most: int) -> None:
        while self._queued and len(self._bulk) < max(1, most):
            item = self._queued.pop(0)
            job = BulkJob(item.replay.partition.topic, item.replay.partition.number, item.replay.offset, item.replay.target)
            self._bulk[item.replay.partition] = (item, self._start_bulk(job))

    def _take_in(self, item: StoreReplay, child: BulkRestore) -> None:
        """Ingest a child's files when they are there; if it failed, read the changelog here."""
        copy = self._copies[item.task]
        try:
            if not child.poll():
                return
            copy.records += child.records
            item.backend.ingest(item.store, child.files, child.offset)
            item.replay.offset = child.offset
        except BulkFailed as failed:
            log.warning("bulk restore failed; replaying in the worker", extra={"task": str(item.task), "reason": str(failed)})
        except WriteFailed as failed:
            copy.failure = failed
        del self._bulk[item.replay.partition]
        child.close()
        copy.busy.discard(item.store)
        item.replay.done = item.replay.by_position and item.replay.offset >= item.replay.target
        self._follow(item)  # everything, or what came meanwhile

    def _follow(self, item: StoreReplay) -> None:
        self._following[item.replay.partition] = item
        self._source.add(item.replay.partition, item.replay.offset)

    def _apply(self, read: Read) -> None:
        item = self._following.get(read.partition)
        if item is None:
            return  # fetched before the partition was let go
        if read.out_of_range:
            raise ChangelogGap(read.partition, item.replay.offset)
        copy = self._copies[item.task]
        item.replay.feed(read)
        copy.records += len(read.records)
        meta: dict[str, bytes] = {}
        due = read.end is not None and self._now_ms() - copy.whole_at_ms > _WHOLE_EVERY_MS
        if due and all(other.replay.at_end for other in copy.items.values()):
            copy.whole_at_ms = self._now_ms()
            meta = _time(copy.whole_at_ms)
        if read.records or meta:
            changes = sorted(dict(read.records).items())
            try:
                item.backend.apply(Batch(changes={item.store: changes}, offsets={item.store: item.replay.offset}, meta=meta))
            except WriteFailed as failed:
                copy.failure = failed


def _time(now_ms: int) -> dict[str, bytes]:
    return {COMMIT_TIME: str(now_ms).encode()}


class StartBulk(Protocol):
    """Starts a child process for one large replay."""

    def __call__(self, job: BulkJob, /) -> BulkRestore: ...
