"""The worker's loop over a consumer, a broker and holdings in memory, and a clock that moves only as it is told."""

from dataclasses import dataclass, field

from confluent_kafka import Message

from streamlet.changelog.replay import Partition
from streamlet.ids import Incarnation, TaskId, Term
from streamlet.partitioning import internal_partitions
from streamlet.rebalance.records import Entry, Plan
from streamlet.rebalance.view import View
from streamlet.runtime.commit import CommitTopics
from streamlet.runtime.holdings import Ready
from streamlet.runtime.partitioner import Partitioner
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


class OneTask:
    """Holdings in which one task is ready at once."""

    restorer = None
    active = True
    starting = False

    def heed(self, duties, own): ...

    def turn(self, timeout_s, *, beside_running):
        self.active = False
        return [Ready(TASK, Term(1), None, {}, {ENTRIES: 0}, 0, 0.0)]


class Post:
    """Nobody else is there."""

    def say(self, worker, now): ...
    def renew(self, manifest): ...

    def may_go(self, worker):
        return True


ALONE = Plan(1, (Incarnation("app-test"),), {str(TASK): Entry(owner=0, term=Term(1))})


@dataclass
class Control:
    view: View = field(default_factory=lambda: View(plan=ALONE))

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


def run_worker(app, bounds, *, turn_ms=0, holdings=None, control=None):
    """100 records of the topic `entries`, one a turn; where commits ended, and how often the copy was written before the last commit."""
    topology, stop, now = build(app), StopRequest(), [1000.0]
    counts = internal_partitions(topology, {sub.name: 1 for sub in topology.subs})
    backend, commits = CountedBackend(), Commits()
    producer = Producer(MemoryBroker({"entries": 1}))

    def clock():
        now[0] += turn_ms / 1000 / 10  # about ten looks at the clock in a turn
        return now[0]

    def open_task(ready):
        state = TaskState(topology.sub("entries").stores, backend)
        changelog = {spec.name: 0 for spec in topology.sub("entries").stores}
        return Task(
            ready.task, ready.term, topology.sub("entries"), state, changelog=changelog, positions={ENTRIES: 0}, resources={}, clock=clock
        )

    Worker(
        open_task=open_task,
        holdings=holdings or OneTask(),
        post=Post(),
        consumer=Input(100, stop),
        producer=producer,
        outlet=producer,
        purge=lambda below: None,
        control=control or Control(),
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
