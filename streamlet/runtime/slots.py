"""A worker's seat on this machine: a numbered state folder that one process holds at a time."""

import contextlib
import fcntl
import os
import secrets
import socket
import uuid
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from streamlet.errors import ConfigError
from streamlet.ids import Incarnation, Slot

_MOST_SLOTS: Final = 1000
_LOCK: Final = ".lock"


class NoStateFolder(ConfigError):
    """The state folder cannot be made or written."""

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__(folder, why)
        self.folder, self.why = folder, why

    def __str__(self) -> str:
        return (
            f"The state folder {self.folder} cannot be used: {self.why}. Choose another with --state-dir, or mend its owner, mode or disk."
        )


@dataclass(frozen=True, slots=True)
class Seat:
    """A held slot: nobody else uses its folder until it is closed or the process ends."""

    slot: Slot
    host: str
    folder: Path
    lock: TextIOWrapper

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.lock.close()

    def new_incarnation(self, app: str) -> Incarnation:
        """A transactional id never used before."""
        return Incarnation(f"{app}-{self.slot}-{secrets.token_hex(4)}")


def take_seat(state_dir: Path, app: str) -> Seat:
    """Hold the first free slot of this app on this machine."""
    host = socket.gethostname().split(".")[0]
    for number in range(_MOST_SLOTS):
        folder = state_dir / app / str(number)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = (folder / _LOCK).open("a+", encoding="utf-8")
        except OSError as error:
            raise NoStateFolder(folder, error.strerror or str(error)) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            continue
        lock.seek(0)
        lock.truncate()
        lock.write(f"{os.getpid()}\n")  # for people who wonder who holds it
        lock.flush()
        return Seat(Slot(f"{host}/{number}"), host, folder, lock)
    raise NoStateFolder(state_dir / app, f"all {_MOST_SLOTS} slots are held by running workers")


def place_of(state_dir: Path, app: str) -> str:
    """Which folder on which machine: hosts may share a name, and machines a path."""
    folder = state_dir / app
    folder.mkdir(parents=True, exist_ok=True)
    found = folder.stat()
    return f"{uuid.getnode():x}:{found.st_dev}:{found.st_ino}"


def held_seats(state_dir: Path, app: str) -> list[tuple[Path, str]]:
    """The slots of this app that processes on this machine hold: their folders, and the process ids as they wrote them."""
    held: list[tuple[Path, str]] = []
    for path in sorted((state_dir / app).glob(f"*/{_LOCK}")):
        with contextlib.suppress(FileNotFoundError), path.open("r", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                held.append((path.parent, lock.read().strip()))
    return held
