"""The worker's loop over a consumer, a broker and a restorer in memory, and a clock that moves only as it is told."""

from dataclasses import dataclass, field

from confluent_kafka import Message

from streamlet.changelog.replay import Partition
from streamlet.ids import TaskId, Term
from streamlet.partitioning import internal_partitions
from streamlet.rebalance.view import View
from streamlet.runtime.commit import CommitTopics
from streamlet.runtime.partitioner import Partitioner
from streamlet.runtime.restoring import Restored
from streamlet.runtime.stopping import StopRequest
from streamlet.runtime.task import Task
from streamlet.runtime.worker import Worker
from streamlet.state.memory import MemoryBackend
from streamlet.state.task_state import TaskState
from streamlet.testing.broker import MemoryBroker, MemoryTransaction
from streamlet.topology import build

ENTRIES = Partition("entries", 0)
TASK = TaskId("entries", 0)


@dataclass
class Input:
    """A consumer whose partition never comes to its end, until it asks the worker to stop."""

    left: int
    stop: StopRequest
    at: int = 0
    reading: bool = False

    def add(self, positions):
        self.reading = True

    def take(self, most, timeout_s):
        if not self.reading:
            return []
        if self.at == self.left:
            self.stop.ask()
            return []
        self.at += 1
        return [Message(topic="entries", partition=0, offset=self.at - 1, key=b"a", value=b"x" * 100, timestamp=(1, self.at))]

    def remove(self, partitions): ...
    def hold(self, partitions): ...
    def group_metadata(self): ...


@dataclass
class Producer(MemoryTransaction):
    incarnation: str = "app-test"
    patience_s: float = 0.0


@dataclass
class OneTask:
    """A restorer that has nothing to replay."""

    busy: bool = True

    def drain(self, timeout_s):
        self.busy = False
        return [Restored(TASK, 0, 0.0)]

    def take_failures(self):
        return {}


@dataclass
class Control:
    view: View = field(default_factory=View)

    def follow(self, timeout_s):
        return False


@dataclass
class Commits:
    """Counts the transactions that carried work."""

    inputs: list[int] = field(default_factory=list)

    def committed(self, parts, took_s):
        self.inputs += [offset for part in parts if part.own is None for offset in part.positions.values()]

    def turned(self, tasks, restorer, stopped): ...


class CountedBackend(MemoryBackend):
    writes = 0

    def apply(self, batch):
        self.writes += 1
        super().apply(batch)


def run_worker(app, bounds, *, turn_ms=0, restorer=None, control=None):
    """100 records of the topic `entries`, one a turn; where commits ended, and how often the copy was written before the last commit."""
    topology, stop, now = build(app), StopRequest(), [1000.0]
    counts = internal_partitions(topology, {sub.name: 1 for sub in topology.subs})
    backend, commits = CountedBackend(), Commits()
    producer = Producer(MemoryBroker({"entries": 1}))

    def clock():
        now[0] += turn_ms / 1000 / 10  # about ten looks at the clock in a turn
        return now[0]

    def open_task(task):
        state = TaskState(topology.sub("entries").stores, backend)
        changelog = {spec.name: 0 for spec in topology.sub("entries").stores}
        return Task(task, Term(1), topology.sub("entries"), state, changelog=changelog, positions={ENTRIES: 0}, resources={}, clock=clock)

    Worker(
        open_task=open_task,
        consumer=Input(100, stop),
        producer=producer,
        outlet=producer,
        purge=lambda below: None,
        control=control or Control(),
        restorer=restorer or OneTask(),
        topics=CommitTopics("app", counts["app-commits"]),
        partitioner=Partitioner(counts),
        bounds=bounds,
        stop=stop,
        observer=commits,
        ends=lambda partition: (0, 0),
        clock=clock,
        now_ms=lambda: int(now[0] * 1000),
    ).run()
    return commits.inputs, backend.writes
