"""Where a worker belongs: the member that vouches for it, in this process or as its supervisor in another."""

import contextlib
import secrets
import time
from collections.abc import Generator
from typing import Final, Protocol

from streamlet.changelog.kafka import ClientConfig
from streamlet.config import Settings
from streamlet.ids import Incarnation
from streamlet.rebalance.records import Plan
from streamlet.rebalance.roster import Roster
from streamlet.rebalance.steward import Steward
from streamlet.runtime.slots import Seat, place_of
from streamlet.runtime.stopping import StopRequest
from streamlet.runtime.worker import Worker

HANDOVER_S: Final = 15.0  # how long a worker that was asked to stop waits for others to take its tasks


class Home(Protocol):
    """Told of every incarnation; asked whether one may go."""

    @property
    def supervisor(self) -> str: ...
    def begins(self, incarnation: Incarnation) -> None: ...
    def ends(self, incarnation: Incarnation) -> None: ...
    def may_go(self, incarnation: Incarnation, worker: Worker, stop: StopRequest) -> bool: ...


class OwnHome:
    """The worker's process is a member of its own."""

    def __init__(self, roster: Roster, steward: Steward) -> None:
        self._roster, self._steward = roster, steward

    @property
    def supervisor(self) -> str:
        """The name it goes by among the members."""
        return self._roster.supervisor

    def begins(self, incarnation: Incarnation) -> None:
        """A worker lives under this id."""
        self._roster.begins(incarnation)

    def ends(self, incarnation: Incarnation) -> None:
        """It is gone."""
        self._roster.ends(incarnation)

    def may_go(self, incarnation: Incarnation, worker: Worker, stop: StopRequest) -> bool:
        """Whether its tasks have been handed over, or nobody is there to take them, or it has waited long enough."""
        self._roster.closing = True
        self._roster.leaves(incarnation)
        if not self._steward.somebody_else() or time.monotonic() - stop.asked_at > HANDOVER_S:
            return True
        return not worker.tasks and not owns(self._steward.plan, incarnation)


def owns(plan: Plan | None, incarnation: Incarnation) -> bool:
    """Whether a plan names this worker as anybody's owner."""
    if plan is None or incarnation not in plan.members:
        return False
    index = plan.members.index(incarnation)
    return any(entry.owner == index for entry in plan.tasks.values())


@contextlib.contextmanager
def at_home(client: ClientConfig, app: str, seat: Seat, settings: Settings) -> Generator[OwnHome]:
    """Be a member of the app with one worker, in this process."""
    roster = Roster(
        app,
        f"{seat.slot}-{secrets.token_hex(2)}",
        seat.host,
        place_of(settings.storage.state_dir, app),
        rack=settings.processes.rack,
        workers=1,
        standbys=settings.processes.standbys,
        most_workers=1,
    )
    roster.holds(seat.slot)
    steward = Steward(client, app, roster)
    steward.start()
    try:
        yield OwnHome(roster, steward)
    finally:
        steward.stop()
