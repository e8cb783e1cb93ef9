"""The planner over random clusters and histories: every plan keeps the rules, and every history comes to rest, evenly."""

from itertools import product

from hypothesis import example, given, note, settings
from hypothesis import strategies as st

from streamlet.ids import Incarnation, TaskId, Term
from streamlet.rebalance.planner import plan_next
from streamlet.rebalance.records import Entry, Plan
from tests.bed.planning import Cluster, claim, incarnation, orders, situation

SLOTS = [f"{host}/{number}" for host in ("web-1", "web-2", "web-3") for number in range(2)]
NAMES = ("orders", "totals")
TASKS = frozenset([*orders(6), *orders(4, "totals")])

Event = tuple[str, int, int]
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["join", "join old", "lose", "lose for a moment", "silence", "speak", "drain", "wish", "load", "lead", "work", "all work"]
        ),
        st.integers(0, 11),
        st.integers(0, 11),
    ),
    max_size=40,
)


def play(cluster: Cluster, events: list[Event]) -> None:
    """Carry a history out; what makes no sense in the moment is passed over."""
    for kind, first, second in events:
        slot = SLOTS[first % len(SLOTS)]
        there = sorted(cluster.workers)
        someone = there[first % len(there)] if there else None
        if kind in {"join", "join old"} and all(worker.slot != slot for worker in cluster.workers.values()):
            cluster.join(slot, NAMES if kind == "join" else NAMES[:1], rack="aab"[first % len(SLOTS) // 2])
        elif kind == "load":
            cluster.load[sorted(TASKS)[first % len(TASKS)]] = second / 4
        elif kind == "lead":
            cluster.lead()
        elif kind == "all work":
            cluster.work()
        elif someone is not None:
            act(cluster, kind, someone, second)


def act(cluster: Cluster, kind: str, someone: Incarnation, number: int) -> None:
    if kind.startswith("lose"):
        cluster.lose(someone, returning=kind == "lose for a moment")
    elif kind == "silence":
        cluster.silent.add(someone)
    elif kind == "speak":
        cluster.silent.discard(someone)
    elif kind == "drain":
        cluster.workers[someone].leaving = True
    elif kind == "wish":
        cluster.wanted[sorted(TASKS)[number % len(TASKS)]] = cluster.workers[someone].slot
    elif kind == "work":
        cluster.work([someone])


@given(EVENTS, st.integers(0, 2))
@example([("join", 0, 0), ("join old", 1, 0), ("lead", 0, 0), ("drain", 0, 0)], 1)  # it keeps what nobody else can take
@settings(max_examples=150, deadline=None)
def test_every_history_comes_to_rest_with_one_living_owner_per_task(events: list[Event], standbys: int) -> None:
    cluster = Cluster(TASKS, standbys)

    play(cluster, events)
    rounds = cluster.settle()

    note(f"settled in {rounds} rounds")
    stay = [worker for worker in cluster.workers.values() if not worker.leaving]
    for task in TASKS:
        runners = [worker.incarnation for worker in cluster.workers.values() if task in worker.runs]
        able = [worker.incarnation for worker in stay if task.name in worker.offers]
        if able:
            assert len(runners) == 1
            assert runners[0] in able
            followers = [name for name in able if task in cluster.workers[name].follows]
            assert len(followers) == min(standbys, len(able) - 1)


@given(EVENTS, st.integers(0, 2))
@settings(max_examples=100, deadline=None)
def test_equal_tasks_are_spread_evenly_among_members_with_equal_code(events: list[Event], standbys: int) -> None:
    cluster = Cluster(TASKS, standbys)

    play(cluster, [event for event in events if event[0] not in {"load", "wish"}])
    cluster.settle()

    for offers in (frozenset(NAMES), frozenset(NAMES[:1])):
        loads = [len(worker.runs) for worker in cluster.workers.values() if not worker.leaving and worker.offers == offers]
        assert not loads or max(loads) - min(loads) <= 1


@given(EVENTS)
@settings(max_examples=100, deadline=None)
def test_a_task_rests_where_a_person_wants_it(events: list[Event]) -> None:
    cluster = Cluster(TASKS, standbys=1)

    play(cluster, events)
    cluster.settle()

    for task, slot in cluster.wanted.items():
        able = [worker for worker in cluster.workers.values() if worker.slot == slot and task.name in worker.offers and not worker.leaving]
        assert all(task in worker.runs for worker in able)


@given(EVENTS)
@settings(max_examples=100, deadline=None)
def test_a_standby_rests_as_far_from_its_owner_as_any_member_is(events: list[Event]) -> None:
    cluster = Cluster(TASKS, standbys=1)

    play(cluster, events)
    cluster.settle()

    stay = [worker.candidate() for worker in cluster.workers.values() if not worker.leaving]
    for owner in stay:
        for task in cluster.workers[owner.incarnation].runs:
            able = [other for other in stay if task.name in other.offers and other != owner]
            near = {other.incarnation: (other.rack == owner.rack, other.host == owner.host) for other in able}
            followers = [other.incarnation for other in able if task in other.copies]
            assert [near[name] for name in followers] == ([min(near.values())] if near else [])


@given(st.lists(st.tuples(st.sampled_from(["join", "lose", "work", "lead"]), st.integers(0, 5)), max_size=30), st.integers(1, 2))
@settings(max_examples=100, deadline=None)
def test_copies_are_spread_evenly_where_every_place_is_as_good(events: list[tuple[str, int]], standbys: int) -> None:
    cluster = Cluster(frozenset(orders(12)), standbys)
    for number in range(standbys + 1):
        cluster.join(f"db-{number}/0")

    for kind, number in events:
        slot = f"web-{number}/0"
        there = [name for name, worker in cluster.workers.items() if worker.slot == slot]
        if kind == "join" and not there:
            cluster.join(slot)
        elif kind == "lose" and there:
            cluster.lose(there[0])
        elif kind == "lead":
            cluster.lead()
        elif kind == "work":
            cluster.work()
    cluster.settle()

    followed = [len(worker.follows) for worker in cluster.workers.values()]
    assert sum(followed) == 12 * standbys
    assert max(followed) - min(followed) <= 1


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(1, 3))
@example([0, 0, 0, 0, 0, 0], 3)
@example([3, 3, 3, 0, 0, 1], 3)
@settings(max_examples=150, deadline=None)
def test_as_few_tasks_move_as_evenness_allows(placed: list[int], members: int) -> None:
    """Against every possible placement. Owner 3 is lost, so its tasks are free to go anywhere."""
    cluster = Cluster(frozenset(orders(len(placed))))
    names = [cluster.join(slot) for slot in SLOTS[:members]]
    gone = incarnation("web-9/0")
    at = {task: names[owner] if owner < members else gone for task, owner in zip(orders(len(placed)), placed, strict=True)}
    start(cluster, at, (*names, gone))

    cluster.settle()

    assert cluster.moves == fewest_moves(at, names)


def start(cluster: Cluster, at: dict[TaskId, Incarnation], members: tuple[Incarnation, ...]) -> None:
    """Put every task where it is said to be, claimed."""
    cluster.plan = Plan(1, members, {str(task): Entry(members.index(owner), Term(1)) for task, owner in at.items()})
    for task, owner in at.items():
        cluster.own[task] = claim(owner, 1)
        if owner in cluster.workers:
            cluster.workers[owner].runs[task] = Term(1)


def fewest_moves(at: dict[TaskId, Incarnation], names: list[Incarnation]) -> int:
    """Of all even placements the one that leaves most living owners alone."""
    fewest = len(at)
    for choice in product(names, repeat=len(at)):
        loads = [choice.count(name) for name in names]
        if max(loads) - min(loads) <= 1:
            fewest = min(fewest, sum(old in names and old != new for old, new in zip(at.values(), choice, strict=True)))
    return fewest


LOADS = st.dictionaries(st.sampled_from(orders(12)), st.floats(0, 4), min_size=0, max_size=12)


@given(LOADS, st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_no_single_move_would_make_a_settled_cluster_much_more_even(load: dict[TaskId, float], members: int) -> None:
    cluster = Cluster(frozenset(orders(12)), load=load)
    for slot in SLOTS[:members]:
        cluster.join(slot)

    cluster.settle()

    known = [max(cost, 0.01) for cost in load.values()]
    weight = {task: max(load[task], 0.01) if task in load else sum(known) / len(known) if known else 1.0 for task in orders(12)}
    carried = {name: sum(weight[task] for task in worker.runs) for name, worker in cluster.workers.items()}
    for name, worker in cluster.workers.items():
        for task in worker.runs:
            best = min(carried.values()) + weight[task]
            assert best > 0.9 * carried[name] or len(set(weight.values())) == 1


@given(LOADS, st.lists(st.floats(0.97, 1.03), min_size=12, max_size=12), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_noise_in_the_measured_loads_does_not_keep_tasks_moving(load: dict[TaskId, float], noise: list[float], members: int) -> None:
    noisy = {task: cost * factor for (task, cost), factor in zip(load.items(), noise, strict=False)}
    cluster = Cluster(frozenset(orders(12)))
    for slot in SLOTS[:members]:
        cluster.join(slot)
    for measured in (load, noisy, load, noisy):
        cluster.load = measured
        cluster.settle()

    cluster.load = load

    assert cluster.lead() is None


@given(EVENTS)
@settings(max_examples=60, deadline=None)
def test_the_order_in_which_facts_are_listed_changes_nothing(events: list[Event]) -> None:
    cluster = Cluster(TASKS, standbys=1)
    play(cluster, events)
    now = cluster.situation()

    turned = situation(
        now.tasks,
        reversed(now.members),
        plan=now.plan,
        own=dict(reversed(now.own.items())),
        load=dict(reversed(now.load.items())),
        fenced=now.fenced,
        standbys=now.standbys,
        wanted=dict(reversed(now.wanted.items())),
        returning=now.returning,
    )

    assert plan_next(turned) == plan_next(now)
