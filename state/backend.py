"""The seam below a task's state: bytes of all its stores, written only in whole batches.

A batch carries changes and changelog offsets together, so a copy whose offset and data disagree cannot be expressed.
Two implementations stand behind it, memory and RocksDB; tests/state/backend_contract.py holds them to the same promises.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Protocol, overload

from streamlet.ids import StoreName

Change = tuple[bytes, bytes | None]  # (key, value); None deletes


@dataclass(frozen=True, slots=True)
class Columns(Sequence[Change]):
    """Changes as two lists, sorted by key: what is written in one call per list costs half of what a loop over pairs does."""

    keys: list[bytes]
    values: list[bytes | None]

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Change]:
        return zip(self.keys, self.values, strict=True)

    @overload
    def __getitem__(self, index: int) -> Change: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Change]: ...
    def __getitem__(self, index: int | slice) -> Change | Sequence[Change]:
        if isinstance(index, slice):
            return Columns(self.keys[index], self.values[index])
        return self.keys[index], self.values[index]


@dataclass(frozen=True, slots=True)
class Batch:
    """What one local write applies, all or nothing."""

    changes: Mapping[StoreName, Sequence[Change]]  # sorted by key, each key once
    offsets: Mapping[StoreName, int]  # where each store's restore goes on
    meta: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    ranges: Mapping[StoreName, Sequence[tuple[bytes, bytes]]] = field(
        default_factory=dict[StoreName, Sequence[tuple[bytes, bytes]]]
    )  # [start, stop) to delete, before the changes


class Scan(Protocol):
    """Entries in key order, as they were when the scan was made. Dropping or closing it frees what it holds."""

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]: ...
    def __next__(self) -> tuple[bytes, bytes]: ...
    def close(self) -> None: ...


class Backend(Protocol):
    """The bytes of all stores of one task. Its only writer is the task's owner."""

    def offset(self, store: StoreName) -> int | None: ...  # None: nothing was ever written
    def meta(self, name: str) -> bytes | None: ...
    def get(self, store: StoreName, key: bytes) -> bytes | None: ...
    def get_many(self, store: StoreName, keys: list[bytes]) -> list[bytes | None]: ...  # in the order of `keys`
    def scan(self, store: StoreName, start: bytes = b"", stop: bytes | None = None, reverse: bool = False) -> Scan: ...  # [start, stop)
    def apply(self, batch: Batch) -> None: ...  # changes, offsets and meta together, or nothing
    def ingest(self, store: StoreName, files: Sequence[Path], offset: int) -> None: ...  # oldest file first; offset when all is durable
    def clear(self, store: StoreName) -> None: ...  # all entries and the offset
    def close(self) -> None: ...  # also ends every scan still open


def checked_batch(batch: Batch) -> Batch:
    """Our own bugs stop here, before they reach a disk."""
    for store, changes in batch.changes.items():
        assert all(a[0] < b[0] for a, b in pairwise(changes)), f"changes of {store} are sorted, each key once"
    return batch
