"""The RocksDB backend: the contract, reopening, folders that cannot be used, the memory budget, nothing leaked."""

import gc
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from rocksdict import Options, Rdict

from streamlet.errors import RetryError, StateError
from streamlet.state.backend import Batch, Change
from streamlet.state.budget import MB, BadBudget, MemoryBudget
from streamlet.state.errors import FolderLocked, FolderUnusable, WriteFailed
from streamlet.state.rocksdb import RocksBackend, shared_memory, write_sst
from tests.state.backend_contract import ONE, TWO, BackendContract


class TestRocksBackend(BackendContract):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> Iterator[RocksBackend]:
        backend = RocksBackend.open(tmp_path / "task", [ONE, TWO])
        yield backend
        backend.close()

    def write_file(self, file: Path, entries: Sequence[Change]) -> None:
        write_sst(file, entries)


def test_a_reopened_folder_has_everything(tmp_path: Path) -> None:
    backend = RocksBackend.open(tmp_path / "task", [ONE])
    backend.apply(Batch({ONE: [(b"a", b"1")]}, {ONE: 7}, {"time": b"t"}))
    backend.close()

    again = RocksBackend.open(tmp_path / "task", [ONE, TWO])

    assert (again.get(ONE, b"a"), again.offset(ONE), again.meta("time")) == (b"1", 7, b"t")
    assert (again.get(TWO, b"a"), again.offset(TWO)) == (None, None)
    again.close()


def test_a_store_that_the_app_no_longer_names_is_kept(tmp_path: Path) -> None:
    backend = RocksBackend.open(tmp_path / "task", [ONE, TWO])
    backend.apply(Batch({TWO: [(b"a", b"1")]}, {TWO: 7}))
    backend.close()
    RocksBackend.open(tmp_path / "task", [ONE]).close()

    again = RocksBackend.open(tmp_path / "task", [ONE, TWO])
    assert (again.get(TWO, b"a"), again.offset(TWO)) == (b"1", 7)
    again.close()


def test_entries_of_an_unfinished_ingest_are_dropped_at_opening(tmp_path: Path) -> None:
    backend = RocksBackend.open(tmp_path / "task", [ONE, TWO])
    backend.apply(Batch({TWO: [(b"kept", b"1")]}, {TWO: 1}))
    write_sst(tmp_path / "part.sst", [(b"a", b"1")])
    backend._families[ONE].ingest_external_file([str(tmp_path / "part.sst")])
    backend.close()

    again = RocksBackend.open(tmp_path / "task", [ONE, TWO])
    assert (list(again.scan(ONE)), again.offset(ONE)) == ([], None)
    assert list(again.scan(TWO)) == [(b"kept", b"1")]
    again.close()


def test_an_offset_is_written_only_after_the_ingested_data_is_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = RocksBackend.open(tmp_path / "task", [ONE])
    write_sst(tmp_path / "all.sst", [(b"a", b"1")])

    def killed(self: RocksBackend, batch: Batch) -> None:
        assert self.get(ONE, b"a") == b"1"
        raise KeyboardInterrupt

    monkeypatch.setattr(RocksBackend, "apply", killed)
    with pytest.raises(KeyboardInterrupt):
        backend.ingest(ONE, [tmp_path / "all.sst"], 9)

    assert backend.offset(ONE) is None
    backend.close()


def test_a_folder_open_in_this_process_is_refused_by_name(tmp_path: Path) -> None:
    backend = RocksBackend.open(tmp_path / "task", [ONE])
    with pytest.raises(FolderLocked) as refused:
        RocksBackend.open(tmp_path / "task", [ONE])

    assert refused.value.folder == tmp_path / "task"
    assert isinstance(refused.value, RetryError)
    backend.close()


HOLD = """
import sys
from pathlib import Path
from streamlet.state.rocksdb import RocksBackend
backend = RocksBackend.open(Path(sys.argv[1]), ["one"])
print("open", flush=True)
sys.stdin.read()
"""


def test_a_folder_open_in_another_process_is_refused_by_name(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "task")], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(FolderLocked, match=str(tmp_path / "task")):
            RocksBackend.open(tmp_path / "task", [ONE])
        holder.kill()
    RocksBackend.open(tmp_path / "task", [ONE]).close()


def unusable(folder: Path) -> FolderUnusable:
    with pytest.raises(FolderUnusable) as refused:
        RocksBackend.open(folder, [ONE])
    assert refused.value.folder == folder
    assert isinstance(refused.value, StateError)
    return refused.value


def test_a_folder_of_somebody_else_is_not_touched(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    folder.mkdir()
    (folder / "thesis.txt").write_text("precious")

    unusable(folder)
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]


def test_a_database_that_streamlet_did_not_write_is_refused(tmp_path: Path) -> None:
    foreign = Rdict(str(tmp_path / "task"), Options(raw_mode=True), {})
    foreign.put(b"a", b"1")
    foreign.close()

    assert "format number" in unusable(tmp_path / "task").why


def test_a_folder_whose_making_was_interrupted_is_made_again(tmp_path: Path) -> None:
    Rdict(str(tmp_path / "task"), Options(raw_mode=True), {}).close()

    backend = RocksBackend.open(tmp_path / "task", [ONE])
    backend.apply(Batch({ONE: [(b"a", b"1")]}, {ONE: 1}))
    backend.close()


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    backend = RocksBackend.open(tmp_path / "task", [ONE])
    backend._database.put(b"format", b"2")
    backend.close()

    assert "format 2" in unusable(tmp_path / "task").why


@pytest.mark.parametrize("damage", ["manifest", "current", "sst", "missing sst"])
def test_a_damaged_folder_is_refused_and_never_read_wrong(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "task"
    backend = RocksBackend.open(folder, [ONE])
    backend.apply(Batch({ONE: [(b"%05d" % n, os.urandom(100)) for n in range(2000)]}, {ONE: 1}))
    backend.flush()
    backend.close()
    target = max(folder.glob({"manifest": "MANIFEST-*", "current": "CURRENT"}.get(damage, "*.sst")), key=lambda path: path.stat().st_size)
    if damage == "missing sst":
        target.unlink()
    else:
        data = bytearray(target.read_bytes())
        for at in range(0, len(data), 7):
            data[at] ^= 0x5A
        target.write_bytes(bytes(data))

    def read_all() -> None:
        again = RocksBackend.open(folder, [ONE])
        try:
            list(again.scan(ONE))
        finally:
            again.close()

    with pytest.raises(FolderUnusable) as refused:
        read_all()
    assert refused.value.folder == folder


def test_a_write_that_the_disk_refuses_can_be_tried_again(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises((WriteFailed, FolderUnusable)) as refused:
        RocksBackend.open(blocked / "task", [ONE])
    assert refused.value.folder == blocked / "task"


def test_all_databases_of_a_process_share_one_budget(tmp_path: Path) -> None:
    memory = shared_memory()
    before = memory.usage()
    backends = [RocksBackend.open(tmp_path / str(n), [ONE]) for n in range(3)]
    for backend in backends:
        backend.apply(Batch({ONE: [(b"%06d" % n, bytes(1000)) for n in range(1000)]}, {ONE: 1}))
    written = memory.usage()
    for backend in backends:
        backend.flush()
        backend.get(ONE, b"000500")
    cached = memory.usage()

    assert written.write_buffers - before.write_buffers > 3 * MB
    assert cached.block_cache > before.block_cache
    assert cached.block_cache_budget == 64 * MB
    with pytest.raises(BadBudget, match="already runs"):
        shared_memory(MemoryBudget(block_cache=MB))
    for backend in backends:
        backend.close()


def test_a_budget_that_cannot_work_is_refused() -> None:
    with pytest.raises(BadBudget):
        MemoryBudget(block_cache=0)
    with pytest.raises(BadBudget):
        MemoryBudget(write_buffer=64 * MB)


def test_ten_thousand_abandoned_scans_leave_nothing_behind(tmp_path: Path) -> None:
    backend = RocksBackend.open(tmp_path / "task", [ONE])
    backend.apply(Batch({ONE: [(b"%06d" % n, bytes(100)) for n in range(1000)]}, {ONE: 1}))
    process = psutil.Process()

    def abandon(times: int) -> None:
        for n in range(times):
            scan = backend.scan(ONE, b"%06d" % (n % 1000), reverse=n % 2 == 0)
            next(scan)

    abandon(1000)
    gc.collect()
    files, size = process.num_fds(), process.memory_info().rss
    abandon(10_000)
    gc.collect()

    assert process.num_fds() <= files
    assert process.memory_info().rss - size < 10 * MB
    assert len(backend._scans) <= 1
    backend.close()


def test_a_hundred_openings_leave_nothing_behind(tmp_path: Path) -> None:
    process = psutil.Process()

    def cycle(times: int) -> None:
        for _ in range(times):
            backend = RocksBackend.open(tmp_path / "task", [ONE, TWO])
            backend.apply(Batch({ONE: [(b"a", b"1")]}, {ONE: 1}))
            held = backend.scan(ONE)
            backend.close()
            assert list(held) == []

    cycle(5)
    files, size = process.num_fds(), process.memory_info().rss
    cycle(100)

    assert process.num_fds() <= files
    assert process.memory_info().rss - size < 20 * MB


CRASH = """
import sys
from pathlib import Path
from streamlet.state.backend import Batch
from streamlet.state.rocksdb import RocksBackend
backend = RocksBackend.open(Path(sys.argv[1]), ["one", "two"])
commit = backend.offset("one") or 0
print("open", flush=True)
while True:
    commit += 1
    entries = [(b"%03d" % n, b"%d" % commit) for n in range(200)]
    gone = [(b"x%d" % (commit - 1), None), (b"x%d" % commit, b"")]
    backend.apply(Batch({"one": entries, "two": sorted(entries + gone)}, {"one": commit, "two": commit}, {"commit": b"%d" % commit}))
    if commit % 50 == 0:
        backend._families["one"].flush()
"""


def test_a_killed_process_leaves_some_commit_in_which_data_and_offset_agree(tmp_path: Path) -> None:
    commits: list[int] = []
    for kill in range(5):
        with subprocess.Popen([sys.executable, "-c", CRASH, str(tmp_path / "task")], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"open\n"
            wal = tmp_path / "task"
            size, deadline = folder_size(wal), time.monotonic() + 30
            while folder_size(wal) < size + (kill + 1) * 100_000:  # in the middle of writing
                assert time.monotonic() < deadline
            writer.send_signal(signal.SIGKILL)
        backend = RocksBackend.open(tmp_path / "task", [ONE, TWO])
        commit = backend.offset(ONE)
        assert commit is not None
        assert (backend.offset(TWO), backend.meta("commit")) == (commit, b"%d" % commit)
        assert {value for _, value in backend.scan(ONE)} == {b"%d" % commit}
        assert [key for key, _ in backend.scan(TWO, b"x")] == [b"x%d" % commit]
        assert len(list(backend.scan(TWO))) == 201
        commits.append(commit)
        backend.close()

    assert commits == sorted(set(commits)), "every start goes on where the last one was killed"


def folder_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.log"))


def test_a_copied_folder_opens_elsewhere(tmp_path: Path) -> None:
    backend = RocksBackend.open(tmp_path / "task", [ONE])
    backend.apply(Batch({ONE: [(b"a", b"1")]}, {ONE: 1}))
    backend.close()
    shutil.copytree(tmp_path / "task", tmp_path / "moved")

    moved = RocksBackend.open(tmp_path / "moved", [ONE])
    assert moved.get(ONE, b"a") == b"1"
    moved.close()
