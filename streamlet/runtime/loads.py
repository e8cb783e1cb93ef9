"""How much of the time each task takes: what the planner balances."""

import math
import time
from collections.abc import Callable
from typing import Final

from streamlet.ids import TaskId

_OVER_S: Final = 10.0  # what was long ago counts less


class Loads:
    """Its only writer is the worker's loop; two additions per task and turn."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looked_at = clock()
        self._worked_s: dict[TaskId, float] = {}
        self._share: dict[TaskId, float] = {}

    def worked(self, task: TaskId, seconds: float) -> None:
        """A task has worked so long."""
        self._worked_s[task] = self._worked_s.get(task, 0.0) + seconds

    def forget(self, task: TaskId) -> None:
        """A task works elsewhere now."""
        self._worked_s.pop(task, None)
        self._share.pop(task, None)

    def shares(self) -> dict[TaskId, float]:
        """Seconds of work per second of every task, over about the last ten."""
        now = self._clock()
        passed = max(now - self._looked_at, 1e-6)
        kept = math.exp(-passed / _OVER_S)
        for task in self._worked_s.keys() | self._share.keys():
            self._share[task] = self._share.get(task, 0.0) * kept + self._worked_s.get(task, 0.0) / passed * (1 - kept)
        self._looked_at = now
        self._worked_s.clear()
        return dict(self._share)
