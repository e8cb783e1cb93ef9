"""How an app is: what its control topic says and what its members say now. Needs neither its code nor a live leader."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from streamlet.changelog.kafka import ClientConfig
from streamlet.ids import TaskId
from streamlet.operations.apps import NoSuchApp, known_apps
from streamlet.rebalance.handover import awaited
from streamlet.rebalance.kafka import ControlReader, MembersTopic, control_topic
from streamlet.rebalance.leadership import slot_of
from streamlet.rebalance.members import SILENCE_S, Members, SupervisorWord, TaskWord, WorkerWord
from streamlet.rebalance.records import Entry, Plan
from streamlet.rebalance.view import View
from streamlet.topics.kafka import Topics

LISTEN_S: Final = 1.2  # everybody alive has spoken by then
_ENOUGH_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class CopyStatus:
    """A copy beside the owner's."""

    slot: str
    kind: str  # standby or warm-up
    lag: int | None  # changelog offsets; None: not heard of


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """One task."""

    task: str
    owner: str  # slot
    term: int
    phase: str  # running, restored, parked, stopped, paused, restoring, moving, waiting
    lag: int | None
    rate: float | None
    copies: tuple[CopyStatus, ...]
    failure: str


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """One worker."""

    slot: str
    incarnation: str
    supervisor: str
    host: str
    rack: str | None
    tasks: int
    load: float  # of one processor
    leaving: bool


@dataclass(frozen=True, slots=True)
class AppStatus:
    """An app at one moment."""

    app: str
    plan_version: int | None
    why: str
    target: int | None
    leader: str | None
    workers: tuple[WorkerStatus, ...]
    tasks: tuple[TaskStatus, ...]
    wishes: tuple[str, ...]


class StatusReader:
    """Reads again and again what `status` shows."""

    def __init__(self, client: ClientConfig, app: str) -> None:
        if control_topic(app) not in (names := Topics(client).names()):
            raise NoSuchApp(app, str(client.get("bootstrap.servers")), known_apps(names))
        self._app = app
        self._control = ControlReader(client, app)
        self._topic = MembersTopic(client, app, since_s=SILENCE_S)
        self._members = Members(time.monotonic())

    def read(self, listen_s: float = LISTEN_S) -> AppStatus:
        """Listen for a moment and say what there is."""
        began = time.monotonic()
        self._control.reads_to_end(1.0)
        while (passed := time.monotonic() - began) < listen_s:
            self._members.hear(self._topic.hear(0.1), time.monotonic())
            self._control.follow(0)
            if passed > _ENOUGH_S and self._all_heard():
                break
        return judge(self._app, self._control.view, self._members, time.monotonic())

    def close(self) -> None:
        """Leave the brokers."""
        self._control.close()
        self._topic.close()

    def _all_heard(self) -> bool:
        words = [word for word, _ in self._members.supervisors.values()]
        return bool(words) and all(one in self._members.workers for word in words for one in word.alive)


def judge(app: str, view: View, members: Members, now: float) -> AppStatus:
    """What the records and words add up to. Pure."""
    plan, living = view.plan, members.living(now)
    leaders = [word.supervisor for word in members.present(now) if word.leads]
    leaving = members.leaving(now) | set(plan.drained if plan is not None else ())
    workers = [_worker(worker, supervisor, plan, leaving=worker.incarnation in leaving) for worker, supervisor in living.values()]
    words = {task: (worker.slot, word) for worker, _ in living.values() for task, word in worker.tasks.items()}
    tasks = [_task(app, view, plan, name, words, members) for name in sorted(plan.tasks, key=TaskId.parse)] if plan is not None else []
    return AppStatus(
        app=app,
        plan_version=plan.version if plan is not None else None,
        why=plan.why if plan is not None else "",
        target=plan.target if plan is not None else None,
        leader=leaders[0] if leaders else None,
        workers=tuple(sorted(workers, key=lambda worker: worker.slot)),
        tasks=tuple(tasks),
        wishes=tuple(sorted(view.wishes)),
    )


def _worker(worker: WorkerWord, supervisor: SupervisorWord, plan: Plan | None, *, leaving: bool) -> WorkerStatus:
    index = plan.members.index(worker.incarnation) if plan is not None and worker.incarnation in plan.members else -1
    owned = sum(entry.owner == index for entry in plan.tasks.values()) if plan is not None and index >= 0 else 0
    load = round(sum(worker.load.values()), 3)
    return WorkerStatus(
        worker.slot, worker.incarnation, supervisor.supervisor, supervisor.host, supervisor.rack, owned, load, leaving=leaving
    )


def _task(app: str, view: View, plan: Plan, name: str, words: Mapping[str, tuple[str, TaskWord]], members: Members) -> TaskStatus:
    entry, task = plan.tasks[name], TaskId.parse(name)
    owner = plan.members[entry.owner]
    slot, word = words.get(name, ("", None))
    mine = word is not None and slot == slot_of(app, owner)
    copies = [_copy(app, plan.members[index], kind, name, members) for kind, listed in _copies(entry) for index in listed]
    if name in plan.paused:
        phase = "paused"
    elif mine and word is not None:
        phase = word.phase
    elif entry.wait is not None and awaited(entry, view.own.get(task)) is None:
        phase = "moving"
    else:
        phase = "restoring" if owner in members.workers else "waiting"
    return TaskStatus(
        task=name,
        owner=slot_of(app, owner),
        term=entry.term,
        phase=phase,
        lag=word.lag if mine and word is not None else None,
        rate=word.rate if mine and word is not None else None,
        copies=tuple(copies),
        failure=word.failure if word is not None else "",
    )


def _copies(entry: Entry) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return (("standby", entry.standbys), ("warm-up", entry.warm_ups))


def _copy(app: str, incarnation: str, kind: str, task: str, members: Members) -> CopyStatus:
    found = [word for name, word in members.workers.items() if name == incarnation]
    lag = found[0].copies[task].lag if found and task in found[0].copies else None
    return CopyStatus(next((word.slot for word in found), incarnation.removeprefix(f"{app}-").rpartition("-")[0]), kind, lag)
