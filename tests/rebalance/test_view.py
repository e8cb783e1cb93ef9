"""What the control topic says: the newest record of every kind, live or replayed from the beginning."""

from hypothesis import given
from hypothesis import strategies as st

from streamlet.ids import Incarnation, StoreName, TaskId, Term
from streamlet.rebalance.records import (
    MANIFEST_KEY,
    PLAN_KEY,
    Entry,
    Manifest,
    Own,
    OwnKind,
    Plan,
    Wish,
    WishKind,
    encode,
    own_key,
    wish_key,
)
from streamlet.rebalance.view import View, replay

ME = Incarnation("app-host/0-a1")
TASK = TaskId("split", 0)


def own(kind: OwnKind, term: int, offset: int = 0) -> Own:
    return Own(kind, ME, Term(term), {"lines": offset}, {StoreName("total"): offset})


def plan(version: int) -> Plan:
    return Plan(version, (ME,), {str(TASK): Entry(0, Term(version))})


def wish(at_ms: int) -> Wish:
    return Wish(WishKind.RESUME, str(TASK), at_ms)


def test_an_empty_topic_says_nothing() -> None:
    assert replay(View(), []) == View(plan=None, own={}, manifest=None, wishes={})


def test_the_newest_record_of_every_kind_counts() -> None:
    records = [
        (PLAN_KEY, encode(plan(1))),
        (own_key(TASK), encode(own(OwnKind.CLAIM, 1))),
        (MANIFEST_KEY, encode(Manifest(b"old"))),
        (PLAN_KEY, encode(plan(2))),
        (own_key(TASK), encode(own(OwnKind.RELEASE, 1, 9))),
        (own_key(TaskId("split", 1)), encode(own(OwnKind.CLAIM, 2))),
        (MANIFEST_KEY, encode(Manifest(b"new"))),
        (wish_key(wish(5)), encode(wish(5))),
    ]

    view = replay(View(), records)

    assert view.plan == plan(2)
    assert view.own == {TASK: own(OwnKind.RELEASE, 1, 9), TaskId("split", 1): own(OwnKind.CLAIM, 2)}
    assert view.manifest == b"new"
    assert view.wishes == {wish_key(wish(5)).decode().removeprefix("wish/"): wish(5)}


def test_a_tombstone_takes_its_record_away() -> None:
    view = replay(
        View(), [(wish_key(wish(5)), encode(wish(5))), (own_key(TASK), encode(own(OwnKind.CLAIM, 1))), (PLAN_KEY, encode(plan(1)))]
    )

    replay(view, [(wish_key(wish(5)), None), (own_key(TASK), None), (PLAN_KEY, None), (b"wish/nobody/7", None)])

    assert view == View()


def test_records_of_an_unknown_kind_are_passed_over() -> None:
    assert replay(View(), [(b"quota/host", b"\x07?"), (b"\xff\xfe", b"\x01")]) == View()


RECORDS = st.lists(
    st.one_of(
        st.integers(1, 5).map(lambda version: (PLAN_KEY, encode(plan(version)))),
        st.builds(
            lambda number, kind, term: (own_key(TaskId("split", number)), encode(own(kind, term))),
            st.integers(0, 2),
            st.sampled_from(OwnKind),
            st.integers(1, 5),
        ),
        st.integers(1, 5).map(lambda at_ms: (wish_key(wish(at_ms)), encode(wish(at_ms)))),
        st.sampled_from([PLAN_KEY, own_key(TASK), wish_key(wish(0)), MANIFEST_KEY]).map(lambda key: (key, None)),
    )
)


@given(RECORDS, st.data())
def test_live_in_pieces_at_once_or_compacted_the_view_is_the_same(records: list[tuple[bytes, bytes | None]], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(records)))
    newest = {key: index for index, (key, _) in enumerate(records)}
    compacted = [record for index, record in enumerate(records) if newest[record[0]] == index]

    at_once = replay(View(), records)

    assert replay(replay(View(), records[:cut]), records[cut:]) == at_once
    assert replay(View(), compacted) == at_once
