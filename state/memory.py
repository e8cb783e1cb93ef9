"""The backend's twin in memory, for tests and the TestDriver: same promises, no disk.

Ingest files are read in the dump format of `write_dump`, since SST files need RocksDB.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from streamlet.ids import StoreName
from streamlet.state.backend import Batch, Change, Scan, checked_batch


class MemoryBackend:
    """Twin of RocksBackend; both pass tests/state/backend_contract.py."""

    def __init__(self) -> None:
        self._data: dict[StoreName, dict[bytes, bytes]] = {}
        self._order: dict[StoreName, list[bytes]] = {}  # the keys of `_data`, sorted
        self._offsets: dict[StoreName, int] = {}
        self._meta: dict[str, bytes] = {}

    def offset(self, store: StoreName) -> int | None:
        return self._offsets.get(store)

    def meta(self, name: str) -> bytes | None:
        return self._meta.get(name)

    def get(self, store: StoreName, key: bytes) -> bytes | None:
        return self._data.get(store, {}).get(key)

    def get_many(self, store: StoreName, keys: list[bytes]) -> list[bytes | None]:
        return [*map(self._data.get(store, {}).get, keys)]

    def scan(self, store: StoreName, start: bytes = b"", stop: bytes | None = None, reverse: bool = False) -> Scan:
        order, data = self._order.get(store, []), self._data.get(store, {})
        keys = order[bisect_left(order, start) : len(order) if stop is None else bisect_left(order, stop)]
        if reverse:
            keys.reverse()
        return MemoryScan([(key, data[key]) for key in keys])

    def apply(self, batch: Batch) -> None:
        checked_batch(batch)
        for store, ranges in batch.ranges.items():
            for start, stop in ranges:
                self._put(store, [(key, None) for key, _ in self.scan(store, start, stop)])
        for store, changes in batch.changes.items():
            self._put(store, changes)
        self._offsets.update(batch.offsets)
        self._meta.update(batch.meta)

    def _put(self, store: StoreName, changes: Sequence[Change]) -> None:
        data, order = self._data.setdefault(store, {}), self._order.setdefault(store, [])
        if len(changes) > 64:
            for key, value in changes:
                if value is None:
                    data.pop(key, None)
                else:
                    data[key] = value
            order[:] = sorted(data)
            return
        for key, value in changes:
            if value is not None:
                if key not in data:
                    insort(order, key)
                data[key] = value
            elif data.pop(key, None) is not None:
                del order[bisect_left(order, key)]

    def ingest(self, store: StoreName, files: Sequence[Path], offset: int) -> None:
        for file in files:
            self._put(store, sorted(dict(read_dump(file)).items()))
        self._offsets[store] = offset

    def clear(self, store: StoreName) -> None:
        self._data.pop(store, None)
        self._order.pop(store, None)
        self._offsets.pop(store, None)

    def close(self) -> None:
        """Nothing is held open: a scan has its own copy."""


class MemoryScan:
    """A copy of a range."""

    def __init__(self, entries: list[tuple[bytes, bytes]]) -> None:
        self._rest = iter(entries)

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return self

    def __next__(self) -> tuple[bytes, bytes]:
        return next(self._rest)

    def close(self) -> None:
        self._rest = iter(())


def write_dump(file: Path, entries: Sequence[Change]) -> None:
    """Write what `MemoryBackend.ingest` reads."""
    file.write_bytes(msgspec.msgpack.encode(entries))


def read_dump(file: Path) -> list[Change]:
    """Read what `write_dump` wrote."""
    return msgspec.msgpack.decode(file.read_bytes(), type=list[Change])
