"""A disk that fills up under a restore stops the task whose copy it is, and nobody else."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from streamlet import App
from streamlet.changelog.replay import Partition, Read, Replay
from streamlet.ids import StoreName, TaskId
from streamlet.rebalance.records import Wish, WishKind
from streamlet.rebalance.view import View
from streamlet.runtime.bounds import CommitBounds
from streamlet.runtime.progress import LoggedRestore, RestoreWatch
from streamlet.runtime.restoring import Restorer, StoreReplay
from streamlet.runtime.task import COMMIT_TIME
from streamlet.state.errors import FolderUnusable, WriteFailed
from streamlet.state.memory import MemoryBackend
from tests.bed.memory_worker import Control, OneTask, run_worker

STORE, OTHER = StoreName("store"), StoreName("other")
HALF_A_DAY_MS = 12 * 3600 * 1000


class Disk(MemoryBackend):
    """A copy that refuses writes while its disk is full."""

    full = False

    def apply(self, batch):
        if self.full:
            raise WriteFailed(Path("copy"), "No space left on device")
        super().apply(batch)


@dataclass
class Logs:
    """Changelogs of 100 records each, read ten at a time."""

    reading: dict[Partition, int] = field(default_factory=dict)

    def add(self, partition, offset):
        assert partition not in self.reading
        self.reading[partition] = offset

    def remove(self, partition):
        del self.reading[partition]

    def read(self, most, timeout_s):
        return [self._slice(partition) for partition in list(self.reading)]

    def _slice(self, partition):
        offset = self.reading[partition]
        self.reading[partition] = end = min(100, offset + 10)
        records = [(b"%03d" % number, b"v") for number in range(offset, end)]
        return Read(partition, records, end, end if end == 100 else None)


class Bed:
    def __init__(self):
        self.logs, self.now_ms = Logs(), 1_000_000
        watch = RestoreWatch(LoggedRestore())
        self.restorer = Restorer(self.logs, lambda job: pytest.fail("no child is needed"), watch, now_ms=lambda: self.now_ms)

    def add(self, number, *stores):
        """Begin to restore a task with these stores; its copy."""
        task, disk = TaskId("task", number), Disk()
        self.restorer.add(task, [StoreReplay(task, store, disk, Replay(Partition(store, number), 0, 100), True) for store in stores])
        return task, disk

    def drain(self, times=1):
        return [restored.task for _ in range(times) for restored in self.restorer.drain(0)]


@pytest.fixture
def bed():
    return Bed()


def keys(disk, store):
    return [key for key, _ in disk.scan(store)]


ALL = [b"%03d" % number for number in range(100)]


def test_a_full_disk_stops_its_task_while_the_others_are_restored(bed):
    stuck, full = bed.add(0, STORE, OTHER)
    fine, _ = bed.add(1, STORE)
    bed.drain(3)
    full.full = True

    done = bed.drain(10)

    failures = bed.restorer.take_failures()
    assert done == [fine]
    assert list(failures) == [stuck]
    assert failures[stuck].folder == Path("copy")
    assert bed.restorer.take_failures() == {}, "told once"
    assert (bed.restorer.busy, bed.logs.reading) == (False, {})


def test_with_room_again_the_restore_goes_on_from_what_the_copy_holds(bed):
    task, disk = bed.add(0, STORE, OTHER)
    bed.drain(3)
    disk.full = True
    bed.drain()
    disk.full = False

    assert bed.restorer.again(task)

    assert bed.logs.reading == {Partition(STORE, 0): 30, Partition(OTHER, 0): 30}
    assert bed.drain(10) == [task]
    assert (keys(disk, STORE), keys(disk, OTHER)) == (ALL, ALL)
    assert (disk.offset(STORE), disk.offset(OTHER)) == (100, 100)


def test_a_copy_that_took_nothing_begins_at_the_start_of_the_log(bed):
    task, disk = bed.add(0, STORE)
    disk.full = True
    bed.drain()
    disk.full = False

    assert bed.restorer.again(task)

    assert bed.drain(10) == [task]
    assert keys(disk, STORE) == ALL


def test_only_a_stopped_task_can_go_on(bed):
    task, disk = bed.add(0, STORE)
    assert not bed.restorer.again(task)
    disk.full = True
    bed.drain()
    disk.full = False
    assert bed.restorer.again(task)

    assert not bed.restorer.again(task)


def test_a_copy_that_stood_still_too_long_is_rebuilt(bed):
    """Deletions may have been cleaned away meanwhile: a key deleted by them would come back."""
    task, disk = bed.add(0, STORE)
    disk.full = True
    bed.drain()
    assert disk.meta(COMMIT_TIME) == b"1000000"
    bed.now_ms += HALF_A_DAY_MS + 1

    with pytest.raises(FolderUnusable) as refused:
        bed.restorer.again(task)

    assert refused.value.folder == Path("copy")


class TwoTasks(OneTask):
    """One task is restored; the disk of the other is full until somebody has made room."""

    def __init__(self):
        super().__init__()
        self.failures = {FULL: WriteFailed(Path("copy"), "No space left on device")}
        self.resumed = []

    def take_failures(self):
        failures, self.failures = self.failures, {}
        return failures

    def again(self, task):
        self.resumed.append(task)
        return True


FULL = TaskId("entries", 1)


def test_a_worker_goes_on_without_the_stopped_task_and_resumes_it_when_asked(caplog):
    app = App("app")
    entries, out = app.topic("entries", key=str, value=str), app.topic("out", key=str, value=str)

    @app.process(entries, to=out)
    def same(text: str) -> str:
        return text

    restorer, wishes = TwoTasks(), {str(FULL): Wish(kind=WishKind.RESUME, subject=str(FULL), at_ms=0)}
    bounds = CommitBounds(interval_s=1000.0, max_bytes=10**9, write_interval_ms=1000, write_max_bytes=10**9)

    commits, _ = run_worker(app, bounds, restorer=restorer, control=Control(View(wishes=wishes)))

    assert commits[-1] == 100
    assert [record.task for record in caplog.records if record.message == "task stopped"] == [str(FULL)]
    assert restorer.resumed == [FULL]
    assert wishes == {}
