"""The bar that `streamlet run` shows while it restores."""

import logging
import sys
from io import StringIO

import pytest
from rich.console import Console

from streamlet.cli.logs import LogFormat, set_up_logs
from streamlet.cli.restore_bar import RestoreBar, describe, restore_shown
from streamlet.runtime.progress import Pace


@pytest.mark.parametrize(
    ("pace", "said"),
    [
        (Pace(records=1_250_000, done=1_300_000, left=3_720_000, rate_per_s=310_000), "1,250,000 records  310,000/s  12 s left"),
        (Pace(records=10, done=10, left=7_500, rate_per_s=100), "10 records  100/s  1 min 15 s left"),
        (Pace(records=0, done=0, left=7_500, rate_per_s=0), "0 records  0/s  time left not known"),
    ],
)
def test_the_bar_says_records_rate_and_time_left(pace: Pace, said: str) -> None:
    assert describe(pace) == said


def test_the_bar_shows_how_much_is_done_and_goes_away() -> None:
    output = StringIO()
    bar = RestoreBar(Console(file=output, force_terminal=True, width=120, color_system=None))

    bar.show(Pace(records=30, done=30, left=90, rate_per_s=30))
    bar.hide()
    bar.hide()

    assert "25 %  30 records  30/s  3 s left" in output.getvalue()


def test_logs_go_on_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    output = StringIO()
    monkeypatch.setattr(sys, "stderr", StringIO())
    set_up_logs(LogFormat.TEXT)
    bar = RestoreBar(Console(file=output, force_terminal=True, width=120, color_system=None))

    bar.show(Pace(records=30, done=30, left=90, rate_per_s=30))
    logging.getLogger("streamlet.worker").info("task restored")
    bar.hide()

    assert "task restored" in output.getvalue()


def test_without_a_terminal_there_is_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", StringIO())

    with restore_shown() as view:
        assert view is None
