"""One operating-system process: started, recognised again, signalled, waited for.

Invariant: a process is known by its pid *and* its start time, so that a reused pid is never taken for ours.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import psutil

_POLL_S: Final = 0.02
_PR_SET_PDEATHSIG: Final = 1


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A pid with the start time of its process."""

    pid: int
    started: float


def identify(pid: int) -> ProcessId:
    """The identity of a running process."""
    return ProcessId(pid, psutil.Process(pid).create_time())


def is_alive(process: ProcessId) -> bool:
    """True while this very process runs, or is still dying: a zombie with other threads left holds files and ports."""
    try:
        found = psutil.Process(process.pid)
        if abs(found.create_time() - process.started) >= 0.05:
            return False
        return found.status() != psutil.STATUS_ZOMBIE or found.num_threads() > 1
    except psutil.NoSuchProcess:
        return False


def resident_bytes(process: ProcessId) -> int:
    """Memory that the process holds."""
    try:
        return int(psutil.Process(process.pid).memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def send(process: ProcessId, number: signal.Signals) -> None:
    """Send a signal, unless the process is gone."""
    if is_alive(process):
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return
    _reap(process.pid)


def wait_until_gone(processes: Sequence[ProcessId], deadline: float) -> list[ProcessId]:
    """Wait until `deadline` (monotonic seconds); those that still run are returned."""
    while True:
        left = [process for process in processes if is_alive(process)]
        for process in processes:
            _reap(process.pid)  # after the question: one that has just become a zombie counts as gone
        if not left or time.monotonic() >= deadline:
            return left
        time.sleep(_POLL_S)


def _reap(pid: int) -> None:
    """Take the exit status of a child of ours, so that it does not stay a zombie."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def spawn(
    command: Sequence[str | Path], *, output: Path, folder: Path, die_with_parent: bool, environment: Mapping[str, str] | None = None
) -> ProcessId:
    """Start a process in a session of its own, its output in a file.

    With `die_with_parent` the kernel kills it when this process ends, however that happens (Linux only).
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    bound = _bind_to_parent() if die_with_parent else None

    def start() -> ProcessId:
        with output.open("ab") as sink:
            child = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=environment,
                start_new_session=True,
                preexec_fn=bound,  # noqa: PLW1509 - it makes one system call and takes no lock
            )
        child.returncode = 0  # we reap by pid; Popen need not warn that it still runs
        return identify(child.pid)

    return _spawner(os.getpid()).submit(start).result()


@cache
def _spawner(_pid: int) -> ThreadPoolExecutor:
    """The one thread that starts processes: the kernel's "dies with its parent" means the *thread* that forked."""
    return ThreadPoolExecutor(1, thread_name_prefix="spawn")


def _bind_to_parent() -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def bind() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)

    return bind
