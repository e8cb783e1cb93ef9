"""The worker: one incarnation, its tasks, its consumer and its one transactional producer, in one loop.

A turn of the loop: heed the plan, replay a slice for copies that follow, take what has come, let every task work until
the commit's deadline, commit when the input is drained or the interval is over, let local writes follow.
"""

import contextlib
import gc
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from streamlet.changelog.replay import Partition
from streamlet.errors import HandlerError, StreamletError
from streamlet.ids import TaskId
from streamlet.rebalance.handover import NOTHING, Duties, duties
from streamlet.rebalance.records import OwnKind, Plan, Wish, WishKind, wish_key
from streamlet.rebalance.view import View
from streamlet.runtime.bounds import CommitBounds
from streamlet.runtime.commit import CommitTopics, Outlet, Part, commit
from streamlet.runtime.holdings import Holdings, Ready
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
from streamlet.runtime.loads import Loads
from streamlet.runtime.offset_lost import OffsetLost
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
_CONTROL_EVERY_S: Final = 0.005  # a look that finds nothing costs microseconds
_LOOK_EVERY_S: Final = 0.05
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


class Post(Protocol):
    """How a worker stands with the others: it says how it is, and learns when it may go."""

    def say(self, worker: "Worker", now: float) -> None: ...
    def may_go(self, worker: "Worker") -> bool: ...
    def renew(self, manifest: bytes | None) -> None: ...


class Observer(Protocol):
    """Told what happens, for metrics. Called per batch and per commit, never per record."""

    def committed(self, parts: Sequence[Part], took_s: float) -> None: ...
    def turned(self, tasks: Mapping[TaskId, Task], restorer: Restorer, stopped: Mapping[TaskId, StreamletError]) -> None: ...


class Worker:
    """The only writer of its tasks. `run` returns when it was asked to stop, and raises when it cannot go on."""

    def __init__(
        self,
        *,
        open_task: Callable[[Ready], Task],
        holdings: Holdings,
        post: Post,
        consumer: InputConsumer,
        producer: TransactionalProducer,
        outlet: Outlet,
        purge: Callable[[Mapping[Partition, int]], None],
        control: Control,
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
        self._open_task, self._holdings, self._post = open_task, holdings, post
        self._consumer, self._producer, self._control = consumer, producer, control
        self._topics, self._partitioner, self._bounds, self._stop, self._observer = topics, partitioner, bounds, stop, observer
        self._ends, self._clock, self._now_ms = ends, clock, now_ms
        self._lost: dict[TaskId, StreamletError] = {}  # tasks that could not even start
        self._by_partition: dict[Partition, Task] = {}
        self._one_topic = False
        self._work_since: float | None = None
        self._flows = False
        self._idle_since = clock()
        self._control_at = self._looked_at = 0.0
        self._duties: Duties = NOTHING
        self._plan: Plan | None = None  # the newest that named us
        self._heeded = False  # whether the plan was looked at since the start
        self.loads = Loads()
        self._recommitted_at = clock()
        self._answered: list[bytes] = []

    def run(self) -> None:
        """Work until asked to stop; then the last commit lets every task go."""
        relax_garbage_collection()
        while not (self._stop.requested and self._post.may_go(self)):
            self._turn()
        self._release()

    @property
    def tasks(self) -> Mapping[TaskId, Task]:
        """What it owns."""
        return self._tasks

    @property
    def listed(self) -> bool:
        """Whether a plan has named it."""
        return self._plan is not None

    @property
    def holdings(self) -> Holdings:
        """What it follows."""
        return self._holdings

    @property
    def lost(self) -> Mapping[TaskId, StreamletError]:
        """Tasks that could not start, and why."""
        return self._lost

    def _turn(self) -> None:
        if self._holdings.active:
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
        if now - self._looked_at >= _LOOK_EVERY_S:
            self._looked_at = now
            self._observer.turned(self._tasks, self._holdings.restorer, self._lost)
            self._post.say(self, now)
        if now - self._purged_at >= _PURGE_EVERY_S:
            self._purged_at = now
            self._purge({p: o for task in self._tasks.values() if task.phase is Phase.RUNNING for p, o in task.consumed_internal().items()})

    # Input

    def _take(self) -> list[Fetched]:
        """What has come; waits a moment only where there is nothing else to do."""
        if any(task.ready and task.id not in self._duties.paused for task in self._tasks.values()):
            return []  # what was fetched comes first
        self._consumer.hold(self._overfull())
        messages = self._consumer.take(_TAKE, 0)
        if messages:
            self._flows = len(messages) >= _FLOWS
        elif self._work_since is not None and self._flows:
            messages = self._consumer.take(_TAKE, _GAP_S)  # the client is about to bring more: a commit now would be a small one
            self._flows = bool(messages)
        elif self._work_since is None and not self._holdings.starting:
            messages = self._consumer.take(1, _IDLE_S)
            if messages:
                messages += self._consumer.take(_TAKE - 1, 0)
        return messages

    def _overfull(self) -> set[Partition]:
        """Partitions whose task cannot take their records now: it waits for another input, or for something a record needs."""
        paused = self._duties.paused
        inlets = [(task.id, inlet) for task in self._tasks.values() for inlet in task.inlets.values()]
        return {inlet.partition for task, inlet in inlets if len(inlet.waiting) >= _MOST_WAITING or task in paused}

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
            if task.phase is not Phase.RUNNING or not task.ready or task.id in self._duties.paused:
                continue
            if self._work_since is None:
                self._work_since = now
            began = self._clock()
            failure = task.run(self._work_since + self._bounds.interval_s)
            self.loads.worked(task.id, self._clock() - began)
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
        alone = self._plan is not None and len(self._plan.members) == 1
        if alone and not self._holdings.starting and all(other.phase is Phase.PARKED for other in self._tasks.values()):
            self._release()
            raise failure

    # Commit

    def _commit_due(self, now: float, *, drained: bool) -> bool:
        if self._answered or self._duties.release or any(task.phase is Phase.RESTORED for task in self._tasks.values()):
            return True
        if self._work_since is None:
            idle = now - self._idle_since >= _RECORD_WHEN_IDLE_S and any(task.unrecorded for task in self._tasks.values())
            return idle or now - self._recommitted_at >= _RECOMMIT_EVERY_S
        waiting = [task for task in self._tasks.values() if task.id not in self._duties.paused]
        if drained and not any(task.ready or task.filling(now) for task in waiting):
            return True
        return self._bounds.commit_due(now - self._work_since, sum(task.buffered_bytes for task in self._tasks.values()))

    def _commit(self, now: float) -> None:
        """All tasks with work, in one transaction; those that are restored claim their task in it, those named elsewhere let it go."""
        for task in self._tasks.values():
            if task.phase is Phase.RUNNING:
                self._heed(task, task.flush())
        everything = now - self._recommitted_at >= _RECOMMIT_EVERY_S
        idle = self._work_since is None
        claiming = [task for task in self._tasks.values() if task.phase is Phase.RESTORED]
        held = [task for task in self._tasks.values() if task.phase in (Phase.RUNNING, Phase.PARKED)]
        leaving = [task for task in held if task.id in self._duties.release]
        working = [task for task in held if task not in leaving and (task.has_work or everything or (idle and task.unrecorded))]
        parts = [task.part(OwnKind.CLAIM, record=True) for task in claiming]
        parts += [task.part(OwnKind.RELEASE, record=True) for task in leaving]
        parts += [task.part(None, record=idle or now - task.recorded_at >= _RECORD_EVERY_S) for task in working]
        if not self._commit_parts([*claiming, *leaving, *working], parts, now):
            return
        for task in leaving:
            self._let_go(task)
        if leaving:
            self._heed_plan()
        for task in claiming:
            task.enter(Phase.RUNNING)
            self._consumer.add(task.positions)
        if everything:
            self._recommitted_at = now

    def _let_go(self, task: Task) -> None:
        """It was released, or never claimed: nothing of it is done here any more but to follow its changelogs, where that is wanted."""
        self._consumer.remove(inlet.partition for inlet in task.inlets.values())
        if task.phase is not Phase.RESTORED:
            log.info("task released", extra={"task": str(task.id), "term": task.term})
            task.drop_waiting()
            with contextlib.suppress(WriteFailed):  # the changelog has it all
                task.state.write_local()
        task.enter(Phase.CLOSED)
        del self._tasks[task.id]
        for inlet in task.inlets.values():
            del self._by_partition[inlet.partition]
        self.loads.forget(task.id)
        self._holdings.take_back(task)

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
        """A slice for the copies; a task whose copy is complete may claim in the next commit."""
        running = bool(self._tasks)
        failed: dict[TaskId, StreamletError] = {}
        for ready in self._holdings.turn(0.0 if running else 0.005, beside_running=running):
            if ready.failure is not None:
                failed[ready.task] = ready.failure
                continue
            self._lost.pop(ready.task, None)
            self._tasks[ready.task] = opened = self._open_task(ready)
            self._by_partition.update({inlet.partition: opened for inlet in opened.inlets.values()})
            self._one_topic = len({partition.topic for partition in self._by_partition}) == 1
            facts = {"task": str(ready.task), "term": opened.term, "records": ready.records, "took_s": round(ready.took_s, 3)}
            log.info("task restored", extra=facts)
        self._lost |= failed
        for task, reason in failed.items():  # when all tasks are known: the last one that stops ends the worker
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
        """Heed what has changed on the control topic."""
        if self._control.follow(0) or not self._heeded:
            self._heed_plan()
            self._post.renew(self._control.view.manifest)
        for key, wish in list(self._control.view.wishes.items()):
            if wish.kind in (WishKind.RESUME, WishKind.SKIP) and wish.subject and self._answers(wish):
                del self._control.view.wishes[key]

    def _heed_plan(self) -> None:
        view = self._control.view
        plan, me = view.plan, self._producer.incarnation
        if plan is not None and me in plan.members:
            self._plan = plan
        elif plan is not None and self._plan is not None and plan.version > self._plan.version:
            raise ProducerLost(me, f"plan {plan.version} no longer names it")
        held = {task.id: task.term for task in self._tasks.values() if task.phase is not Phase.RESTORED}
        wanted = duties(plan, view.own, me, held)
        for task in [task for task in self._tasks.values() if task.phase is Phase.RESTORED]:
            start = wanted.start.get(task.id)
            if start is None or start.term != task.term:
                self._let_go(task)  # named elsewhere before it had claimed
            else:
                wanted = replace(wanted, start={other: start for other, start in wanted.start.items() if other != task.id})
        if wanted.release != self._duties.release and wanted.release:
            log.info("letting tasks go", extra={"tasks": ", ".join(sorted(map(str, wanted.release))), "plan": plan.version if plan else 0})
        self._duties = wanted
        self._holdings.heed(wanted, view.own)
        self._heeded = True

    def _answers(self, wish: Wish) -> bool:
        """Take up a wish about a parked task of ours; False while it is too early, or where it is not ours."""
        subject = TaskId.parse(wish.subject)
        task = self._tasks.get(subject)
        if (task is None and subject not in self._lost) or self._waits(task, wish.kind):
            return False
        if self._plan is not None and wish.subject in self._plan.paused:
            return False  # the leader's
        self._answered.append(wish_key(wish))
        if task is not None and task.phase is Phase.PARKED:
            self._resume(task, wish.kind)
        elif subject in self._lost:
            del self._lost[subject]
            self._holdings.again(subject)
            self._heed_plan()
            log.info("task tried again", extra={"task": str(subject)})
        return True

    def _waits(self, task: Task | None, kind: WishKind) -> bool:
        """Whether it is too early to answer: a skip may stand there since before the start, for the record the task stopped at then."""
        if kind is not WishKind.SKIP or task is None:
            return False
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
