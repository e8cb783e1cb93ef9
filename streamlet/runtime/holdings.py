"""The copies a worker has: opened when the plan wants them, followed, aimed at where their writer stopped, given out as tasks.

Nothing here waits for a broker: questions are asked and their answers looked at in a later turn of the loop.

Invariant: a copy is either followed here or owned by a task, never both.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from streamlet.changelog.kafka import Answers
from streamlet.changelog.replay import Partition, Replay
from streamlet.errors import StreamletError
from streamlet.ids import StoreName, TaskId, Term
from streamlet.rebalance.handover import Duties, Start
from streamlet.rebalance.records import Own
from streamlet.runtime.copies import Changelogs, LocalCopy, changelog_partitions, kept_copies, open_copy
from streamlet.runtime.offset_lost import OffsetLost
from streamlet.runtime.restoring import Restorer, StoreReplay
from streamlet.runtime.task import Task
from streamlet.topology import Topology

log = logging.getLogger("streamlet.restore")


class Question(Protocol):
    """An inquiry under way: production's is in changelog/kafka.py."""

    def poll(self) -> Answers | None: ...


Inquire = Callable[[Collection[Partition], Collection[Partition]], Question]


@dataclass(frozen=True, slots=True)
class Ready:
    """A task whose copy is complete: it may claim, at these positions. With a failure it cannot go on."""

    task: TaskId
    term: Term
    copy: LocalCopy
    changelog: Mapping[StoreName, int]
    positions: Mapping[Partition, int]
    records: int
    took_s: float
    failure: StreamletError | None = None


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was asked, for which tasks, and what each had to start from then."""

    question: Question
    tasks: Mapping[TaskId, Start | None]


class Holdings:
    """Its only writer is the worker's loop."""

    def __init__(self, topology: Topology, folder: Path, topic_ids: Mapping[str, str], restorer: Restorer, inquire: Inquire) -> None:
        self._topology, self._folder, self._topic_ids, self.restorer, self._inquire = topology, folder, topic_ids, restorer, inquire
        self._open: dict[TaskId, LocalCopy] = {}  # followed here
        self._owned: dict[TaskId, LocalCopy] = {}  # in the hands of a task
        self._follow: frozenset[TaskId] = frozenset()
        self._starting: dict[TaskId, Start] = {}
        self._positions: dict[TaskId, Mapping[Partition, int] | OffsetLost] = {}
        self._asked: list[_Asked] = []
        self._failed: dict[TaskId, Start] = {}  # cannot be started as they are; another start may
        self._own: Mapping[TaskId, Own] = {}
        self._kept = set(kept_copies(folder))

    @property
    def active(self) -> bool:
        """Whether there is anything to do in a turn."""
        return bool(self._asked) or self.restorer.following

    @property
    def starting(self) -> bool:
        """Whether a task is on its way to run here."""
        return bool(self._starting)

    def lags(self) -> dict[TaskId, int]:
        """How far behind every followed copy is."""
        return self.restorer.lags()

    def kept(self) -> list[TaskId]:
        """Copies on disk that are neither followed nor owned."""
        return sorted(self._kept - self._open.keys() - self._owned.keys())

    def heed(self, duties: Duties, own: Mapping[TaskId, Own]) -> None:
        """Follow what the plan wants followed, begin what it wants begun, drop the rest."""
        self._own = own
        self._follow = frozenset(duties.follow)
        known = self._topology_has
        wanted = {task for task in (*duties.follow, *duties.start) if known(task)}
        for task in [task for task in self._open if task not in wanted]:
            self._close(task)
        for task in [task for task, start in self._starting.items() if duties.start.get(task) != start]:
            del self._starting[task]
            self._positions.pop(task, None)
            if self.restorer.has(task):
                self.restorer.loosen(task)
        self._failed = {task: start for task, start in self._failed.items() if duties.start.get(task) == start}
        begun = {
            task: start for task, start in duties.start.items() if known(task) and task not in self._starting and task not in self._failed
        }
        self._starting |= begun
        for task, start in begun.items():
            if task in self._open and not self._asks(task, start):
                self._aim(task, start, None)
        asked = {task for one in self._asked for task in one.tasks}
        unopened = {task for task in wanted if task not in self._open and task not in self._owned and task not in asked}
        self._ask(
            {task: self._starting.get(task) for task in unopened | {task for task, start in begun.items() if self._asks(task, start)}}
        )

    def turn(self, timeout_s: float, *, beside_running: bool) -> list[Ready]:
        """A bounded piece of work; the tasks returned may claim."""
        for asked in list(self._asked):
            answers = asked.question.poll()
            if answers is not None:
                self._asked.remove(asked)
                self._answered(asked, answers)
        if not self.restorer.following:
            return []
        ready: list[Ready] = []
        for one in self.restorer.drain(timeout_s, beside_running=beside_running):
            if one.task in self._starting:
                ready.append(self._give_out(one.task, one.records, one.took_s, one.failure))
            else:  # only a copy that failed ends by itself
                log.warning("standby given up", extra={"task": str(one.task), "reason": str(one.failure)})
                self._open.pop(one.task).backend.close()
        return ready

    def again(self, task: TaskId) -> None:
        """What kept the task from starting may be mended: the next look at the plan begins anew."""
        self._failed.pop(task, None)

    def take_back(self, task: Task) -> None:
        """A task has let go, or never claimed: its copy is followed again where the plan wants that, else closed."""
        copy = self._owned.pop(task.id)
        self._open[task.id] = copy
        if task.id not in self._follow and task.id not in self._starting:
            self._close(task.id)
            return
        partitions = changelog_partitions(self._topology, task.id)
        offsets = {store: copy.backend.offset(store) or 0 for store in partitions}  # the copy's own: a last write may have failed
        replays = tuple(
            StoreReplay(task.id, store, copy.backend, Replay(partition, offsets[store], offsets[store]), empty=False)
            for store, partition in partitions.items()
        )
        self._open[task.id] = LocalCopy(copy.backend, replays)
        self.restorer.add(task.id, replays)

    def close(self) -> None:
        """Close every copy; nothing is removed."""
        for copy in (*self._open.values(), *self._owned.values()):
            copy.backend.close()
        self._open.clear()
        self._owned.clear()

    def _topology_has(self, task: TaskId) -> bool:
        return any(sub.name == task.name for sub in self._topology.subs)

    def _ask(self, tasks: Mapping[TaskId, Start | None]) -> None:
        if not tasks:
            return
        sources = [
            partition for task, start in tasks.items() if start is not None and self._asks(task, start) for partition in self._sources(task)
        ]
        logs = [partition for task in tasks for partition in changelog_partitions(self._topology, task).values()]
        self._asked.append(_Asked(self._inquire(sources, logs), dict(tasks)))

    def _answered(self, asked: _Asked, answers: Answers) -> None:
        logs = Changelogs(self._topic_ids, answers.starts, answers.ends)
        again: dict[TaskId, Start | None] = {}
        for task, was in asked.tasks.items():
            start = self._starting.get(task)
            if task in self._owned or (start is None and task not in self._follow):
                continue
            if task not in self._open:
                self._open[task] = copy = open_copy(self._topology, task, self._folder, logs)
                self._kept.add(task)
                self.restorer.add(task, copy.replays)
            if start is None:
                continue
            if start == was or not self._asks(task, start):
                self._aim(task, start, answers)
            else:
                again[task] = start
        self._ask(again)

    def _aim(self, task: TaskId, start: Start, answers: Answers | None) -> None:
        partitions = changelog_partitions(self._topology, task)
        if start.release is not None and not self._asks(task, start):
            source = start.release.source
            self._positions[task] = {partition: source[partition.topic] for partition in self._sources(task)}
            self.restorer.aim(task, start.release.changelog_end)
            return
        assert answers is not None, "without a release that says it all the brokers were asked"
        self._positions[task] = self._judge(task, answers)
        self.restorer.aim(task, {store: answers.ends[partition] for store, partition in partitions.items()})

    def _judge(self, task: TaskId, answers: Answers) -> Mapping[Partition, int] | OffsetLost:
        """Where the task's input goes on: the committed offset; the declared start only for a task that never ran."""
        found: dict[Partition, int] = {}
        for source in self._topology.sub(task.name).sources:
            partition = Partition(source.topic.name, task.partition)
            oldest, newest, offset = answers.starts[partition], answers.ends[partition], answers.committed[partition]
            if offset is None and task not in self._own:
                offset = newest if source.topic.start == "latest" else oldest
            if offset is None or not oldest <= offset <= newest:
                return OffsetLost(task, partition, offset, oldest, newest)
            found[partition] = offset
        return found

    def _give_out(self, task: TaskId, records: int, took_s: float, failure: StreamletError | None) -> Ready:
        start, positions = self._starting.pop(task), self._positions.pop(task)
        copy = self._owned[task] = self._open.pop(task)
        if isinstance(positions, OffsetLost) and failure is None:
            failure = positions
        if failure is not None:
            self._failed[task] = start
            del self._owned[task]
            copy.backend.close()
        changelog = {item.store: item.replay.offset for item in copy.replays}
        return Ready(task, start.term, copy, changelog, {} if isinstance(positions, OffsetLost) else positions, records, took_s, failure)

    def _close(self, task: TaskId) -> None:
        if self.restorer.has(task):
            self.restorer.forget(task)
        self._open.pop(task).backend.close()

    def _asks(self, task: TaskId, start: Start) -> bool:
        """Whether only the brokers know where to begin: nobody released the task, or its code had fewer sources or stores."""
        if start.release is None:
            return True
        sources = {partition.topic for partition in self._sources(task)}
        return not (
            sources <= start.release.source.keys()
            and changelog_partitions(self._topology, task).keys() <= start.release.changelog_end.keys()
        )

    def _sources(self, task: TaskId) -> list[Partition]:
        return [Partition(source.topic.name, task.partition) for source in self._topology.sub(task.name).sources]
