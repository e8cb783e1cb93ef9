"""Where a replay begins and when it has reached the end: decisions on plain values."""

import pytest

from streamlet.changelog.replay import ChangelogGap, CopyVerdict, Partition, Read, Replay, judge_copy

DAY_MS = 86_400_000
NOW_MS = 1_700_000_000_000
PARTITION = Partition("app-count-total-changelog", 2)


def judge(*, offset: int | None, age_ms: int | None = 0, log_start: int = 10, target: int = 100) -> CopyVerdict:
    copy_time_ms = None if age_ms is None else NOW_MS - age_ms
    return judge_copy(
        offset=offset, log_start=log_start, target=target, copy_time_ms=copy_time_ms, now_ms=NOW_MS, delete_retention_ms=DAY_MS
    )


@pytest.mark.parametrize("offset", [10, 50, 100])
def test_a_copy_whose_offset_is_in_the_log_goes_on(offset: int) -> None:
    assert judge(offset=offset) is CopyVerdict.KEEP


@pytest.mark.parametrize("offset", [0, 9, 101])
def test_a_copy_whose_offset_is_not_in_the_log_is_set_aside(offset: int) -> None:
    assert judge(offset=offset) is CopyVerdict.OUT_OF_RANGE


def test_no_copy_is_replayed_from_the_start_whatever_its_age() -> None:
    assert judge(offset=None, age_ms=None) is CopyVerdict.EMPTY
    assert judge(offset=None, age_ms=10 * DAY_MS) is CopyVerdict.EMPTY


def test_a_copy_older_than_half_the_tombstone_retention_is_set_aside() -> None:
    assert judge(offset=50, age_ms=DAY_MS // 2) is CopyVerdict.KEEP
    assert judge(offset=50, age_ms=DAY_MS // 2 + 1) is CopyVerdict.TOO_OLD


def test_an_old_copy_that_lacks_nothing_goes_on() -> None:
    assert judge(offset=100, age_ms=10 * DAY_MS) is CopyVerdict.KEEP


def test_a_copy_that_does_not_know_its_age_counts_as_too_old() -> None:
    assert judge(offset=50, age_ms=None) is CopyVerdict.TOO_OLD


def test_records_alone_never_end_a_replay() -> None:
    replay = Replay(PARTITION, offset=0, target=3)

    replay.feed(Read(PARTITION, [(b"a", b"1"), (b"b", b"2"), (b"c", None)], offset=3))

    assert (replay.done, replay.offset, replay.left) == (False, 3, 0)


def test_an_end_before_the_target_does_not_end_a_replay() -> None:
    replay = Replay(PARTITION, offset=0, target=24)

    replay.feed(Read(PARTITION, [(b"a", b"1")], offset=11, end=11))

    assert (replay.done, replay.offset, replay.left) == (False, 11, 13)


@pytest.mark.parametrize("end", [24, 25])
def test_an_end_at_or_behind_the_target_ends_it_and_names_where_to_go_on(end: int) -> None:
    replay = Replay(PARTITION, offset=11, target=24)

    replay.feed(Read(PARTITION, offset=end, end=end))

    assert (replay.done, replay.offset, replay.left) == (True, end, 0)


def test_an_empty_partition_ends_at_its_first_event() -> None:
    replay = Replay(PARTITION, offset=0, target=0)
    assert not replay.done

    replay.feed(Read(PARTITION, offset=0, end=0))

    assert (replay.done, replay.offset) == (True, 0)


def test_a_slice_without_news_changes_nothing() -> None:
    replay = Replay(PARTITION, offset=7, target=24)

    replay.feed(Read(PARTITION))

    assert (replay.done, replay.offset) == (False, 7)


def test_a_slice_of_another_partition_or_from_before_is_our_own_bug() -> None:
    replay = Replay(PARTITION, offset=7, target=24)

    with pytest.raises(AssertionError, match="its own replay"):
        replay.feed(Read(Partition(PARTITION.topic, 0), offset=9))
    with pytest.raises(AssertionError, match="never goes back"):
        replay.feed(Read(PARTITION, offset=6))


def test_a_gap_names_the_partition_the_offset_and_what_happens_now() -> None:
    gap = ChangelogGap(PARTITION, 7)

    assert (gap.partition, gap.offset, gap.exit_code) == (PARTITION, 7, 5)
    assert "app-count-total-changelog/2 no longer holds offset 7" in str(gap)
    assert "set aside" in str(gap)
