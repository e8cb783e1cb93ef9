"""What the leader knows when it plans: who lives, what stands on the control topic, what people want. Values only."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from streamlet.ids import Incarnation, Slot, TaskId, Term
from streamlet.rebalance.records import Own, Plan, Wait

CAUGHT_UP: Final = 5_000  # changelog offsets behind the end that a new owner replays in the pause of a handover

MOST_WARM_UPS: Final = 2  # per receiving member at a time: following must not starve processing
NOBODY: Final = Incarnation("")  # the owner of a task that is in no plan


class Copy(IntEnum):
    """How good a member's copy of a task is; smaller is better."""

    CAUGHT_UP = 0  # follows, and is near the end
    BEHIND = 1  # follows
    KEPT = 2  # on disk, not followed now: only its tail must be replayed
    NONE = 3


@dataclass(frozen=True, slots=True)
class Candidate:
    """A living worker as the planner sees it."""

    incarnation: Incarnation
    slot: Slot
    host: str
    rack: str | None
    offers: frozenset[str]  # names of the tasks its code has
    leaving: bool  # gives its tasks away and gets none
    copies: Mapping[TaskId, int]  # every copy it follows: changelog offsets behind the end
    kept: frozenset[TaskId]  # copies on its disk that it does not follow now

    def copy(self, task: TaskId) -> Copy:
        """How good this member's copy of the task is."""
        lag = self.copies.get(task)
        if lag is not None:
            return Copy.CAUGHT_UP if lag <= CAUGHT_UP else Copy.BEHIND
        return Copy.KEPT if task in self.kept else Copy.NONE


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything a plan is made from. Equal situations give equal plans."""

    tasks: frozenset[TaskId]
    load: Mapping[TaskId, float]  # measured cost per second; a task not listed costs as much as the others on average
    members: tuple[Candidate, ...]  # the living
    fenced: frozenset[Incarnation]  # fenced by this leader in this round: none of them lives
    plan: Plan | None  # newest on the topic
    own: Mapping[TaskId, Own]  # newest claim or release of each task
    standbys: int  # wanted copies of each task beside its owner
    wanted: Mapping[TaskId, Slot]  # moves a person asked for
    returning: frozenset[Slot]  # their worker was lost a moment ago and is expected back


def slots_of(incarnations: Iterable[Incarnation], members: Iterable[Candidate]) -> dict[Incarnation, Slot]:
    """The slots of incarnations that may be gone: what stands between the app's name and the random end.

    The app's name is learned from a living member, because names and hosts may both hold dashes.
    """
    slots = {member.incarnation: member.slot for member in members}
    apps = {name.rpartition("-")[0].removesuffix(f"-{slot}") for name, slot in sorted(slots.items())}
    app = min(apps, default="")
    return slots | {name: Slot(name.rpartition("-")[0].removeprefix(f"{app}-")) for name in incarnations if name not in slots}


@dataclass(frozen=True, slots=True)
class Post:
    """A task's entry in a plan, with names instead of indexes."""

    owner: Incarnation
    term: Term
    wait: Wait | None = None
    standbys: tuple[Incarnation, ...] = ()
    warm_ups: tuple[Incarnation, ...] = ()
