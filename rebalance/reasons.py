"""What a plan changes and why, in one short sentence for people. Pure."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from streamlet.ids import Incarnation, Slot, TaskId
from streamlet.rebalance.situation import NOBODY, Post, Situation, slots_of

LONGEST: Final = 200  # characters of a reason
NAMED: Final = 2  # changes of one kind that are told one by one; more are counted


def why(now: Situation, before: Mapping[TaskId, Post], after: Mapping[TaskId, Post], pins: Mapping[str, Slot]) -> str:
    """What people want to know first comes first; what is too long is cut."""
    names = {name for posts in (before, after) for post in posts.values() for name in (post.owner, *post.warm_ups)}
    listed = now.plan.members if now.plan else ()
    slots = slots_of(names | set(listed), now.members)
    changes = {task: (post, after[task]) for task, post in before.items() if post != after[task]}
    reasons = [
        *_lost(now, before, after, slots),
        *_moves(now, changes, slots),
        *_placed(now, changes),
        *_warm_ups(changes, slots),
        *_told("{} joined", sorted(slots[member.incarnation] for member in now.members if listed and member.incarnation not in listed)),
        *_told(
            "{} left",
            sorted(slots[name] for name in listed if name in now.fenced and not any(name == post.owner for post in before.values())),
        ),
        *_pins(now, pins),
        *_standbys(changes),
    ]
    text = "; ".join(reasons) or "entries tidied up"
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _lost(now: Situation, before: Mapping[TaskId, Post], after: Mapping[TaskId, Post], slots: Mapping[Incarnation, Slot]) -> list[str]:
    """`web-1/1 lost: 4 tasks reassigned`, for every owner that was fenced."""
    reassigned, waiting = Counter[Incarnation](), Counter[Incarnation]()
    for task, post in before.items():
        if post.owner in now.fenced:
            (waiting if after[task].owner == post.owner else reassigned)[post.owner] += 1
    told: list[str] = []
    for name in sorted(reassigned.keys() | waiting.keys(), key=lambda name: slots[name]):
        parts = [f"{_tasks(counts[name])} {verb}" for counts, verb in ((reassigned, "reassigned"), (waiting, "waiting")) if counts[name]]
        told.append(f"{slots[name]} lost: {', '.join(parts)}")
    return told


def _moves(now: Situation, changes: Mapping[TaskId, tuple[Post, Post]], slots: Mapping[Incarnation, Slot]) -> list[str]:
    """`orders/3 moves to web-2/0`."""
    alive = {member.incarnation for member in now.members}
    moves = [(task, new.owner) for task, (old, new) in changes.items() if old.owner != new.owner and old.owner in alive]
    if len(moves) > NAMED:
        return [f"{_tasks(len(moves))} move"]
    return [f"{task} moves to {slots[owner]}" for task, owner in moves]


def _placed(now: Situation, changes: Mapping[TaskId, tuple[Post, Post]]) -> list[str]:
    """`8 tasks placed`: they were in no plan."""
    placed = sum(old.owner == NOBODY != new.owner for old, new in changes.values())
    if now.plan is None:
        return [f"first plan: {_tasks(placed)} placed"]
    return [f"{_tasks(placed)} placed"] if placed else []


def _warm_ups(changes: Mapping[TaskId, tuple[Post, Post]], slots: Mapping[Incarnation, Slot]) -> list[str]:
    """`orders/3 warms up on web-2/0`."""
    started = [(task, name) for task, (old, new) in changes.items() for name in new.warm_ups if name not in old.warm_ups]
    if len(started) > NAMED:
        return [f"{len(started)} copies begin to warm up"]
    return [f"{task} warms up on {slots[name]}" for task, name in started]


def _pins(now: Situation, pins: Mapping[str, Slot]) -> list[str]:
    """`orders/3 wanted on web-2/0`."""
    before = now.plan.pins if now.plan else {}
    told = [f"{task} wanted on {slot}" for task, slot in sorted(pins.items()) if before.get(task) != slot]
    freed = sorted(before.keys() - pins.keys())
    return [*(told if len(told) <= NAMED else [f"{_tasks(len(told))} wanted elsewhere"]), *_told("{} no longer bound to a slot", freed)]


def _standbys(changes: Mapping[TaskId, tuple[Post, Post]]) -> list[str]:
    """`3 tasks change standbys`."""
    changed = sum(old.standbys != new.standbys and old.owner == new.owner for old, new in changes.values())
    return [f"standbys of {_tasks(changed)} change"] if changed else []


def _told(sentence: str, names: list[str] | list[Slot]) -> list[str]:
    if not names:
        return []
    return [sentence.format(", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else ""))]


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"
