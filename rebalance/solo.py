"""The plan of an app that runs in one worker: everything is mine, under the next term. Pure.

The worker is its own leader. It has fenced every incarnation that an earlier plan named, so nothing needs waiting
for: each task's entry is the one a leader would write for a fenced owner.
"""

from collections.abc import Iterable, Mapping

from streamlet.ids import Incarnation, TaskId, Term
from streamlet.rebalance.records import Entry, Own, Plan


def solo_plan(earlier: Plan | None, own: Mapping[TaskId, Own], me: Incarnation, tasks: Iterable[TaskId]) -> Plan:
    """Give every task to `me` with a term above every one ever planned or claimed."""
    entries: dict[str, Entry] = {}
    for task in sorted(tasks):
        planned = earlier.tasks[str(task)].term if earlier and str(task) in earlier.tasks else 0
        held = own[task].term if task in own else 0
        entries[str(task)] = Entry(owner=0, term=Term(max(planned, held) + 1))
    return Plan(version=(earlier.version if earlier else 0) + 1, members=(me,), tasks=entries)


def to_fence(earlier: Plan | None, me: Incarnation) -> tuple[Incarnation, ...]:
    """Whoever an earlier plan named must not be able to write any more."""
    return tuple(sorted(set(earlier.members) - {me})) if earlier else ()
