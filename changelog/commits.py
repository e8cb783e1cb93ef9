"""Commit records: which input positions and changelog positions of a task belong together.

They stand on `<app>-commits`, written inside the worker's transaction and partitioned like the task. A cut, the
base of every analytical read, is made of them.
"""

from typing import Final

import msgspec

from streamlet.errors import StateError
from streamlet.ids import StoreName, TaskId

FORMAT: Final = 1


class CommitRecord(msgspec.Struct, frozen=True):
    """The positions of one task at one commit. All offsets are the next ones."""

    task: str
    at_ms: int  # wall clock of the commit
    source: dict[str, int]  # topic → next offset of the task's partition
    changelog: dict[StoreName, int]  # store → next offset of its changelog partition
    repartition: dict[str, dict[int, int]]  # topic → partition → next offset after this task's last record there


class UnreadableCommitRecord(StateError):
    """A commit record of an unknown format."""

    def __init__(self, found: int) -> None:
        super().__init__(found)
        self.found = found

    def __str__(self) -> str:
        return f"A commit record has format {self.found}; this streamlet reads format {FORMAT}. Upgrade streamlet to the version that wrote it."


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(CommitRecord)


def commit_key(task: TaskId) -> bytes:
    """Key under which the task's newest commit record stands."""
    return str(task).encode()


def encode_commit(record: CommitRecord) -> bytes:
    """Format byte and msgpack."""
    return bytes((FORMAT,)) + _encoder.encode(record)


def decode_commit(value: bytes) -> CommitRecord:
    """Read what `encode_commit` wrote."""
    if not value or value[0] != FORMAT:
        raise UnreadableCommitRecord(value[0] if value else 0)
    return _decoder.decode(memoryview(value)[1:])
