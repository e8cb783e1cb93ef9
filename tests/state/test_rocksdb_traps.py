"""Each trap of rocksdict, sprung on the bare library where that is safe, and avoided by the backend.

The bare half keeps the reason visible: when a release heals a trap, its test fails here and the workaround may go.
"""

import gc
from pathlib import Path

import pytest
from rocksdict import Options, Rdict, ReadOptions, WriteBatch, WriteOptions

from streamlet.ids import StoreName
from streamlet.state.backend import Batch
from streamlet.state.rocksdb import RocksBackend, shared_memory

ONE, TWO = StoreName("one"), StoreName("two")
ENTRIES = [(b"%04d" % n, b"%d" % n) for n in range(200)]


@pytest.fixture
def backend(tmp_path: Path):
    backend = RocksBackend.open(tmp_path / "task", [ONE, TWO])
    backend.apply(Batch({ONE: ENTRIES}, {ONE: 1}))
    yield backend
    backend.close()


def cache_capacity(database: Rdict) -> int:
    return database.property_int_value("rocksdb.block-cache-capacity") or 0


def test_t1_the_shared_cache_is_used_after_reopening(tmp_path: Path) -> None:
    RocksBackend.open(tmp_path / "task", [ONE]).close()
    bare = Rdict(str(tmp_path / "task"))
    assert cache_capacity(bare.get_column_family("one")) == 8 << 20, "without column_families a private cache is made"
    bare.close()
    del bare

    backend = RocksBackend.open(tmp_path / "task", [ONE])
    assert cache_capacity(backend._families[ONE]) == shared_memory().budget.block_cache
    assert cache_capacity(backend._database) == shared_memory().budget.block_cache
    backend.close()


def test_t2_the_bound_of_a_scan_lives_as_long_as_the_scan(backend: RocksBackend) -> None:
    scans = [backend.scan(ONE, b"0000", b"".join([b"01", b"%02d" % (n % 100)])) for n in range(50)]
    gc.collect()
    noise = [b"%04d" % n * 3 for n in range(10_000)]  # reuses freed memory, if a bound's was freed

    for n, scan in enumerate(scans):
        assert len(list(scan)) == 100 + n % 100
    assert len(noise) == 10_000


def test_t3_a_reverse_scan_stops_at_its_start(backend: RocksBackend) -> None:
    options = ReadOptions()
    options.set_iterate_lower_bound(b"0190")
    bare = [key for key, _ in backend._families[ONE].items(backwards=True, read_opt=options)]
    assert (bare[0], bare[-1]) == (b"0189", b"0000"), "the lower bound acts as an upper one"

    assert [key for key, _ in backend.scan(ONE, b"0197", None, reverse=True)] == [b"0199", b"0198", b"0197"]
    assert [key for key, _ in backend.scan(ONE, b"0197", b"0199", reverse=True)] == [b"0198", b"0197"]


def test_t4_a_scan_does_not_show_later_writes(backend: RocksBackend) -> None:
    snapshot = backend._families[ONE].snapshot()
    scan = backend.scan(ONE)
    backend.apply(Batch({ONE: [(b"0000", b"later"), (b"9999", b"later")]}, {ONE: 2}))
    assert (b"9999", b"later") in list(snapshot.items()), "iterating a Snapshot shows later writes"
    del snapshot

    assert list(scan) == ENTRIES


def test_t5_clearing_a_store_never_blocks_later_writes(tmp_path: Path, backend: RocksBackend) -> None:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    bare = Rdict(str(tmp_path / "bare"), options, {})
    bare.create_column_family("gone", Options(raw_mode=True))
    handle = bare.get_column_family_handle("gone")
    bare.drop_column_family("gone")
    writes = WriteBatch(raw_mode=True)
    writes.put(b"a", b"1", handle)
    with pytest.raises(Exception, match="Invalid column family"):
        bare.write(writes)
    with pytest.raises(Exception, match="Invalid column family"):
        bare.put(b"a", b"1")
    with pytest.raises(Exception, match="Invalid column family"):
        bare.close()

    backend.clear(ONE)
    backend.apply(Batch({ONE: [(b"a", b"1")]}, {ONE: 1}))
    with pytest.raises(AssertionError, match="opened without"):
        backend.apply(Batch({StoreName("unknown"): [(b"a", b"1")]}, {}))
    backend.apply(Batch({ONE: [(b"b", b"1")]}, {ONE: 2}))
    assert [key for key, _ in backend.scan(ONE)] == [b"a", b"b"]


def test_t6_each_database_writes_by_its_own_handles(tmp_path: Path, backend: RocksBackend) -> None:
    other = RocksBackend.open(tmp_path / "other", [StoreName("x"), StoreName("y"), ONE])
    other.apply(Batch({ONE: [(b"a", b"other")]}, {ONE: 5}))
    backend.apply(Batch({TWO: [(b"a", b"here")]}, {TWO: 6}))

    assert [list(other.scan(StoreName(name))) for name in ("x", "y", "one")] == [[], [], [(b"a", b"other")]]
    assert list(backend.scan(TWO)) == [(b"a", b"here")]
    assert set(map(id, other._handles.values())).isdisjoint(map(id, backend._handles.values()))
    other.close()


def test_t7_close_frees_the_folder_even_with_scans_open(tmp_path: Path) -> None:
    bare = Rdict(str(tmp_path / "bare"), Options(raw_mode=True), {})
    bare.put(b"a", b"1")
    held = bare.items()
    bare.close()
    with pytest.raises(Exception, match=r"[Ll]ock"):
        Rdict(str(tmp_path / "bare"), Options(raw_mode=True), {})
    del held

    backend = RocksBackend.open(tmp_path / "task", [ONE, TWO])
    backend.apply(Batch({ONE: ENTRIES}, {ONE: 1}))
    scan = backend.scan(ONE)
    next(scan)
    backend.close()
    again = RocksBackend.open(tmp_path / "task", [ONE, TWO])
    assert list(scan) == []
    assert len(list(again.scan(ONE))) == 200
    again.close()


def test_t8_flush_covers_every_family_and_the_offsets(backend: RocksBackend) -> None:
    backend.apply(Batch({TWO: [(b"a", b"1")]}, {TWO: 1}))
    backend._database.flush()
    families = [backend._families[ONE], backend._families[TWO]]
    assert all((family.property_int_value("rocksdb.num-entries-active-mem-table") or 0) > 0 for family in families), "flush() covers one"

    backend.flush()
    for family in [*families, backend._database]:
        assert family.property_int_value("rocksdb.num-entries-active-mem-table") == 0


def test_the_wal_is_on_and_only_an_attribute_would_turn_it_off() -> None:
    options = WriteOptions()
    with pytest.raises(TypeError):
        options.disable_wal(True)
    assert options.disable_wal is False
