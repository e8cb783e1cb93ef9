"""Commit records: their bytes last for ever, so they stand here as bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet.changelog.commits import FORMAT, CommitRecord, UnreadableCommitRecord, commit_key, decode_commit, encode_commit
from streamlet.ids import StoreName, TaskId

RECORD = CommitRecord(
    task="split/2",
    at_ms=1_700_000_000_123,
    source={"lines": 7},
    changelog={StoreName("count-total"): 11},
    repartition={"app-split-repartition": {0: 3, 2: 300}},
)
GOLDEN = bytes.fromhex(
    "0185a47461736ba773706c69742f32a561745f6d73cf0000018bcfe5687ba6736f7572636581a56c696e657307a96368616e67656c6f67"
    "81ab636f756e742d746f74616c0bab7265706172746974696f6e81b56170702d73706c69742d7265706172746974696f6e82000302cd012c"
)
NAMES = st.text(max_size=8)
OFFSETS = st.integers(0, 2**63 - 1)


def test_the_bytes_of_a_commit_record_do_not_change() -> None:
    assert encode_commit(RECORD) == GOLDEN
    assert decode_commit(GOLDEN) == RECORD


def test_the_newest_commit_record_of_a_task_stands_under_its_name() -> None:
    assert commit_key(TaskId("split", 2)) == b"split/2"


@pytest.mark.parametrize(("value", "found"), [(b"", 0), (bytes((FORMAT + 1,)) + GOLDEN[1:], FORMAT + 1)])
def test_a_record_of_another_format_is_refused_before_it_is_read(value: bytes, found: int) -> None:
    with pytest.raises(UnreadableCommitRecord) as refused:
        decode_commit(value)

    assert refused.value.found == found
    assert "Upgrade streamlet" in str(refused.value)


@given(
    st.builds(
        CommitRecord,
        task=NAMES,
        at_ms=OFFSETS,
        source=st.dictionaries(NAMES, OFFSETS, max_size=3),
        changelog=st.dictionaries(NAMES.map(StoreName), OFFSETS, max_size=3),
        repartition=st.dictionaries(NAMES, st.dictionaries(st.integers(0, 2000), OFFSETS, max_size=3), max_size=2),
    )
)
def test_every_commit_record_is_read_as_it_was_written(record: CommitRecord) -> None:
    assert decode_commit(encode_commit(record)) == record
