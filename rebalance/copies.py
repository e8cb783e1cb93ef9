"""Where the copies of each task follow its owner: far from it, and spread evenly. Pure.

Invariant: a task's owner is never its own standby, and nobody follows a task that its code does not have.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from heapq import heapify, heappop, heappush

from streamlet.ids import Incarnation, TaskId
from streamlet.rebalance.placement import Seats, holders_of
from streamlet.rebalance.situation import Candidate, Copy, Post, Situation


def choose_standbys(now: Situation, before: Mapping[TaskId, Post], posts: Mapping[TaskId, Post], seats: Seats) -> dict[TaskId, Post]:
    """Keep the standbys there are, fill up what is missing."""
    followers = _Followers(now, seats, {post.owner for post in posts.values()})
    kept = {task: followers.keep(task, post) for task, post in posts.items()}
    short = {task for task, post in posts.items() if post.owner in seats.members and len(kept[task]) < now.standbys}
    holders = holders_of(short, now.members)
    after: dict[TaskId, Post] = {}
    for task, post in posts.items():
        chosen = kept[task]
        if task in short:
            chosen = followers.fill(task, post, chosen, holders.get(task, []), before[task].owner)
        standbys = tuple(sorted({*chosen, *followers.farewell(post)}))
        after[task] = replace(post, standbys=standbys, warm_ups=tuple(name for name in post.warm_ups if name not in standbys))
    return after


class _Followers:
    """How many copies every member follows while standbys are chosen."""

    def __init__(self, now: Situation, seats: Seats, owners: Collection[Incarnation]) -> None:
        self._now = now
        self._seats = seats
        self._owners = owners
        self._count = {name: 0 for name, member in seats.members.items() if not member.leaving}
        self._places: dict[str, tuple[set[str | None], set[str]]] = {}
        self._heap: list[tuple[int, Incarnation]] | None = None

    def keep(self, task: TaskId, post: Post) -> list[Incarnation]:
        """The standbys that stay; one that is silent but not fenced may come back."""
        able: list[Incarnation] = []
        for name in post.standbys:
            member = self._seats.members.get(name)
            is_able = name not in self._now.fenced if member is None else task.name in member.offers and not member.leaving
            if is_able and name != post.owner:
                able.append(name)
        if len(able) > self._now.standbys:
            able = sorted(able, key=lambda name: (self._copy(name, task), name))[: self._now.standbys]
        for name in able:
            if name in self._count:
                self._count[name] += 1
        return able

    def _copy(self, name: Incarnation, task: TaskId) -> Copy:
        member = self._seats.members.get(name)
        return member.copy(task) if member else Copy.NONE

    def farewell(self, post: Post) -> list[Incarnation]:
        """Standbys on a leaving member stay, beside the wanted ones, until its own tasks are gone."""
        members = self._seats.members
        return [
            name
            for name in post.standbys
            if name in members and members[name].leaving and name in self._owners and name != post.owner and self._now.standbys
        ]

    def fill(self, task: TaskId, post: Post, chosen: list[Incarnation], holders: list[Candidate], former: Incarnation) -> list[Incarnation]:
        """Add standbys until there are enough: far from the others, then where a copy is, then where few are.

        The `former` owner has the fullest copy of all.
        """
        chosen = list(chosen)
        if former in self._count:
            holders = [*holders, self._seats.members[former]]
        while len(chosen) < self._now.standbys:
            taken = {post.owner, *chosen, *post.warm_ups}
            near = [self._seats.members[name] for name in (post.owner, *chosen) if name in self._seats.members]
            options = [member for member in holders if member.incarnation in self._count and task.name in member.offers]
            if emptiest := self._emptiest(task, taken, near):
                options.append(emptiest)
            best = min(
                (member for member in options if member.incarnation not in taken),
                key=lambda member: (
                    _nearness(member, near),
                    Copy.CAUGHT_UP if member.incarnation == former else member.copy(task),
                    self._count[member.incarnation],
                    member.incarnation,
                ),
                default=None,
            )
            if best is None:
                break
            chosen.append(best.incarnation)
            self._count[best.incarnation] += 1
        return chosen

    def _emptiest(self, task: TaskId, taken: Collection[Incarnation], near: list[Candidate]) -> Candidate | None:
        """Of the members farthest from the others the one that follows least."""
        if self._heap is None:
            self._heap = [(count, name) for name, count in self._count.items()]
            heapify(self._heap)
        farthest = self._farthest(task.name, near)
        aside: list[tuple[int, Incarnation]] = []
        best: tuple[tuple[bool, bool], Candidate] | None = None
        while self._heap:
            count, name = heappop(self._heap)
            if count != self._count[name]:
                heappush(self._heap, (self._count[name], name))
                continue
            aside.append((count, name))
            member = self._seats.members[name]
            if name in taken or task.name not in member.offers:
                continue
            nearness = _nearness(member, near)
            if best is None or nearness < best[0]:
                best = nearness, member
            if nearness <= farthest:
                break
        for item in aside:
            heappush(self._heap, item)
        return best[1] if best else None

    def _farthest(self, name: str, near: list[Candidate]) -> tuple[bool, bool]:
        """The best that any member can be, as `_nearness` tells it."""
        if name not in self._places:
            members = self._seats.open_to(name)
            self._places[name] = {member.rack for member in members}, {member.host for member in members}
        racks, hosts = self._places[name]
        if racks - {member.rack for member in near}:
            return False, False
        return True, not hosts - {member.host for member in near}


def _nearness(member: Candidate, near: list[Candidate]) -> tuple[bool, bool]:
    """Whether one failure, of a rack or of a host, may take the member and another copy."""
    return any(member.rack == other.rack for other in near), any(member.host == other.host for other in near)
