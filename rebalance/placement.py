"""Who should own each task: as even as the loads allow, with as few moves as that takes. Pure.

Claims, terms and warm-ups play no part here: the planner decides which of these moves can be made now.

Invariant: a task is only ever placed on a living member that offers it and stays.
Invariant: a move lowers the load of the fuller of two members, so placing again what was placed moves nothing.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from typing import Final

from streamlet.ids import Incarnation, TaskId
from streamlet.rebalance.situation import Candidate, Copy

BETTER_BY: Final = 0.1  # measured loads are noisy: the receiver must end this much below where the giver was
LEAST_LOAD: Final = 0.01  # nor is noise in the cost of idle tasks a reason to move them


def order(task: TaskId) -> tuple[str, int]:
    """Sort key of tasks."""
    return task.name, task.partition


def weights(tasks: Iterable[TaskId], load: Mapping[TaskId, float]) -> dict[TaskId, float]:
    """What each task counts: its measured load, or exactly 1 where all are equal, so that tasks are counted."""
    listed = sorted(tasks, key=order)
    known = {task: load[task] if LEAST_LOAD < load[task] < inf else LEAST_LOAD for task in listed if task in load}
    if not known or min(known.values()) == max(known.values()):
        return dict.fromkeys(listed, 1.0)
    usual = sum(known.values()) / len(known)
    return {task: known.get(task, usual) for task in listed}


class Seats:
    """What every member carries while tasks are placed. Its only writers are the functions of this module."""

    def __init__(self, members: Iterable[Candidate], weight: Mapping[TaskId, float]) -> None:
        self.members = {member.incarnation: member for member in sorted(members, key=lambda member: member.incarnation)}
        self.weight = weight
        self.load = dict.fromkeys(self.members, 0.0)
        self.count = dict.fromkeys(self.members, 0)
        self.even = len(set(weight.values())) <= 1  # tasks are counted, not weighed
        self._open: dict[str, list[Candidate]] = {}

    def take(self, task: TaskId, member: Incarnation) -> None:
        """Put one more task on a member."""
        self.load[member] += self.weight[task]
        self.count[member] += 1

    def drop(self, task: TaskId, member: Incarnation) -> None:
        """Take a task from a member."""
        self.load[member] -= self.weight[task]
        self.count[member] -= 1

    def open_to(self, name: str) -> list[Candidate]:
        """The members that may get tasks of this name, in their order."""
        if name not in self._open:
            self._open[name] = [member for member in self.members.values() if name in member.offers and not member.leaving]
        return self._open[name]

    def fullness(self, member: Candidate) -> tuple[float, int, Incarnation]:
        """Sort key: the least loaded first."""
        return self.load[member.incarnation], self.count[member.incarnation], member.incarnation

    def share(self) -> float:
        """The load of a member if all were equal."""
        stay = sum(not member.leaving for member in self.members.values())
        return sum(self.load.values()) / stay if stay else 0.0

    def is_better(self, weight: float, giver: float, receiver: float, *, by: float = BETTER_BY) -> bool:
        """Whether moving this weight between members with these loads is worth a move."""
        return receiver + weight <= (giver - weight if self.even else giver * (1 - by))


def take_over(task: TaskId, seats: Seats, *, holders: Iterable[Candidate], wished: Incarnation | None) -> Incarnation | None:
    """The best member for a task whose owner is gone, of those that have a copy; None if none may get it."""
    able = [member for member in holders if task.name in member.offers and not member.leaving]
    best = min(
        able,
        key=lambda member: (member.copy(task), member.copies.get(task, 0), member.incarnation != wished, seats.fullness(member)),
        default=None,
    )
    return best.incarnation if best else None


def holders_of(tasks: Set[TaskId], members: Iterable[Candidate]) -> dict[TaskId, list[Candidate]]:
    """Who has a copy of any kind of these tasks."""
    holders: dict[TaskId, list[Candidate]] = defaultdict(list)
    for member in members:
        for task in (*member.copies, *(member.kept - member.copies.keys())):
            if task in tasks:
                holders[task].append(member)
    return holders


def share_out(tasks: Iterable[TaskId], seats: Seats) -> dict[TaskId, Incarnation]:
    """Give tasks that nobody has to the least loaded members; a task nobody may get is left out."""
    heaps: dict[str, list[tuple[float, int, Incarnation]]] = {}
    placed: dict[TaskId, Incarnation] = {}
    for task in sorted(tasks, key=lambda task: (len(seats.open_to(task.name)), -seats.weight[task], order(task))):
        if task.name not in heaps:
            heaps[task.name] = [seats.fullness(member) for member in seats.open_to(task.name)]
            heapify(heaps[task.name])
        heap = heaps[task.name]
        if not heap:
            continue
        while (now := seats.fullness(seats.members[heap[0][2]])) != heap[0]:  # loads only grow here: an old entry comes too early
            heapreplace(heap, now)
        placed[task] = heap[0][2]
        seats.take(task, heap[0][2])
    return placed


@dataclass(frozen=True, slots=True)
class Held:
    """A task and the living member that has it."""

    owner: Incarnation
    claimed: bool  # it can be moved now
    wished: Incarnation | None  # where a person wants it
    warming: tuple[Incarnation, ...]  # where the last plan warms it up


def plan_moves(held: Mapping[TaskId, Held], seats: Seats) -> dict[TaskId, Incarnation]:
    """Which tasks should move where: off leaving members, where people want them, then evenly."""
    moves: dict[TaskId, Incarnation] = {}

    def move(task: TaskId, receiver: Incarnation) -> None:
        seats.drop(task, held[task].owner)
        seats.take(task, receiver)
        moves[task] = receiver

    for task, state in held.items():
        if state.wished is not None and state.wished != state.owner:
            move(task, state.wished)
    for task, state in held.items():
        if task not in moves and (receiver := _underway(task, state, seats)):
            move(task, receiver)
    drained = [task for task, state in held.items() if task not in moves and seats.members[state.owner].leaving and not state.wished]
    for task in sorted(drained, key=lambda task: (-seats.weight[task], order(task))):
        if receiver := _refuge(task, seats):
            move(task, receiver)
    for claimed in (True, False):
        free = {
            task: state.owner for task, state in held.items() if task not in moves and state.wished is None and state.claimed == claimed
        }
        moves |= dict(_Evening(free, seats).moves())
    return moves


def _underway(task: TaskId, state: Held, seats: Seats) -> Incarnation | None:
    """Where the task is warming up already, if it should still go there: half the gain is enough to go on."""
    weight, giver = seats.weight[task], seats.members[state.owner]
    for target in state.warming:
        member = seats.members.get(target)
        if state.wished or member is None or member.leaving or task.name not in member.offers or target == state.owner:
            continue
        giver_load, receiver_load = seats.load[state.owner], seats.load[target]
        if giver.leaving or seats.is_better(weight, giver_load, receiver_load, by=BETTER_BY / 2):
            return target
    return None


def _refuge(task: TaskId, seats: Seats) -> Incarnation | None:
    """Who gets a task of a leaving member: a copy's holder below its share, else the least loaded."""
    share, weight = seats.share(), seats.weight[task]

    def key(member: Candidate) -> tuple[int, tuple[float, int, Incarnation]]:
        copy = member.copy(task) if seats.load[member.incarnation] + weight <= share else Copy.NONE
        return int(copy), seats.fullness(member)

    best = min(seats.open_to(task.name), key=key, default=None)
    return best.incarnation if best else None


class _Evening:
    """Moves from the fullest member to the emptiest until that helps no more. Every task moves at most once.

    Always from the fullest, always to one below its share or to the emptiest: each move is then one that evenness needs.
    """

    def __init__(self, free: Mapping[TaskId, Incarnation], seats: Seats) -> None:
        self._seats = seats
        self._share = seats.share()
        self._owner = dict(free)
        self._stock: dict[Incarnation, dict[str, list[tuple[float, tuple[str, int], TaskId]]]] = {}
        for task, owner in free.items():
            if not seats.members[owner].leaving:
                self._stock.setdefault(owner, defaultdict(list))[task.name].append((seats.weight[task], order(task), task))
        for stock in self._stock.values():
            for tasks in stock.values():
                tasks.sort()
        self._lightest = {owner: min(tasks[0][0] for tasks in stock.values()) for owner, stock in self._stock.items()}
        self._copies = self._copies_elsewhere()

    def _copies_elsewhere(self) -> dict[Incarnation, list[tuple[int, tuple[str, int], Incarnation, TaskId]]]:
        """By owner: who else has a copy of its tasks, the best last."""
        copies: dict[Incarnation, list[tuple[int, tuple[str, int], Incarnation, TaskId]]] = defaultdict(list)
        for member in self._seats.members.values():
            if member.leaving:
                continue
            for task in (*member.copies, *(member.kept - member.copies.keys())):
                owner = self._owner.get(task)
                if owner is not None and owner in self._stock and owner != member.incarnation and task.name in member.offers:
                    copies[owner].append((int(member.copy(task)), order(task), member.incarnation, task))
        for listed in copies.values():
            listed.sort(reverse=True)
        return copies

    def moves(self) -> list[tuple[TaskId, Incarnation]]:
        """All moves, in the order they are made."""
        made: list[tuple[TaskId, Incarnation]] = []
        before = -1
        while before != len(made):  # a member that could give to nobody may be able to when others have given
            before = len(made)
            givers = [(-self._seats.load[owner], owner) for owner in self._stock]
            heapify(givers)
            while givers:
                load, giver = heappop(givers)
                if -load != self._seats.load[giver]:
                    heappush(givers, (-self._seats.load[giver], giver))
                elif step := self._to_a_copy(giver) or self._to_the_emptiest(giver):
                    made.append(self._make(giver, *step))
                    heappush(givers, (-self._seats.load[giver], giver))
        return made

    def _make(self, giver: Incarnation, task: TaskId, receiver: Incarnation) -> tuple[TaskId, Incarnation]:
        self._seats.drop(task, giver)
        self._seats.take(task, receiver)
        self._stock[giver][task.name].remove((self._seats.weight[task], order(task), task))
        del self._owner[task]
        return task, receiver

    def _to_a_copy(self, giver: Incarnation) -> tuple[TaskId, Incarnation] | None:
        """A task of the giver that a member below its share, or an emptiest one, has a copy of."""
        copies, seats = self._copies.get(giver), self._seats
        if not copies:
            return None
        emptiest = min(load for name, load in seats.load.items() if not seats.members[name].leaving)
        while copies:
            _, _, receiver, task = copies.pop()
            weight, load = seats.weight[task], seats.load[receiver]
            is_low = load <= emptiest or load + weight <= self._share
            if task in self._owner and is_low and seats.is_better(weight, seats.load[giver], load):
                return task, receiver
        return None

    def _to_the_emptiest(self, giver: Incarnation) -> tuple[TaskId, Incarnation] | None:
        """The emptiest member that can take something, and the task that evens the two out best."""
        seats, stock, giver_load = self._seats, self._stock[giver], self._seats.load[giver]
        stay = [member for member in seats.members.values() if not member.leaving and member.incarnation != giver]
        while stay:
            receiver = min(stay, key=seats.fullness)
            load = seats.load[receiver.incarnation]
            if not seats.is_better(self._lightest[giver], giver_load, load):
                return None
            # half the difference evens the two out; a giver far below its share would be given tasks in turn
            ideal = min((giver_load - load) / 2, giver_load - (1 - BETTER_BY) * self._share)
            fitting: list[tuple[float, tuple[str, int], TaskId]] = []
            for name, tasks in stock.items():
                if name in receiver.offers and tasks:
                    at = bisect_right(tasks, ideal, key=lambda listed: listed[0])
                    near = [tasks[i] for i in (at - 1, at) if 0 <= i < len(tasks)]
                    fitting += [(abs(weight - ideal), key, task) for weight, key, task in near if seats.is_better(weight, giver_load, load)]
            if fitting:
                return min(fitting)[2], receiver.incarnation
            stay.remove(receiver)
        return None
