"""A progress bar while `streamlet run` brings local state up to its changelogs; log lines go on above it."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from streamlet.runtime.progress import Pace, RestoreView

_EVERY_S: Final = 0.2
_DAY_S: Final = 86_400


class RestoreBar:
    """The bar. Its only writer is the worker's loop."""

    every_s = _EVERY_S

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar: Progress | None = None
        self._row = TaskID(0)

    def show(self, pace: Pace) -> None:
        """Draw the bar, or move it on."""
        if self._bar is None:
            self._bar = Progress(
                TextColumn("Restoring state"),
                BarColumn(bar_width=30),
                TextColumn("{task.percentage:>3.0f} %  {task.fields[said]}"),
                console=self._console,
                transient=True,
                redirect_stdout=sys.stdout.isatty(),
            )
            self._row = self._bar.add_task("", said="")
            self._bar.start()
        self._bar.update(self._row, completed=pace.done, total=max(1, pace.done + pace.left), said=describe(pace))

    def hide(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def describe(pace: Pace) -> str:
    """`1,250,000 records  310,000/s  12 s left`."""
    return f"{pace.records:,} records  {pace.rate_per_s:,.0f}/s  {_said_time(pace.seconds_left)}"


def _said_time(seconds: float | None) -> str:
    if seconds is None or seconds > _DAY_S:
        return "time left not known"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s left" if minutes else f"{rest} s left"


@contextmanager
def restore_shown() -> Generator[RestoreView | None]:
    """A bar where standard error is a terminal, else None: then log lines say the same."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    bar = RestoreBar(console)
    try:
        yield bar
    finally:
        bar.hide()
