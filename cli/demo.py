"""`streamlet demo`: a real Kafka, a real app, a worker that is killed and comes back, and the proof that every count is right."""

import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from streamlet.cli.demo_screen import screen_for
from streamlet.cli.kafka import default_folder
from streamlet.cli.signals import ending_on_signals

if TYPE_CHECKING:
    from streamlet.cli.demo_story import Outcome
    from streamlet.local import LocalKafka

EXAMPLE: Final = Path(__file__).resolve().parent.parent / "examples" / "word_count.py"  # beside cli/ in the clone and in the wheel
_APP, _LINES, _COUNTS = "word-count", "lines", "counts"  # the example's names
_PARTITIONS: Final = 2
_INTERRUPTED: Final = 130
_SHOWN_FLAWS: Final = 5

_console = Console(highlight=False)


def demo(
    seconds: Annotated[float, typer.Option("--seconds", min=1.0, help="How long lines are fed, about.")] = 8.0,
) -> None:
    """Count words on a real Kafka, kill the worker half-way, and see every count come out right."""
    with ending_on_signals():
        try:
            outcome = _run(seconds)
        except KeyboardInterrupt:
            _console.print("Stopped before the end. The worker is gone and so is everything else the demo made.")
            raise typer.Exit(_INTERRUPTED) from None
    _console.print(_told(outcome), soft_wrap=not _console.is_terminal)
    if outcome.flaws:
        raise typer.Exit(1)


def _run(seconds: float) -> "Outcome":
    from streamlet.cli.demo_story import Story
    from streamlet.cli.demo_worker import DemoWorker
    from streamlet.local.kafka import CommittedReader, Feeder

    with ExitStack() as stack:
        kafka = stack.enter_context(_some_kafka())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="streamlet-demo-")))
        for topic in (_LINES, _COUNTS):
            kafka.create_topic(topic, partitions=_PARTITIONS)
        feeder, reader = Feeder(kafka.client_config, _LINES), CommittedReader(kafka.client_config, _COUNTS, _PARTITIONS)
        stack.callback(reader.close)
        worker = stack.enter_context(DemoWorker(EXAMPLE, kafka.bootstrap, folder))
        screen = stack.enter_context(screen_for(_console))
        return Story(feeder, reader, worker, screen).tell(seconds)


@contextmanager
def _some_kafka() -> "Generator[LocalKafka]":
    """The Kafka that runs already, if the demo can leave it as it found it; else one for as long as the demo."""
    from streamlet.local import LocalKafka
    from streamlet.local.artefacts import fetch
    from streamlet.local.jars import read_lock

    running = LocalKafka.attach(default_folder())
    if running is not None and not _own_topics(running):
        _console.print(f"Using the Kafka at [bold]{running.bootstrap}[/].")
        try:
            yield running
        finally:
            for topic in _own_topics(running):
                running.delete_topic(topic)
        return
    if running is not None:
        said = f"The Kafka at {running.bootstrap} has topics of a word count already: they stay as they are, the demo starts its own."
        _console.print(said, soft_wrap=True)
    fetch(read_lock())  # shows its own progress
    before = time.monotonic()
    with _console.status("Starting a real Kafka …"):
        started = LocalKafka.start()
    with started:
        _console.print(f"A real Kafka is up at [bold]{started.bootstrap}[/] ({time.monotonic() - before:.1f} s).")
        yield started


def _own_topics(kafka: "LocalKafka") -> list[str]:
    """Topics that the example uses or makes."""
    return [topic for topic in kafka.topics() if topic in {_LINES, _COUNTS} or topic.startswith(f"{_APP}-")]


def _told(outcome: "Outcome") -> str:
    """The end of the story, in plain words."""
    happened = (
        f"\n[bold]What happened.[/] {outcome.lines:,} lines with {outcome.words:,} words were fed in {outcome.fed_for_s:.0f} s. "
        f"The worker was killed with SIGKILL after {outcome.counted_before:,} words; a new one started on the same state folder, "
        f"replayed {outcome.replayed:,} changelog records (what had not reached the disk yet), "
        f"committed its first count {outcome.back_after_s:.1f} s after its start and caught up with the {outcome.waiting_at_return:,} "
        "words that had come meanwhile.\n"
    )
    if outcome.flaws:
        shown = "; ".join(str(flaw) for flaw in outcome.flaws[:_SHOWN_FLAWS])
        more = f" and {len(outcome.flaws) - _SHOWN_FLAWS} more" if len(outcome.flaws) > _SHOWN_FLAWS else ""
        return f"{happened}[bold red]Wrong:[/] {len(outcome.flaws)} counts are not what they must be. {shown}{more}."
    return (
        f"{happened}[bold green]Right:[/] each of the {outcome.different_words} different words went 1, 2, 3 … up to exactly the times it "
        "was fed. Nothing was lost and nothing was counted twice."
    )
