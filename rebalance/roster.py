"""A supervisor's own workers, as it vouches for them: who lives, who died, who shall give its tasks away.

Written by the thread that runs the workers and by the one that reads the plan, under a lock so that no change is lost.
"""

import threading
from collections.abc import Callable
from typing import Final

from streamlet.ids import Incarnation, Slot
from streamlet.rebalance.members import SupervisorWord
from streamlet.rebalance.records import Plan

_REMEMBERED: Final = 100  # of the dead: long enough for every leader to have heard


class Roster:
    """What a supervisor says of its workers."""

    def __init__(
        self,
        app: str,
        supervisor: str,
        host: str,
        place: str,
        *,
        rack: str | None,
        workers: int,
        standbys: int,
        most_workers: int | None,
    ) -> None:
        self.supervisor, self.app, self._place = supervisor, app, place
        self._host, self._rack, self._workers, self._standbys, self._most = host, rack, workers, standbys, most_workers
        self._lock = threading.Lock()  # nobody waits inside it
        self._alive: tuple[Incarnation, ...] = ()
        self._lost: tuple[Incarnation, ...] = ()
        self.leaving: frozenset[Incarnation] = frozenset()
        self.closing = False
        self._seats: frozenset[Slot] = frozenset()
        self.on_change: Callable[[], None] = lambda: None

    def holds(self, slot: Slot) -> None:
        """A slot's lock is held here: whoever had it before is dead."""
        with self._lock:
            self._seats |= {slot}

    def begins(self, incarnation: Incarnation) -> None:
        """A worker lives under this id."""
        with self._lock:
            self._alive = (*self._alive, incarnation)
        self.on_change()

    def ends(self, incarnation: Incarnation) -> None:
        """A worker is gone, or has given this id up."""
        with self._lock:
            self._alive = tuple(one for one in self._alive if one != incarnation)
            self._lost = (*(one for one in self._lost if one != incarnation), incarnation)[-_REMEMBERED:]
            self.leaving -= {incarnation}
        self.on_change()

    def leaves(self, incarnation: Incarnation) -> None:
        """A worker shall give its tasks away."""
        with self._lock:
            if incarnation in self.leaving:
                return
            self.leaving |= {incarnation}
        self.on_change()

    def follow(self, plan: Plan | None) -> None:
        """Whoever an old plan names in a slot that is ours now, and is none of our workers, is dead."""
        with self._lock:
            before = self._lost
            for incarnation in plan.members if plan is not None else ():
                mine = any(incarnation.startswith(f"{self.app}-{slot}-") for slot in self._seats)
                if mine and incarnation not in self._alive and incarnation not in self._lost:
                    self._lost = (*self._lost, incarnation)[-_REMEMBERED:]
        if self._lost is not before:
            self.on_change()

    def word(self, *, leads: bool, ended: bool = False) -> SupervisorWord:
        """What is said of them all."""
        return SupervisorWord(
            supervisor=self.supervisor,
            host=self._host,
            place=self._place,
            rack=self._rack,
            leads=leads,
            alive=self._alive,
            lost=self._lost,
            leaving=tuple(sorted(self.leaving)),
            most_workers=self._most,
            workers=self._workers,
            standbys=self._standbys,
            closing=self.closing,
            ended=ended,
        )
