import time

import pytest

from tests.bed.waiting import NeverHappened, eventually


def test_eventually_returns_the_first_true_answer():
    answers = iter([0, "", None, 7, 8])

    assert eventually(lambda: next(answers), within_s=5) == 7


def test_eventually_fails_when_the_time_is_over_and_says_what_it_waited_for():
    started = time.monotonic()

    with pytest.raises(NeverHappened) as failure:
        eventually(lambda: 0, within_s=0.05, what="a leader")

    assert 0.05 <= time.monotonic() - started < 2
    assert (failure.value.what, failure.value.within_s, failure.value.last) == ("a leader", 0.05, 0)
    assert str(failure.value) == "waited 0.05 s for a leader; the last answer was 0"


def test_eventually_does_not_hide_an_error_of_the_condition():
    with pytest.raises(ZeroDivisionError):
        eventually(lambda: 1 // 0, within_s=5)
