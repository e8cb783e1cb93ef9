"""The supervisor: starts workers, vouches for them among the members, restarts what crashed, hands over before it ends.

It runs no user code, so nothing a handler does can silence it.

Invariant: a worker that ended is reported lost at once, before anything else is done about it.
"""

import logging
import os
import secrets
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from streamlet.changelog.kafka import ClientConfig
from streamlet.ids import Incarnation, Slot
from streamlet.rebalance.roster import Roster
from streamlet.rebalance.steward import Steward
from streamlet.runtime.child import CHILD, ChildWord
from streamlet.runtime.home import HANDOVER_S, owns
from streamlet.runtime.slots import place_of
from streamlet.runtime.stopping import StopRequest, stopped_by_signals

log = logging.getLogger("streamlet.supervisor")

_TURN_S: Final = 0.05
_FIRST_BACK_OFF_S: Final = 0.2
_LAST_BACK_OFF_S: Final = 10.0
_HEALTHY_S: Final = 30.0  # who lived so long begins with a short back-off again
_END_S: Final = 15.0  # for the last commit of a worker that was told to end
_GIVES_UP: Final = frozenset({2, 6})  # what a restart does not mend: settings, and handlers that stopped every task


@dataclass(slots=True)
class Child:
    """One worker process."""

    number: int
    process: subprocess.Popen[bytes]
    words: int  # our end of the pipe
    started_at: float
    incarnation: Incarnation | None = None
    slot: Slot | None = None
    begun: bool = False  # whether it ever lived under an id
    leaving: bool = False
    told_at: float | None = None  # when it was told to end
    heard: bytes = b""


@dataclass(slots=True)
class Seat:
    """A place for a worker: a child, or a time at which the next one is started."""

    number: int
    child: Child | None = None
    start_at: float = 0.0
    back_off_s: float = _FIRST_BACK_OFF_S


@dataclass(slots=True)
class Supervisor:
    """Its only user is the main thread of its process."""

    app: str
    client: ClientConfig
    command: Callable[[int], Sequence[str]]  # of the n-th worker
    workers: int
    standbys: int
    rack: str | None
    state_dir: Path
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def run(self) -> int:
        """Until a signal, or until no restart helps; the exit code."""
        host = socket.gethostname().split(".")[0]
        stop = StopRequest()
        roster = Roster(
            self.app,
            f"{host}-{secrets.token_hex(3)}",
            host,
            place_of(self.state_dir, self.app),
            rack=self.rack,
            workers=self.workers,
            standbys=self.standbys,
            most_workers=None,
        )
        with stopped_by_signals(stop):
            return _Running(self, roster, Steward(self.client, self.app, roster), stop).run()


class _Running:
    def __init__(self, supervisor: Supervisor, roster: Roster, steward: Steward, stop: StopRequest) -> None:
        self._supervisor, self._roster, self._steward, self._stop = supervisor, roster, steward, stop
        self._seats: dict[int, Seat] = {number: Seat(number) for number in range(supervisor.workers)}
        self._selector = selectors.DefaultSelector()
        self._steward_runs = False

    def run(self) -> int:
        code = 0
        try:
            while not self._stop.requested and not code:
                self._turn()
                code = self._gave_up
            if not code:
                self._hand_over()
        finally:
            self._end_all()
            if self._steward_runs:
                self._steward.stop()
        return code

    _gave_up = 0

    def _turn(self) -> None:
        for key, _ in self._selector.select(_TURN_S):
            self._hear(key.data)
        self._bury()
        self._fit()
        now = time.monotonic()
        for seat in self._seats.values():
            if seat.child is None and now >= seat.start_at:
                seat.child = self._start(seat.number)

    def _start(self, number: int) -> Child:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        environment = {**self._supervisor.environment, CHILD: f"{writing}:{self._roster.supervisor}"}
        process = subprocess.Popen(
            list(self._supervisor.command(number)),
            stdin=subprocess.PIPE,  # it ends when we are gone
            pass_fds=(writing,),
            env=environment,
            start_new_session=True,  # Ctrl-C is ours to pass on, after the handover
        )
        os.close(writing)
        child = Child(number, process, reading, time.monotonic())
        self._selector.register(reading, selectors.EVENT_READ, child)
        log.info("worker process started", extra={"number": number, "pid": process.pid})
        return child

    def _hear(self, child: Child) -> None:
        try:
            data = os.read(child.words, 65536)
        except BlockingIOError:
            return
        if not data:
            self._selector.unregister(child.words)
            return
        *lines, child.heard = (child.heard + data).split(b"\n")
        for line in lines:
            word = msgspec.json.decode(line, type=ChildWord)
            if word.begins:
                child.incarnation, child.slot, child.begun = word.incarnation, word.slot, True
                self._roster.holds(word.slot)
                self._roster.begins(word.incarnation)
                if not self._steward_runs:  # now the app's topics exist
                    self._steward_runs = True
                    self._steward.start()
            else:
                self._roster.ends(word.incarnation)
                child.incarnation = None

    def _bury(self) -> None:
        """Report who has died, and decide whether a new start helps."""
        for seat in list(self._seats.values()):
            child = seat.child
            if child is None or (code := child.process.poll()) is None:
                continue
            self._hear_last(child)
            if child.incarnation is not None:
                self._roster.ends(child.incarnation)
            seat.child = None
            if child.leaving:
                del self._seats[seat.number]
                continue
            lived_s = time.monotonic() - child.started_at
            seat.back_off_s = _FIRST_BACK_OFF_S if lived_s > _HEALTHY_S else min(seat.back_off_s * 2, _LAST_BACK_OFF_S)
            seat.start_at = time.monotonic() + seat.back_off_s
            facts = {"number": seat.number, "pid": child.process.pid, "exit_code": code, "again_in_s": round(seat.back_off_s, 1)}
            if code in _GIVES_UP and not any(other.child is not None and other.child.begun for other in self._seats.values()):
                self._gave_up = code
            else:
                log.warning("worker process ended", extra=facts)

    def _hear_last(self, child: Child) -> None:
        if child.words in self._selector.get_map():
            self._hear(child)
            if child.words in self._selector.get_map():
                self._selector.unregister(child.words)
        os.close(child.words)
        if child.process.stdin is not None:
            child.process.stdin.close()

    def _fit(self) -> None:
        """As many workers as the plan wants; one too many gives its tasks away before it ends."""
        plan = self._steward.plan
        wanted = self._supervisor.workers
        if plan is not None and plan.target is not None:
            wanted = plan.quotas.get(self._roster.supervisor, wanted)
        staying = [seat for seat in self._seats.values() if seat.child is None or not seat.child.leaving]
        for number in range(max(self._seats, default=-1) + 1 + wanted):
            if len(staying) >= wanted:
                break
            if number not in self._seats:
                self._seats[number] = seat = Seat(number)
                staying.append(seat)
        for seat in sorted(staying, key=lambda seat: -seat.number)[: max(0, len(staying) - wanted)]:
            if seat.child is None:
                del self._seats[seat.number]
            else:
                seat.child.leaving = True
                log.info("worker leaves", extra={"number": seat.number, "slot": seat.child.slot})
        for seat in self._seats.values():
            self._see_off(seat.child)

    def _see_off(self, child: Child | None) -> None:
        """A worker that leaves is told to end when nothing is its any more, or when nobody could take it."""
        if child is None or not child.leaving:
            return
        if child.incarnation is not None and child.told_at is None:
            self._roster.leaves(child.incarnation)
            if owns(self._steward.plan, child.incarnation) and self._steward.somebody_else():
                return
        if child.told_at is None:
            child.told_at = time.monotonic()
            child.process.send_signal(signal.SIGTERM)
        elif time.monotonic() - child.told_at > _END_S and child.process.poll() is None:
            child.process.kill()

    def _hand_over(self) -> None:
        """Everything goes to other members while it still runs here, if there are any."""
        self._roster.closing = True
        end = time.monotonic() + HANDOVER_S
        for seat in self._seats.values():
            if seat.child is not None:
                seat.child.leaving = True
        while any(seat.child is not None for seat in self._seats.values()) and time.monotonic() < end:
            for key, _ in self._selector.select(_TURN_S):
                self._hear(key.data)
            for seat in self._seats.values():
                self._see_off(seat.child)
            self._bury()

    def _end_all(self) -> None:
        """Nobody stays behind."""
        children = [seat.child for seat in self._seats.values() if seat.child is not None]
        for child in children:
            child.process.terminate()
        end = time.monotonic() + _END_S
        for child in children:
            try:
                child.process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.process.kill()
                child.process.wait()
            if child.incarnation is not None:
                self._roster.ends(child.incarnation)
