"""The next plan: which of the moves that should be made may be made now. Pure, so that nobody disagrees about a plan.

An entry is (owner, term, wait); the newest claim or release of its task says how far it has come. An owner that stays
keeps its term. A fenced owner's task gets the next term and keeps a wait that is not settled. A living owner's task
moves only after its claim, and the new owner waits for the release of exactly that term.

Invariant: a term only grows, by one at each change of owner.
Invariant: nobody leaves the list of members who was not fenced in this round.
Invariant: the plan of a settled situation is the one that stands.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec

from streamlet.ids import Incarnation, Slot, TaskId, Term
from streamlet.rebalance.copies import choose_standbys
from streamlet.rebalance.placement import Held, Seats, holders_of, order, plan_moves, share_out, take_over, weights
from streamlet.rebalance.reasons import why
from streamlet.rebalance.records import Entry, Own, OwnKind, Plan, Wait
from streamlet.rebalance.situation import CAUGHT_UP, MOST_WARM_UPS, NOBODY, Candidate, Copy, Post, Situation, slots_of

__all__ = ["CAUGHT_UP", "MOST_MOVES", "MOST_WARM_UPS", "Candidate", "Situation", "plan_next"]

MOST_MOVES: Final = 4  # voluntary changes of owner per plan


def plan_next(now: Situation) -> Plan | None:
    """The next plan by the rules of ownership, or None when nothing is to change."""
    assert now.fenced.isdisjoint(member.incarnation for member in now.members), "a fenced incarnation lives no more"
    before = _posts_before(now)
    pins = _pins(now)
    seats = Seats(now.members, weights(now.tasks, now.load))
    replaced = _replace_lost(now, before, seats, pins)
    moves = plan_moves(_held(now, replaced, seats, pins), seats)
    moved = _move(now, replaced, moves, pins)
    after = choose_standbys(now, before, moved, seats)
    plan = _write(now, after, pins)
    if now.plan is None:
        is_new = bool(plan.members)
    else:
        is_new = (plan.members, plan.tasks, plan.pins) != (now.plan.members, now.plan.tasks, now.plan.pins)
    return msgspec.structs.replace(plan, why=why(now, before, after, pins)) if is_new else None


def _posts_before(now: Situation) -> dict[TaskId, Post]:
    """Every task as the newest plan has it. A claim that no plan knows is an ownership all the same."""
    posts: dict[TaskId, Post] = {}
    names = now.plan.members if now.plan else ()
    entries = now.plan.tasks if now.plan else {}
    for task in sorted(now.tasks, key=order):
        entry, own = entries.get(str(task)), now.own.get(task)
        if entry is not None:
            owner = names[entry.owner] if entry.owner < len(names) else NOBODY
            standbys, warm_ups = (tuple(names[i] for i in listed if i < len(names)) for listed in (entry.standbys, entry.warm_ups))
            posts[task] = Post(owner, entry.term, _wait(entry.wait, now), standbys, warm_ups)
        elif own is not None:
            posts[task] = Post(own.incarnation if own.kind is OwnKind.CLAIM else NOBODY, own.term)
        else:
            posts[task] = Post(NOBODY, Term(0))
    return posts


def _wait(wait: Wait | None, now: Situation) -> Wait | None:
    """A fenced incarnation will never release: nobody waits for it."""
    return None if wait is not None and wait.incarnation in now.fenced else wait


def _is_settled(wait: Wait | None, own: Own | None) -> bool:
    """Whether what an entry waits for has come, or can no more be missing."""
    if wait is None:
        return True
    if own is None:
        return False
    return own.term > wait.term or (own.kind is OwnKind.RELEASE and (own.incarnation, own.term) == (wait.incarnation, wait.term))


def _is_claimed(post: Post, own: Own | None) -> bool:
    """Whether the owner has said that it holds the task under this term."""
    return own is not None and own.kind is OwnKind.CLAIM and (own.incarnation, own.term) == (post.owner, post.term)


def _pins(now: Situation) -> dict[str, Slot]:
    """Where people want tasks: until that slot leaves, or they want them elsewhere."""
    names = {str(task): task for task in now.tasks}
    open_to = {(member.slot, name) for member in now.members if not member.leaving for name in member.offers}
    silent = set(now.plan.members if now.plan else ()) - now.fenced - {member.incarnation for member in now.members}
    expected = (now.returning | set(slots_of(silent, now.members).values())) - {member.slot for member in now.members}
    pins = {
        name: slot
        for name, slot in (now.plan.pins if now.plan else {}).items()
        if name not in names or (slot, names[name].name) in open_to or slot in expected
    }
    return pins | {str(task): slot for task, slot in now.wanted.items() if task in now.tasks and (slot, task.name) in open_to}


def _wished(task: TaskId, pins: Mapping[str, Slot], seats: Seats, owner: Incarnation) -> Incarnation | None:
    """The member in the slot where a person wants the task."""
    slot = pins.get(str(task))
    able = [member.incarnation for member in seats.open_to(task.name) if member.slot == slot] if slot is not None else []
    return owner if owner in able else next(iter(able), None)


def _replace_lost(now: Situation, before: Mapping[TaskId, Post], seats: Seats, pins: Mapping[str, Slot]) -> dict[TaskId, Post]:
    """New owners for the tasks of fenced ones, at once: a copy near the end, the slot that comes back, any copy, anybody."""
    lost = {task: post for task, post in before.items() if post.owner == NOBODY or post.owner in now.fenced}
    for task, post in before.items():
        if post.owner in seats.members:
            seats.take(task, post.owner)
    slots = slots_of({post.owner for post in lost.values()}, now.members)
    expected = now.returning - {member.slot for member in now.members}
    holders = holders_of(lost.keys(), now.members)
    owners: dict[TaskId, Incarnation] = {}
    for task, post in lost.items():
        wished = _wished(task, pins, seats, post.owner)
        running = _still_runs(task, post, now, seats)
        taker = running or take_over(task, seats, holders=holders.get(task, ()), wished=wished)
        is_quick = taker is not None and (taker == running or seats.members[taker].copy(task) is Copy.CAUGHT_UP)
        if not is_quick and slots[post.owner] in expected:
            continue
        if taker := taker or wished:
            seats.take(task, taker)
            owners[task] = taker
    free = [task for task, post in lost.items() if task not in owners and slots[post.owner] not in expected]
    owners |= share_out(free, seats)
    return {task: _next_owner(post, owners[task], now.own.get(task)) if task in owners else post for task, post in before.items()}


def _still_runs(task: TaskId, post: Post, now: Situation, seats: Seats) -> Incarnation | None:
    """Who was to hand the task over to the one now lost, and has not let it go: it may as well go on."""
    if post.wait is None or _is_settled(post.wait, now.own.get(task)):
        return None
    return next((member.incarnation for member in seats.open_to(task.name) if member.incarnation == post.wait.incarnation), None)


def _next_owner(post: Post, owner: Incarnation, own: Own | None) -> Post:
    """The entry of a task whose owner was fenced, or that has none."""
    term = Term(max(post.term, own.term if own else 0) + 1)
    return replace(post, owner=owner, term=term, wait=None if _is_settled(post.wait, own) else post.wait)


def _held(now: Situation, posts: Mapping[TaskId, Post], seats: Seats, pins: Mapping[str, Slot]) -> dict[TaskId, Held]:
    """The tasks that living members have, in order."""
    return {
        task: Held(post.owner, _is_claimed(post, now.own.get(task)), _wished(task, pins, seats, post.owner), post.warm_ups)
        for task, post in posts.items()
        if post.owner in seats.members
    }


def _move(
    now: Situation, posts: Mapping[TaskId, Post], moves: Mapping[TaskId, Incarnation], pins: Mapping[str, Slot]
) -> dict[TaskId, Post]:
    """Hand over what was claimed and waits for a copy that is near the end; let other copies warm up."""
    members = {member.incarnation: member for member in now.members}
    urgent_first = sorted(moves, key=lambda task: (not members[posts[task].owner].leaving, str(task) not in pins, order(task)))
    ready = [
        task for task in urgent_first if members[moves[task]].copy(task) is Copy.CAUGHT_UP and _is_claimed(posts[task], now.own.get(task))
    ][:MOST_MOVES]
    after = {task: replace(post, warm_ups=()) if post.warm_ups else post for task, post in posts.items()}
    for task in ready:
        owner, term = posts[task].owner, posts[task].term
        after[task] = replace(after[task], owner=moves[task], term=Term(term + 1), wait=Wait(owner, term))
    room = Counter(dict.fromkeys(members, MOST_WARM_UPS))
    underway_first = sorted(urgent_first, key=lambda task: moves[task] not in posts[task].warm_ups)
    for task in underway_first:
        target = moves[task]
        if after[task].owner != target and target not in posts[task].standbys and room[target] > 0:
            room[target] -= 1
            after[task] = replace(after[task], warm_ups=(target,))
    return after


def _write(now: Situation, after: Mapping[TaskId, Post], pins: dict[str, Slot]) -> Plan:
    """The plan as a record. A task that the app no longer has keeps its entry: a rolling upgrade may bring it back."""
    old = now.plan.members if now.plan else ()
    posts = {str(task): post for task, post in after.items() if post.owner != NOBODY}
    forgotten = {
        name: (old[entry.owner], entry)
        for name, entry in sorted((now.plan.tasks if now.plan else {}).items())
        if name not in posts and entry.owner < len(old)
    }
    owners = {post.owner for post in posts.values()} | {owner for owner, _ in forgotten.values()}
    alive = {member.incarnation for member in now.members}
    stay = [name for name in old if name in alive or name not in now.fenced or name in owners]
    members = (*stay, *sorted((alive | owners) - set(stay)))
    index = {name: i for i, name in enumerate(members)}
    entries = {
        name: Entry(
            index[post.owner],
            post.term,
            post.wait,
            standbys=tuple(index[standby] for standby in post.standbys),
            warm_ups=tuple(index[warm_up] for warm_up in post.warm_ups),
        )
        for name, post in posts.items()
    }
    for name, (owner, entry) in forgotten.items():
        standbys, warm_ups = (
            tuple(index[old[i]] for i in listed if i < len(old) and old[i] in index) for listed in (entry.standbys, entry.warm_ups)
        )
        entries[name] = Entry(index[owner], entry.term, _wait(entry.wait, now), standbys, warm_ups)
    return Plan((now.plan.version if now.plan else 0) + 1, members, entries, pins)
