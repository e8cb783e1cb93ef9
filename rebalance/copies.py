"""Where the copies of each task follow its owner: far from it, and spread evenly. Pure.

What is missing is filled up at once. A standby gives its place to a better one only when that one has caught up:
until then the better one warms up beside it.

Invariant: a task's owner is never its own standby, and nobody follows a task that its code does not have.
Invariant: a standby is only exchanged for one farther from the other copies, or as far and following less.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from heapq import heapify, heappop, heappush
from typing import Final

from streamlet.ids import Incarnation, TaskId
from streamlet.rebalance.placement import Seats, holders_of, order
from streamlet.rebalance.situation import MOST_WARM_UPS, Candidate, Copy, Post, Situation

MOST_TRIED: Final = 8  # members looked at for one exchange or for a better spread of one owner's copies

Nearness = tuple[bool, bool]  # same rack, same host as another copy


def choose_standbys(now: Situation, before: Mapping[TaskId, Post], posts: Mapping[TaskId, Post], seats: Seats) -> dict[TaskId, Post]:
    """Keep the standbys there are, fill up what is missing, exchange what can be better."""
    followers = _Followers(now, posts, seats)
    if now.standbys:
        short = {task for task, chosen in followers.chosen.items() if len(chosen) < now.standbys and posts[task].owner in seats.members}
        holders = holders_of(short, now.members)
        for task in sorted(short, key=order):
            followers.fill(task, holders.get(task, []), former=before[task].owner)
        followers.exchange(before)
    return {task: followers.post(task) for task in posts}


class _Followers:
    """Who follows what while standbys are chosen. Its only writer is `choose_standbys`."""

    def __init__(self, now: Situation, posts: Mapping[TaskId, Post], seats: Seats) -> None:
        self._now, self._posts, self._seats = now, posts, seats
        self._owners = {post.owner for post in posts.values()}
        self._count = {name: 0 for name, member in seats.members.items() if not member.leaving}
        self._together = Counter[tuple[Incarnation, Incarnation]]()  # tasks of an owner that a member follows
        self._room = Counter(dict.fromkeys(self._count, MOST_WARM_UPS))
        self._warm_ups = {task: post.warm_ups for task, post in posts.items()}
        self._exchanged: set[tuple[TaskId, Incarnation]] = set()  # standbys for which a better one warms up
        self._places: dict[str, tuple[frozenset[str | None], frozenset[str]]] = {}
        self._heap: list[tuple[int, Incarnation]] | None = None
        self.chosen: dict[TaskId, list[Incarnation]] = {}
        for task, post in posts.items():
            self.chosen[task] = []
            for name in self._able(task, post)[: now.standbys]:
                self._add(task, name)
            for name in post.warm_ups:
                self._room[name] -= 1

    def _able(self, task: TaskId, post: Post) -> list[Incarnation]:
        """The standbys that may stay, best first; one that is silent but not fenced may come back."""
        able: list[Incarnation] = []
        for name in post.standbys:
            member = self._seats.members.get(name)
            is_able = name not in self._now.fenced if member is None else task.name in member.offers and not member.leaving
            if is_able and name != post.owner:
                able.append(name)
        return able if len(able) <= self._now.standbys else sorted(able, key=lambda name: (self._copy(name, task), name))

    def _copy(self, name: Incarnation, task: TaskId) -> Copy:
        member = self._seats.members.get(name)
        return member.copy(task) if member else Copy.NONE

    def _add(self, task: TaskId, name: Incarnation) -> None:
        self.chosen[task].append(name)
        if name in self._count:
            self._count[name] += 1
            self._together[self._posts[task].owner, name] += 1

    def _remove(self, task: TaskId, name: Incarnation) -> None:
        self.chosen[task].remove(name)
        self._count[name] -= 1
        self._together[self._posts[task].owner, name] -= 1

    def post(self, task: TaskId) -> Post:
        """The task's entry with its copies. Those on a leaving member stay, beside the wanted ones, until its own tasks are gone."""
        post, members = self._posts[task], self._seats.members
        farewell = [
            name
            for name in post.standbys
            if self._now.standbys and name in members and members[name].leaving and name in self._owners and name != post.owner
        ]
        standbys = tuple(sorted({*self.chosen[task], *farewell}))
        warm_ups = tuple(name for name in self._warm_ups[task] if name not in standbys)
        return post if (post.standbys, post.warm_ups) == (standbys, warm_ups) else replace(post, standbys=standbys, warm_ups=warm_ups)

    def fill(self, task: TaskId, holders: Iterable[Candidate], former: Incarnation) -> None:
        """Add standbys until there are enough: far from the other copies, where a copy is already, where few are.

        The `former` owner has the fullest copy of all.
        """
        options = [member for member in holders if member.incarnation in self._count and task.name in member.offers]
        if former in self._count and task.name in self._seats.members[former].offers:
            options.append(self._seats.members[former])
        while len(self.chosen[task]) < self._now.standbys:
            near, taken = self._near(task), {self._posts[task].owner, *self.chosen[task], *self._warm_ups[task]}
            emptiest = self._emptiest(task, near, taken)
            best = min(
                (member for member in (*options, *([emptiest] if emptiest else [])) if member.incarnation not in taken),
                key=lambda member: (
                    _nearness(member, near),
                    Copy.CAUGHT_UP if member.incarnation == former else member.copy(task),
                    self._count[member.incarnation],
                    member.incarnation,
                ),
                default=None,
            )
            if best is None:
                return
            self._add(task, best.incarnation)

    def _near(self, task: TaskId, without: Incarnation | None = None) -> list[Candidate]:
        """The living members that have the task or a chosen copy of it."""
        names = (self._posts[task].owner, *self.chosen[task])
        return [self._seats.members[name] for name in names if name in self._seats.members and name != without]

    def _emptiest(self, task: TaskId, near: list[Candidate], taken: Collection[Incarnation]) -> Candidate | None:
        """Of the members farthest from the other copies the one that follows least, and least of this owner."""
        if self._heap is None:
            self._heap = [(count, name) for name, count in self._count.items()]
            heapify(self._heap)
        owner, farthest = self._posts[task].owner, self._farthest(task.name, near)
        aside: list[tuple[int, Incarnation]] = []
        best: tuple[Nearness, int, int, Incarnation] | None = None
        fitting = 0
        while self._heap and fitting < MOST_TRIED:
            count, name = heappop(self._heap)
            if count != self._count[name]:  # counts only grow here: an old item comes too early
                heappush(self._heap, (self._count[name], name))
                continue
            aside.append((count, name))
            member = self._seats.members[name]
            if name in taken or task.name not in member.offers:
                continue
            key = (_nearness(member, near), count, self._together[owner, name], name)
            best = key if best is None else min(best, key)
            if best[0] <= farthest:
                fitting += 1
                if best[2] == 0 or count > best[1]:
                    break
        for item in aside:
            heappush(self._heap, item)
        return self._seats.members[best[3]] if best else None

    def _farthest(self, name: str, near: list[Candidate]) -> Nearness:
        """The best nearness that any member can have."""
        if name not in self._places:
            members = self._seats.open_to(name)
            self._places[name] = frozenset(member.rack for member in members), frozenset(member.host for member in members)
        racks, hosts = self._places[name]
        near_racks, near_hosts = {member.rack for member in near}, {member.host for member in near}
        if any(rack not in near_racks for rack in racks):
            return False, False
        return True, all(host in near_hosts for host in hosts)

    def exchange(self, before: Mapping[TaskId, Post]) -> None:
        """Go on with the exchanges underway, then take copies that are too near, then even out."""
        for task, post in before.items():
            for name in post.warm_ups:
                if leaver := self._worse(task, name):
                    self._replace(task, leaver, name)
        for task, chosen in self.chosen.items():
            for name in tuple(chosen):
                if name in self._count and (task, name) not in self._exchanged and (better := self._farther(task, name)):
                    self._replace(task, name, better)
        self._even_out()

    def _worse(self, task: TaskId, better: Incarnation) -> Incarnation | None:
        """The standby that should give its place to this member, if any."""
        if not self._may_follow(task, better):
            return None
        for name in self.chosen[task]:
            if name in self._count and (task, name) not in self._exchanged:
                near = self._near(task, without=name)
                gain = _nearness(self._seats.members[name], near), _nearness(self._seats.members[better], near)
                if gain[1] < gain[0] or (gain[1] == gain[0] and self._count[better] + 2 <= self._count[name]):
                    return name
        return None

    def _may_follow(self, task: TaskId, name: Incarnation) -> bool:
        is_free = name in self._count and name != self._posts[task].owner and name not in self.chosen[task]
        return is_free and name not in self._warm_ups[task] and task.name in self._seats.members[name].offers

    def _farther(self, task: TaskId, name: Incarnation) -> Incarnation | None:
        """A member farther from the task's other copies than this standby."""
        near = self._near(task, without=name)
        nearness = _nearness(self._seats.members[name], near)
        if nearness == (False, False) or nearness <= self._farthest(task.name, near):
            return None
        able = [member for member in self._seats.open_to(task.name) if self._may_follow(task, member.incarnation)]
        able = [member for member in able if self._room[member.incarnation] > 0 or member.copy(task) is Copy.CAUGHT_UP]
        best = min(
            able,
            key=lambda member: (_nearness(member, near), member.copy(task), self._count[member.incarnation], member.incarnation),
            default=None,
        )
        return best.incarnation if best and _nearness(best, near) < nearness else None

    def _replace(self, task: TaskId, leaver: Incarnation, better: Incarnation) -> None:
        """Exchange at once for a copy that has caught up, else let it warm up."""
        if self._copy(better, task) is Copy.CAUGHT_UP:
            self._remove(task, leaver)
            self._add(task, better)
        elif self._room[better] > 0:
            self._room[better] -= 1
            self._warm_ups[task] = (*self._warm_ups[task], better)
            self._exchanged.add((task, leaver))
            self._count[better] += 1  # it is as good as there
            self._count[leaver] -= 1

    def _even_out(self) -> None:
        """From those that follow most to those that follow least, as long as it helps."""
        if not self._count or max(self._count.values()) - min(self._count.values()) < 2:
            return
        followed: dict[Incarnation, list[TaskId]] = defaultdict(list)
        for task, chosen in self.chosen.items():
            for name in chosen:
                followed[name].append(task)
        for receiver in sorted(self._count, key=lambda name: (self._count[name], name)):
            while step := self._give(receiver, followed):
                task, giver = step
                followed[giver].remove(task)
                self._replace(task, giver, receiver)

    def _give(self, receiver: Incarnation, followed: Mapping[Incarnation, list[TaskId]]) -> tuple[TaskId, Incarnation] | None:
        """A copy that the receiver should have instead of one that follows more."""
        fullest = sorted(self._count, key=lambda name: (-self._count[name], name))[:MOST_TRIED]
        for giver in fullest:
            if self._count[giver] - self._count[receiver] < 2:
                return None
            tasks = [task for task in followed.get(giver, ()) if self._worse(task, receiver) == giver]
            if self._room[receiver] <= 0:
                tasks = [task for task in tasks if self._copy(receiver, task) is Copy.CAUGHT_UP]
            if tasks:
                return min(
                    tasks, key=lambda task: (self._copy(receiver, task), self._together[self._posts[task].owner, receiver], order(task))
                ), giver
        return None


def _nearness(member: Candidate, near: Iterable[Candidate]) -> Nearness:
    """Whether one failure, of a rack or of a host, may take this member and another copy."""
    same_rack = same_host = False
    for other in near:
        same_rack |= member.rack == other.rack
        same_host |= member.host == other.host
    return same_rack, same_host
