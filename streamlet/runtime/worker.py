"""The worker: one incarnation, its tasks, its consumer and its one transactional producer, in one loop.

A turn of the loop: replay a slice for tasks that are not ready, take what has come, let every task work until the
commit's deadline, commit when the input is drained or the interval is over, let local writes follow.
"""

import contextlib
import gc
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from streamlet.changelog.replay import Partition
from streamlet.errors import HandlerError, StreamletError
from streamlet.ids import TaskId
from streamlet.rebalance.records import OwnKind, WishKind
from streamlet.rebalance.view import View
from streamlet.runtime.bounds import CommitBounds
from streamlet.runtime.commit import CommitTopics, Outlet, Part, commit
from streamlet.runtime.kafka import (
    Fetched,
    InputConsumer,
    OutputRefused,
    ProducerLost,
    TransactionAborted,
    TransactionalProducer,
    has_fetched_events,
    is_end,
    is_out_of_range,
    split_fetched,
)
from streamlet.runtime.partitioner import Partitioner
from streamlet.runtime.restoring import Restorer
from streamlet.runtime.stopping import StopRequest
from streamlet.runtime.task import GoBack, Phase, Task
from streamlet.state.errors import WriteFailed

log = logging.getLogger("streamlet.worker")

_TAKE: Final = 2000  # records per call: more falls out of the processor's cache
_MOST_WAITING: Final = 10_000  # fetched records of one partition; more stay with the broker
_IDLE_S: Final = 0.02
_FLOWS: Final = 500  # records at once: input comes in a stream, not in drops
_GAP_S: Final = 0.005  # how long such a stream may pause before the input counts as drained
_CONTROL_EVERY_S: Final = 0.05
_RECORD_EVERY_S: Final = 5.0
_RECORD_WHEN_IDLE_S: Final = 0.25
_RECOMMIT_EVERY_S: Final = 6 * 3600.0  # offsets of idle partitions expire otherwise
_PURGE_EVERY_S: Final = 30.0  # repartition topics never expire: what is committed is deleted
_LAST_COMMIT_S: Final = 5.0

Clock = Callable[[], float]


class Control(Protocol):
    """The control topic as the worker follows it."""

    @property
    def view(self) -> View: ...
    def follow(self, timeout_s: float) -> bool: ...


class Observer(Protocol):
    """Told what happens, for metrics. Called per batch and per commit, never per record."""

    def committed(self, parts: Sequence[Part], took_s: float) -> None: ...
    def turned(self, tasks: Mapping[TaskId, Task], restorer: Restorer, stopped: Mapping[TaskId, StreamletError]) -> None: ...


class OffsetLost(StreamletError):
    """A task's committed position is not in its source topic any more, or is not known any more."""

    exit_code = 2

    def __init__(self, task: TaskId, partition: Partition, offset: int | None, oldest: int, newest: int) -> None:
        super().__init__(task, partition, offset, oldest, newest)
        self.task, self.partition, self.offset, self.oldest, self.newest = task, partition, offset, oldest, newest
        self.topic = partition.topic

    def __str__(self) -> str:
        had = "has no committed offset although it ran before" if self.offset is None else f"had to go on at offset {self.offset}"
        return (
            f"Task {self.task} stopped: {self.partition} {had}, and the topic now holds {self.oldest} to {self.newest}. "
            "Records were deleted before they were processed, or offsets expired. Choose: `streamlet reset` starts the app over, or set the "
            f"group's offset for {self.partition} with Kafka's own tools (earliest = {self.oldest}, latest = {self.newest}) and start again."
        )


class Worker:
    """The only writer of its tasks. `run` returns when it was asked to stop, and raises when it cannot go on."""

    def __init__(
        self,
        *,
        open_task: Callable[[TaskId], Task | OffsetLost],
        consumer: InputConsumer,
        producer: TransactionalProducer,
        outlet: Outlet,
        purge: Callable[[Mapping[Partition, int]], None],
        control: Control,
        restorer: Restorer,
        topics: CommitTopics,
        partitioner: Partitioner,
        bounds: CommitBounds,
        stop: StopRequest,
        observer: Observer,
        ends: Callable[[Partition], tuple[int, int]],
        clock: Clock = time.monotonic,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self._tasks: dict[TaskId, Task] = {}
        self._outlet, self._purge, self._purged_at = outlet, purge, clock()
        self._open_task, self._consumer, self._producer, self._control, self._restorer = open_task, consumer, producer, control, restorer
        self._topics, self._partitioner, self._bounds, self._stop, self._observer = topics, partitioner, bounds, stop, observer
        self._ends, self._clock, self._now_ms = ends, clock, now_ms
        self._lost: dict[TaskId, StreamletError] = {}  # tasks that could not even start
        self._by_partition: dict[Partition, Task] = {}
        self._one_topic = False
        self._work_since: float | None = None
        self._flows = False
        self._idle_since = clock()
        self._control_at = 0.0
        self._recommitted_at = clock()
        self._answered: list[bytes] = []

    def run(self) -> None:
        """Work until asked to stop; then the last commit lets every task go."""
        relax_garbage_collection()
        while not self._stop.requested:
            self._turn()
        self._release()

    def _turn(self) -> None:
        if self._restorer.busy:
            self._restore()
        took = self._route(self._take())
        self._run_tasks()
        now = self._clock()
        if self._commit_due(now, drained=not took):
            self._commit(now)
        self._write_local()
        if now - self._control_at >= _CONTROL_EVERY_S:
            self._control_at = now
            self._follow_control()
            self._observer.turned(self._tasks, self._restorer, self._lost)
        if now - self._purged_at >= _PURGE_EVERY_S:
            self._purged_at = now
            self._purge({p: o for task in self._tasks.values() if task.phase is Phase.RUNNING for p, o in task.consumed_internal().items()})

    # Input

    def _take(self) -> list[Fetched]:
        """What has come; waits a moment only where there is nothing else to do."""
        if any(task.ready for task in self._tasks.values()):
            return []  # what was fetched comes first
        self._consumer.hold(self._overfull())
        messages = self._consumer.take(_TAKE, 0)
        if messages:
            self._flows = len(messages) >= _FLOWS
        elif self._work_since is not None and self._flows:
            messages = self._consumer.take(_TAKE, _GAP_S)  # the client is about to bring more: a commit now would be a small one
            self._flows = bool(messages)
        elif self._work_since is None and not self._restorer.busy:
            messages = self._consumer.take(1, _IDLE_S)
            if messages:
                messages += self._consumer.take(_TAKE - 1, 0)
        return messages

    def _overfull(self) -> set[Partition]:
        """Partitions whose task cannot take their records now: it waits for another input, or for something a record needs."""
        inlets = [inlet for task in self._tasks.values() for inlet in task.inlets.values()]
        return {inlet.partition for inlet in inlets if len(inlet.waiting) >= _MOST_WAITING}

    def _route(self, messages: list[Fetched]) -> int:
        """Give records to their tasks, in the runs they came in; how many there were."""
        if not messages:
            return 0
        if has_fetched_events(messages):
            for message in [message for message in messages if message.error() is not None]:
                self._event(message)
            messages = [message for message in messages if message.error() is None]
        for partition, run in split_fetched(messages, one_topic=self._one_topic):
            task = self._by_partition.get(partition)
            if task is not None and task.phase is Phase.RUNNING:
                task.offer(partition.topic, run)
        return len(messages)

    def _event(self, message: Fetched) -> None:
        """The client's word about a partition."""
        error, topic, number = message.error(), message.topic(), message.partition()
        assert error is not None, "only events come here"
        task = self._by_partition.get(Partition(topic, number)) if topic is not None and number is not None else None
        if task is None or topic is None:
            return
        if is_end(error):
            task.inlets[topic].at_end = True
        elif is_out_of_range(error):
            inlet = task.inlets[topic]
            oldest, newest = self._ends(inlet.partition)
            self._park(task, OffsetLost(task.id, inlet.partition, inlet.position, oldest, newest))

    # Work

    def _run_tasks(self) -> None:
        now = self._clock()
        for task in self._tasks.values():
            if task.phase is not Phase.RUNNING or not task.ready:
                continue
            if self._work_since is None:
                self._work_since = now
            failure = task.run(self._work_since + self._bounds.interval_s)
            self._heed(task, failure)

    def _heed(self, task: Task, failure: StreamletError | None) -> None:
        if isinstance(failure, GoBack):
            self._consumer.remove(task.positions)
            self._consumer.add(task.positions)
        elif failure is not None:
            self._park(task, failure)

    def _park(self, task: Task, failure: StreamletError) -> None:
        """Stop one task at its record; the others go on. When none is left, the worker ends with the reason."""
        task.failure = failure
        task.enter(Phase.PARKED)
        self._consumer.remove(inlet.partition for inlet in task.inlets.values())
        task.drop_waiting()
        self._say_stopped(task.id, failure)

    def _say_stopped(self, task: TaskId, failure: StreamletError) -> None:
        way_on = f"streamlet resume {self._topics.app} {task} [--skip]"
        log.error("task stopped", extra={"task": str(task), "reason": str(failure), "way_on": way_on}, exc_info=failure.__cause__)
        self._follow_control()  # a wish to go on behind this record may stand there since before the start
        if not self._restorer.busy and all(other.phase is Phase.PARKED for other in self._tasks.values()):
            self._release()
            raise failure

    # Commit

    def _commit_due(self, now: float, *, drained: bool) -> bool:
        if self._answered or any(task.phase is Phase.RESTORED for task in self._tasks.values()):
            return True
        if self._work_since is None:
            idle = now - self._idle_since >= _RECORD_WHEN_IDLE_S and any(task.unrecorded for task in self._tasks.values())
            return idle or now - self._recommitted_at >= _RECOMMIT_EVERY_S
        if drained and not any(task.ready or task.filling(now) for task in self._tasks.values()):
            return True
        return self._bounds.commit_due(now - self._work_since, sum(task.buffered_bytes for task in self._tasks.values()))

    def _commit(self, now: float) -> None:
        """All tasks with work, in one transaction; those that are restored claim their task in it."""
        for task in self._tasks.values():
            if task.phase is Phase.RUNNING:
                self._heed(task, task.flush())
        everything = now - self._recommitted_at >= _RECOMMIT_EVERY_S
        idle = self._work_since is None
        claiming = [task for task in self._tasks.values() if task.phase is Phase.RESTORED]
        working = [
            task
            for task in self._tasks.values()
            if task.phase in (Phase.RUNNING, Phase.PARKED) and (task.has_work or everything or (idle and task.unrecorded))
        ]
        parts = [task.part(OwnKind.CLAIM, record=True) for task in claiming]
        parts += [task.part(None, record=idle or now - task.recorded_at >= _RECORD_EVERY_S) for task in working]
        if not self._commit_parts([*claiming, *working], parts, now):
            return
        for task in claiming:
            task.enter(Phase.RUNNING)
            self._consumer.add(task.positions)
        if everything:
            self._recommitted_at = now

    def _commit_parts(self, tasks: Sequence[Task], parts: Sequence[Part], now: float) -> bool:
        """One transaction; if it was aborted, everything since the last one is done again."""
        began, now_ms = self._clock(), self._now_ms()
        try:
            commit(
                self._producer,
                self._outlet,
                parts,
                self._topics,
                self._partitioner,
                incarnation=self._producer.incarnation,
                group_metadata=self._consumer.group_metadata(),
                answered=self._answered,
                now_ms=now_ms,
            )
        except TransactionAborted as aborted:
            log.warning("transaction aborted; its input is processed again", extra={"reason": aborted.why})
            self._go_back()
            return False
        except OutputRefused as refused:
            log.warning("output refused; its input is processed again", extra={"reason": refused.why})
            self._producer.abort()
            self._go_back()
            return False
        for task, part in zip(tasks, parts, strict=True):
            task.committed(part, now_ms)
            if part.record:
                task.recorded, task.recorded_at = dict(part.positions), now
        self._answered = []
        self._work_since, self._idle_since = None, now
        took_s = self._clock() - began
        self._observer.committed(parts, took_s)
        log.debug("committed", extra={"tasks": len(parts), "took_ms": round(took_s * 1000, 1)})
        return True

    def _go_back(self) -> None:
        """To the last commit, with every task that runs."""
        for task in self._tasks.values():
            if task.phase in (Phase.RUNNING, Phase.PARKED):
                task.aborted()
            if task.phase is Phase.RUNNING:
                self._consumer.remove(task.positions)
                self._consumer.add(task.positions)
        self._work_since = None

    def _release(self) -> None:
        """The last commit: every task is let go at exactly these positions. It is not worth a long wait: nothing is lost without it."""
        self._producer.patience_s = _LAST_COMMIT_S
        for task in self._tasks.values():
            if task.phase is Phase.RUNNING:
                task.flush()  # if that fails, the task is let go at its last commit
        tasks = [task for task in self._tasks.values() if task.phase in (Phase.RUNNING, Phase.PARKED)]
        if tasks:
            parts = [task.part(OwnKind.RELEASE, record=True) for task in tasks]
            self._commit_parts(tasks, parts, self._clock())
        for task in tasks:
            with contextlib.suppress(WriteFailed):  # the changelog has it all; the next start replays the rest
                task.state.write_local()

    # The rest

    def _restore(self) -> None:
        lost: dict[TaskId, StreamletError] = {}
        for restored in self._restorer.drain(0.0 if self._work_since is not None else 0.005):
            opened = self._open_task(restored.task)
            if isinstance(opened, OffsetLost):
                lost[restored.task] = opened
                continue
            self._tasks[restored.task] = opened
            self._by_partition.update({inlet.partition: opened for inlet in opened.inlets.values()})
            self._one_topic = len({partition.topic for partition in self._by_partition}) == 1
            facts = {"task": str(restored.task), "term": opened.term, "records": restored.records, "took_s": round(restored.took_s, 3)}
            log.info("task restored", extra=facts)
        lost |= self._restorer.take_failures()
        self._lost |= lost
        for task, reason in lost.items():  # when all tasks are known: the last one that stops ends the worker
            self._say_stopped(task, reason)

    def _write_local(self) -> None:
        """Let the local copies follow, as far behind as the bounds allow."""
        for task in self._tasks.values():
            since = None if isinstance(task.failure, WriteFailed) else task.state.pending_since_ms
            if since is not None and self._bounds.write_due(self._now_ms() - since, task.state.pending_bytes):
                try:
                    task.state.write_local()
                except WriteFailed as failure:
                    if task.phase is Phase.RUNNING:
                        self._park(task, failure)

    def _follow_control(self) -> None:
        self._control.follow(0)
        plan = self._control.view.plan
        if plan is not None and self._producer.incarnation not in plan.members:
            raise ProducerLost(self._producer.incarnation, f"a later plan names {', '.join(plan.members)}")
        for subject, wish in list(self._control.view.wishes.items()):
            task = self._tasks.get(TaskId.parse(subject))
            if self._waits(TaskId.parse(subject), task, wish.kind):
                continue
            del self._control.view.wishes[subject]
            self._answered.append(f"wish/{subject}".encode())
            if task is not None and task.phase is Phase.PARKED:
                self._resume(task, wish.kind)
            elif self._restorer.again(TaskId.parse(subject)):
                del self._lost[TaskId.parse(subject)]
                log.info("restore goes on", extra={"task": subject})

    def _waits(self, subject: TaskId, task: Task | None, kind: WishKind) -> bool:
        """Whether it is too early to answer: a skip may stand there since before the start, for the record the task stopped at then."""
        if kind is not WishKind.SKIP:
            return False
        if task is None:
            return self._restorer.busy and subject not in self._lost
        return task.phase is Phase.RESTORED or (task.phase is Phase.RUNNING and not task.moved and not task.drained)

    def _resume(self, task: Task, kind: WishKind) -> None:
        skipped = kind is WishKind.SKIP and isinstance(task.failure, HandlerError)
        task.resume(skip=skipped)
        self._consumer.add(task.positions)
        log.info("task resumed", extra={"task": str(task.id), "record": "skipped" if skipped else "tried again"})


def relax_garbage_collection() -> None:
    """Search for cycles seldom: a commit holds tens of thousands of tuples, and each search would walk them all.

    What nobody refers to is freed at once in any case; only user code's cycles wait longer.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 50)
