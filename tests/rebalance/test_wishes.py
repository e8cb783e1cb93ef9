"""What people asked for, as the plan comes to hold it."""

from streamlet.ids import Incarnation, Slot, TaskId, Term
from streamlet.rebalance.members import SupervisorWord, WorkerWord
from streamlet.rebalance.records import Entry, Plan, Wish, WishKind, wish_key
from streamlet.rebalance.wishes import Orders, heed_wishes, share_out

A = Incarnation("app-web/0-aa")
SUPERVISOR = SupervisorWord("web", "web", alive=(A,))
LIVING = {A: (WorkerWord(A, Slot("web/0"), "web", {"orders": 2}), SUPERVISOR)}
PLAN = Plan(3, (A,), {"orders/0": Entry(0, Term(1)), "orders/1": Entry(0, Term(1))}, paused=("orders/1",), target=4)


def heed(*wishes: Wish) -> Orders:
    return heed_wishes({wish_key(wish).decode(): wish for wish in wishes}, PLAN, LIVING, [SUPERVISOR])


def test_without_wishes_the_plan_keeps_what_it_holds() -> None:
    orders = heed()

    assert (orders.paused, orders.target, orders.quotas, orders.answered, orders.why) == (("orders/1",), 4, {"web": 4}, (), "")


def test_every_task_is_paused_and_goes_on() -> None:
    assert heed(Wish(WishKind.PAUSE, "", 1)).paused == ("orders/0", "orders/1")
    assert heed(Wish(WishKind.RESUME, "", 1)).paused == ()
    assert heed(Wish(WishKind.RESUME, "orders/1", 1)).paused == ()


def test_wishes_are_heeded_in_the_order_they_were_made() -> None:
    assert heed(Wish(WishKind.PAUSE, "", 2), Wish(WishKind.RESUME, "", 1)).paused == ("orders/0", "orders/1")
    assert heed(Wish(WishKind.PAUSE, "", 1), Wish(WishKind.RESUME, "", 2)).paused == ()


def test_a_parked_task_s_wish_is_left_to_its_worker() -> None:
    assert heed(Wish(WishKind.RESUME, "orders/0", 1)).answered == ()
    assert heed(Wish(WishKind.SKIP, "orders/1", 1)).answered == ()


def test_moves_drains_and_scales_are_answered_with_the_plan() -> None:
    move, drain, scale = Wish(WishKind.MOVE, "orders/0", 1, "web/1"), Wish(WishKind.DRAIN, "web/0", 2), Wish(WishKind.SCALE, "", 3, "auto")

    orders = heed(move, drain, scale)

    assert orders.moves == {TaskId("orders", 0): "web/1"}
    assert orders.drained == (A,)
    assert (orders.target, orders.quotas) == (None, {})
    assert orders.answered == (wish_key(move), wish_key(drain), wish_key(scale))
    assert orders.why == "asked for: move orders/0 web/1, drain web/0, scale auto"


def test_workers_are_shared_out_evenly_as_far_as_supervisors_can() -> None:
    one, two = SupervisorWord("a", "a"), SupervisorWord("b", "b")
    single, closing = SupervisorWord("c", "c", most_workers=1), SupervisorWord("d", "d", closing=True)

    assert share_out(5, [two, one]) == {"a": 3, "b": 2}
    assert share_out(5, [one, single]) == {"a": 4, "c": 1}
    assert share_out(3, [single]) == {"c": 1}
    assert share_out(2, [one, closing]) == {"a": 2}
    assert share_out(None, [one]) == {}
