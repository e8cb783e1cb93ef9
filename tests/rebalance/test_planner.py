"""One rule of planning at a time, on clusters small enough to read."""

from collections import Counter
from dataclasses import replace
from time import process_time

import pytest

from streamlet.ids import Incarnation, Slot, TaskId, Term
from streamlet.rebalance.planner import CAUGHT_UP, MOST_MOVES, MOST_WARM_UPS, Candidate, Situation, plan_next
from streamlet.rebalance.records import Entry, Own, Plan, Wait
from tests.bed.planning import Cluster, claim, claims, held_by, incarnation, member, orders, owners, release, situation

A, B, C = (member(f"web-{number}/0") for number in (1, 2, 3))
TASK, OTHER = orders(2)


def planned(now: Situation) -> Plan:
    plan = plan_next(now)
    assert plan is not None
    return plan


def plan_of(*members: Candidate, **at: Entry) -> Plan:
    """A plan over these members; `orders_0=Entry(...)` is the entry of orders/0."""
    return Plan(7, tuple(candidate.incarnation for candidate in members), {name.replace("_", "/"): entry for name, entry in at.items()})


def entry(owner: int, term: int, wait: Wait | None = None, standbys: tuple[int, ...] = (), warm_ups: tuple[int, ...] = ()) -> Entry:
    return Entry(owner, Term(term), wait, standbys, warm_ups)


# the first plan


def test_the_first_plan_spreads_all_tasks_under_term_one_and_waits_for_nobody() -> None:
    plan = planned(situation(orders(5), [A, B]))

    assert plan.version == 1
    assert plan.members == (A.incarnation, B.incarnation)
    assert [len(held_by(plan, candidate)) for candidate in (A, B)] == [3, 2]
    assert {(at.term, at.wait) for at in plan.tasks.values()} == {(1, None)}
    assert plan.why == "first plan: 5 tasks placed"


def test_without_members_there_is_no_first_plan() -> None:
    assert plan_next(situation(orders(5), [])) is None


def test_heavy_tasks_are_spread_before_light_ones() -> None:
    load = dict(zip(orders(4), (3.0, 1.0, 1.0, 1.0), strict=True))

    plan = planned(situation(orders(4), [A, B], load=load))

    assert [held_by(plan, candidate) for candidate in (A, B)] == [orders(4)[:1], orders(4)[1:]]


def test_a_task_without_a_measured_load_costs_as_much_as_the_others_on_average() -> None:
    first, second, third, fourth = orders(4)

    plan = planned(situation(orders(4), [A, B], load={first: 6.0, second: 1.0, third: 2.0}))

    assert held_by(plan, A) == [first]
    assert held_by(plan, B) == [second, third, fourth]


def test_a_task_that_nobody_offers_is_in_no_plan_until_somebody_does() -> None:
    strange = TaskId("totals", 0)

    plan = planned(situation([TASK, strange], [A]))
    later = planned(situation([TASK, strange], [A, member("web-2/0", offers=["totals"])], plan=plan, own=claims(plan)))

    assert owners(plan) == {TASK: A.incarnation}
    assert owners(later) == {TASK: A.incarnation, strange: B.incarnation}


def test_a_claim_that_no_plan_knows_is_an_ownership() -> None:
    plan = planned(situation([TASK], [A, B], own={TASK: claim(B.incarnation, 4)}))

    assert plan.owner(TASK) == (B.incarnation, 4)


def test_a_claim_of_a_stranger_keeps_the_stranger_listed_until_it_is_fenced() -> None:
    stranger = incarnation("web-9/0")
    own = {TASK: claim(stranger, 4)}

    plan = planned(situation([TASK], [A], own=own))
    later = planned(situation([TASK], [A], own=own, plan=plan, fenced=[stranger]))

    assert plan.members == (A.incarnation, stranger)
    assert plan.owner(TASK) == (stranger, 4)
    assert later.members == (A.incarnation,)
    assert later.owner(TASK) == (A.incarnation, 5)


def test_a_released_task_that_no_plan_knows_gets_the_next_term() -> None:
    plan = planned(situation([TASK], [A], own={TASK: release(incarnation("web-9/0"), 4)}))

    assert plan.owner(TASK) == (A.incarnation, 5)


def test_an_owner_index_outside_the_list_is_nobody() -> None:
    plan = planned(situation([TASK], [A], plan=plan_of(A, orders_0=entry(3, 6, standbys=(4,)))))

    assert plan.tasks == {"orders/0": entry(0, 7)}


# a lost owner

LOST = plan_of(A, B, C, orders_0=entry(0, 3))


def after_loss(*members: Candidate, plan: Plan = LOST, own: Own | None = None, returning: tuple[str, ...] = ()) -> Plan | None:
    return plan_next(
        situation([TASK], members, plan=plan, own={TASK: own or claim(A.incarnation, 3)}, fenced=[A.incarnation], returning=returning)
    )


def test_a_lost_owners_task_goes_to_the_copy_that_is_least_behind() -> None:
    plan = after_loss(replace(B, copies={TASK: 40}), replace(C, copies={TASK: 3}))

    assert plan is not None
    assert plan.members == (B.incarnation, C.incarnation)
    assert plan.tasks == {"orders/0": entry(1, 4)}
    assert plan.why == "web-1/0 lost: 1 task reassigned"


def test_of_equal_copies_the_least_loaded_member_takes_over() -> None:
    plan = plan_of(A, B, C, orders_0=entry(0, 3), orders_1=entry(1, 1))
    own = {TASK: claim(A.incarnation, 3), OTHER: claim(B.incarnation, 1)}
    members = [replace(B, copies={TASK: 0}), replace(C, copies={TASK: 0})]

    assert planned(situation([TASK, OTHER], members, plan=plan, own=own, fenced=[A.incarnation])).owner(TASK) == (C.incarnation, 4)


def test_any_copy_is_better_than_none() -> None:
    behind, kept = replace(B, copies={TASK: CAUGHT_UP + 1}), replace(C, kept=frozenset([TASK]))

    assert planned_owner(after_loss(behind, kept)) == B.incarnation
    assert planned_owner(after_loss(B, kept)) == C.incarnation


def planned_owner(plan: Plan | None) -> Incarnation:
    assert plan is not None
    return owners(plan)[TASK]


def test_a_task_waits_for_the_slot_of_its_lost_owner() -> None:
    plan = after_loss(B, replace(C, kept=frozenset([TASK]), copies={}), returning=("web-1/0",))

    assert plan is None, "the lost owner stays listed, and nothing else has changed"


def test_a_copy_near_the_end_does_not_wait_for_the_slot() -> None:
    plan = after_loss(B, replace(C, copies={TASK: CAUGHT_UP}), returning=("web-1/0",))

    assert planned_owner(plan) == C.incarnation


def test_the_slot_that_is_back_takes_its_task_again() -> None:
    back = member("web-1/0", start=1, kept=[TASK])

    plan = after_loss(B, C, back, returning=("web-1/0",))

    assert planned_owner(plan) == back.incarnation


def test_a_lost_target_leaves_the_new_owner_waiting_for_the_same_release() -> None:
    wait = Wait(B.incarnation, Term(2))
    plan = plan_of(A, B, C, orders_0=entry(0, 3, wait))
    leaving = replace(B, leaving=True)

    after = after_loss(leaving, replace(C, copies={TASK: 0}), plan=plan, own=claim(B.incarnation, 2))

    assert after is not None
    assert after.tasks == {"orders/0": entry(1, 4, wait)}


def test_who_has_not_yet_handed_over_to_a_lost_target_may_go_on() -> None:
    wait = Wait(B.incarnation, Term(2))

    after = after_loss(B, replace(C, copies={TASK: 0}), plan=plan_of(A, B, C, orders_0=entry(0, 3, wait)), own=claim(B.incarnation, 2))

    assert after is not None
    assert after.tasks == {"orders/0": entry(0, 4, wait)}


@pytest.mark.parametrize("own", [release(B.incarnation, 2), claim(A.incarnation, 3)], ids=["released", "claimed later"])
def test_a_settled_wait_ends_with_the_lost_owner(own: Own) -> None:
    plan = plan_of(A, B, C, orders_0=entry(0, 3, Wait(B.incarnation, Term(2))))

    after = after_loss(B, replace(C, copies={TASK: 0}), plan=plan, own=own)

    assert after is not None
    assert after.tasks == {"orders/0": entry(1, 4)}


def test_nobody_waits_for_a_fenced_incarnation() -> None:
    plan = plan_of(A, B, orders_0=entry(1, 3, Wait(A.incarnation, Term(2))))

    after = planned(situation([TASK], [B], plan=plan, own={TASK: claim(A.incarnation, 2)}, fenced=[A.incarnation]))

    assert after.members == (B.incarnation,)
    assert after.tasks == {"orders/0": entry(0, 3)}


def test_a_silent_member_that_was_not_fenced_keeps_its_task_and_its_place() -> None:
    assert plan_next(situation([TASK], [B, C], plan=LOST, own={TASK: claim(A.incarnation, 3)})) is None


def test_a_silent_member_without_tasks_keeps_its_place_when_the_plan_changes() -> None:
    plan = planned(situation([TASK], [A, B], plan=plan_of(A, C, orders_0=entry(0, 3)), own={TASK: claim(A.incarnation, 3)}))

    assert plan.members == (A.incarnation, C.incarnation, B.incarnation)


def test_of_equal_copies_the_one_where_a_person_wants_the_task_takes_over() -> None:
    warm = [replace(B, copies={TASK: 0}), replace(C, copies={TASK: 0})]

    plan = planned(
        situation([TASK], warm, plan=LOST, own={TASK: claim(A.incarnation, 3)}, fenced=[A.incarnation], wanted={TASK: "web-3/0"})
    )

    assert plan.owner(TASK) == (C.incarnation, 4)


def test_a_fenced_owner_stays_listed_while_nobody_can_take_its_task() -> None:
    assert plan_next(situation([TASK], [], plan=plan_of(A, orders_0=entry(0, 3)), fenced=[A.incarnation])) is None


# moves

ON_A = plan_of(A, B, orders_0=entry(0, 1), orders_1=entry(0, 1))
CLAIMED = {TASK: claim(A.incarnation, 1), OTHER: claim(A.incarnation, 1)}


def test_a_new_member_warms_up_before_it_gets_a_task() -> None:
    plan = planned(situation([TASK, OTHER], [A, B], plan=plan_of(A, orders_0=entry(0, 1), orders_1=entry(0, 1)), own=CLAIMED))

    assert [at.owner for at in plan.tasks.values()] == [0, 0]
    assert [at.warm_ups for at in plan.tasks.values()] == [(), (1,)]
    assert plan.why == "orders/1 warms up on web-2/0; web-2/0 joined"


def test_a_warm_copy_takes_over_under_the_next_term_and_waits_for_the_release() -> None:
    plan = planned(situation([TASK, OTHER], [A, replace(B, copies={OTHER: CAUGHT_UP})], plan=ON_A, own=CLAIMED))

    assert plan.tasks["orders/0"] == entry(0, 1)
    assert plan.tasks["orders/1"] == entry(1, 2, Wait(A.incarnation, Term(1)))
    assert plan.why == "orders/1 moves to web-2/0"


@pytest.mark.parametrize("own", [{}, {OTHER: claim(B.incarnation, 0)}, {OTHER: release(A.incarnation, 1)}], ids=["none", "old", "released"])
def test_a_task_that_its_owner_has_not_claimed_does_not_move(own: dict[TaskId, Own]) -> None:
    warm = replace(B, copies={TASK: 0, OTHER: 0})

    plan = planned(situation([TASK, OTHER], [A, warm], plan=ON_A, own=own))

    assert [at.owner for at in plan.tasks.values()] == [0, 0]


def test_a_copy_on_disk_is_preferred_for_a_move() -> None:
    plan = planned(situation([TASK, OTHER], [A, replace(B, kept=frozenset([TASK]))], plan=ON_A, own=CLAIMED))

    assert [at.warm_ups for at in plan.tasks.values()] == [(1,), ()]


def test_a_warm_up_goes_on_where_it_began() -> None:
    plan = plan_of(A, B, C, orders_0=entry(0, 1, warm_ups=(2,)), orders_1=entry(0, 1))
    behind = replace(C, copies={TASK: CAUGHT_UP + 1})

    after = planned(situation([TASK, OTHER, TaskId("orders", 2)], [A, B, behind], plan=plan, own=CLAIMED))

    assert after.tasks["orders/0"].warm_ups == (2,)


def test_a_warm_up_goes_on_for_half_the_gain_that_starts_one() -> None:
    tasks = orders(5)
    load = dict(zip(tasks, (5.0, 4.0, 1.0, 4.2, 4.1), strict=True))
    calm = Plan(1, (A.incarnation, B.incarnation), {str(task): entry(int(task.partition > 2), 1) for task in tasks})
    warming = Plan(1, calm.members, calm.tasks | {"orders/2": entry(0, 1, warm_ups=(1,))})
    behind = replace(B, copies={tasks[2]: CAUGHT_UP + 1})

    assert plan_next(situation(tasks, [A, B], plan=calm, own=claims(calm), load=load)) is None
    assert plan_next(situation(tasks, [A, behind], plan=warming, own=claims(warming), load=load)) is None


def test_tasks_leave_the_fullest_members_first() -> None:
    """Two members give two tasks each; were one emptied before the other gives, five would move."""
    cluster = Cluster(frozenset(orders(10)))
    cluster.join("web-1/0")
    cluster.join("web-2/0")
    cluster.settle()

    cluster.join("web-3/0")
    cluster.join("web-4/0")
    cluster.settle()

    assert cluster.moves == 4


def test_a_receiving_member_warms_up_few_copies_at_a_time() -> None:
    tasks = orders(12)
    plan = planned(situation(tasks, [A]))

    after = planned(situation(tasks, [A, B], plan=plan, own=claims(plan)))

    assert sum(at.warm_ups == (1,) for at in after.tasks.values()) == MOST_WARM_UPS


def test_few_owners_change_in_one_plan() -> None:
    tasks = orders(12)
    plan = planned(situation(tasks, [A]))

    after = planned(situation(tasks, [A, replace(B, copies=dict.fromkeys(tasks, 0))], plan=plan, own=claims(plan)))

    assert len(held_by(after, B)) == MOST_MOVES


def test_a_leaving_member_gives_its_tasks_away_first_and_gets_none() -> None:
    tasks = orders(9)
    leaving, warm = replace(A, leaving=True), replace(C, copies=dict.fromkeys(tasks, 0))
    plan = Plan(1, (A.incarnation, B.incarnation, C.incarnation), {str(task): entry(int(task.partition > 2), 1) for task in tasks})

    after = planned(situation(tasks, [leaving, B, warm], plan=plan, own=claims(plan)))

    assert held_by(after, leaving) == []
    assert set(held_by(after, warm)) >= {*tasks[:3]}


def test_tasks_of_a_leaving_member_move_before_those_of_a_full_one() -> None:
    tasks = orders(15)
    plan = Plan(1, (A.incarnation, B.incarnation, C.incarnation), {str(task): entry(int(task.partition > 11), 1) for task in tasks})
    warm = replace(C, copies=dict.fromkeys(tasks, 0))

    after = planned(situation(tasks, [A, replace(B, leaving=True), warm], plan=plan, own=claims(plan)))

    assert held_by(after, C) == [tasks[0], *tasks[12:]]


def test_a_task_stays_on_a_leaving_member_if_nobody_else_has_its_code() -> None:
    plan = plan_of(A, B, orders_0=entry(0, 1))
    without = member("web-2/0", offers=["totals"])

    assert plan_next(situation([TASK], [replace(A, leaving=True), without], plan=plan, own={TASK: claim(A.incarnation, 1)})) is None


def test_a_drained_cluster_is_empty_when_it_rests() -> None:
    cluster = Cluster(frozenset(orders(7)), standbys=1)
    first, second, third = (cluster.join(f"web-{number}/0") for number in (1, 2, 3))
    cluster.settle()
    cluster.workers[second].leaving = True

    cluster.settle()

    assert cluster.plan is not None
    assert not cluster.workers[second].runs
    assert not cluster.workers[second].follows
    assert sorted(len(cluster.workers[name].runs) for name in (first, third)) == [3, 4]


def test_loads_that_differ_a_little_move_nothing() -> None:
    tasks = orders(4)
    plan = planned(situation(tasks, [A, B]))
    load = dict(zip(tasks, (1.0, 1.04, 0.97, 0.95), strict=True))

    assert plan_next(situation(tasks, [A, B], plan=plan, own=claims(plan), load=load)) is None


def test_a_member_with_much_more_load_gives_some_away() -> None:
    tasks = orders(4)
    plan = planned(situation(tasks, [A, B]))
    assert held_by(plan, A) == [tasks[0], tasks[2]]
    load = dict(zip(tasks, (4.0, 1.0, 2.0, 1.0), strict=True))

    after = planned(situation(tasks, [A, B], plan=plan, own=claims(plan), load=load))

    assert after.tasks["orders/2"].warm_ups == (1,)


def test_the_cost_of_idle_tasks_moves_nothing() -> None:
    tasks = orders(4)
    plan = planned(situation(tasks, [A, B]))
    load = dict(zip(tasks, (0.008, 0.0, 0.009, 0.001), strict=True))

    assert plan_next(situation(tasks, [A, B], plan=plan, own=claims(plan), load=load)) is None


@pytest.mark.parametrize("cost", [float("nan"), float("inf"), -1.0])
def test_a_load_that_is_no_number_counts_as_idle(cost: float) -> None:
    plan = planned(situation(orders(4), [A, B], load={TASK: cost, OTHER: 1.0}))

    assert len(plan.tasks) == 4


# what people want


def test_a_wish_moves_a_task_and_balance_leaves_it_there() -> None:
    cluster = Cluster(frozenset(orders(4)))
    first = cluster.join("web-1/0")
    cluster.join("web-2/0")
    cluster.settle()
    wanted = sorted(cluster.workers[first].runs)
    cluster.wanted = dict.fromkeys(wanted, "web-2/0")

    cluster.settle()
    cluster.wanted = {}
    cluster.settle()

    assert cluster.plan is not None
    assert set(cluster.workers[first].runs).isdisjoint(wanted)
    assert cluster.plan.pins == {str(task): "web-2/0" for task in wanted}


def test_a_wish_ends_when_its_slot_leaves() -> None:
    plan = replace_pins(plan_of(A, B, orders_0=entry(0, 1), orders_1=entry(1, 1)), {"orders/0": "web-1/0"})

    after = planned(situation([TASK, OTHER], [replace(A, leaving=True), B], plan=plan, own=claims(plan)))

    assert after.pins == {}


@pytest.mark.parametrize("fenced", [[A.incarnation], []], ids=["returning", "silent"])
def test_a_wish_outlasts_a_moment_without_its_worker(fenced: list[Incarnation]) -> None:
    plan = replace_pins(plan_of(A, B, orders_0=entry(0, 1), orders_1=entry(1, 1)), {"orders/0": "web-1/0"})

    assert (
        plan_next(situation([TASK, OTHER], [B], plan=plan, own=claims(plan), fenced=fenced, returning=["web-1/0"] if fenced else []))
        is None
    )


def replace_pins(plan: Plan, pins: dict[str, str]) -> Plan:
    return Plan(plan.version, plan.members, plan.tasks, {task: Slot(slot) for task, slot in pins.items()})


@pytest.mark.parametrize(
    "target", [None, member("web-2/0", leaving=True), member("web-2/0", offers=["totals"])], ids=["gone", "leaving", "other code"]
)
def test_a_wish_that_cannot_be_granted_changes_nothing(target: Candidate | None) -> None:
    members = [A, *([target] if target else [])]
    plan = planned(situation([TASK], members))

    assert plan_next(situation([TASK], members, plan=plan, own=claims(plan), wanted={TASK: "web-2/0"})) is None


# standbys


def standbys(plan: Plan, task: TaskId) -> list[Incarnation]:
    return [plan.members[index] for index in plan.tasks[str(task)].standbys]


def test_standbys_are_spread_and_never_beside_their_owner() -> None:
    plan = planned(situation(orders(6), [A, B, C], standbys=1))

    followed = [name for task in orders(6) for name in standbys(plan, task)]
    assert all(owners(plan)[task] not in standbys(plan, task) for task in orders(6))
    assert [followed.count(candidate.incarnation) for candidate in (A, B, C)] == [2, 2, 2]


def test_the_copies_of_one_owners_tasks_are_spread_so_that_its_loss_is_shared() -> None:
    members = [member(f"web-{number}/0") for number in range(5)]

    plan = planned(situation(orders(20), members, standbys=1))

    for candidate in members:
        followers = {name for task in held_by(plan, candidate) for name in standbys(plan, task)}
        assert len(followers) >= 3


def test_a_standby_is_on_another_host_if_there_is_one() -> None:
    same, other = member("web-1/1"), member("web-2/0")

    assert standbys(planned(situation([TASK], [member("web-1/0"), same, other], standbys=1)), TASK) == [other.incarnation]
    assert standbys(planned(situation([TASK], [member("web-1/0"), same], standbys=1)), TASK) == [same.incarnation]


def test_a_standby_is_in_another_rack_if_there_is_one() -> None:
    members = [member("web-1/0", rack="a"), member("web-2/0", rack="a"), member("web-3/0", rack="b")]

    assert standbys(planned(situation([TASK], members, standbys=1)), TASK) == [members[2].incarnation]


def test_a_standby_too_near_is_exchanged_when_a_better_one_has_caught_up() -> None:
    near, far = member("web-1/1"), member("web-2/0")
    plan = plan_of(member("web-1/0"), near, orders_0=entry(0, 1, standbys=(1,)))
    own = {TASK: claim(incarnation("web-1/0"), 1)}
    follows = replace(near, copies={TASK: 0})

    warming = planned(situation([TASK], [member("web-1/0"), follows, far], plan=plan, own=own, standbys=1))
    done = planned(situation([TASK], [member("web-1/0"), follows, replace(far, copies={TASK: 0})], plan=warming, own=own, standbys=1))

    assert (warming.tasks["orders/0"].standbys, warming.tasks["orders/0"].warm_ups) == ((1,), (2,))
    assert (done.tasks["orders/0"].standbys, done.tasks["orders/0"].warm_ups) == ((2,), ())


def test_no_second_copy_warms_up_for_the_same_exchange() -> None:
    near, far, farther = member("web-1/1"), member("web-2/0"), member("web-3/0")
    plan = plan_of(member("web-1/0"), near, far, farther, orders_0=entry(0, 1, standbys=(1,), warm_ups=(2,)))
    members = [member("web-1/0"), replace(near, copies={TASK: 0}), replace(far, copies={TASK: CAUGHT_UP + 1}), farther]

    assert plan_next(situation([TASK], members, plan=plan, own=claims(plan), standbys=1)) is None


def test_the_old_owner_is_the_standby_even_if_others_follow_less() -> None:
    third = TaskId("orders", 2)
    plan = plan_of(A, B, C, orders_0=entry(0, 1, standbys=(1,)), orders_1=entry(0, 1, standbys=(1,)), orders_2=entry(2, 1, standbys=(0,)))
    members = [replace(A, copies={third: 0}), replace(B, copies={TASK: 0, OTHER: 0}), C]

    after = planned(situation([TASK, OTHER, third], members, plan=plan, own=claims(plan), standbys=1))

    assert owners(after)[TASK] == B.incarnation
    assert standbys(after, TASK) == [A.incarnation]


def test_after_a_move_the_old_owner_is_the_standby() -> None:
    plan = plan_of(A, B, C, orders_0=entry(0, 1, standbys=(1,)), orders_1=entry(0, 1, standbys=(2,)))

    after = planned(
        situation([TASK, OTHER], [A, replace(B, copies={TASK: 0}), replace(C, copies={OTHER: 0})], plan=plan, own=CLAIMED, standbys=1)
    )

    assert owners(after) == {TASK: B.incarnation, OTHER: A.incarnation}
    assert standbys(after, TASK) == [A.incarnation]


def test_a_leaving_member_follows_until_its_own_tasks_are_gone() -> None:
    plan = plan_of(A, B, C, orders_0=entry(0, 1), orders_1=entry(1, 1, standbys=(0,)))
    leaving = replace(A, leaving=True, copies={OTHER: 0})

    early = planned(situation([TASK, OTHER], [leaving, B, C], plan=plan, own=claims(plan), standbys=1))
    late = planned(situation([OTHER], [leaving, B, C], plan=plan_of(A, B, C, orders_1=entry(1, 1, standbys=(0, 2))), standbys=1))

    assert standbys(early, OTHER) == [A.incarnation, C.incarnation]
    assert standbys(late, OTHER) == [C.incarnation]


def test_no_standby_is_left_where_none_is_wanted() -> None:
    plan = plan_of(A, B, orders_0=entry(0, 1, standbys=(1,)))

    assert planned(situation([TASK], [A, B], plan=plan, own={TASK: claim(A.incarnation, 1)})).tasks == {"orders/0": entry(0, 1)}


# the record


def test_a_task_that_the_app_no_longer_has_keeps_its_entry_and_its_owner_its_place() -> None:
    plan = plan_of(A, B, C, old_0=entry(2, 5, Wait(A.incarnation, Term(4)), standbys=(0, 1)), orders_0=entry(1, 1))

    after = planned(situation([TASK], [B], plan=plan, own={TASK: claim(B.incarnation, 1)}, fenced=[A.incarnation, C.incarnation]))

    assert after.members == (B.incarnation, C.incarnation)
    assert after.tasks["old/0"] == entry(1, 5, standbys=(0,))
    assert plan_next(situation([TASK], [B], plan=after, own={TASK: claim(B.incarnation, 1)}, fenced=[C.incarnation])) is None


def test_a_member_that_joins_or_goes_changes_the_plan_even_without_tasks() -> None:
    plan = planned(situation([TASK], [A]))

    joined = planned(situation([TASK], [A, B], plan=plan, own=claims(plan)))
    gone = planned(situation([TASK], [A], plan=joined, own=claims(plan), fenced=[B.incarnation]))

    assert (joined.members, joined.why) == ((A.incarnation, B.incarnation), "web-2/0 joined")
    assert (gone.members, gone.why) == ((A.incarnation,), "web-2/0 left")


def test_a_reason_is_never_long() -> None:
    members = [member(f"{'a-very-long-host-name' * 3}-{number}/0") for number in range(30)]
    plan = planned(situation(orders(200), members))

    after = planned(situation(orders(200), members[15:], plan=plan, own=claims(plan), fenced=[one.incarnation for one in members[:15]]))

    assert len(after.why) == 200
    assert after.why.endswith("…")


def test_a_fenced_incarnation_cannot_be_alive() -> None:
    with pytest.raises(AssertionError, match="lives no more"):
        plan_next(situation([TASK], [A], fenced=[A.incarnation]))


# size

MANY, CROWD = orders(2_000), [member(f"host-{number // 4}/{number % 4}", rack="abc"[number // 4 % 3]) for number in range(200)]
MOST_SECONDS = 1.0  # of processor time; measured: 0.2 s


def test_two_thousand_tasks_are_placed_on_two_hundred_members_within_a_second() -> None:
    before = process_time()

    plan = planned(situation(MANY, CROWD, standbys=1))

    assert process_time() - before < MOST_SECONDS
    assert Counter(owners(plan).values()) == dict.fromkeys((candidate.incarnation for candidate in CROWD), 10)


def test_the_loss_of_one_of_two_hundred_members_is_planned_within_a_second() -> None:
    plan = planned(situation(MANY, CROWD, standbys=1))
    follows: dict[Incarnation, dict[TaskId, int]] = {}
    for task in MANY:
        for name in standbys(plan, task):
            follows.setdefault(name, {})[task] = 0
    left = [replace(candidate, copies=follows[candidate.incarnation]) for candidate in CROWD[1:]]
    now = situation(MANY, left, plan=plan, own=claims(plan), fenced=[CROWD[0].incarnation], standbys=1)
    before = process_time()

    after = planned(now)

    assert process_time() - before < MOST_SECONDS
    assert len({owners(after)[task] for task in held_by(plan, CROWD[0])}) > 5, "the loss is shared"
