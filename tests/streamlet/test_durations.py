"""Lengths of time say their unit."""

from datetime import timedelta

import pytest

from streamlet import Commit, DeclarationError, days, hours, milliseconds, minutes, seconds
from streamlet.durations import duration_ms


def test_durations_are_whole_milliseconds() -> None:
    assert (milliseconds(5), seconds(2), minutes(10), hours(1), days(1)) == (5, 2_000, 600_000, 3_600_000, 86_400_000)
    assert seconds(0.25) == 250


def test_durations_add_and_multiply_and_stay_durations() -> None:
    assert duration_ms(minutes(1) + seconds(30), "x") == 90_000
    assert duration_ms(2 * minutes(1), "x") == 120_000
    assert repr(seconds(90)) == "seconds(90)"
    assert repr(seconds(60)) == "minutes(1)"
    assert repr(milliseconds(1)) == "milliseconds(1)"


def test_a_timedelta_is_as_good() -> None:
    assert duration_ms(timedelta(seconds=1.5), "x") == 1_500


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        (5, "seconds(5)  # or milliseconds, minutes, hours, days, or a timedelta"),
        (True, "seconds(1)  # or milliseconds, minutes, hours, days, or a timedelta"),
        ("5s", "seconds(1)  # or milliseconds, minutes, hours, days, or a timedelta"),
        (timedelta(microseconds=5), "seconds(1)"),
        (timedelta(seconds=-1), "seconds(1)"),
    ],
)
def test_what_has_no_unit_is_refused(value: object, fix: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        duration_ms(value, "Commit(interval=)")
    assert (caught.value.subject, caught.value.fix) == ("Commit(interval=)", fix)


def test_parts_of_a_millisecond_and_negative_times_are_refused() -> None:
    with pytest.raises(DeclarationError) as caught:
        seconds(0.0005)
    assert caught.value.fix == "milliseconds(0)"
    with pytest.raises(DeclarationError):
        seconds(-1)


def test_commits_need_an_interval_with_a_unit() -> None:
    assert Commit(interval=seconds(1)).interval_ms == 1_000
    assert Commit().setting.interval_ms == 100
    for wrong in (5, milliseconds(0)):
        with pytest.raises(DeclarationError):
            Commit(interval=wrong)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError):
        Commit(max_bytes=5)


def test_a_commit_cannot_be_told_to_gather_more_than_memory_is_meant_for():
    with pytest.raises(DeclarationError) as caught:
        Commit(max_bytes=64 * 1024 * 1024 + 1)

    assert caught.value.fix == "Commit(max_bytes=64 * 1024 * 1024)  # or less"
