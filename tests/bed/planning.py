"""A cluster as the planner sees it: builders for situations, and a little twin that carries plans out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from streamlet.ids import Incarnation, Slot, TaskId, Term
from streamlet.rebalance.planner import CAUGHT_UP, MOST_MOVES, MOST_WARM_UPS, Candidate, Situation, plan_next
from streamlet.rebalance.records import Entry, Own, OwnKind, Plan, Wait

FAR_BEHIND = 3 * CAUGHT_UP


def incarnation(slot: str, start: int = 0) -> Incarnation:
    """The id of one start of the worker in a slot."""
    return Incarnation(f"app-{slot}-{start:08x}")


def member(
    slot: str,
    *,
    start: int = 0,
    rack: str | None = None,
    offers: Iterable[str] = ("orders",),
    leaving: bool = False,
    copies: Mapping[TaskId, int] | None = None,
    kept: Iterable[TaskId] = (),
) -> Candidate:
    """A living worker in a slot."""
    host = slot.partition("/")[0]
    return Candidate(incarnation(slot, start), Slot(slot), host, rack, frozenset(offers), leaving, copies or {}, frozenset(kept))


def orders(count: int, name: str = "orders") -> list[TaskId]:
    """The first tasks of one name."""
    return [TaskId(name, partition) for partition in range(count)]


def situation(
    tasks: Iterable[TaskId],
    members: Iterable[Candidate],
    *,
    plan: Plan | None = None,
    own: Mapping[TaskId, Own] | None = None,
    load: Mapping[TaskId, float] | None = None,
    fenced: Iterable[Incarnation] = (),
    standbys: int = 0,
    wanted: Mapping[TaskId, str] | None = None,
    returning: Iterable[str] = (),
) -> Situation:
    """What a leader would know, with nothing special where nothing is said."""
    return Situation(
        tasks=frozenset(tasks),
        load=load or {},
        members=tuple(members),
        fenced=frozenset(fenced),
        plan=plan,
        own=own or {},
        standbys=standbys,
        wanted={task: Slot(slot) for task, slot in (wanted or {}).items()},
        returning=frozenset(Slot(slot) for slot in returning),
    )


def claim(owner: Incarnation, term: int) -> Own:
    """The owner holds the task."""
    return Own(OwnKind.CLAIM, owner, Term(term), {}, {})


def release(owner: Incarnation, term: int) -> Own:
    """The owner has let the task go."""
    return Own(OwnKind.RELEASE, owner, Term(term), {}, {})


def claims(plan: Plan) -> dict[TaskId, Own]:
    """Everybody holds what the plan gives them."""
    return {TaskId.parse(name): claim(plan.members[entry.owner], entry.term) for name, entry in plan.tasks.items()}


def owners(plan: Plan) -> dict[TaskId, Incarnation]:
    """Who owns what."""
    return {TaskId.parse(name): plan.members[entry.owner] for name, entry in plan.tasks.items()}


def held_by(plan: Plan, candidate: Candidate) -> list[TaskId]:
    """The tasks of one member, in order."""
    return sorted(task for task, owner in owners(plan).items() if owner == candidate.incarnation)


@dataclass(slots=True)
class Worker:
    """A worker of the twin: what it runs, follows and has on disk."""

    slot: str
    incarnation: Incarnation
    rack: str | None
    offers: frozenset[str]
    leaving: bool = False
    runs: dict[TaskId, Term] = field(default_factory=dict[TaskId, Term])
    follows: dict[TaskId, int] = field(default_factory=dict[TaskId, int])
    kept: set[TaskId] = field(default_factory=set[TaskId])

    def candidate(self) -> Candidate:
        return member(
            self.slot,
            start=int(self.incarnation.rpartition("-")[2], 16),
            rack=self.rack,
            offers=self.offers,
            leaving=self.leaving,
            copies=dict(self.follows),
            kept=self.kept,
        )


@dataclass(slots=True)
class Cluster:
    """Workers that do what plans say. Every plan is checked against the rules of ownership before it is carried out."""

    tasks: frozenset[TaskId]
    standbys: int = 0
    workers: dict[Incarnation, Worker] = field(default_factory=dict[Incarnation, Worker])
    silent: set[Incarnation] = field(default_factory=set[Incarnation])
    plan: Plan | None = None
    own: dict[TaskId, Own] = field(default_factory=dict[TaskId, Own])
    load: dict[TaskId, float] = field(default_factory=dict[TaskId, float])
    wanted: dict[TaskId, str] = field(default_factory=dict[TaskId, str])
    returning: set[str] = field(default_factory=set[str])
    disks: dict[str, set[TaskId]] = field(default_factory=dict[str, set[TaskId]])
    starts: int = 0
    moves: int = 0

    def join(self, slot: str, offers: Iterable[str] = ("orders",), rack: str | None = None) -> Incarnation:
        """A worker starts in a slot, with what its disk kept."""
        self.starts += 1
        name = incarnation(slot, self.starts)
        assert not any(worker.slot == slot for worker in self.workers.values()), "a slot has a lock"
        self.workers[name] = Worker(slot, name, rack, frozenset(offers), kept=self.disks.pop(slot, set()))
        self.returning.discard(slot)
        return name

    def lose(self, name: Incarnation, *, returning: bool = False) -> None:
        """A worker dies; its disk stays."""
        worker = self.workers.pop(name)
        self.silent.discard(name)
        self.disks[worker.slot] = worker.kept | worker.runs.keys() | worker.follows.keys()
        if returning:
            self.returning.add(worker.slot)

    def situation(self) -> Situation:
        """What the leader knows: whoever is listed and gone it has fenced, whoever is silent it has not."""
        listed = set(self.plan.members) if self.plan else set[Incarnation]()
        return situation(
            self.tasks,
            [worker.candidate() for name, worker in sorted(self.workers.items()) if name not in self.silent],
            plan=self.plan,
            own=self.own,
            load=self.load,
            fenced=listed - self.workers.keys(),
            standbys=self.standbys,
            wanted=self.wanted,
            returning=self.returning,
        )

    def lead(self) -> Plan | None:
        """One round of the leader."""
        now = self.situation()
        plan = plan_next(now)
        assert plan == plan_next(now), "equal situations give equal plans"
        if plan is not None:
            check(now, plan)
            self.moves += len(_voluntary(now, plan))
            self.plan = plan
        return plan

    def work(self, names: Iterable[Incarnation] | None = None) -> bool:
        """Some workers (or all) do what the plan says; whether anything changed."""
        changed = False
        for name in sorted(self.workers.keys() if names is None else names):
            changed |= self._work(self.workers[name])
        return changed

    def _work(self, worker: Worker) -> bool:
        if self.plan is None:
            return False
        before = dict(worker.runs), dict(worker.follows), set(worker.kept)
        entries = {TaskId.parse(name): entry for name, entry in self.plan.tasks.items()}
        mine = {task: entry for task, entry in entries.items() if self.plan.members[entry.owner] == worker.incarnation}
        for task, term in list(worker.runs.items()):
            if task not in mine or mine[task].term != term:
                self.own[task] = release(worker.incarnation, term)
                worker.kept.add(task)
                del worker.runs[task]
        for task, entry in mine.items():
            if task not in worker.runs and (entry.wait is None or self.own.get(task) == release(entry.wait.incarnation, entry.wait.term)):
                assert not any(task in other.runs for other in self.workers.values()), f"{task} would have two owners"
                worker.runs[task] = entry.term
                self.own[task] = claim(worker.incarnation, entry.term)
                worker.follows.pop(task, None)
                worker.kept.discard(task)
        wanted = {
            task
            for task, entry in entries.items()
            if worker.incarnation in [self.plan.members[i] for i in (*entry.standbys, *entry.warm_ups)] and task not in worker.runs
        }
        for task in wanted:
            lag = worker.follows.get(task, CAUGHT_UP + 1 if task in worker.kept else FAR_BEHIND)
            worker.follows[task] = max(0, lag - CAUGHT_UP) if task in worker.follows else lag
            worker.kept.discard(task)
        for task in worker.follows.keys() - wanted:
            if task not in mine:
                del worker.follows[task]
                worker.kept.add(task)
        return before != (worker.runs, worker.follows, worker.kept)

    def settle(self, rounds: int = 300) -> int:
        """Lead and work until nothing changes any more; how many rounds that took."""
        self.silent.clear()
        self.returning.clear()
        for done in range(rounds):
            planned = self.lead() is not None
            worked = self.work()
            if not planned and not worked:
                return done
        raise AssertionError(f"not settled after {rounds} rounds; the last plan: {self.plan}")


def _names(plan: Plan, indexes: Iterable[int]) -> list[Incarnation]:
    return [plan.members[i] for i in indexes]


def _voluntary(now: Situation, plan: Plan) -> list[TaskId]:
    """The tasks that leave an owner who was not fenced."""
    if now.plan is None:
        return []
    before, after = owners(now.plan), owners(plan)
    return [task for task, owner in before.items() if after[task] != owner and owner not in now.fenced]


def check(now: Situation, plan: Plan) -> None:
    """The rules of ownership and the bounds of a plan, written down a second time."""
    alive = {candidate.incarnation: candidate for candidate in now.members}
    before = now.plan or Plan(0, (), {})
    assert plan.version == before.version + 1
    assert alive.keys() <= set(plan.members)
    assert set(before.members) - set(plan.members) <= now.fenced
    assert len(set(plan.members)) == len(plan.members)
    assert before.tasks.keys() <= plan.tasks.keys()
    assert 0 < len(plan.why) <= 200
    for name, entry in plan.tasks.items():
        _check_entry(now, TaskId.parse(name), plan, entry)
    assert len(_voluntary(now, plan)) <= MOST_MOVES
    warming = [name for entry in plan.tasks.values() for name in _names(plan, entry.warm_ups)]
    assert all(warming.count(name) <= MOST_WARM_UPS for name in set(warming))


def _check_entry(now: Situation, task: TaskId, plan: Plan, entry: Entry) -> None:
    alive = {candidate.incarnation: candidate for candidate in now.members}
    owner, own = plan.members[entry.owner], now.own.get(task)
    old = now.plan.tasks.get(str(task)) if now.plan else None
    if old is None or now.plan is None:
        if own != claim(owner, entry.term):
            assert entry.term == (own.term if own else 0) + 1, "a task in no plan is under a new term"
            assert task.name in alive[owner].offers
            assert not alive[owner].leaving
    else:
        old_owner = now.plan.members[old.owner]
        if owner == old_owner:
            assert entry.term == old.term
            assert entry.wait == (None if old.wait and old.wait.incarnation in now.fenced else old.wait)
        elif old_owner in now.fenced:
            assert entry.term == old.term + 1
            assert entry.wait == (None if _settled(now, task, old.wait) else old.wait)
        else:
            assert own == claim(old_owner, old.term), "a living owner's task moves only after its claim"
            assert (entry.term, entry.wait) == (old.term + 1, Wait(old_owner, old.term))
            assert alive[owner].copies[task] <= CAUGHT_UP, "only to a copy near the end"
        if owner != old_owner:
            assert task.name in alive[owner].offers
            assert not alive[owner].leaving
    copies = _names(plan, (*entry.standbys, *entry.warm_ups))
    assert len(set(copies)) == len(copies)
    assert owner not in copies
    assert now.fenced.isdisjoint(copies)
    assert all(task.name in alive[name].offers for name in copies if name in alive)
    assert len([name for name in _names(plan, entry.standbys) if name not in alive or not alive[name].leaving]) <= now.standbys


def _settled(now: Situation, task: TaskId, wait: Wait | None) -> bool:
    own = now.own.get(task)
    if wait is None or wait.incarnation in now.fenced:
        return True
    return own is not None and (own == release(wait.incarnation, wait.term) or own.term > wait.term)
