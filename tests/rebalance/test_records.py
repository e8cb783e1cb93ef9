"""Control records: their bytes last for ever, so they stand here as bytes."""

import pytest

from streamlet.ids import Incarnation, StoreName, TaskId, Term
from streamlet.rebalance.records import (
    FORMAT,
    MANIFEST_KEY,
    PLAN_KEY,
    ControlRecord,
    Entry,
    Manifest,
    NewerFormat,
    Own,
    OwnKind,
    Plan,
    Wait,
    Wish,
    WishKind,
    decode,
    encode,
    own_key,
    wish_key,
)

FIRST, SECOND = Incarnation("app-host/0-a1"), Incarnation("app-host/1-b2")
PLAN = Plan(
    version=3,
    members=(FIRST, SECOND),
    tasks={
        "split/0": Entry(owner=0, term=Term(4), standbys=(1,)),
        "split/1": Entry(owner=1, term=Term(2), wait=Wait(FIRST, Term(1)), warm_ups=(0,)),
    },
)
CLAIM = Own(OwnKind.CLAIM, FIRST, Term(4), source={"lines": 7}, changelog_end={StoreName("count-total"): 11})
RELEASE = Own(OwnKind.RELEASE, FIRST, Term(4), source={"lines": 7}, changelog_end={StoreName("count-total"): 11})
WISH = Wish(WishKind.SKIP, "split/2", 1_700_000_000_123)

GOLDEN: list[tuple[bytes, ControlRecord, str]] = [
    (
        PLAN_KEY,
        PLAN,
        "0183a776657273696f6e03a76d656d6265727392ad6170702d686f73742f302d6131ad6170702d686f73742f312d6232a57461736b7382"
        "a773706c69742f3083a56f776e657200a47465726d04a87374616e646279739101a773706c69742f3184a56f776e657201a47465726d02"
        "a47761697482ab696e6361726e6174696f6ead6170702d686f73742f302d6131a47465726d01a87761726d5f7570739100",
    ),
    (
        own_key(TaskId("split", 0)),
        CLAIM,
        "0185a46b696e64a5636c61696dab696e6361726e6174696f6ead6170702d686f73742f302d6131a47465726d04a6736f7572636581a56c"
        "696e657307ad6368616e67656c6f675f656e6481ab636f756e742d746f74616c0b",
    ),
    (
        own_key(TaskId("split", 0)),
        RELEASE,
        "0185a46b696e64a772656c65617365ab696e6361726e6174696f6ead6170702d686f73742f302d6131a47465726d04a6736f7572636581"
        "a56c696e657307ad6368616e67656c6f675f656e6481ab636f756e742d746f74616c0b",
    ),
    (MANIFEST_KEY, Manifest(b"\x01abc"), "0181a7636f6e74656e74c40401616263"),
    (wish_key(WISH), WISH, "0183a46b696e64a4736b6970a77375626a656374a773706c69742f32a561745f6d73cf0000018bcfe5687b"),
]


@pytest.mark.parametrize(("key", "record", "golden"), GOLDEN, ids=["plan", "claim", "release", "manifest", "wish"])
def test_the_bytes_of_a_control_record_do_not_change(key: bytes, record: ControlRecord, golden: str) -> None:
    assert encode(record).hex() == golden
    assert decode(key, bytes.fromhex(golden)) == record


def test_keys_say_what_a_record_is_about() -> None:
    assert own_key(TaskId("split", 0)) == b"own/split/0"
    assert wish_key(WISH) == b"wish/resume/split/2"


def test_a_kind_of_a_later_version_is_passed_over() -> None:
    assert decode(b"quota/host", b"\x09anything") is None


@pytest.mark.parametrize("value", [b"", bytes((FORMAT + 1,)) + b"\x80"])
def test_a_known_kind_in_another_format_stops_the_reader_with_the_way_on(value: bytes) -> None:
    with pytest.raises(NewerFormat) as newer:
        decode(PLAN_KEY, value)

    assert (newer.value.key, newer.value.found, newer.value.known) == ("plan", value[0] if value else 0, FORMAT)
    assert "Upgrade streamlet" in str(newer.value)


def test_a_plan_names_the_owner_and_the_term_of_a_task() -> None:
    assert PLAN.owner(TaskId("split", 1)) == (SECOND, 2)
    assert PLAN.owner(TaskId("split", 9)) is None
