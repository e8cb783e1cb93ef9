"""What the demo shows: a live table on a terminal, plain lines elsewhere."""

import time
from dataclasses import dataclass
from typing import Final, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

_TOP: Final = 10
_BAR: Final = 32
_LIVE_EVERY_S: Final = 0.1
_LINE_EVERY_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Moment:
    """What there is to see now."""

    counts: tuple[tuple[str, int], ...]  # words with their counts, highest first
    fed: int
    counted: int
    rate_per_s: float
    worker: str
    runs: bool
    now: str  # what is happening

    @property
    def waiting(self) -> int:
        """Words that are fed and not counted yet."""
        return max(0, self.fed - self.counted)


class Screen(Protocol):
    """Where the demo tells its story."""

    every_s: float

    def say(self, sentence: str) -> None: ...
    def show(self, moment: Moment) -> None: ...
    def __enter__(self) -> "Screen": ...
    def __exit__(self, *_: object) -> None: ...


def screen_for(console: Console) -> Screen:
    """The screen that fits where the output goes."""
    return LiveScreen(console) if console.is_terminal else PlainScreen(console)


class PlainScreen:
    """Sentences as they come, and every two seconds a line of numbers."""

    every_s = _LINE_EVERY_S

    def __init__(self, console: Console) -> None:
        self._console, self._began = console, time.monotonic()

    def say(self, sentence: str) -> None:
        """One line with its time."""
        self._console.print(f"{time.monotonic() - self._began:5.1f} s  {sentence}", soft_wrap=True, markup=False)

    def show(self, moment: Moment) -> None:
        """One line with the numbers and the first words."""
        top = " ".join(f"{word}={count}" for word, count in moment.counts[:4])
        self.say(f"{numbers(moment)}{'   ' + top if top else ''}")

    def __enter__(self) -> "PlainScreen":
        self._began = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        pass


class LiveScreen:
    """A table that moves; sentences stay above it."""

    every_s = _LIVE_EVERY_S

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")

    def say(self, sentence: str) -> None:
        """A sentence that stays."""
        self._live.console.print(Text.assemble(("• ", "dim"), sentence))

    def show(self, moment: Moment) -> None:
        """Draw everything anew."""
        self._live.update(draw(moment), refresh=True)

    def __enter__(self) -> "LiveScreen":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()


def numbers(moment: Moment) -> str:
    """The line of numbers that both screens have."""
    return f"fed {moment.fed:,} words   counted {moment.counted:,}   waiting {moment.waiting:,}   {moment.rate_per_s:,.0f} records/s"


def draw(moment: Moment) -> RenderableType:
    """Top words, numbers, and what is happening."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("word", min_width=12)
    table.add_column("count", justify="right", min_width=7)
    table.add_column("", min_width=_BAR)
    most = moment.counts[0][1] if moment.counts else 1
    colour = "green" if moment.runs else "red"
    for word, count in moment.counts[:_TOP]:
        table.add_row(word, f"{count:,}", Text("█" * max(1, round(_BAR * count / most)), colour))
    for _ in range(_TOP - len(moment.counts)):
        table.add_row("", "", "")
    return Group(
        Text(),
        table,
        Text(),
        Text.assemble(("● ", colour), f"{moment.worker}   ", (numbers(moment), "bold")),
        Text(moment.now, "cyan"),
    )
