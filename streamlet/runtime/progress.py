"""How fast a restore goes and how long it still takes, said now and then and shown by whoever can: a bar or log lines."""

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

log = logging.getLogger("streamlet.restore")

_RATE_OVER_S: Final = 10.0
_LOG_EVERY_S: Final = 3.0


class Restoring(Protocol):
    """What is watched: production's is in restoring.py."""

    @property
    def busy(self) -> bool: ...
    @property
    def records(self) -> int: ...
    @property
    def left(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Pace:
    """A restore at one moment. Offsets are not records: markers and cleaned records have offsets too."""

    records: int  # replayed so far
    done: int  # offsets
    left: int  # offsets
    rate_per_s: float  # offsets

    @property
    def seconds_left(self) -> float | None:
        """How long it still takes at this rate, if there is one."""
        return self.left / self.rate_per_s if self.rate_per_s > 0 else None


class RestoreView(Protocol):
    """Shows a restore to people. The first `show` comes `every_s` after the start, so a short restore is not shown at all."""

    every_s: float

    def show(self, pace: Pace) -> None: ...
    def hide(self) -> None: ...


class LoggedRestore:
    """A log line every few seconds."""

    every_s = _LOG_EVERY_S

    def show(self, pace: Pace) -> None:
        """One line."""
        seconds = pace.seconds_left
        facts = {"records": pace.records, "left": pace.left, "rate_per_s": round(pace.rate_per_s)}
        log.info("restoring", extra=facts if seconds is None else facts | {"seconds_left": round(seconds)})

    def hide(self) -> None:
        """Lines stay; each task's own line says when it is complete."""


class RestoreWatch:
    """Looks at a restore after each of its slices. Its only writer is the worker's loop."""

    def __init__(self, view: RestoreView, clock: Callable[[], float] = time.monotonic) -> None:
        self._view, self._clock = view, clock
        self._next_at: float | None = None  # None while nothing is restored
        self._most_left = 0
        self._seen: deque[tuple[float, int]] = deque()

    def look(self, restoring: Restoring) -> None:
        """Show how far it is, if that is due; take the display away when it is over."""
        if not restoring.busy:
            self.end()
            return
        now = self._clock()
        if self._next_at is None:
            self._next_at = now + self._view.every_s
            self._seen.append((now, restoring.left))
            self._most_left = restoring.left
        elif now >= self._next_at:
            self._next_at = now + self._view.every_s
            self._view.show(self._pace(now, restoring.records, restoring.left))

    def end(self) -> None:
        """The restore is over, or was given up."""
        if self._next_at is not None:
            self._next_at = None
            self._seen.clear()
            self._view.hide()

    def _pace(self, now: float, records: int, left: int) -> Pace:
        """The rate is that of the last seconds: a restore has fast and slow stretches."""
        self._most_left = max(self._most_left, left)
        while len(self._seen) > 1 and now - self._seen[1][0] >= _RATE_OVER_S:
            self._seen.popleft()
        then, left_then = self._seen[0]
        self._seen.append((now, left))
        return Pace(records, self._most_left - left, left, max(0, left_then - left) / (now - then))
