"""A contestant's process: started with a log of its own, ended by its pid, never left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

STOP_S = 20.0
LOG_TAIL = 2000


class Died(Exception):
    """A contestant ended before it was told to."""


@dataclass(frozen=True, slots=True)
class Running:
    """A started process."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    started: float

    def check(self) -> None:
        """Raise, with the end of its log, if the process is no longer there."""
        if self.process.poll() is not None:
            raise Died(f"{self.name} ended with {self.process.returncode}:\n{self.log.read_text(errors='replace')[-LOG_TAIL:]}")

    def cpu_s(self) -> float:
        """Processor time it has used so far, its children included while they live."""
        try:
            me = psutil.Process(self.process.pid)
            family = [me, *me.children(recursive=True)]
            return sum(sum(one.cpu_times()[:2]) for one in family)
        except psutil.NoSuchProcess:
            return 0.0


@contextmanager
def started(name: str, command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None) -> Generator[Running]:
    """Run a command until the block ends; then SIGTERM, and SIGKILL if it does not listen."""
    begun = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
        )
    try:
        yield Running(name, process, log, begun)
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End one process of ours."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_S)


class Bystanders:
    """How much of the machine programs that are not ours have used since this was made."""

    def __init__(self) -> None:
        self._busy_s, self._ours_s, self._at = _busy_s(), _ours_s(), time.monotonic()

    def share(self) -> float:
        """0 to 1 of all cores."""
        theirs_s = (_busy_s() - self._busy_s) - (_ours_s() - self._ours_s)
        return max(0.0, theirs_s / ((time.monotonic() - self._at) * (os.cpu_count() or 1)))


def _busy_s() -> float:
    times = psutil.cpu_times()
    return float(sum(times)) - float(times.idle) - float(getattr(times, "iowait", 0.0)) - float(getattr(times, "guest", 0.0))


def _ours_s() -> float:
    """Processor time of this process, of the children it has ended and of those that still run."""
    me = psutil.Process()
    total = float(sum(me.cpu_times()[:4]))
    for child in me.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            total += float(sum(child.cpu_times()[:4]))
    return total


def end_on_sigterm() -> None:
    """Let SIGTERM unwind this program, so that every block above ends its process."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
