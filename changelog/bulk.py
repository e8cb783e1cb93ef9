"""Replaying a large changelog into an empty store: a child process reads it and writes sorted files.

The files are taken in by the worker in one short call, so its running tasks keep their processor and their GIL.
Run as `python -m streamlet.changelog.bulk`: the job comes on standard input as JSON, progress goes to standard
output, one JSON object a line, the last one naming the files.
"""

import gc
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from streamlet.changelog.kafka import ClientConfig, ReplayConsumer
from streamlet.changelog.replay import ChangelogGap, Partition, Replay
from streamlet.errors import StateError
from streamlet.state.rocksdb import write_sst

CHUNK_KEYS: Final = 300_000  # live keys held in memory at a time: about 80 MB
_READ: Final = 2000
_PROGRESS_RECORDS: Final = 50_000


@dataclass(frozen=True, slots=True)
class BulkJob:
    """One changelog partition from one offset to at least the target."""

    topic: str
    partition: int
    offset: int
    target: int
    chunk_keys: int = CHUNK_KEYS


class Word(msgspec.Struct, frozen=True):
    """What the child says: how far it is, and in its last word where it ended and with which files."""

    records: int = 0
    at: int = 0  # next offset to read
    files: tuple[str, ...] = ()
    offset: int | None = None


class Request(msgspec.Struct, frozen=True):
    """What the child is asked to do."""

    job: BulkJob
    client: dict[str, str | int | float | bool]
    group: str
    folder: str
    parent: int  # process id of the worker: a child that outlives it has nobody to work for


class BulkFailed(StateError):
    """The child process ended without its files."""

    def __init__(self, topic: str, partition: int, code: int, said: str) -> None:
        super().__init__(topic, partition, code, said)
        self.topic, self.partition, self.code, self.said = topic, partition, code, said

    def __str__(self) -> str:
        return (
            f"Restoring {self.topic}/{self.partition} failed in its child process (exit code {self.code}): {self.said or 'it said nothing'}. "
            "Nothing was written; the changelog is replayed by the worker itself, which is slower."
        )


class BulkRestore:
    """A running child. Poll it; when it is done, `files` and `offset` say what to take in."""

    def __init__(self, job: BulkJob, client: ClientConfig, group: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._job = job
        self._folder = Path(tempfile.mkdtemp(prefix="bulk-", dir=folder))
        self._errors = (self._folder / "stderr").open("w+b")
        self._progress = (self._folder / "progress").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "streamlet.changelog.bulk"], stdin=subprocess.PIPE, stdout=self._progress, stderr=self._errors
        )
        request = Request(job, dict(client), group, str(self._folder), os.getpid())
        assert self._process.stdin is not None, "the pipe was asked for"
        self._process.stdin.write(msgspec.json.encode(request))
        self._process.stdin.close()
        self.pid = self._process.pid
        self.records, self.at = 0, job.offset
        self.files: list[Path] = []
        self.offset = job.offset

    def poll(self) -> bool:
        """True when the files are there; raises when the child failed."""
        code = self._process.poll()
        lines = (self._folder / "progress").read_bytes().split(b"\n")[:-1]  # the rest behind the last newline is half a line
        last = msgspec.json.decode(lines[-1], type=Word) if lines else Word()
        self.records, self.at = last.records, max(self.at, last.at)
        if code is None:
            return False
        if code != 0 or last.offset is None:
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace").strip().splitlines()
            raise BulkFailed(self._job.topic, self._job.partition, code, said[-1] if said else "")
        self.files, self.offset = [Path(name) for name in last.files], last.offset
        return True

    def close(self) -> None:
        """End the child if it runs, and take its folder away."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._errors.close()
        self._progress.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def main() -> None:
    """The child: read the changelog to its target, last value per key, and write sorted files."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    job, folder = request.job, Path(request.folder)
    partition = Partition(job.topic, job.partition)
    replay = Replay(partition, job.offset, job.target)
    consumer = ReplayConsumer(request.client, request.group)
    consumer.add(partition, job.offset)
    gc.freeze()  # the loop below makes millions of objects and no cycles
    gc.disable()
    newest: dict[bytes, bytes | None] = {}
    files: list[str] = []
    records, told = 0, 0
    while not replay.done:
        if os.getppid() != request.parent:
            raise SystemExit("the worker is gone")
        for read in consumer.read(min(_READ, job.chunk_keys), 0.02):
            if read.out_of_range:
                raise ChangelogGap(partition, replay.offset)
            replay.feed(read)
            newest.update(read.records)
            records += len(read.records)
        if len(newest) >= job.chunk_keys:
            files.append(_write_sorted(folder / f"{len(files):06}.sst", newest, keep_deletions=bool(files)))
            newest.clear()
        if records - told >= _PROGRESS_RECORDS:
            told = records
            _say(Word(records, replay.offset))
    if newest:
        files.append(_write_sorted(folder / f"{len(files):06}.sst", newest, keep_deletions=bool(files)))
    consumer.close()
    _say(Word(records, replay.offset, tuple(name for name in files if name), replay.offset))


def _write_sorted(path: Path, newest: dict[bytes, bytes | None], *, keep_deletions: bool) -> str:
    """One file of the chunk's keys in order; a deletion matters only where an earlier file may hold the key."""
    keys = sorted(newest if keep_deletions else (key for key, value in newest.items() if value is not None))
    if not keys:
        return ""
    write_sst(path, ((key, newest[key]) for key in keys))
    return str(path)


def _say(word: Word) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(word) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
