"""The leader's work, step by step, without doing any of it: a generator yields steps, whoever runs it sends back the view.

Production carries the steps out on Kafka, the simulation on its twin, with a fault between any two of them.

Invariant: whoever leaves a plan's members was fenced before by this leader, and the topic was read to its end since.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from streamlet.ids import Incarnation, Slot, TaskId
from streamlet.rebalance.members import Members, SupervisorWord, WorkerWord
from streamlet.rebalance.planner import Candidate, Situation, plan_next
from streamlet.rebalance.records import MANIFEST_KEY, PLAN_KEY, ControlRecord, Manifest, Plan
from streamlet.rebalance.view import View
from streamlet.rebalance.wishes import Orders, heed_wishes

RETURN_S: Final = 2.0  # how long tasks without another copy wait for their worker to come back
PLAN_EVERY_S: Final = 0.5  # between plans that no failure asks for


@dataclass(frozen=True, slots=True)
class Take:
    """Take the leader's id: every earlier leader is fenced."""


@dataclass(frozen=True, slots=True)
class ReadToEnd:
    """Read the control topic to its high watermark of now; the answer is None where an undecided transaction is in the way."""


@dataclass(frozen=True, slots=True)
class Fence:
    """Return when none of these can write any more and their open transactions are settled."""

    incarnations: frozenset[Incarnation]


@dataclass(frozen=True, slots=True)
class Publish:
    """Write these records in one transaction."""

    records: tuple[tuple[bytes, ControlRecord | None], ...]


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing to do now: come again with what has been heard since."""


Step = Take | ReadToEnd | Fence | Publish | Pause
Steps = Generator[Step, View | None, None]


def lead(app: str, members: Callable[[], Members], now: Callable[[], float]) -> Steps:
    """Lead until another leader's plan is seen; ends then, and whoever still shall lead begins anew."""
    yield Take()
    fenced: frozenset[Incarnation] = frozenset()
    lost_at: dict[Slot, float] = {}
    published: Plan | None = None
    published_at = float("-inf")
    view = yield from _read(fenced, members, now)
    while True:
        heard, moment = members(), now()
        plan = _newest(view.plan, published)
        if published is not None and plan is not published and plan != published:
            return  # somebody else wrote a plan: what we know may be old
        lost = heard.lost(plan.members, moment) - fenced if plan is not None else frozenset[Incarnation]()
        if lost:
            lost_at |= {slot_of(app, incarnation): moment for incarnation in lost}
            fenced |= lost
            yield Fence(lost)
            view = yield from _read(fenced, members, now)
            plan = _newest(view.plan, published)
        elif moment - published_at < PLAN_EVERY_S:
            view = yield from _pause(view)
            continue
        returning = frozenset(slot for slot, at in lost_at.items() if moment - at < RETURN_S)
        records = decide(view, plan, heard, moment, fenced=fenced, returning=returning)
        if records:
            published = next((record for _, record in records if isinstance(record, Plan)), published)
            published_at = moment
            yield Publish(records)
        view = yield from _pause(view)


def _pause(view: View) -> Generator[Step, View | None, View]:
    heard = yield Pause()
    return heard or view


def _read(fenced: frozenset[Incarnation], members: Callable[[], Members], now: Callable[[], float]) -> Generator[Step, View | None, View]:
    """Read to the end; whoever holds it back and is given up is fenced, which settles what it left open."""
    seen: frozenset[Incarnation] = fenced
    while True:
        view = yield ReadToEnd()
        if view is not None:
            return view
        heard = members()
        stuck = heard.lost(heard.workers, now()) - seen
        if stuck:
            seen |= stuck
            yield Fence(stuck)


def _newest(seen: Plan | None, published: Plan | None) -> Plan | None:
    if seen is None or (published is not None and published.version > seen.version):
        return published
    return seen


def decide(
    view: View, plan: Plan | None, heard: Members, now: float, *, fenced: frozenset[Incarnation], returning: frozenset[Slot]
) -> tuple[tuple[bytes, ControlRecord | None], ...]:
    """What the leader publishes next, by what it knows; nothing if nothing is to change."""
    living = {one: words for one, words in heard.living(now).items() if one not in fenced}
    manifest = _manifest_to_publish(view.manifest, living)
    published = manifest or view.manifest
    able = {one: words for one, words in living.items() if words[0].manifest is None or words[0].manifest == published}
    present = heard.present(now)
    orders = heed_wishes(view.wishes, plan, able, present)
    situation = Situation(
        tasks=frozenset(
            TaskId(name, number) for word, _ in able.values() for name, count in word.offers.items() for number in range(count)
        ),
        load={TaskId.parse(task): load for word, _ in able.values() for task, load in word.load.items()},
        members=tuple(_candidate(*words, leaving=heard.leaving(now) | set(orders.drained)) for _, words in sorted(able.items())),
        fenced=fenced,
        plan=plan,
        own=view.own,
        standbys=max((word.standbys for word in present), default=0),
        wanted=orders.moves,
        returning=returning,
    )
    records: list[tuple[bytes, ControlRecord | None]] = []
    if manifest is not None:
        records.append((MANIFEST_KEY, Manifest(manifest)))
    if able or plan is not None:
        ordered = _with_orders(plan_next(situation) if able else None, plan, orders)
        if ordered is not None:
            records.append((PLAN_KEY, ordered))
    records += [(key, None) for key in orders.answered]
    return tuple(records)


def _with_orders(next_plan: Plan | None, plan: Plan | None, orders: Orders) -> Plan | None:
    """The plan with what people asked for; None if nothing is new."""
    base = next_plan or plan
    if base is None:
        return None
    ordered = msgspec.structs.replace(base, paused=orders.paused, drained=orders.drained, target=orders.target, quotas=orders.quotas)
    if next_plan is None:
        if ordered == plan:
            return None
        return msgspec.structs.replace(ordered, version=base.version + 1, why=orders.why or "supervisors changed")
    return msgspec.structs.replace(ordered, why="; ".join(filter(None, (orders.why, next_plan.why))))


def _manifest_to_publish(stored: bytes | None, living: Mapping[Incarnation, tuple[WorkerWord, SupervisorWord]]) -> bytes | None:
    """A manifest that a worker needs and that follows the stored one; the first, by name, where several do."""
    wanted = [word.manifest for _, (word, _) in sorted(living.items()) if word.manifest is not None and word.replaces == stored]
    return next((manifest for manifest in wanted if manifest != stored), None)


def _candidate(worker: WorkerWord, supervisor: SupervisorWord, *, leaving: frozenset[Incarnation] | set[Incarnation]) -> Candidate:
    return Candidate(
        incarnation=worker.incarnation,
        slot=worker.slot,
        host=supervisor.host,
        rack=supervisor.rack,
        offers=frozenset(worker.offers),
        leaving=worker.incarnation in leaving,
        copies={TaskId.parse(task): copy.lag for task, copy in worker.copies.items()},
        kept=frozenset(TaskId.parse(task) for task in worker.kept),
    )


def slot_of(app: str, incarnation: Incarnation) -> Slot:
    """The slot inside an incarnation's name, `<app>-<slot>-<random>`."""
    return Slot(incarnation.removeprefix(f"{app}-").rpartition("-")[0])
