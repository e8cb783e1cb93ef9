"""Waiting for a condition instead of sleeping: every wait of the tests has a deadline and says what it waited for."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class NeverHappened(AssertionError):
    """The condition did not hold within its time."""

    def __init__(self, what: str, within_s: float, last: object) -> None:
        super().__init__(what, within_s, last)
        self.what, self.within_s, self.last = what, within_s, last

    def __str__(self) -> str:
        return f"waited {self.within_s:g} s for {self.what}; the last answer was {self.last!r}"


def eventually(condition: Callable[[], T], within_s: float, what: str | None = None) -> T:
    """Call `condition` until its answer is true, and return that answer; fail when the time is over."""
    deadline = time.monotonic() + within_s
    pause_s = 0.002
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            raise NeverHappened(what or getattr(condition, "__name__", repr(condition)), within_s, answer)
        time.sleep(min(pause_s, max(deadline - time.monotonic(), 0)))
        pause_s = min(pause_s * 1.5, 0.1)
