"""A member of the app beside its workers: one thread that vouches for them, follows the plan and leads when it is its turn.

Whoever holds the group's one partition leads. Where no leader was heard of for a while, anybody may take the lead
without waiting for the group to notice who died: authority is the fencing id, and two that try only cost a moment.
"""

import logging
import threading
import time
import zlib
from typing import Final

from streamlet.changelog.kafka import ClientConfig
from streamlet.errors import FencedError, StreamletError
from streamlet.ids import Incarnation
from streamlet.rebalance.kafka import ClientError, ControlReader, GroupMember, Leader, MembersTopic, MembersVoice, fence_all
from streamlet.rebalance.leadership import Fence, Pause, Publish, ReadToEnd, Step, Steps, Take, lead
from streamlet.rebalance.members import BEAT_S, LEADERLESS_S, Members
from streamlet.rebalance.records import Plan
from streamlet.rebalance.roster import Roster
from streamlet.rebalance.view import View

log = logging.getLogger("streamlet.steward")

_LISTEN_S: Final = 0.02
_STUCK_S: Final = 0.2  # then somebody's undecided transaction is in the way
_AGAIN_S: Final = 0.25


class Steward:
    """Start it, read `plan` and `somebody_else` from any thread, stop it. Everything else belongs to its own thread."""

    def __init__(self, client: ClientConfig, app: str, roster: Roster) -> None:
        self._client, self._app, self._roster = client, app, roster
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="streamlet-steward", daemon=True)
        self._beats = threading.Thread(target=self._beat, name="streamlet-beat", daemon=True)
        self._speak = threading.Event()
        self._leads = False
        self.plan: Plan | None = None
        self._others: frozenset[Incarnation] = frozenset()
        roster.on_change = self._speak.set

    def start(self) -> None:
        """Begin to speak and to listen; the app's topics exist."""
        self._beats.start()
        self._thread.start()

    def stop(self) -> None:
        """Take leave: what was vouched for is gone when this returns."""
        self._stop.set()
        self._speak.set()
        self._thread.join(10.0)
        self._beats.join(5.0)

    def somebody_else(self) -> bool:
        """Whether a worker of another supervisor, or one here that stays, could take tasks over."""
        return bool(self._others)

    # The beat: small and alone, so that nothing the leader waits for can silence it

    def _beat(self) -> None:
        voice = MembersVoice(self._client, self._app)
        while not self._stop.is_set():
            voice.say(self._roster.word(leads=self._leads))
            self._speak.wait(BEAT_S)
            self._speak.clear()
        self._thread.join(10.0)
        voice.say(self._roster.word(leads=False, ended=True))
        voice.flush(2.0)

    # The thread that listens and leads

    def _run(self) -> None:
        control, members, group = (
            ControlReader(self._client, self._app),
            MembersTopic(self._client, self._app),
            GroupMember(self._client, self._app, self._roster.supervisor),
        )
        heard, steps, resting_until = Members(time.monotonic(), self._roster.supervisor, time.monotonic()), _Lead(self), 0.0
        patience_s = LEADERLESS_S + zlib.crc32(self._roster.supervisor.encode()) % 300 / 1000
        try:
            while not self._stop.is_set():
                try:
                    group.poll()
                    heard.hear(members.hear(_LISTEN_S), time.monotonic())
                    control.follow(0)
                    now = time.monotonic()
                    self._note(control.view, heard, now)
                    shall = group.elected or steps.under_way or heard.quiet_for(now) > patience_s
                    shall = shall and (bool(self._others) or not self._roster.closing)  # the last to go leads nobody
                    if shall and now >= resting_until and not steps.advance(control, members, heard):
                        resting_until = time.monotonic() + _AGAIN_S
                    self._leads = steps.under_way
                except (StreamletError, ClientError) as error:
                    log.warning("steward tries on", extra={"reason": str(error)})
                    steps.drop()
                    resting_until = time.monotonic() + _AGAIN_S
                except Exception:
                    log.exception("steward failed; it begins anew")
                    steps.drop()
                    self._stop.wait(1.0)
        finally:
            steps.drop()
            for closing in (group.close, members.close, control.close):
                closing()

    def _note(self, view: View, heard: Members, now: float) -> None:
        """Frozen values for other threads."""
        if view.plan is not self.plan:
            self.plan = view.plan
            self._roster.follow(view.plan)
        heard.forget(now)
        self._others = frozenset(heard.living(now)) - heard.leaving(now) - self._roster.leaving


class _Lead:
    """Carries the leader's steps out on Kafka."""

    def __init__(self, steward: Steward) -> None:
        self._client, self._app = steward._client, steward._app
        self._leader: Leader | None = None
        self._steps: Steps | None = None
        self._step: Step | None = None

    @property
    def under_way(self) -> bool:
        """Whether it leads now."""
        return self._leader is not None

    def drop(self) -> None:
        """Lead no longer."""
        self._steps = self._step = self._leader = None

    def advance(self, control: ControlReader, members: MembersTopic, heard: Members) -> bool:
        """Do what is to do until the next pause; False if the lead was lost."""
        if self._steps is None:
            self._steps = lead(self._app, lambda: heard, time.monotonic)
            self._step = next(self._steps)
        try:
            while True:
                assert self._step is not None, "a generator under way has a step"
                answer = self._do(self._step, control)
                heard.hear(members.hear(0), time.monotonic())  # a step may have taken long
                paused = isinstance(self._step, Pause)
                self._step = self._steps.send(answer)
                if paused and isinstance(self._step, Pause):
                    return True
        except FencedError as fenced:
            log.info("another member leads", extra={"reason": str(fenced)})
        except StopIteration:
            log.info("another leader's plan was seen")
        self.drop()
        return False

    def _do(self, step: Step, control: ControlReader) -> View | None:
        match step:
            case Take():
                self._leader = Leader(self._client, self._app)
                log.info("leading", extra={"app": self._app})
            case ReadToEnd():
                return control.view if control.reads_to_end(_STUCK_S) else None
            case Fence(incarnations):
                log.warning("workers lost", extra={"incarnations": ", ".join(sorted(incarnations))})
                fence_all(self._client, incarnations)
            case Publish(records):
                assert self._leader is not None, "a leader took its id first"
                self._leader.publish(*records)
                for _, record in records:
                    if isinstance(record, Plan):
                        log.info("plan", extra={"version": record.version, "why": record.why})
            case Pause():
                pass
        return control.view
