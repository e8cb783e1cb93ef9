"""A worker's duties: from the plan, the ownership records and what it holds, what it has to do next. Pure.

A task is started only where nothing is waited for, or where exactly the release is there that the plan waits for. It is
released whenever the newest plan does not name this worker under the term it holds.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass

from streamlet.ids import Incarnation, TaskId, Term
from streamlet.rebalance.records import Entry, Own, OwnKind, Plan, Wait


@dataclass(frozen=True, slots=True)
class Start:
    """A task to start. With a release its positions stand there; without one the brokers are asked, after the plan was read."""

    term: Term
    release: Own | None


@dataclass(frozen=True, slots=True)
class Duties:
    """What a worker has to do by the newest plan."""

    start: Mapping[TaskId, Start]
    release: Set[TaskId]
    follow: Set[TaskId]  # copies to keep up to date: standbys, warm-ups, and tasks whose release is awaited
    paused: Set[TaskId]


NOTHING = Duties({}, frozenset(), frozenset(), frozenset())


def duties(plan: Plan | None, own: Mapping[TaskId, Own], me: Incarnation, held: Mapping[TaskId, Term]) -> Duties:
    """What `me` has to do that holds these tasks under these terms."""
    if plan is None or me not in plan.members:
        return NOTHING
    index = plan.members.index(me)
    start: dict[TaskId, Start] = {}
    follow: set[TaskId] = set()
    kept: set[TaskId] = set()
    for name, entry in plan.tasks.items():
        task = TaskId.parse(name)
        if entry.owner == index:
            if held.get(task) == entry.term:
                kept.add(task)
            elif task not in held:
                release = awaited(entry, own.get(task))
                if entry.wait is None or release is not None:
                    start[task] = Start(entry.term, release)
                else:
                    follow.add(task)
        elif index in entry.standbys or index in entry.warm_ups:
            follow.add(task)
    paused = kept & {TaskId.parse(name) for name in plan.paused}
    return Duties(start, frozenset(held.keys() - kept), frozenset(follow), frozenset(paused))


def awaited(entry: Entry, own: Own | None) -> Own | None:
    """The release that this entry waits for, if it is there: of exactly that incarnation and that term."""
    if entry.wait is None or own is None or own.kind is not OwnKind.RELEASE:
        return None
    return own if Wait(own.incarnation, own.term) == entry.wait else None
