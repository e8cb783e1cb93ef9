"""The worker's twin without a broker: production's tasks and production's commit, over logs and stores in memory.

What differs from the real worker: it never waits, its clock stands still unless moved, and a failure that parks a task
is also kept for whoever drives it.
"""

from collections.abc import Mapping
from typing import Final

from streamlet.changelog.replay import Partition, Replay
from streamlet.errors import StateError, StreamletError
from streamlet.ids import Incarnation, StoreName, TaskId, Term
from streamlet.internal_topics import changelog_name
from streamlet.partitioning import internal_partitions, tasks
from streamlet.rebalance.records import OwnKind
from streamlet.runtime.commit import CommitTopics, Part, commit
from streamlet.runtime.partitioner import Partitioner
from streamlet.runtime.task import GoBack, Phase, Task
from streamlet.state.backend import Batch
from streamlet.state.memory import MemoryBackend
from streamlet.state.task_state import Mutation, TaskState
from streamlet.testing.broker import MemoryBroker, MemoryTransaction
from streamlet.topology import Topology

_LOCAL_LAG_MS: Final = 1000
_MOST_ROUNDS: Final = 10_000  # of running and committing: an app that feeds itself never comes to rest


class UnsetMutation(StateError):
    """A handler changed a value that it got from state and did not `set` it: the change is lost."""

    def __init__(self, task: TaskId, mutation: Mutation) -> None:
        super().__init__(task, mutation)
        self.task, self.store, self.key = task, mutation.store, mutation.key

    def __str__(self) -> str:
        return (
            f"A handler of task {self.task} changed a value of store '{self.store}' (key {self.key!r}) in place and did not set it. "
            "What get() gives is a copy, so the change is lost: call set(value) after changing it."
        )


class NeverQuiet(StreamletError):
    """The app's own output keeps it busy for ever."""

    def __init__(self, rounds: int) -> None:
        super().__init__(rounds)
        self.rounds = rounds

    def __str__(self) -> str:
        return f"After {self.rounds} commits the app still has work: it feeds its own sources. Break the circle, or end it by a condition."


class Clock:
    """Wall clock and monotonic clock of a test, moved by hand. Its only writer is the driver."""

    def __init__(self, start_ms: int) -> None:
        self.now_ms = start_ms

    def monotonic_s(self) -> float:
        """Seconds, as the task's loop measures its deadlines."""
        return self.now_ms / 1000

    def pause(self, seconds: float) -> None:
        """What the back-off between retries does instead of sleeping."""
        self.now_ms += round(seconds * 1000)


class MemoryWorker:
    """All tasks of one app. `run` and `commit` return the failures that parked a task on the way."""

    def __init__(
        self,
        topology: Topology,
        sizes: Mapping[str, int],
        broker: MemoryBroker,
        clock: Clock,
        *,
        interval_ms: int,
        resources: Mapping[str, object],
    ) -> None:
        counts = internal_partitions(topology, sizes)
        self._topology, self._broker, self._clock, self._interval_s = topology, broker, clock, interval_ms / 1000
        self._resources = resources
        self._topics = CommitTopics(topology.app, counts[f"{topology.app}-commits"])
        self._partitioner = Partitioner(counts)
        self._transaction = MemoryTransaction(broker)
        self._fetched: dict[Partition, int] = {}
        self._work_since: float | None = None
        self._failures: list[StreamletError] = []
        self.tasks = {task: self._open(task) for task in tasks(topology, sizes)}
        self._commit_once(OwnKind.CLAIM)
        for task in self.tasks.values():
            task.enter(Phase.RUNNING)

    def _open(self, task: TaskId) -> Task:
        """A task with its state replayed from the changelogs, at its committed position."""
        sub = self._topology.sub(task.name)
        backend, changelog = MemoryBackend(), dict[StoreName, int]()
        for spec in sub.stores:
            partition = Partition(changelog_name(self._topology.app, spec.name), task.partition)
            replay = Replay(partition, 0, self._broker.log(partition).end)
            read = self._broker.replay(partition, replay.offset)
            replay.feed(read)
            assert replay.done, "a log in memory is read to its end at once"
            backend.apply(Batch({spec.name: sorted(dict(read.records).items())}, {spec.name: replay.offset}))
            changelog[spec.name] = replay.offset
        partitions = [Partition(source.topic.name, task.partition) for source in sub.sources]
        positions = {partition: self._broker.positions.get(partition, 0) for partition in partitions}
        self._fetched.update(positions)
        return Task(
            task,
            Term(1),
            sub,
            TaskState(sub.stores, backend, checking=True),
            changelog=changelog,
            positions=positions,
            resources=self._resources,
            clock=self._clock.monotonic_s,
            sleep=self._clock.pause,
        )

    # Work

    def run(self) -> bool:
        """Let every task take what is there, until its deadline; whether there was anything."""
        worked = [self._run_task(task) for task in self.tasks.values() if task.phase is Phase.RUNNING]
        return any(worked)

    def _run_task(self, task: Task) -> bool:
        self._offer(task)
        if not task.ready:
            return False
        if self._work_since is None:
            self._work_since = self._clock.monotonic_s()
        task.state.unset_mutations()  # what the test itself was given and changed is its own
        failure = task.run(self._work_since + self._interval_s)
        self._heed(task, failure)
        self._check_mutations(task)
        return True

    def _offer(self, task: Task) -> None:
        for topic, inlet in task.inlets.items():
            records = self._broker.from_offset(inlet.partition, self._fetched[inlet.partition])
            if records:
                task.offer(topic, records)
                self._fetched[inlet.partition] = records[-1].at + 1
            inlet.at_end = True

    def _heed(self, task: Task, failure: StreamletError | None) -> None:
        if failure is None:
            return
        if not isinstance(failure, GoBack):
            task.failure = failure
            task.enter(Phase.PARKED)
            task.drop_waiting()
            self._failures.append(failure)
        self._fetched.update(task.positions)

    def _check_mutations(self, task: Task) -> None:
        for mutation in task.state.unset_mutations():
            raise UnsetMutation(task.id, mutation)

    # Commit

    @property
    def commit_due(self) -> bool:
        """As in production: when all is done and no batch handler waits for more, at latest when the interval is over."""
        if self._work_since is None:
            return False
        now = self._clock.monotonic_s()
        return not any(task.ready or task.filling(now) for task in self.tasks.values()) or now - self._work_since >= self._interval_s

    def settle(self, *, commit_all: bool, commit_due: bool) -> None:
        """Run, and commit at once or when it is due, until nothing moves; then raise what parked a task on the way."""
        for _ in range(_MOST_ROUNDS):
            worked = self.run()
            if (commit_all and not worked) or (commit_due and self.commit_due):
                worked = self.commit() or worked
            if not worked:
                break
        else:
            raise NeverQuiet(_MOST_ROUNDS)
        if self._failures:
            failure, self._failures = self._failures[0], []
            raise failure

    def commit(self) -> bool:
        """One commit of everything that was processed; whether there was anything, or a batch failed and comes again."""
        stopped = False
        for task in self.tasks.values():
            if task.phase is Phase.RUNNING:
                failure = task.flush()
                self._heed(task, failure)
                self._check_mutations(task)
                stopped = stopped or failure is not None
        return self._commit_once(None) or stopped

    def _commit_once(self, own: OwnKind | None) -> bool:
        parts: list[tuple[Task, Part]] = [(task, task.part(own, record=True)) for task in self.tasks.values()]
        parts = [(task, part) for task, part in parts if own is not None or task.has_work or part.changes]
        self._work_since = None
        if not parts:
            return False
        commit(
            self._transaction,
            self._transaction,
            [part for _, part in parts],
            self._topics,
            self._partitioner,
            incarnation=Incarnation(f"{self._topology.app}-test"),
            group_metadata=None,
            answered=(),
            now_ms=self._clock.now_ms,
        )
        for task, part in parts:
            task.committed(part, self._clock.now_ms)
            since = task.state.pending_since_ms
            if since is not None and self._clock.now_ms - since >= _LOCAL_LAG_MS:
                task.state.write_local()
        return own is None

    def resume(self, task: Task, *, skip: bool) -> None:
        """Let a parked task go on, at the record that stopped it or behind it."""
        task.resume(skip=skip)
        self._fetched.update(task.positions)

    def close(self) -> None:
        """Forget everything that was not committed."""
        for task in self.tasks.values():
            task.enter(Phase.CLOSED)
            task.state.close()
