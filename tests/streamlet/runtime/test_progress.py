"""When a restore is shown, and what is said of it."""

import logging
from dataclasses import dataclass, field

import pytest

from streamlet.runtime.progress import LoggedRestore, Pace, RestoreWatch


@dataclass
class Screen:
    every_s: float = 1.0
    shown: list[Pace] = field(default_factory=list[Pace])
    hidden: int = 0

    def show(self, pace: Pace) -> None:
        self.shown.append(pace)

    def hide(self) -> None:
        self.hidden += 1


@dataclass
class Restore:
    """A restore of 1000 offsets, moved by the test."""

    busy: bool = True
    records: int = 0
    left: int = 1000


class Watched:
    def __init__(self) -> None:
        self.now, self.screen, self.restore = 100.0, Screen(), Restore()
        self.watch = RestoreWatch(self.screen, clock=lambda: self.now)

    def after(self, seconds: float, *, left: int) -> None:
        self.now += seconds
        self.restore.records, self.restore.left = 1000 - left, left
        self.watch.look(self.restore)


def test_a_restore_is_shown_at_its_pace_with_rate_and_time_left() -> None:
    watched = Watched()

    watched.after(0.0, left=1000)
    watched.after(1.0, left=800)
    watched.after(1.0, left=600)

    assert watched.screen.shown == [Pace(200, 200, 800, 200.0), Pace(400, 400, 600, 200.0)]
    assert watched.screen.shown[-1].seconds_left == 3.0


def test_it_is_not_shown_more_often_than_the_view_wants() -> None:
    watched = Watched()

    for _ in range(25):
        watched.after(0.1, left=500)

    assert len(watched.screen.shown) == 2


def test_a_short_restore_is_not_shown_at_all() -> None:
    watched = Watched()

    watched.after(0.0, left=1000)
    watched.restore.busy = False
    watched.after(0.5, left=0)

    assert watched.screen.shown == []


def test_the_rate_is_that_of_the_last_seconds() -> None:
    watched = Watched()

    watched.after(0.0, left=1000)
    watched.after(1.0, left=100)
    for second in range(11):
        watched.after(1.0, left=99 - second)

    assert watched.screen.shown[-1].rate_per_s == 1.0


def test_a_restore_that_stands_still_has_no_time_left() -> None:
    watched = Watched()

    watched.after(0.0, left=1000)
    watched.after(1.0, left=1000)

    assert watched.screen.shown[-1].seconds_left is None


def test_the_display_is_taken_away_once_when_it_is_over_and_a_second_restore_starts_anew() -> None:
    watched = Watched()
    watched.after(0.0, left=1000)
    watched.after(1.0, left=500)
    watched.restore.busy = False
    watched.after(1.0, left=0)
    watched.watch.end()

    watched.restore.busy = True
    watched.after(1.0, left=10)
    watched.after(1.0, left=5)

    assert watched.screen.hidden == 1
    assert watched.screen.shown[-1] == Pace(995, 5, 5, 5.0)


def test_without_a_terminal_a_log_line_carries_the_numbers(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "streamlet.restore"):
        LoggedRestore().show(Pace(records=190, done=200, left=800, rate_per_s=99.6))

    (record,) = caplog.records
    assert record.getMessage() == "restoring"
    facts = {name: record.__dict__[name] for name in ("records", "left", "rate_per_s", "seconds_left")}
    assert facts == {"records": 190, "left": 800, "rate_per_s": 100, "seconds_left": 8}
