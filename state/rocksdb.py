"""The local copy of a task's state on disk: one RocksDB, a column family per store, offsets in the default family.

Data and offsets go in one WriteBatch with the WAL on and no sync: a killed process loses nothing, and what it leaves is
the state of some commit. Every trap of rocksdict ends in this file; tests/state/test_rocksdb_traps.py shows each.
Invariant: families are always passed at opening, so the shared cache is used; no family is ever dropped.
Invariant: what an iterator points into (its bound, its options) lives as long as the iterator.
Invariant: after `close` nothing of the database is alive, so the folder can be opened again at once.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self, cast
from weakref import WeakSet

from rocksdict import (
    BlockBasedOptions,
    Cache,
    ColumnFamily,
    DBCompressionType,
    IngestExternalFileOptions,
    Options,
    Rdict,
    ReadOptions,
    SstFileWriter,
    WriteBatch,
    WriteBufferManager,
)

from streamlet.ids import StoreName
from streamlet.state.backend import Batch, Change, Columns, Scan
from streamlet.state.budget import MB, BadBudget, MemoryBudget, MemoryUsage
from streamlet.state.errors import FolderLocked, FolderUnusable, WriteFailed
from streamlet.state.values import VERSION

FORMAT: Final = 1
_FORMAT_KEY: Final = b"format"
_OFFSET: Final = b"offset/"
_META: Final = b"meta/"
_DEFAULT: Final = "default"
_NO_FAULT_OF_THE_COPY: Final = (
    "No space left",
    "File too large",
    "Disk quota exceeded",
    "Permission denied",
    "Too many open files",
    "Read-only file system",
)


class SharedMemory:
    """The block cache and the write buffers that all databases of this process share."""

    def __init__(self, budget: MemoryBudget) -> None:
        self.budget = budget
        self.cache = Cache(budget.block_cache)
        # never stalling: a stalled write would hold the GIL, and with it the whole process
        self.buffers = WriteBufferManager(budget.write_buffers, False)

    def usage(self) -> MemoryUsage:
        """Bytes in use now."""
        return MemoryUsage(
            block_cache=self.cache.get_usage(),
            block_cache_pinned=self.cache.get_pinned_usage(),
            block_cache_budget=self.budget.block_cache,
            write_buffers=self.buffers.get_usage(),
            write_buffers_budget=self.budget.write_buffers,
        )


_shared: list[SharedMemory] = []


def shared_memory(budget: MemoryBudget | None = None) -> SharedMemory:
    """The one of this process, made at the first call."""
    if not _shared:
        _shared.append(SharedMemory(budget or MemoryBudget()))
    if budget is not None and budget != _shared[0].budget:
        raise BadBudget(f"this process already runs with {_shared[0].budget}")
    return _shared[0]


class RocksBackend:
    """One task's folder. Its only user is the task's loop: nothing here may be called from two threads at once."""

    def __init__(self, folder: Path, database: Rdict, stores: Iterable[str]) -> None:
        self.folder = folder
        self._database = database
        self._default = database.get_column_family_handle(_DEFAULT)
        self._families: dict[str, Rdict] = {store: database.get_column_family(store) for store in stores}
        # a handle of another database would be accepted and write elsewhere: these never leave this object
        self._handles: dict[str, ColumnFamily] = {store: database.get_column_family_handle(store) for store in stores}
        self._scans: WeakSet[RocksScan] = WeakSet()
        self._closed = False
        self._memory: SharedMemory | None = None
        self._refuses = False  # a write failed: this database takes no other one
        self._stores = [StoreName(store) for store in self._families]

    @classmethod
    def open(cls, folder: Path, stores: Sequence[StoreName], memory: SharedMemory | None = None) -> Self:
        """Open a task's folder, or make it. Stores that the folder lacks are made; ones it has beyond `stores` are kept."""
        memory = memory or shared_memory()
        there = _existing_families(folder)
        families = sorted({*there, *stores} - {_DEFAULT})
        try:
            folder.mkdir(parents=True, exist_ok=True)
            database = Rdict(str(folder), _database_options(memory), {name: _family_options(memory) for name in families})
        except Exception as error:  # rocksdict raises bare Exception for everything
            raise _open_error(folder, error) from error
        backend = cls(folder, database, families)
        backend._memory = memory
        try:
            backend._check_format(fresh=not there)
            backend._drop_remains()
        except BaseException:
            backend.close()
            raise
        return backend

    def offset(self, store: StoreName) -> int | None:
        data = self._read_default(_OFFSET + store.encode())
        return None if data is None else int.from_bytes(self._unversioned(data), "big")

    def meta(self, name: str) -> bytes | None:
        data = self._read_default(_META + name.encode())
        return None if data is None else self._unversioned(data)

    def get(self, store: StoreName, key: bytes) -> bytes | None:
        try:
            return cast("bytes | None", self._families[store].get(key))
        except Exception as error:
            raise self._read_error(store, error) from error

    def get_many(self, store: StoreName, keys: list[bytes]) -> list[bytes | None]:
        if not keys:
            return []
        try:
            return cast("list[bytes | None]", self._families[store].get(cast("list[str | int | float | bytes | bool]", keys)))
        except Exception as error:
            raise self._read_error(store, error) from error

    def scan(self, store: StoreName, start: bytes = b"", stop: bytes | None = None, reverse: bool = False) -> Scan:
        try:
            scan = (
                RocksScan(self, store, self._families[store], start, stop)
                if not reverse
                else ReverseScan(self, store, self._families[store], start, stop)
            )
        except Exception as error:
            raise self._read_error(store, error) from error
        self._scans.add(scan)
        return scan

    def apply(self, batch: Batch) -> None:
        if self._refuses:
            self._open_again()
        unknown = {*batch.changes, *batch.offsets, *batch.ranges} - self._families.keys()
        assert not unknown, f"{self.folder} was opened without {sorted(unknown)}"
        writes = WriteBatch(raw_mode=True)
        for store, ranges in batch.ranges.items():
            for start, stop in ranges:
                writes.delete_range(start, stop, self._handles[store])
        for store, changes in batch.changes.items():
            writes.set_default_column_family(self._handles[store])  # spares an argument per entry
            put, delete = writes.put, writes.delete
            if isinstance(changes, Columns) and None not in changes.values:
                deque(map(put, changes.keys, changes.values), 0)
                continue
            for key, value in changes:
                if value is not None:
                    put(key, value)
                else:
                    delete(key)
        for store, offset in batch.offsets.items():
            writes.put(_OFFSET + store.encode(), VERSION + offset.to_bytes(8, "big"), self._default)
        for name, data in batch.meta.items():
            writes.put(_META + name.encode(), VERSION + data, self._default)
        self._write(writes)

    def ingest(self, store: StoreName, files: Sequence[Path], offset: int) -> None:
        family = self._families[store]
        options = IngestExternalFileOptions()
        options.set_move_files(True)
        try:
            family.flush()  # releases the GIL; the flush that ingest would force does not
            for file in files:  # one by one: later files overlap earlier ones and win
                family.ingest_external_file([str(file)], options)
            family.flush()
        except Exception as error:
            raise self._write_error(error) from error
        self.apply(Batch({}, {store: offset}))

    def clear(self, store: StoreName) -> None:
        writes = WriteBatch(raw_mode=True)
        writes.delete(_OFFSET + store.encode(), self._default)
        last = next(self.scan(store, reverse=True), None)
        if last is not None:
            writes.delete_range(b"", last[0] + b"\x00", self._handles[store])
        self._write(writes)

    def flush(self) -> None:
        """Write all memory to files: the data families first, the offsets last."""
        try:
            for family in self._families.values():
                family.flush()
            self._database.flush()
        except Exception as error:
            raise self._write_error(error) from error

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for scan in list(self._scans):
            scan.close()
        self._handles.clear()
        while self._families:
            _, family = self._families.popitem()
            with suppress(Exception):  # closing flushes, which a full disk refuses; the changelog has it all
                family.close()
            del family
        del self._default
        with suppress(Exception):
            self._database.close()

    def _check_format(self, *, fresh: bool) -> None:
        found = self._read_default(_FORMAT_KEY)
        if found is None and (fresh or self._is_empty()):  # killed between making the folder and this write
            writes = WriteBatch(raw_mode=True)
            writes.put(_FORMAT_KEY, b"%d" % FORMAT, self._default)
            self._write(writes)
        elif found is None:
            raise FolderUnusable(self.folder, "it is a RocksDB, but streamlet did not write it: it has no format number")
        elif found != b"%d" % FORMAT:
            raise FolderUnusable(self.folder, f"it has format {found.decode(errors='replace')}, and this version reads format {FORMAT}")

    def _is_empty(self) -> bool:
        return (
            all(next(self.scan(StoreName(store)), None) is None for store in self._families)
            and next(iter(self._database.keys()), None) is None
        )

    def _drop_remains(self) -> None:
        """Entries without an offset were ingested by a restore that did not end: nobody knows what they lack."""
        for store in list(self._families):
            name = StoreName(store)
            if self.offset(name) is None and next(self.scan(name), None) is not None:
                self.clear(name)

    def _read_default(self, key: bytes) -> bytes | None:
        try:
            return cast("bytes | None", self._database.get(key))
        except Exception as error:
            raise self._read_error(_DEFAULT, error) from error

    def _unversioned(self, data: bytes) -> bytes:
        if data[:1] != VERSION:
            raise FolderUnusable(self.folder, f"its bookkeeping begins with {data[:1]!r}, not with format version {VERSION[0]}")
        return data[1:]

    def _write(self, writes: WriteBatch) -> None:
        try:
            self._database.write(writes)
        except Exception as error:
            self._refuses = True
            raise self._write_error(error) from error

    def _open_again(self) -> None:
        """RocksDB refuses every write after a failed one, even when there is room again, until its folder is opened anew."""
        self.close()
        again = RocksBackend.open(self.folder, self._stores, self._memory)
        self._database, self._default, self._families = again._database, again._default, again._families
        self._handles, self._scans, self._closed, self._refuses = again._handles, again._scans, False, False

    def _write_error(self, error: Exception) -> WriteFailed:
        return WriteFailed(self.folder, str(error))

    def _read_error(self, store: str, error: Exception) -> Exception:
        if self._closed:
            return AssertionError(f"{self.folder} is closed")
        assert store in self._families or store == _DEFAULT, f"{self.folder} was opened without {store}"
        return FolderUnusable(self.folder, str(error))


class RocksScan:
    """Entries from `start` on, frozen when it is made. It ends itself when done, when dropped and when its backend closes."""

    __slots__ = ("__weakref__", "_backend", "_items", "_options", "_start", "_stop", "_store")

    def __init__(self, backend: RocksBackend, store: str, family: Rdict, start: bytes, stop: bytes | None) -> None:
        self._backend, self._store, self._start, self._stop = backend, store, start, stop
        self._options = ReadOptions()
        if stop is not None:
            self._options.set_iterate_upper_bound(stop)  # a raw pointer into `stop`, which must live as long as the iterator
        self._items: Iterator[tuple[bytes, bytes]] | None = self._begin(family)

    def _begin(self, family: Rdict) -> Iterator[tuple[bytes, bytes]]:
        return cast("Iterator[tuple[bytes, bytes]]", family.items(from_key=self._start, read_opt=self._options))

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return self

    def __next__(self) -> tuple[bytes, bytes]:
        if self._items is None:
            raise StopIteration
        try:
            return next(self._items)
        except StopIteration:
            self.close()
            raise
        except Exception as error:
            self.close()
            raise self._backend._read_error(self._store, error) from error

    def close(self) -> None:
        """Let go of the database."""
        self._items = None


class ReverseScan(RocksScan):
    """Entries from the last before `stop` back to `start`. A lower bound does not bind in rocksdict, so it stops by itself."""

    __slots__ = ()

    def _begin(self, family: Rdict) -> Iterator[tuple[bytes, bytes]]:
        return cast("Iterator[tuple[bytes, bytes]]", family.items(backwards=True, from_key=self._stop, read_opt=self._options))

    def __next__(self) -> tuple[bytes, bytes]:
        key, value = super().__next__()
        if key == self._stop:
            key, value = super().__next__()
        if key < self._start:
            self.close()
            raise StopIteration
        return key, value


def write_sst(file: Path, entries: Iterable[Change]) -> None:
    """Write entries, sorted and each key once, to a file that `ingest` takes. None deletes what an earlier file has."""
    writer = SstFileWriter(_sst_options())
    writer.open(str(file))
    for key, value in entries:
        if value is None:
            del writer[key]
        else:
            writer[key] = value
    writer.finish()


def _existing_families(folder: Path) -> list[str]:
    """Families of a database that is there; none if the folder is new."""
    if not folder.exists() or not any(folder.iterdir()):
        return []
    if not (folder / "CURRENT").exists():
        # a folder where only logs and the lock were made is one whose making was interrupted
        if all(
            path.name.startswith(("LOG", "LOCK", "IDENTITY", "MANIFEST", "OPTIONS")) or path.suffix in {".log", ".dbtmp", ".json"}
            for path in folder.iterdir()
        ):
            return []
        raise FolderUnusable(folder, "it holds files, but no RocksDB")
    try:
        return Rdict.list_cf(str(folder), Options(raw_mode=True))
    except Exception as error:
        raise _open_error(folder, error) from error


def _open_error(folder: Path, error: Exception) -> Exception:
    text = str(error)
    if "lock " in text.lower() and "LOCK" in text:
        return FolderLocked(folder)
    if any(reason in text for reason in _NO_FAULT_OF_THE_COPY):
        return WriteFailed(folder, text)
    return FolderUnusable(folder, text)


def _database_options(memory: SharedMemory) -> Options:
    options = _family_options(memory)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_write_buffer_manager(memory.buffers)
    options.set_max_total_wal_size(memory.budget.max_wal)
    options.set_max_open_files(64)
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(MB)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    options.set_paranoid_checks(True)
    return options


def _family_options(memory: SharedMemory) -> Options:
    options = _sst_options(memory.cache)
    options.set_write_buffer_size(memory.budget.write_buffer)
    options.set_max_write_buffer_number(2)
    options.set_arena_block_size(memory.budget.arena_block)
    return options


def _sst_options(cache: Cache | None = None) -> Options:
    table = BlockBasedOptions()
    table.set_bloom_filter(10, False)
    table.set_block_size(4096)
    if cache is not None:
        table.set_block_cache(cache)
        table.set_cache_index_and_filter_blocks(True)
        table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    options = Options(raw_mode=True)
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.lz4())
    return options
