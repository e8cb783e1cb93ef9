"""Signals that stop a worker: the first asks for the last commit, the second ends the process at once.

Python runs signal handlers only between two steps of the main thread, and that thread may sit in a client call for
seconds. So a thread of its own hears of each signal through a pipe that the interpreter writes to immediately.
"""

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass
from types import FrameType
from typing import Final

log = logging.getLogger("streamlet.run")

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
HURRY_S: Final = 5.0  # how long brokers that do not answer are waited for once a stop is asked


@dataclass(slots=True)
class StopRequest:
    """Set by a signal; looked at between batches."""

    requested: bool = False
    asked_at: float = 0.0

    def ask(self) -> None:
        """Stop when it is safe."""
        self.requested, self.asked_at = True, time.monotonic()

    @property
    def is_overdue(self) -> bool:
        """Whether the stop was asked so long ago that brokers which do not answer are not waited for any more."""
        return self.requested and time.monotonic() - self.asked_at > HURRY_S


@contextlib.contextmanager
def stopped_by_signals(stop: StopRequest) -> Generator[None]:
    """Inside the block SIGINT and SIGTERM ask for a stop; only the main thread may enter it."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    listener = threading.Thread(target=_listen, args=(reading, stop), name="streamlet-signals", daemon=True)
    listener.start()
    before = {number: signal.signal(number, _heard) for number in SIGNALS}
    woken_before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(woken_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(writing)  # the listener reads the end
        listener.join(1.0)
        os.close(reading)


def _heard(_number: int, _frame: FrameType | None) -> None:
    """Installed so that the signal does not end the process; the listener acts on it."""


def _listen(reading: int, stop: StopRequest) -> None:
    while byte := os.read(reading, 1):
        if byte[0] not in SIGNALS:
            continue
        if stop.requested:
            os.write(2, b"stopped at once; what was not committed is processed again at the next start\n")
            os._exit(128 + byte[0])
        stop.ask()
        log.info("stopping after the last commit; once more stops at once")
