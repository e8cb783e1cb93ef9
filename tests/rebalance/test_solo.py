"""The plan of one worker: everything is its own, under terms that nobody ever had, and whoever was before is fenced."""

from hypothesis import given
from hypothesis import strategies as st

from streamlet.ids import Incarnation, TaskId, Term
from streamlet.rebalance.records import Entry, Own, OwnKind, Plan
from streamlet.rebalance.solo import solo_plan, to_fence

ME, BEFORE, LONG_AGO = Incarnation("app-host/0-c3"), Incarnation("app-host/0-b2"), Incarnation("app-host/0-a1")
TASKS = [TaskId("split", number) for number in range(4)]


def claim(term: int, incarnation: Incarnation = BEFORE) -> Own:
    return Own(OwnKind.CLAIM, incarnation, Term(term), {}, {})


def test_the_first_plan_gives_every_task_to_the_worker_under_term_one() -> None:
    plan = solo_plan(None, {}, ME, TASKS[:2])

    assert plan == Plan(1, (ME,), {"split/0": Entry(0, Term(1)), "split/1": Entry(0, Term(1))})


def test_terms_are_above_everything_planned_or_claimed() -> None:
    earlier = Plan(7, (BEFORE,), {"split/0": Entry(0, Term(5)), "split/1": Entry(0, Term(2))})

    plan = solo_plan(earlier, {TASKS[1]: claim(9), TASKS[2]: claim(3)}, ME, TASKS)

    assert plan.version == 8
    assert {task: entry.term for task, entry in plan.tasks.items()} == {"split/0": 6, "split/1": 10, "split/2": 4, "split/3": 1}


def test_whoever_an_earlier_plan_named_is_fenced_and_the_worker_itself_is_not() -> None:
    assert to_fence(None, ME) == ()
    assert to_fence(Plan(1, (ME, BEFORE, LONG_AGO), {}), ME) == (LONG_AGO, BEFORE)


TERMS = st.dictionaries(st.sampled_from(TASKS), st.integers(1, 50).map(Term))


@given(
    planned=TERMS, held=TERMS, tasks=st.sets(st.sampled_from(TASKS)), members=st.sets(st.sampled_from([ME, BEFORE, LONG_AGO]), min_size=1)
)
def test_no_term_is_ever_given_twice_and_nobody_named_before_stays_able_to_write(
    planned: dict[TaskId, Term], held: dict[TaskId, Term], tasks: set[TaskId], members: set[Incarnation]
) -> None:
    earlier = Plan(3, tuple(sorted(members)), {str(task): Entry(0, term) for task, term in planned.items()})
    own = {task: claim(term) for task, term in held.items()}

    plan = solo_plan(earlier, own, ME, tasks)

    assert {TaskId.parse(name) for name in plan.tasks} == tasks
    assert plan.version > earlier.version
    assert plan.members == (ME,)
    for task in tasks:
        owner = plan.owner(task)
        assert owner is not None
        assert owner[0] == ME
        assert owner[1] > max(planned.get(task, 0), held.get(task, 0))
    assert set(to_fence(earlier, ME)) == members - {ME}


def test_a_task_that_is_left_out_of_one_plan_still_gets_a_higher_term_in_the_next() -> None:
    first = solo_plan(None, {}, BEFORE, TASKS[:2])
    own = {task: claim(first.tasks[str(task)].term) for task in TASKS[:2]}
    without = solo_plan(first, own, LONG_AGO, TASKS[:1])

    again = solo_plan(without, own, ME, TASKS[:2])

    assert again.tasks["split/1"].term == 2
