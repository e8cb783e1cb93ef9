"""Finding processes that a test left behind, also those that detached themselves.

Every process of a test run inherits a mark in its environment, which survives a change of parent; being a child
does not.
"""

import os
import secrets
from collections.abc import Iterable

import psutil

MARK = "STREAMLET_TEST_RUN"


def mark_this_run() -> None:
    """Put the mark into this process's environment, for all that it starts."""
    os.environ[MARK] = f"{os.getpid()}-{secrets.token_hex(4)}"


def pids_now() -> frozenset[int]:
    """Every process of the machine, to be compared later."""
    return frozenset(psutil.pids())


def marked_since(before: frozenset[int], spared: Iterable[int] = ()) -> list[psutil.Process]:
    """Living processes of this run that are not in `before` and not `spared`."""
    return [process for pid in psutil.pids() if pid not in before and pid not in spared and (process := _ours(pid)) is not None]


def _ours(pid: int) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        ours = process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == os.environ[MARK]
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return None
    return process if ours else None
