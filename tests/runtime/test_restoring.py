"""A disk that fills up under a restore stops the task whose copy it is, and nobody else."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from streamlet import App
from streamlet.changelog.replay import Partition, Read, Replay
from streamlet.ids import StoreName, TaskId, Term
from streamlet.rebalance.records import Wish, WishKind
from streamlet.rebalance.view import View
from streamlet.runtime.bounds import CommitBounds
from streamlet.runtime.holdings import Ready
from streamlet.runtime.progress import LoggedRestore, RestoreWatch
from streamlet.runtime.restoring import Restorer, StoreReplay
from streamlet.state.errors import WriteFailed
from streamlet.state.memory import MemoryBackend
from tests.bed.memory_worker import ALONE, Control, OneTask, run_worker

STORE, OTHER = StoreName("store"), StoreName("other")


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

    def known_end(self, partition):
        return 100

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
        self.begin(task, disk, *stores)
        return task, disk

    def begin(self, task, disk, *stores):
        replays = [Replay(Partition(store, task.partition), disk.offset(store) or 0, 100) for store in stores]
        self.restorer.add(task, [StoreReplay(task, store, disk, replay, True) for store, replay in zip(stores, replays, strict=True)])
        self.restorer.aim(task, dict.fromkeys(stores, 100))

    def drain(self, times=1):
        return [restored for _ in range(times) for restored in self.restorer.drain(0, beside_running=False)]


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

    done = {restored.task: restored.failure for restored in bed.drain(10)}

    assert done.keys() == {stuck, fine}
    assert done[fine] is None
    assert done[stuck].folder == Path("copy")
    assert (bed.restorer.busy, bed.logs.reading) == (False, {})


def test_with_room_again_the_restore_goes_on_from_what_the_copy_holds(bed):
    task, disk = bed.add(0, STORE, OTHER)
    bed.drain(3)
    disk.full = True
    bed.drain()
    disk.full = False

    bed.begin(task, disk, STORE, OTHER)

    assert bed.logs.reading == {Partition(STORE, 0): 30, Partition(OTHER, 0): 30}
    assert [restored.task for restored in bed.drain(10)] == [task]
    assert (keys(disk, STORE), keys(disk, OTHER)) == (ALL, ALL)
    assert (disk.offset(STORE), disk.offset(OTHER)) == (100, 100)


def test_a_copy_that_is_not_aimed_only_follows(bed):
    task, disk = TaskId("task", 0), Disk()
    bed.restorer.add(task, [StoreReplay(task, STORE, disk, Replay(Partition(STORE, 0), 0, 100), True)])

    assert bed.drain(20) == []
    assert (bed.restorer.busy, bed.restorer.following, bed.restorer.lags()) == (False, True, {task: 0})
    assert keys(disk, STORE) == ALL

    bed.restorer.aim(task, {STORE: 100})
    assert [restored.task for restored in bed.drain()] == [task]
    assert not bed.restorer.following


def test_a_copy_that_is_loosened_is_not_awaited_any_more(bed):
    task, disk = bed.add(0, STORE)
    bed.drain(3)

    bed.restorer.loosen(task)

    assert bed.drain(20) == []
    assert keys(disk, STORE) == ALL


class TwoTasks(OneTask):
    """One task is ready; the disk of the other is full until somebody has made room."""

    def __init__(self):
        self.resumed = []

    def turn(self, timeout_s, *, beside_running):
        failure = WriteFailed(Path("copy"), "No space left on device")
        return [Ready(FULL, Term(1), None, {}, {}, 0, 0.0, failure), *super().turn(timeout_s, beside_running=beside_running)]

    def again(self, task):
        self.resumed.append(task)


FULL = TaskId("entries", 1)


def test_a_worker_goes_on_without_the_stopped_task_and_resumes_it_when_asked(caplog):
    app = App("app")
    entries, out = app.topic("entries", key=str, value=str), app.topic("out", key=str, value=str)

    @app.process(entries, to=out)
    def same(text: str) -> str:
        return text

    wish = Wish(kind=WishKind.RESUME, subject=str(FULL), at_ms=0)
    holdings, wishes = TwoTasks(), {f"resume/{FULL}": wish}
    bounds = CommitBounds(interval_s=1000.0, max_bytes=10**9, write_interval_ms=1000, write_max_bytes=10**9)

    commits, _ = run_worker(app, bounds, holdings=holdings, control=Control(View(plan=ALONE, wishes=wishes)))

    assert commits[-1] == 100
    assert [record.task for record in caplog.records if record.message == "task stopped"] == [str(FULL)]
    assert holdings.resumed == [FULL]
    assert wishes == {}
