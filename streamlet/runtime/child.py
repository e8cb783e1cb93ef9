"""A worker under a supervisor: it tells its supervisor under which id it lives, and ends when the supervisor is gone.

Two pipes tie them: the worker's standard input, whose end means that nobody vouches for it any more, and one for its
words, a JSON object a line.
"""

import os
import threading
import time
from collections.abc import Mapping
from typing import Final, Self

import msgspec

from streamlet.ids import Incarnation, Slot
from streamlet.runtime.stopping import StopRequest
from streamlet.runtime.worker import Worker

_ORPHAN_S: Final = 8.0  # for the last commit of a worker whose supervisor is gone
CHILD: Final = "STREAMLET_CHILD_OF"  # "<file descriptor>:<supervisor>"


class ChildWord(msgspec.Struct, frozen=True):
    """What a worker tells its supervisor: it lives under this id, or has given it up."""

    incarnation: Incarnation
    slot: Slot
    begins: bool


class ChildHome:
    """The worker's end of the pipes."""

    def __init__(self, supervisor: str, descriptor: int, slot: Slot) -> None:
        self.supervisor, self._descriptor, self._slot = supervisor, descriptor, slot

    @classmethod
    def found(cls, environment: Mapping[str, str], slot: Slot) -> Self | None:
        """The home that the environment speaks of, if it does."""
        said = environment.get(CHILD)
        if said is None:
            return None
        descriptor, _, supervisor = said.partition(":")
        return cls(supervisor, int(descriptor), slot)

    def begins(self, incarnation: Incarnation) -> None:
        """A worker lives under this id."""
        self._say(ChildWord(incarnation, self._slot, begins=True))

    def ends(self, incarnation: Incarnation) -> None:
        """It has given this id up."""
        self._say(ChildWord(incarnation, self._slot, begins=False))

    def may_go(self, incarnation: Incarnation, worker: Worker, stop: StopRequest) -> bool:  # noqa: ARG002  # a home's signature
        """Always: the supervisor has seen to the handover."""
        return True

    def _say(self, word: ChildWord) -> None:
        os.write(self._descriptor, msgspec.json.encode(word) + b"\n")


def end_with_supervisor(stop: StopRequest) -> None:
    """Ask for a stop when the supervisor is gone."""

    def watch() -> None:
        while os.read(0, 4096):  # not through sys.stdin: a thread inside its lock makes the interpreter's end fail
            pass
        if not stop.requested:
            stop.ask()
        time.sleep(_ORPHAN_S)
        os._exit(3)  # nobody vouches for it: whatever it waits for, it is fenced by now

    threading.Thread(target=watch, name="streamlet-supervisor", daemon=True).start()
