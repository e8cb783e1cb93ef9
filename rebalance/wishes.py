"""What people asked for, as the leader carries it into the plan. Pure.

A wish is answered as soon as the plan holds it: the plan is what lasts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamlet.ids import Incarnation, Slot, TaskId
from streamlet.rebalance.members import SupervisorWord, WorkerWord
from streamlet.rebalance.records import Plan, Wish, WishKind, wish_key

Living = Mapping[Incarnation, tuple[WorkerWord, SupervisorWord]]


@dataclass(frozen=True, slots=True)
class Orders:
    """What the next plan has to hold because somebody wished it, and which wishes are answered by that."""

    moves: Mapping[TaskId, Slot]
    paused: tuple[str, ...]
    drained: tuple[Incarnation, ...]
    target: int | None
    quotas: dict[str, int]
    answered: tuple[bytes, ...]
    why: str


def heed_wishes(wishes: Mapping[str, Wish], plan: Plan | None, living: Living, supervisors: Sequence[SupervisorWord]) -> Orders:
    """Carry open wishes into what the plan already holds."""
    moves: dict[TaskId, Slot] = {}
    tasks = sorted(plan.tasks) if plan is not None else []
    paused = set(plan.paused) if plan is not None else set[str]()
    drained = {one for one in (plan.drained if plan is not None else ()) if one in living}
    target = plan.target if plan is not None else None
    answered: list[bytes] = []
    reasons: list[str] = []
    for wish in sorted(wishes.values(), key=lambda wish: (wish.at_ms, wish.kind, wish.subject)):
        subjects = {wish.subject} if wish.subject else set(tasks)
        if wish.kind is WishKind.PAUSE:
            paused |= subjects & set(tasks)
        elif wish.kind is WishKind.RESUME and paused & subjects:
            paused -= subjects
        elif wish.kind is WishKind.MOVE:
            moves[TaskId.parse(wish.subject)] = Slot(wish.value)
        elif wish.kind is WishKind.DRAIN:
            drained |= {one for one, (worker, _) in living.items() if worker.slot == wish.subject}
        elif wish.kind is WishKind.SCALE:
            target = int(wish.value) if wish.value.isdecimal() else None
        elif wish.subject:
            continue  # for the worker that owns the parked task
        answered.append(wish_key(wish))
        reasons.append(" ".join(filter(None, (wish.kind.value, wish.subject, wish.value))))
    return Orders(
        moves=moves,
        paused=tuple(sorted(paused)),
        drained=tuple(sorted(drained)),
        target=target,
        quotas=share_out(target, supervisors),
        answered=tuple(answered),
        why=f"asked for: {', '.join(reasons)}" if reasons else "",
    )


def share_out(target: int | None, supervisors: Sequence[SupervisorWord]) -> dict[str, int]:
    """How many workers each supervisor runs so that there are `target` in all, as evenly as their limits allow."""
    if target is None:
        return {}
    quotas = {word.supervisor: 0 for word in sorted(supervisors, key=lambda word: word.supervisor) if not word.closing}
    limits = {word.supervisor: word.most_workers for word in supervisors}
    for _ in range(target):
        open_to = [name for name in quotas if (limit := limits[name]) is None or quotas[name] < limit]
        if not open_to:
            break
        quotas[min(open_to, key=lambda name: (quotas[name], name))] += 1
    return quotas
