"""What happens in the demo, in its order: lines are fed, a worker counts, dies, comes back, and the books are compared.

Everything here is a user's: the app is a file, the worker is `streamlet run`, and the rest are plain Kafka clients.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from typing import Final

from streamlet.cli.demo_ledger import Flaw, Ledger
from streamlet.cli.demo_screen import Moment, Screen
from streamlet.cli.demo_worker import DemoWorker
from streamlet.errors import RetryError
from streamlet.local.kafka import CommittedReader, Feeder

LINES_PER_SECOND: Final = 100
_READ_S: Final = 0.02
_DOWN_S: Final = 1.5
_PATIENCE_S: Final = 60.0  # a busy machine
_QUIET_S: Final = 0.5  # what comes after the last expected count would be one too many
_RATE_OVER_S: Final = 2.0

TEXT: Final = (
    "a river does not stop to be counted",
    "drop after drop goes by and the river stays",
    "count the drops as they pass and write each number down",
    "if you fall asleep the river goes on without you",
    "wake up and read the last number you wrote",
    "go on counting from there and no drop is missed",
    "go on counting from there and no drop is counted twice",
    "the numbers are the memory of the river",
    "the river is the memory of the numbers",
    "lose the paper and the river will tell you again",
    "lose the counter and another one takes the paper",
    "at the end of the day the numbers and the drops agree",
)


class Impatient(RetryError):
    """Something the demo waited for did not happen."""

    def __init__(self, what: str, waited_s: float) -> None:
        super().__init__(what, waited_s)
        self.what, self.waited_s = what, waited_s

    def __str__(self) -> str:
        return f"The demo waited {self.waited_s:.0f} s for {self.what}. The machine may be overloaded: try again when it is quieter."


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened, in numbers."""

    lines: int
    words: int
    different_words: int
    fed_for_s: float
    counted_before: int  # by the first worker
    waiting_at_return: int
    back_after_s: float  # from the second start to its first committed count
    replayed: int
    flaws: tuple[Flaw, ...]


class Story:
    """Feeds, reads and shows while it waits for the next thing to happen."""

    def __init__(self, feeder: Feeder, reader: CommittedReader, worker: DemoWorker, screen: Screen) -> None:
        self._feeder, self._reader, self._worker, self._screen = feeder, reader, worker, screen
        self._ledger, self._text = Ledger(), cycle(TEXT)
        self._feeds_since: float | None = None
        self._shown_at = 0.0
        self._rates: deque[tuple[float, int]] = deque()
        self._pid: int | None = None

    def tell(self, seconds: float) -> Outcome:
        """The whole story; lines are fed for about `seconds`, with the kill half-way."""
        ledger, screen, worker = self._ledger, self._screen, self._worker
        began = self._feeds_since = self._shown_at = time.monotonic()
        self._pid = worker.start()
        screen.say(f"Worker {self._pid} started: streamlet run examples/word_count.py. {LINES_PER_SECOND} lines a second go into 'lines'.")
        self._until(lambda: ledger.words_counted > 0, "the first count", "The worker starts …")
        self._for(seconds / 2, "Words are counted. In {left:.0f} s the worker is killed.")

        counted_at_kill, killed, self._pid = ledger.words_counted, self._pid, None
        worker.kill()
        screen.say(f"Worker {killed} killed with SIGKILL in the middle of its work, {counted_at_kill:,} words counted. Lines keep coming.")
        self._for(_DOWN_S, "Nobody counts. The lines wait in Kafka.")

        counted_before, waiting, back = ledger.words_counted, ledger.words_fed - ledger.words_counted, time.monotonic()
        self._pid = worker.start()
        screen.say(f"Worker {self._pid} started on the same state folder; {waiting:,} words wait.")
        self._until(lambda: ledger.words_counted > counted_before, "the first count after the kill", "The new worker takes over …")
        back_after_s = time.monotonic() - back
        self._until(lambda: worker.replayed() is not None, "the last task of the new worker", "The new worker takes over …")
        replayed = worker.replayed() or 0
        screen.say(f"It is back: first new count {back_after_s:.1f} s after its start, {replayed:,} changelog records replayed.")
        self._for(seconds / 2, "Words are counted again. {left:.0f} s to the end.")

        self._feeds_since, fed_for_s = None, time.monotonic() - began
        self._feeder.finish(_PATIENCE_S)
        self._until(lambda: ledger.is_complete, "the last counts", "No more lines. The last words are counted …")
        self._for(_QUIET_S, "Every word is counted. One more look …")
        self._show(time.monotonic(), "The books are compared.")
        return Outcome(
            ledger.lines,
            ledger.words_fed,
            len(ledger.fed),
            fed_for_s,
            counted_before,
            waiting,
            back_after_s,
            replayed,
            tuple(ledger.flaws()),
        )

    def _for(self, seconds: float, now: str) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._turn(now.format(left=left))

    def _until(self, happened: Callable[[], bool], what: str, now: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not happened():
            if time.monotonic() > deadline:
                raise Impatient(what, _PATIENCE_S)
            self._turn(now)

    def _turn(self, now: str) -> None:
        """Send what is due, read what has come, draw if it is time."""
        self._worker.check_alive()
        at = time.monotonic()
        if self._feeds_since is not None:
            while self._ledger.lines < (at - self._feeds_since) * LINES_PER_SECOND:
                line = next(self._text)
                self._feeder.send(line)
                self._ledger.feed(line)
        for word, count in self._reader.read(_READ_S):
            self._ledger.see(word, count)
        if at - self._shown_at >= self._screen.every_s:
            self._show(at, now)

    def _show(self, at: float, now: str) -> None:
        self._shown_at = at
        ledger, pid = self._ledger, self._pid
        self._rates.append((at, ledger.words_counted))
        while len(self._rates) > 2 and at - self._rates[1][0] >= _RATE_OVER_S:
            self._rates.popleft()
        then, counted_then = self._rates[0]
        rate = (ledger.words_counted - counted_then) / (at - then) if at > then else 0.0
        worker = f"worker {pid}" if pid is not None else "no worker"
        self._screen.show(
            Moment(tuple(ledger.counts.most_common()), ledger.words_fed, ledger.words_counted, rate, worker, pid is not None, now)
        )
