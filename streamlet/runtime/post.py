"""A worker's standing with the others: what it says of itself, and when it may go.

Words go to `<app>-members` by a plain producer: in a transaction they would be hidden by others' transactions.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from streamlet.ids import Incarnation, Slot, TaskId
from streamlet.rebalance.members import CopyWord, MemberWord, TaskWord, WorkerWord
from streamlet.runtime.task import Task
from streamlet.runtime.worker import Worker

_SAY_EVERY_S: Final = 0.5
_RATE_OVER_S: Final = 1.0


class Voice(Protocol):
    """Says words: production's is in rebalance/kafka.py."""

    def say(self, word: MemberWord) -> None: ...


class WorkerPost:
    """Its only user is the worker's loop."""

    def __init__(
        self,
        voice: Voice,
        incarnation: Incarnation,
        slot: Slot,
        supervisor: str,
        offers: Mapping[str, int],
        *,
        needs: Callable[[bytes | None], bytes | None],
        known_lags: Callable[[Task], int],
        may_go: Callable[[Worker], bool],
    ) -> None:
        """`needs` says which manifest must be published, given the stored one, before this code can work."""
        self._voice, self._needs, self._known_lags, self._may_go = voice, needs, known_lags, may_go
        self._incarnation, self._slot, self._supervisor, self._offers = incarnation, slot, supervisor, dict(offers)
        self._manifest: bytes | None = None
        self._replaces: bytes | None = None
        self._said_at = float("-inf")
        self._said: tuple[object, ...] = ()
        self._processed: dict[TaskId, tuple[float, int, float]] = {}

    def renew(self, manifest: bytes | None) -> None:
        """The stored manifest is this one now."""
        if self._replaces != manifest or self._said_at < 0:
            self._manifest, self._replaces = self._needs(manifest), manifest

    def may_go(self, worker: Worker) -> bool:
        """Whether a worker that was asked to stop has nothing left to hand over."""
        return self._may_go(worker)

    def say(self, worker: Worker, now: float) -> None:
        """Say how it is: twice a second, at once when tasks came or went or a copy caught up, and more often until the plan knows us."""
        lags = worker.holdings.lags()
        shape = (
            tuple((task.id, task.term, task.phase) for task in worker.tasks.values()),
            tuple((task, lag < 5000) for task, lag in lags.items()),
            tuple(worker.lost),
        )
        if shape == self._said and now - self._said_at < (_SAY_EVERY_S if worker.listed else 0.1):
            return
        self._said, self._said_at = shape, now
        tasks = {str(task.id): self._task(task, now) for task in worker.tasks.values()}
        tasks |= {str(task): TaskWord("stopped", 0, failure=str(reason)) for task, reason in worker.lost.items()}
        self._voice.say(
            WorkerWord(
                incarnation=self._incarnation,
                slot=self._slot,
                supervisor=self._supervisor,
                offers=self._offers,
                manifest=self._manifest,
                replaces=self._replaces,
                tasks=tasks,
                copies={str(task): CopyWord(lag) for task, lag in lags.items()},
                kept=tuple(map(str, worker.holdings.kept())),
                load={str(task): round(share, 4) for task, share in worker.loads.shares().items()},
            )
        )

    def _task(self, task: Task, now: float) -> TaskWord:
        at, before, rate = self._processed.get(task.id, (now, task.counts.processed, 0.0))
        if now - at >= _RATE_OVER_S:
            rate = (task.counts.processed - before) / (now - at)
            at, before = now, task.counts.processed
        self._processed[task.id] = (at, before, rate)
        return TaskWord(
            phase=task.phase.name.lower(),
            term=task.term,
            lag=self._known_lags(task),
            rate=round(rate, 1),
            failure=str(task.failure) if task.failure is not None else "",
        )
