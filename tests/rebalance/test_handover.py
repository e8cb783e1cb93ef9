"""What a worker has to do, by the plan, the ownership records and what it holds."""

import pytest

from streamlet.ids import Incarnation, StoreName, TaskId, Term
from streamlet.rebalance.handover import NOTHING, Start, duties
from streamlet.rebalance.records import Entry, Own, OwnKind, Plan, Wait

ME, OTHER = Incarnation("app-a/0-me"), Incarnation("app-b/0-other")
TASK = TaskId("orders", 0)


def plan(entry: Entry, *, paused: tuple[str, ...] = ()) -> Plan:
    return Plan(7, (ME, OTHER), {str(TASK): entry}, paused=paused)


def own(kind: OwnKind, incarnation: Incarnation, term: int) -> Own:
    return Own(kind, incarnation, Term(term), {"orders": 5}, {StoreName("total"): 9})


def test_without_a_plan_or_outside_of_it_there_is_nothing_to_do() -> None:
    assert duties(None, {}, ME, {}) == NOTHING
    assert duties(Plan(1, (OTHER,), {str(TASK): Entry(0, Term(1))}), {}, ME, {}) == NOTHING


def test_a_task_that_waits_for_nobody_is_started() -> None:
    found = duties(plan(Entry(0, Term(1))), {}, ME, {})

    assert found.start == {TASK: Start(Term(1), None)}


def test_a_task_whose_release_is_there_is_started_from_it() -> None:
    release = own(OwnKind.RELEASE, OTHER, 1)

    found = duties(plan(Entry(0, Term(2), Wait(OTHER, Term(1)))), {TASK: release}, ME, {})

    assert found.start == {TASK: Start(Term(2), release)}


@pytest.mark.parametrize(
    "there",
    [
        None,
        own(OwnKind.CLAIM, OTHER, 1),
        own(OwnKind.RELEASE, OTHER, 0),
        own(OwnKind.RELEASE, OTHER, 2),
        own(OwnKind.RELEASE, ME, 1),
    ],
)
def test_any_other_record_is_not_the_release_and_the_copy_only_follows(there: Own | None) -> None:
    found = duties(plan(Entry(0, Term(2), Wait(OTHER, Term(1)))), {TASK: there} if there else {}, ME, {})

    assert (found.start, found.follow) == ({}, {TASK})


def test_a_task_named_elsewhere_is_released_and_one_of_ours_is_kept() -> None:
    assert duties(plan(Entry(1, Term(2), Wait(ME, Term(1)))), {}, ME, {TASK: Term(1)}).release == {TASK}
    assert duties(plan(Entry(0, Term(1))), {}, ME, {TASK: Term(1)}) == NOTHING


def test_being_named_again_under_a_later_term_means_to_release_first() -> None:
    found = duties(plan(Entry(0, Term(3), Wait(ME, Term(1)))), {}, ME, {TASK: Term(1)})

    assert (found.release, found.start) == ({TASK}, {})


def test_a_task_that_the_plan_no_longer_has_is_released() -> None:
    assert duties(Plan(8, (ME,), {}), {}, ME, {TASK: Term(1)}).release == {TASK}


@pytest.mark.parametrize("entry", [Entry(1, Term(1), standbys=(0,)), Entry(1, Term(1), warm_ups=(0,))])
def test_standbys_and_warm_ups_follow(entry: Entry) -> None:
    assert duties(plan(entry), {}, ME, {}).follow == {TASK}


def test_a_paused_task_is_paused_where_it_is_held() -> None:
    entry = Entry(0, Term(1))

    assert duties(plan(entry, paused=(str(TASK),)), {}, ME, {TASK: Term(1)}).paused == {TASK}
    assert duties(plan(entry, paused=(str(TASK),)), {}, ME, {}).paused == frozenset()
