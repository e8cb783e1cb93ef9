"""Whatever a log looks like and however it is cut into slices, a replay ends exactly at its end, with the state of the log.

The log is a list of offsets, each a record, a marker or an aborted record; only records are delivered. An end event
comes at the last stable offset, which an open transaction may hold before the end for a while.
"""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from streamlet.changelog.replay import CopyVerdict, Partition, Read, Replay, judge_copy

PARTITION = Partition("log", 0)
KEYS = st.sampled_from([b"a", b"b", b"c"])
DELIVERED = st.tuples(KEYS, st.none() | st.binary(min_size=1, max_size=2))
LOGS = st.lists(st.none() | DELIVERED, max_size=40)  # None: an offset that is never delivered


def slices(log: Sequence[tuple[bytes, bytes | None] | None], start: int, cuts: Sequence[int], held: int) -> list[Read]:
    """The log as a consumer gives it: in pieces, an end event at the held offset, later one at the true end."""
    reads: list[Read] = []
    at = start
    for end in (*(cut for cut in sorted({*cuts, held}) if start < cut < len(log)), len(log)):
        records = [(offset, record) for offset, record in enumerate(log[at:end], at) if record is not None]
        read = Read(PARTITION, [record for _, record in records], offset=records[-1][0] + 1 if records else -1)
        if end in (held, len(log)):
            read.end = read.offset = end
        reads.append(read)
        at = end
    return reads


@given(LOGS, st.data())
def test_a_replay_is_done_exactly_at_the_end_and_holds_the_last_value_of_every_key(
    log: list[tuple[bytes, bytes | None] | None], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(log)))
    cuts, held = data.draw(st.lists(st.integers(0, 40))), data.draw(st.integers(0, 40))
    replay = Replay(PARTITION, start, target=len(log))
    copy = dict(record for record in log[:start] if record is not None)

    for read in slices(log, start, cuts, held):
        assert not replay.done, "nothing is read behind the end"
        replay.feed(read)
        copy.update(read.records)

    assert replay.done
    assert replay.offset == len(log)
    assert replay.left == 0
    assert copy == dict(record for record in log if record is not None)


@given(
    offset=st.none() | st.integers(0, 50),
    log_start=st.integers(0, 50),
    length=st.integers(0, 50),
    age_ms=st.none() | st.integers(0, 1000),
    retention_ms=st.integers(0, 1000),
)
def test_a_copy_is_kept_only_where_nothing_it_lacks_can_be_gone(
    offset: int | None, log_start: int, length: int, age_ms: int | None, retention_ms: int
) -> None:
    target, now_ms = log_start + length, 5000

    verdict = judge_copy(
        offset=offset,
        log_start=log_start,
        target=target,
        copy_time_ms=None if age_ms is None else now_ms - age_ms,
        now_ms=now_ms,
        delete_retention_ms=retention_ms,
    )

    if offset is None:
        assert verdict is CopyVerdict.EMPTY
        return
    everything_there = log_start <= offset <= target
    tombstones_there = offset == target or (age_ms is not None and 2 * age_ms <= retention_ms)
    if verdict is CopyVerdict.KEEP:
        assert everything_there
        assert tombstones_there or (age_ms is not None and age_ms <= retention_ms // 2)
    else:
        assert verdict is (CopyVerdict.TOO_OLD if everything_there else CopyVerdict.OUT_OF_RANGE)
        assert not (everything_there and tombstones_there)
