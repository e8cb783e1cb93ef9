"""Bringing local copies up to their changelogs, several tasks side by side, in slices between batches.

A small tail is replayed here, a slice at a time, so that running tasks are not disturbed. A large one is read by a
child process that writes sorted files, which this process only takes in.
"""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from streamlet.changelog.bulk import BulkFailed, BulkJob, BulkRestore
from streamlet.changelog.replay import ChangelogGap, Partition, Read, Replay
from streamlet.ids import StoreName, TaskId
from streamlet.runtime.progress import RestoreWatch
from streamlet.runtime.task import COMMIT_TIME
from streamlet.state.backend import Backend, Batch
from streamlet.state.errors import FolderUnusable, WriteFailed

log = logging.getLogger("streamlet.restore")

_SLICE_RECORDS: Final = 2000
BULK_OFFSETS: Final = 50_000  # from here on a child process pays for its start
_OLDEST_COPY_MS: Final = 43_200_000  # half of what a changelog keeps deletions for: an older copy is rebuilt
_MOST_CHILDREN: Final = 1  # one core is left for running tasks


class ReplaySource(Protocol):
    """Reads changelog partitions in slices: production's is in changelog/kafka.py."""

    def add(self, partition: Partition, offset: int) -> None: ...
    def remove(self, partition: Partition) -> None: ...
    def read(self, most: int, timeout_s: float) -> list[Read]: ...


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
    """A task whose copy is complete, and what that took."""

    task: TaskId
    records: int
    took_s: float


@dataclass(frozen=True, slots=True)
class RestoreProgress:
    """How far a task is that is not complete yet."""

    records: int
    left: int  # offsets, over all its stores
    running_s: float


class Restorer:
    """Add replays, then drain: each call does a bounded piece of work and names the tasks that are complete."""

    def __init__(
        self,
        source: ReplaySource,
        start_bulk: "StartBulk",
        watch: RestoreWatch,
        *,
        bulk_offsets: int = BULK_OFFSETS,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self._source = source
        self._start_bulk = start_bulk
        self._watch, self._bulk_offsets, self._now_ms = watch, bulk_offsets, now_ms
        self._following: dict[Partition, StoreReplay] = {}
        self._queued: list[StoreReplay] = []
        self._bulk: dict[Partition, tuple[StoreReplay, BulkRestore]] = {}
        self._left: dict[TaskId, set[StoreName]] = {}
        self._replayed: dict[TaskId, int] = {}
        self._began: dict[TaskId, float] = {}
        self._began_ms: dict[TaskId, int] = {}
        self._finished_records = 0
        self._starts: dict[Partition, int] = {}
        self._failures: dict[TaskId, WriteFailed] = {}
        self._stopped: dict[TaskId, tuple[WriteFailed, list[StoreReplay]]] = {}  # why, and what is not complete

    @property
    def busy(self) -> bool:
        """Whether anything is left to do."""
        return bool(self._left)

    @property
    def left(self) -> int:
        """Offsets still to go over all replays."""
        here = sum(item.replay.left for item in (*self._following.values(), *self._queued))
        return here + sum(max(0, item.replay.target - child.at) for item, child in self._bulk.values())

    @property
    def records(self) -> int:
        """Records replayed so far, over all tasks."""
        return self._finished_records + sum(self._replayed.values()) + sum(child.records for _, child in self._bulk.values())

    def progress(self) -> list[tuple[TaskId, RestoreProgress]]:
        """Every task that is not complete."""
        now, left = time.monotonic(), dict.fromkeys(self._left, 0)
        read = dict(self._replayed)
        for item in (*self._following.values(), *self._queued):
            left[item.task] += item.replay.left
        for item, child in self._bulk.values():
            left[item.task] += max(0, item.replay.left - child.records)
            read[item.task] += child.records
        return [(task, RestoreProgress(read[task], left[task], now - self._began[task])) for task in self._left]

    def add(self, task: TaskId, replays: Iterable[StoreReplay]) -> None:
        """Begin to restore a task; one without stores is complete at the next drain."""
        self._left[task], self._replayed[task], self._began[task] = set(), 0, time.monotonic()
        self._began_ms[task] = self._now_ms()
        for item in replays:
            self._left[task].add(item.store)
            self._starts[item.replay.partition] = item.replay.offset
            if item.backend.meta(COMMIT_TIME) is None:  # deletions are kept long enough for a copy begun now, whole or not
                item.backend.apply(Batch(changes={}, offsets={}, meta=self._time_of(task)))
            if item.empty and item.replay.left >= self._bulk_offsets:
                self._queued.append(item)
            else:
                self._follow(item)

    def drain(self, timeout_s: float) -> list[Restored]:
        """Do one slice of work; the tasks returned are complete."""
        self._start_children()
        for item, child in list(self._bulk.values()):
            try:
                self._take_in(item, child)
            except WriteFailed as failure:
                self._stop(item.task, failure)
        if self._following:
            for read in self._source.read(_SLICE_RECORDS, timeout_s):
                followed = self._following.get(read.partition)
                if followed is None:
                    continue  # fetched before the partition was let go
                try:
                    self._apply(followed, read)
                except WriteFailed as failure:
                    self._stop(followed.task, failure)
        done = [self._finish(task) for task in [task for task, stores in self._left.items() if not stores]]
        self._watch.look(self)
        return done

    def take_failures(self) -> dict[TaskId, WriteFailed]:
        """Tasks whose copy refused a write since the last call. Others go on; these wait for `again`."""
        failures, self._failures = self._failures, {}
        return failures

    def again(self, task: TaskId) -> bool:
        """Go on with a task that was stopped, from what its copy holds; False if it was not."""
        if task not in self._stopped:
            return False
        failure, items = self._stopped.pop(task)
        whole_ms = min(int(item.backend.meta(COMMIT_TIME) or 0) for item in items)
        if self._now_ms() - whole_ms > _OLDEST_COPY_MS:
            raise FolderUnusable(failure.folder, "it stood still so long that its changelog may have forgotten deletions")
        self.add(task, [self._renewed(item) for item in items])
        return True

    def _renewed(self, item: StoreReplay) -> StoreReplay:
        held, partition = item.backend.offset(item.store), item.replay.partition
        start = self._starts[partition] if held is None else max(held, self._starts[partition])
        return StoreReplay(item.task, item.store, item.backend, Replay(partition, start, item.replay.target), held is None)

    def _stop(self, task: TaskId, failure: WriteFailed) -> None:
        """A full disk stops one task, not its neighbours."""
        stopped = [item for item in (*self._following.values(), *self._queued) if item.task == task]
        stopped += [item for item, _ in self._bulk.values() if item.task == task]
        for item in stopped:
            if self._following.pop(item.replay.partition, None) is not None:
                self._source.remove(item.replay.partition)
            elif item in self._queued:
                self._queued.remove(item)
            else:
                self._bulk.pop(item.replay.partition)[1].close()
        self._failures[task], self._stopped[task] = failure, (failure, stopped)
        self._finish(task)

    def _finish(self, task: TaskId) -> Restored:
        del self._left[task], self._began_ms[task]
        self._finished_records += self._replayed[task]
        return Restored(task, self._replayed.pop(task), time.monotonic() - self._began.pop(task))

    def close(self) -> None:
        """End what is under way; a later start replays it again."""
        self._watch.end()
        for _, child in self._bulk.values():
            child.close()
        self._bulk.clear()

    def _take_in(self, item: StoreReplay, child: BulkRestore) -> None:
        """Ingest a child's files when they are there; if it failed, read the changelog here."""
        try:
            if not child.poll():
                return
        except BulkFailed as failed:
            log.warning("bulk restore failed; replaying in the worker", extra={"task": str(item.task), "reason": str(failed)})
        else:
            self._replayed[item.task] += child.records
            item.backend.ingest(item.store, child.files, child.offset)
            item.replay.offset = child.offset
        del self._bulk[item.replay.partition]
        child.close()
        self._follow(item)  # everything, or what came meanwhile

    def _time_of(self, task: TaskId) -> dict[str, bytes]:
        return {COMMIT_TIME: str(self._began_ms[task]).encode()}

    def _follow(self, item: StoreReplay) -> None:
        self._following[item.replay.partition] = item
        self._source.add(item.replay.partition, item.replay.offset)

    def _start_children(self) -> None:
        while self._queued and len(self._bulk) < _MOST_CHILDREN:
            item = self._queued.pop(0)
            job = BulkJob(item.replay.partition.topic, item.replay.partition.number, item.replay.offset, item.replay.target)
            self._bulk[item.replay.partition] = (item, self._start_bulk(job))

    def _apply(self, item: StoreReplay, read: Read) -> None:
        if read.out_of_range:
            raise ChangelogGap(read.partition, item.replay.offset)
        item.replay.feed(read)
        self._replayed[item.task] += len(read.records)
        if read.records or item.replay.done:
            changes = sorted(dict(read.records).items())
            whole = item.replay.done and self._left[item.task] == {item.store}  # only then nothing older than the restore is missing
            meta = self._time_of(item.task) if whole else {}
            item.backend.apply(Batch(changes={item.store: changes}, offsets={item.store: item.replay.offset}, meta=meta))
        if item.replay.done:
            self._source.remove(read.partition)
            del self._following[read.partition]
            self._left[item.task].discard(item.store)


class StartBulk(Protocol):
    """Starts a child process for one large replay."""

    def __call__(self, job: BulkJob, /) -> BulkRestore: ...
