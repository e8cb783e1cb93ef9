"""Who is there: words of supervisors and workers on `<app>-members`, and what they add up to. Pure.

Words decide nothing that matters for safety: a wrong one costs a hiccup. They are heard uncommitted and kept with the
moment at which they came, by the hearer's own clock.

Invariant: a worker is given up on its supervisor's word, or when the supervisor itself is silent; never by its own silence.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from streamlet.ids import Incarnation, Slot

FORMAT: Final = 1
BEAT_S: Final = 0.25  # a supervisor's word comes at least this often
SILENCE_S: Final = 1.75  # without a word for so long a supervisor counts as gone
DEAF_S: Final = 1.0  # whoever has not heard itself for so long cannot tell who was silent
LEADERLESS_S: Final = 1.0  # without a leader's word for so long anybody may take the lead


class TaskWord(msgspec.Struct, frozen=True, omit_defaults=True):
    """How one owned task is."""

    phase: str
    term: int
    lag: int = 0  # input records behind the end
    rate: float = 0.0  # records per second
    failure: str = ""


class CopyWord(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far one copy is behind its changelogs."""

    lag: int  # offsets


class WorkerWord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A worker about itself."""

    incarnation: Incarnation
    slot: Slot
    supervisor: str
    offers: dict[str, int]  # sub-topology → how many tasks it has
    manifest: bytes | None = None  # what it needs published before it can work, if that is not published yet
    replaces: bytes | None = None  # the manifest it compared itself with
    tasks: dict[str, TaskWord] = {}
    copies: dict[str, CopyWord] = {}
    kept: tuple[str, ...] = ()  # copies on disk that are not followed
    load: dict[str, float] = {}  # seconds of work per second


class SupervisorWord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A supervisor about its workers: who lives, who died, who shall give its tasks away."""

    supervisor: str
    host: str
    place: str = ""  # which state folder of which machine: two machines may have one name
    rack: str | None = None
    leads: bool = False
    alive: tuple[Incarnation, ...] = ()
    lost: tuple[Incarnation, ...] = ()
    leaving: tuple[Incarnation, ...] = ()
    most_workers: int | None = None  # how many it can run; None: as many as the plan says
    workers: int = 1  # how many it was started with
    standbys: int = 0
    closing: bool = False  # it was asked to stop and gives everything away
    ended: bool = False  # its last word


MemberWord = WorkerWord | SupervisorWord

_encoder = msgspec.msgpack.Encoder()
_worker_decoder = msgspec.msgpack.Decoder(WorkerWord)
_supervisor_decoder = msgspec.msgpack.Decoder(SupervisorWord)


def member_key(word: MemberWord) -> bytes:
    """Under which key a word stands."""
    return f"worker/{word.incarnation}".encode() if isinstance(word, WorkerWord) else f"supervisor/{word.supervisor}".encode()


def encode_word(word: MemberWord) -> bytes:
    """Format byte and msgpack."""
    return bytes((FORMAT,)) + _encoder.encode(word)


def decode_word(key: bytes, value: bytes) -> MemberWord | None:
    """Read one word; what this version does not know is passed over, as words decide nothing that matters for safety."""
    if not value or value[0] != FORMAT:
        return None
    try:
        if key.startswith(b"worker/"):
            return _worker_decoder.decode(memoryview(value)[1:])
        if key.startswith(b"supervisor/"):
            return _supervisor_decoder.decode(memoryview(value)[1:])
    except msgspec.DecodeError:
        return None
    return None


@dataclass(slots=True)
class Members:
    """The newest word of everybody, and when it came. Its only writer is the reader of the members topic."""

    listening_since: float  # a pause in listening begins it anew: what was not heard was perhaps said
    me: str = ""  # the listener's own supervisor: its words come back while the topic works
    heard_at: float = 0.0
    supervisors: dict[str, tuple[SupervisorWord, float]] = field(default_factory=dict[str, tuple[SupervisorWord, float]])
    workers: dict[Incarnation, WorkerWord] = field(default_factory=dict[Incarnation, WorkerWord])

    def hear(self, words: Iterable[MemberWord], now: float) -> None:
        """Take words into account, in their order; called often, also with none."""
        words = list(words)
        works = not self.me or any(isinstance(word, SupervisorWord) and word.supervisor == self.me for word in words)
        if works:
            if now - self.heard_at > DEAF_S:
                self.listening_since = now
            self.heard_at = now
        for word in words:
            if isinstance(word, WorkerWord):
                self.workers[word.incarnation] = word
            else:
                self.supervisors[word.supervisor] = (word, now)

    def forget(self, now: float, after_s: float = 600.0) -> None:
        """Drop who has been gone for long, so that the view does not grow for ever."""
        gone = {name for name, (_, at) in self.supervisors.items() if now - at > after_s}
        for name in gone:
            del self.supervisors[name]
        known = {incarnation for word, _ in self.supervisors.values() for incarnation in (*word.alive, *word.lost)}
        for incarnation in [one for one, word in self.workers.items() if word.supervisor not in self.supervisors and one not in known]:
            del self.workers[incarnation]

    def present(self, now: float) -> list[SupervisorWord]:
        """Supervisors heard of lately."""
        until = self._until(now)
        return [word for word, at in self.supervisors.values() if not word.ended and until - max(at, self.listening_since) <= SILENCE_S]

    def living(self, now: float) -> dict[Incarnation, tuple[WorkerWord, SupervisorWord]]:
        """Workers that have introduced themselves and are vouched for by a supervisor that is there."""
        return {
            incarnation: (self.workers[incarnation], supervisor)
            for supervisor in self.present(now)
            for incarnation in supervisor.alive
            if incarnation in self.workers
        }

    def leaving(self, now: float) -> frozenset[Incarnation]:
        """Workers that shall give their tasks away."""
        return frozenset(incarnation for supervisor in self.present(now) for incarnation in supervisor.leaving)

    def lost(self, named: Iterable[Incarnation], now: float) -> frozenset[Incarnation]:
        """Which of the named workers are to be given up.

        A supervisor's word that a worker is dead counts unless one in another place vouches for it. One that nobody here has
        heard of counts only once we have listened long enough to have heard it.
        """
        vouched: dict[Incarnation, set[str]] = {}
        for supervisor in self.present(now):
            for incarnation in supervisor.alive:
                vouched.setdefault(incarnation, set()).add(supervisor.place)
        dead: dict[Incarnation, str] = {}
        for word, _ in self.supervisors.values():
            dead |= dict.fromkeys((*word.lost, *(word.alive if word.ended else ())), word.place)
        heard_enough = self._until(now) - self.listening_since > SILENCE_S
        return frozenset(
            one for one in named if (one in dead and vouched.get(one, set()) <= {dead[one]}) or (heard_enough and one not in vouched)
        )

    def quiet_for(self, now: float) -> float:
        """How long no leader was heard of; one that took its leave does not count."""
        heard = [at for word, at in self.supervisors.values() if word.leads and not word.ended]
        return self._until(now) - max([self.listening_since, *heard])

    def _until(self, now: float) -> float:
        """Up to when silence means anything: while brokers are away everybody is silent, and nobody is dead."""
        return min(now, self.heard_at + DEAF_S / 2)
