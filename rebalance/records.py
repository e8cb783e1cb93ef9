"""What stands on the control topic: the plan, who holds a task, the manifest and what people wish for.

Every value begins with one format byte, so that a later version can be told apart before it is read.
Claim and release share one key per task: the newest committed one says who holds the task or has let it go.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from streamlet.errors import ConfigError
from streamlet.ids import Incarnation, Slot, StoreName, TaskId, Term

FORMAT: Final = 1


class Wait(msgspec.Struct, frozen=True):
    """The release a new owner waits for: of exactly this incarnation and this term."""

    incarnation: Incarnation
    term: Term


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One task in a plan. Members are named by their index in the plan."""

    owner: int
    term: Term
    wait: Wait | None = None
    standbys: tuple[int, ...] = ()
    warm_ups: tuple[int, ...] = ()


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """The leader's decision. Only the holder of the leader's transactional id can write one."""

    version: int
    members: tuple[Incarnation, ...]
    tasks: dict[str, Entry]
    pins: dict[str, Slot] = {}  # tasks a person moved: balance leaves them there
    paused: tuple[str, ...] = ()  # tasks that take no input
    drained: tuple[Incarnation, ...] = ()  # workers that a person wants to be without tasks
    target: int | None = None  # how many workers the app shall have in all; None: what each supervisor was started with
    quotas: dict[str, int] = {}  # how many of them each supervisor runs
    why: str = ""  # for people: what this plan changes, and the reason

    def owner(self, task: TaskId) -> tuple[Incarnation, Term] | None:
        """Who shall own the task, and under which term."""
        entry = self.tasks.get(str(task))
        return (self.members[entry.owner], entry.term) if entry else None


class OwnKind(StrEnum):
    """Whether an `own` record takes a task or lets it go."""

    CLAIM = "claim"
    RELEASE = "release"


class Own(msgspec.Struct, frozen=True):
    """A worker's word inside its own transaction: I hold this task, or I have let it go at these positions."""

    kind: OwnKind
    incarnation: Incarnation
    term: Term
    source: dict[str, int]  # topic → next offset of this task's partition
    changelog_end: dict[StoreName, int]  # store → next changelog offset


class Manifest(msgspec.Struct, frozen=True):
    """The app's manifest as the control topic carries it; its content belongs to the app's layer."""

    content: bytes


class WishKind(StrEnum):
    """What a person may ask of a running app."""

    RESUME = "resume"  # a parked or paused task, or all
    SKIP = "skip"  # resume behind the record that parked the task
    PAUSE = "pause"  # a task, or all
    MOVE = "move"  # a task to a slot
    DRAIN = "drain"  # a slot
    SCALE = "scale"  # the app, to a number of workers or back to what each supervisor was started with


class Wish(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request from the command line. It never decides safety, and is tombstoned when answered."""

    kind: WishKind
    subject: str  # a task, a slot, or nothing for the whole app
    at_ms: int
    value: str = ""  # a slot for a move, a number for a scale


ControlRecord = Plan | Own | Manifest | Wish

PLAN_KEY: Final = b"plan"
MANIFEST_KEY: Final = b"manifest"


def own_key(task: TaskId) -> bytes:
    """Key under which claims and releases of a task stand."""
    return f"own/{task}".encode()


def wish_key(wish: Wish) -> bytes:
    """One open wish per kind and subject: the newest one counts. A task's skip and resume are one kind."""
    kind = WishKind.RESUME if wish.kind is WishKind.SKIP else wish.kind
    return f"wish/{kind}/{wish.subject}".encode()


class NewerFormat(ConfigError):
    """A control record was written by a version of streamlet that this one cannot read."""

    def __init__(self, key: str, found: int, known: int) -> None:
        super().__init__(key, found, known)
        self.key, self.found, self.known = key, found, known

    def __str__(self) -> str:
        return (
            f"The control record '{self.key}' has format {self.found}, but this streamlet reads formats up to {self.known}. "
            "A newer version wrote it. Upgrade streamlet here, or stop the newer workers and reset the app."
        )


_encoder = msgspec.msgpack.Encoder()
_decoders: Final[
    Mapping[
        str,
        "msgspec.msgpack.Decoder[Plan] | msgspec.msgpack.Decoder[Own] | msgspec.msgpack.Decoder[Manifest] | msgspec.msgpack.Decoder[Wish]",
    ]
] = {
    "plan": msgspec.msgpack.Decoder(Plan),
    "own": msgspec.msgpack.Decoder(Own),
    "manifest": msgspec.msgpack.Decoder(Manifest),
    "wish": msgspec.msgpack.Decoder(Wish),
}


def encode(record: ControlRecord) -> bytes:
    """Format byte and msgpack."""
    return bytes((FORMAT,)) + _encoder.encode(record)


def decode(key: bytes, value: bytes) -> ControlRecord | None:
    """Read one control record; a kind this version does not know is passed over."""
    name = key.decode(errors="replace")
    decoder = _decoders.get(name.partition("/")[0])
    if decoder is None:
        return None
    if not value or value[0] != FORMAT:
        raise NewerFormat(name, value[0] if value else 0, FORMAT)
    return decoder.decode(memoryview(value)[1:])
