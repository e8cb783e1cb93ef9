"""`streamlet demo`: a real Kafka, a topic, and records that go through it while you watch."""

import secrets
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import quantiles
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from streamlet.cli.kafka import default_folder
from streamlet.cli.signals import ending_on_signals

if TYPE_CHECKING:
    from streamlet.local import LocalKafka
    from streamlet.local.kafka import Flow

UNWATCHED_S: Final = 5.0
PER_SECOND: Final = 200
_REFRESH_S: Final = 0.1
_LAST_S: Final = 20.0  # how long records still on their way are waited for
_KEPT: Final = 10_000  # latencies in memory
_SENTENCE: Final = "a stream is a table that never stops and a table is a stream that you have read so far"
_WORDS: Final = _SENTENCE.split()

_console = Console(highlight=False)


@dataclass(slots=True)
class Tally:
    """What went through. Its only writer is the loop below."""

    sent: int = 0
    received: int = 0
    last: str = ""
    latencies: deque[float] = field(default_factory=lambda: deque[float](maxlen=_KEPT))

    def add(self, records: list[tuple[str, float]]) -> None:
        """Count records that came back."""
        if records:
            self.received += len(records)
            self.last = records[-1][0]
            self.latencies.extend(latency for _, latency in records)

    @property
    def percentiles(self) -> tuple[float, float]:
        """Median and 99th percentile of the way through the broker, in milliseconds."""
        if len(self.latencies) < 2:
            return (0.0, 0.0)
        cuts = quantiles(self.latencies, n=100)
        return cuts[49], cuts[98]


def demo(
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0.1, help="End after so long. [default: at Ctrl-C, or 5 without a terminal]")
    ] = None,
) -> None:
    """Start a Kafka and watch records go through it."""
    duration = seconds if seconds is not None else None if _console.is_terminal else UNWATCHED_S
    tally, started = Tally(), time.monotonic()
    with ending_on_signals(), _some_kafka() as kafka:
        topic = f"streamlet-demo-{secrets.token_hex(3)}"
        kafka.create_topic(topic)
        _console.print(f"Topic [bold]{topic}[/] made. {PER_SECOND} words a second go in and come out.")
        started = time.monotonic()
        try:
            _run(kafka, topic, tally, duration)
        except KeyboardInterrupt:
            pass
        finally:
            kafka.delete_topic(topic)
    median, high = tally.percentiles
    _console.print(
        f"[bold green]Done.[/] {tally.sent} records sent, {tally.received} received in {time.monotonic() - started:.1f} s; "
        f"through the broker in {median:.1f} ms (median), {high:.1f} ms (99 %)."
    )
    if tally.received < tally.sent:
        raise typer.Exit(1)


@contextmanager
def _some_kafka() -> "Generator[LocalKafka]":
    """The Kafka that runs already, or one for as long as the demo."""
    from streamlet.local import LocalKafka
    from streamlet.local.artefacts import fetch
    from streamlet.local.jars import read_lock

    running = LocalKafka.attach(default_folder())
    if running is not None:
        _console.print(f"Using the Kafka at [bold]{running.bootstrap}[/].")
        yield running
        return
    fetch(read_lock())  # shows its own progress
    before = time.monotonic()
    with _console.status("Starting a real Kafka …"):
        started = LocalKafka.start()
    with started:
        _console.print(f"A real Kafka is up at [bold]{started.bootstrap}[/] ({time.monotonic() - before:.1f} s).")
        yield started


def _run(kafka: "LocalKafka", topic: str, tally: Tally, duration: float | None) -> None:
    from streamlet.local.kafka import Flow

    flow = Flow(kafka.client_config, topic)
    try:
        if _console.is_terminal:
            with Live(_line(tally, 0.0), console=_console, refresh_per_second=10, transient=True) as live:
                _pump(flow, tally, duration, lambda elapsed: live.update(_line(tally, elapsed)))
        else:
            _pump(flow, tally, duration, lambda _elapsed: None)
    finally:
        flow.close()


def _pump(flow: "Flow", tally: Tally, duration: float | None, show: Callable[[float], None]) -> None:
    """Send on schedule and receive until `duration` is over or Ctrl-C; then wait for what is still on its way."""
    start = shown = time.monotonic()
    try:
        while duration is None or time.monotonic() - start < duration:
            elapsed = time.monotonic() - start
            while tally.sent < elapsed * PER_SECOND:
                flow.send(_WORDS[tally.sent % len(_WORDS)])
                tally.sent += 1
            tally.add(flow.receive(0.005))
            if time.monotonic() - shown >= _REFRESH_S:
                show(elapsed)
                shown = time.monotonic()
    finally:
        deadline = time.monotonic() + _LAST_S
        while tally.received < tally.sent and time.monotonic() < deadline:
            tally.add(flow.receive(0.05))


def _line(tally: Tally, elapsed: float) -> Text:
    median, high = tally.percentiles
    return Text.assemble(
        ("● ", "green"),
        f"{elapsed:4.0f} s  sent {tally.sent:>6}  received {tally.received:>6}  {median:.1f} ms (99 %: {high:.1f})  ",
        (tally.last, "bold cyan"),
        ("  Ctrl-C ends", "dim"),
    )
