"""The observer of a worker's loop: looks at its tasks twice a second and keeps the numbers where the endpoint finds them."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from streamlet.changelog.replay import Partition
from streamlet.errors import StreamletError
from streamlet.ids import Incarnation, TaskId
from streamlet.metrics.numbers import CommitTimes, Look, MemoryNumbers, RestoreNumbers, TaskNumbers
from streamlet.runtime.commit import Part
from streamlet.runtime.restoring import Restorer
from streamlet.runtime.task import Inlet, Task
from streamlet.state.budget import MemoryUsage

LOOK_EVERY_S: Final = 0.5
STUCK_S: Final = 60.0

KnownEnds = Callable[[Iterable[Partition]], Mapping[Partition, int]]


class Stage(StrEnum):
    """What the worker is about, as a whole."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting for brokers"
    STOPPING = "stopping"


class Meter:
    """Its only writer is the thread that runs the worker; others read its attributes, each a frozen value."""

    def __init__(self, app: str, memory: Callable[[], MemoryUsage], clock: Callable[[], float] = time.monotonic) -> None:
        self.app = app
        self.incarnation: Incarnation | None = None
        self.restarts = 0
        self.stage = Stage.STARTING
        self.turned_at = clock()
        self.look = Look(clock())
        self.commits = CommitTimes()
        self._memory, self._clock = memory, clock
        self._known_ends: KnownEnds = _nothing_known

    def starts(self, incarnation: Incarnation, known_ends: KnownEnds) -> None:
        """A new incarnation of the worker begins; `known_ends` asks its consumer, not the brokers."""
        self.restarts += self.incarnation is not None
        self.incarnation, self._known_ends = incarnation, known_ends
        self.turned_at = self._clock()

    def enters(self, stage: Stage) -> None:
        """The worker as a whole goes on to another stage."""
        self.stage, self.turned_at = stage, self._clock()

    def committed(self, parts: Sequence[Part], took_s: float) -> None:  # noqa: ARG002  # the observer's signature
        """After each commit."""
        self.commits = self.commits.and_one_of(took_s)

    def turned(self, tasks: Mapping[TaskId, Task], restorer: Restorer, stopped: Mapping[TaskId, StreamletError]) -> None:
        """After turns of the loop; looks closely only now and then."""
        now = self.turned_at = self._clock()
        if now - self.look.at < LOOK_EVERY_S and len(tasks) == len(self.look.tasks):
            return
        ends = self._known_ends(inlet.partition for task in tasks.values() for inlet in task.inlets.values())
        usage = self._memory()
        self.look = Look(
            at=now,
            tasks=tuple(numbers_of(task, ends) for task in tasks.values()),
            restoring=tuple(RestoreNumbers(str(task), state.records, state.left, state.running_s) for task, state in restorer.progress()),
            stopped={str(task): str(reason) for task, reason in stopped.items()},
            memory=MemoryNumbers(usage.block_cache, usage.block_cache_budget, usage.write_buffers, usage.write_buffers_budget),
        )

    # Read by other threads

    @property
    def silent_s(self) -> float:
        """How long the loop has not turned."""
        return self._clock() - self.turned_at

    @property
    def is_alive(self) -> bool:
        """Whether the loop turned lately; waiting for brokers is no illness that a restart would heal."""
        return self.stage is Stage.WAITING or self.silent_s < STUCK_S

    @property
    def is_ready(self) -> bool:
        """Whether every task runs."""
        look = self.look
        running = all(task.phase == "running" for task in look.tasks)
        return self.stage is Stage.RUNNING and bool(look.tasks) and running and not look.restoring and not look.stopped


def numbers_of(task: Task, ends: Mapping[Partition, int]) -> TaskNumbers:
    """What is worth showing of a task."""
    counts, cache = task.counts, task.state.counters()
    return TaskNumbers(
        task=str(task.id),
        phase=task.phase.name.lower(),
        term=task.term,
        positions={topic: inlet.position for topic, inlet in task.inlets.items()},
        ends={topic: end for topic, inlet in task.inlets.items() if (end := _end_of(inlet, ends)) is not None},
        processed=counts.processed,
        skipped=counts.skipped,
        dead_letters=counts.dead_letters,
        nulls=counts.nulls,
        cache_hits=cache.hits,
        cache_misses=cache.misses,
        cache_entries=cache.entries,
        pending_bytes=cache.pending_bytes,
        failure=None if task.failure is None else str(task.failure),
    )


def input_lag(task: Task, ends: Mapping[Partition, int]) -> int:
    """Input records behind the end, markers included."""
    found = [(inlet, _end_of(inlet, ends)) for inlet in task.inlets.values()]
    return sum(max(0, end - inlet.position) for inlet, end in found if end is not None)


def _end_of(inlet: Inlet, ends: Mapping[Partition, int]) -> int | None:
    """Where an input ends; transaction markers behind the last record are no work left."""
    return inlet.position if inlet.at_end and not inlet.waiting else ends.get(inlet.partition)


def _nothing_known(_partitions: Iterable[Partition]) -> Mapping[Partition, int]:
    return {}
