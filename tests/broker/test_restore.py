"""Bringing a local copy back: from nothing, from a tail, after every kind of accident. On a real broker, with real kills."""

import os
import re
import shutil
import signal
import time
from pathlib import Path

import psutil
import pytest
from rocksdict import Rdict

from streamlet.changelog.bulk import BulkFailed, BulkJob, BulkRestore
from streamlet.changelog.kafka import LogOffsets
from streamlet.changelog.replay import Partition
from streamlet.ids import StoreName
from streamlet.local import LocalKafka
from streamlet.runtime.task import COMMIT_TIME
from streamlet.state.backend import Batch
from streamlet.state.rocksdb import RocksBackend
from tests.bed.changelogs import TransactionalWriter, numbered, settled_end
from tests.bed.engine import KeptEntries, replayed
from tests.bed.processes import Processes, RunningProcess
from tests.bed.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]

MANY = 60_000  # more than a worker replays by itself
HOUR_MS = 3_600_000


@pytest.fixture
def app(kafka: LocalKafka, processes: Processes, unique: str, tmp_path: Path) -> KeptEntries:
    return KeptEntries(kafka, processes, unique, tmp_path)


def many() -> list[tuple[str, int]]:
    return [(f"k{number:06}", number) for number in range(MANY)]


def some(count: int, start: int = 0) -> list[tuple[str, int]]:
    return [(f"k{number:06}", start + number) for number in range(count)]


def drop_copy(app: KeptEntries) -> None:
    """The machine is another one, or its disk is new."""
    shutil.rmtree(app.state_dir)


def meta_of(app: KeptEntries) -> tuple[int | None, int]:
    """The offset and the time that the local copy holds."""
    backend = RocksBackend.open(app.copies(app.topic)[0], [app.STORE])
    try:
        return backend.offset(app.STORE), int(backend.meta(COMMIT_TIME) or -1)
    finally:
        backend.close()


def bulk_child(worker: RunningProcess) -> psutil.Process:
    """The child process that reads a large changelog."""

    def found() -> psutil.Process | None:
        children = psutil.Process(worker.pid).children()
        return next((child for child in children if "streamlet.changelog.bulk" in " ".join(child.cmdline())), None)

    child = eventually(found, 60, "the bulk child")
    assert child is not None
    return child


def test_a_large_changelog_is_restored_by_a_child_process_to_the_same_state(app: KeptEntries) -> None:
    app.feed(many())
    app.feed([(f"k{number:06}", -1) for number in range(0, MANY, 7)])
    app.feed([(f"k{number:06}", 5) for number in range(0, MANY, 70)])
    app.run_once()
    drop_copy(app)

    worker = app.start_worker()
    child = bulk_child(worker)
    worker.wait_for("task restored", 60)
    worker.terminate()

    assert worker.wait(20) == 0
    assert not child.is_running()
    assert replayed(worker)[f"{app.topic}/0"] >= MANY
    assert app.stored() == app.expected == app.logged()
    offset, _ = meta_of(app)
    end = LogOffsets(app.kafka.client_config).ends([app.changelog()])[app.changelog()]
    assert offset is not None
    assert end - 3 <= offset <= end, "behind the last change; markers may follow"
    assert not list((app.state_dir / app.name / "0").glob(".bulk/*"))


def test_a_bulk_child_that_is_killed_costs_time_and_nothing_else(app: KeptEntries) -> None:
    app.feed(many())
    app.run_once()
    drop_copy(app)

    worker = app.start_worker()
    child = bulk_child(worker)
    child.send_signal(signal.SIGKILL)
    worker.wait_for("bulk restore failed; replaying in the worker", 30)
    worker.wait_for("task restored", 90)
    worker.terminate()

    assert worker.wait(20) == 0
    assert app.stored() == app.expected


def test_a_worker_killed_during_a_bulk_restore_leaves_no_child_and_the_next_one_starts_clean(app: KeptEntries) -> None:
    app.feed(many())
    app.run_once()
    drop_copy(app)

    worker = app.start_worker()
    child = bulk_child(worker)
    child.suspend()
    worker.kill()
    child.resume()
    eventually(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, 30, "the orphan to end")
    left = list((app.state_dir / app.name / "0").glob(".bulk/*"))
    app.run_once()

    assert left, "the kill left something behind"
    assert not list((app.state_dir / app.name / "0").glob(".bulk/*"))
    assert app.stored() == app.expected


def test_a_worker_killed_again_and_again_while_it_restores_ends_with_the_right_state(app: KeptEntries) -> None:
    app.feed(some(40_000))
    app.run_once()
    drop_copy(app)

    for patience_s in (0.0, 0.05, 0.1, 0.2):
        worker = app.start_worker()
        worker.wait_for("worker started", 30)
        end = time.monotonic() + patience_s
        eventually(lambda end=end: time.monotonic() >= end, 5)
        worker.kill()
    app.feed(some(100, 7))
    worker = app.run_once()

    assert app.stored() == app.expected == app.logged()
    assert "set aside" not in worker.log(), "a restore that was cut short goes on where it was"


def test_after_a_kill_on_the_same_folder_only_the_tail_is_replayed(app: KeptEntries) -> None:
    app.feed(some(20_000))
    app.run_once()
    worker = app.start_worker()
    worker.wait_for("task restored", 30)
    app.feed(some(300, 1))
    app.wait_until_processed(app.topic)
    worker.kill()

    app.feed(some(10, 2))
    worker = app.run_once()

    assert replayed(worker)[f"{app.topic}/0"] <= 1000
    assert app.stored() == app.expected


def test_after_a_clean_end_nothing_is_replayed(app: KeptEntries) -> None:
    app.feed(some(500))
    app.run_once()

    worker = app.run_once()

    assert replayed(worker) == {f"{app.topic}/0": 0}


def test_a_copy_that_slept_too_long_is_rebuilt_and_a_younger_one_goes_on(app: KeptEntries) -> None:
    app.feed(some(500))
    app.run_once()
    worker = app.start_worker()
    worker.wait_for("task restored", 30)
    app.feed([("extra", 1)])
    app.wait_until_processed(app.topic)
    worker.kill()

    behind(app, age_ms=11 * HOUR_MS)
    young = app.run_once()
    behind(app, age_ms=13 * HOUR_MS)
    old = app.run_once()

    assert "set aside" not in young.log()
    assert replayed(young)[f"{app.topic}/0"] < 100
    assert re.search(r"local copy set aside; the changelog is replayed .*reason=too_old", old.log())
    assert replayed(old)[f"{app.topic}/0"] >= 500
    assert app.stored() == app.expected


def behind(app: KeptEntries, *, age_ms: int) -> None:
    """Make the local copy one that stopped before the end of its changelog, so long ago."""
    backend = RocksBackend.open(app.copies(app.topic)[0], [app.STORE])
    try:
        offset = (backend.offset(app.STORE) or 0) - 1
        backend.apply(Batch({}, {app.STORE: offset}, {COMMIT_TIME: str(int(time.time() * 1000) - age_ms).encode()}))
    finally:
        backend.close()


def test_a_restored_copy_knows_its_age_before_its_first_commit(app: KeptEntries) -> None:
    app.feed(some(500))
    app.run_once()
    drop_copy(app)
    before_ms = int(time.time() * 1000)

    worker = app.start_worker()
    worker.wait_for("task restored", 30)
    worker.kill()

    offset, time_ms = meta_of(app)
    assert (offset or 0) >= 500
    assert before_ms <= time_ms <= int(time.time() * 1000)


def test_a_deleted_key_stays_deleted_after_a_restore(app: KeptEntries) -> None:
    app.feed(some(300))
    app.feed([(f"k{number:06}", -1) for number in range(0, 300, 3)])
    app.run_once()
    drop_copy(app)

    app.run_once()

    assert len(app.expected) == 200
    assert app.stored() == app.expected == app.logged()


def test_a_corrupt_copy_is_set_aside_and_rebuilt(app: KeptEntries) -> None:
    app.feed(some(500))
    app.run_once()
    copy = app.copies(app.topic)[0]
    for manifest in copy.glob("MANIFEST-*"):
        manifest.write_bytes(b"no manifest any more")

    worker = app.run_once()

    worker.wait_for(r"local copy set aside; the changelog is replayed .*copy=\S*/0\.aside", 1)
    assert replayed(worker)[f"{app.topic}/0"] >= 500
    assert app.stored() == app.expected
    assert copy.with_name("0.aside").is_dir(), "kept for whoever wants to look"


def test_a_block_that_turns_out_corrupt_while_it_is_read_makes_the_worker_rebuild_the_copy(app: KeptEntries) -> None:
    app.feed(some(5000))
    app.run_once()
    backend = RocksBackend.open(app.copies(app.topic)[0], [app.STORE])
    backend.flush()
    backend.close()
    damage_data_blocks(app.copies(app.topic)[0])

    app.feed([(f"k{number:06}", 9) for number in range(0, 5000, 10)])
    worker = app.run_once()

    assert app.stored() == app.expected == app.logged()
    assert "record skipped" not in worker.log()


def damage_data_blocks(copy: Path) -> None:
    """Flip bytes in the first half of every large file, where the entries are, not in the index behind them."""
    damaged = 0
    for file in copy.glob("*.sst"):
        data = bytearray(file.read_bytes())
        if len(data) > 10_000:
            for at in range(100, len(data) // 2, 500):
                data[at] ^= 0xFF
            file.write_bytes(data)
            damaged += 1
    assert damaged


def test_a_foreign_database_in_the_place_of_a_copy_is_set_aside_and_rebuilt(app: KeptEntries) -> None:
    app.feed(some(200))
    app.run_once()
    drop_copy(app)
    place = app.state_dir / app.name / "0" / app.topic / "0"
    place.parent.mkdir(parents=True)
    foreign = Rdict(str(place))
    foreign["somebody"] = "else"
    foreign.close()

    worker = app.run_once()

    assert "local copy set aside; the changelog is replayed" in worker.log()
    assert app.stored() == app.expected


def test_a_copy_whose_offset_is_not_in_the_changelog_is_set_aside_and_rebuilt(app: KeptEntries) -> None:
    app.feed(some(200))
    app.run_once()
    backend = RocksBackend.open(app.copies(app.topic)[0], [app.STORE])
    backend.apply(Batch({}, {app.STORE: 10_000}))
    backend.close()

    worker = app.run_once()

    assert re.search(r"local copy set aside.*reason=out_of_range", worker.log())
    assert app.stored() == app.expected


def run_bulk(kafka: LocalKafka, job: BulkJob, folder: Path) -> BulkRestore:
    child = BulkRestore(job, kafka.client_config, "bulk-test", folder)
    eventually(child.poll, 60, "the bulk child's files")
    return child


def test_a_bulk_restore_in_many_chunks_keeps_the_newest_value_and_every_deletion(kafka: LocalKafka, unique: str, tmp_path: Path) -> None:
    kafka.create_topic(unique, config={"cleanup.policy": "compact"})
    writer, store = TransactionalWriter(kafka, f"{unique}-writer", unique), StoreName("store")
    expected: dict[bytes, bytes | None] = {}
    for turn in range(12):
        records = [(f"k{number}".encode(), b"%d" % turn if (number + turn) % 5 else None) for number in range(turn, 200, turn + 1)]
        writer.commit(records)
        writer.abort(numbered(20, "aborted"))
        expected |= dict(records)
    settled = LogOffsets(kafka.client_config)
    log = Partition(unique, 0)
    end = settled.ends([log])[log]

    child = run_bulk(kafka, BulkJob(unique, 0, 0, end, chunk_keys=50), tmp_path / "bulk")
    backend = RocksBackend.open(tmp_path / "copy", [store])
    backend.ingest(store, child.files, child.offset)
    found = dict(backend.scan(store))
    offset = backend.offset(store)
    backend.close()
    child.close()

    assert len(child.files) > 3
    assert found == {key: value for key, value in expected.items() if value is not None}
    assert (offset or 0) >= end
    settled_end(kafka, log, offset or 0)
    assert not list((tmp_path / "bulk").iterdir())


def test_a_bulk_child_that_fails_says_why(kafka: LocalKafka, unique: str, tmp_path: Path) -> None:
    kafka.create_topic(unique, config={"cleanup.policy": "compact"})

    with pytest.raises(BulkFailed) as failed:
        run_bulk(kafka, BulkJob(unique, 0, 500, 900), tmp_path / "bulk")  # behind the end of the log

    assert (failed.value.topic, failed.value.partition, failed.value.code) == (unique, 0, 1)
    assert "no longer holds offset 500" in failed.value.said


def test_a_bulk_child_ends_when_its_worker_is_gone(processes: Processes, kafka: LocalKafka, unique: str, tmp_path: Path) -> None:
    kafka.create_topic(unique, config={"cleanup.policy": "compact"})
    source = f"""
import sys
from pathlib import Path
from streamlet.changelog.bulk import BulkJob, BulkRestore
child = BulkRestore(BulkJob({unique!r}, 0, 0, 1), {kafka.client_config!r}, "bulk-test", Path({str(tmp_path)!r}) / "bulk")
print("child", child.pid)
sys.stdin.close()
import signal
signal.pause()
"""
    worker = processes.start_python(source, name="worker")
    pid = int(worker.wait_for(r"child (\d+)", 30)[1])

    os.kill(worker.pid, signal.SIGKILL)

    eventually(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, 30, "the child to end")
