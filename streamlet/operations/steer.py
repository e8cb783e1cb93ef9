"""Asking a running app for something: a wish on the control topic, and the wait until the leader's plan holds it."""

import time
from dataclasses import dataclass

from streamlet.changelog.kafka import ClientConfig
from streamlet.errors import ConfigError
from streamlet.ids import Slot, TaskId
from streamlet.operations.apps import NoSuchApp, known_apps
from streamlet.operations.resume import check_task
from streamlet.rebalance.kafka import ControlReader, control_topic, take_back_wish, write_wish
from streamlet.rebalance.leadership import slot_of
from streamlet.rebalance.records import Plan, Wish, WishKind, wish_key
from streamlet.rebalance.view import View
from streamlet.topics.kafka import Topics


class NoSuchSlot(ConfigError):
    """No worker of the app is in this slot."""

    def __init__(self, app: str, slot: str, known: tuple[str, ...]) -> None:
        super().__init__(app, slot, known)
        self.app, self.slot, self.known = app, slot, known

    def __str__(self) -> str:
        return f"'{self.app}' has no worker in slot {self.slot}. It has: {', '.join(self.known) or 'none'}. `streamlet status {self.app}` shows them."


@dataclass(frozen=True, slots=True)
class Steered:
    """What became of a wish: whether the plan holds it, and that plan."""

    answered: bool
    plan: Plan | None


def scale(client: ClientConfig, app: str, workers: int | None, *, deadline_s: float = 10.0) -> Steered:
    """Let the app have so many workers in all; None: as many as each supervisor was started with."""
    return _steer(client, app, WishKind.SCALE, "", "auto" if workers is None else str(workers), deadline_s)


def move(client: ClientConfig, app: str, task: TaskId, slot: Slot, *, deadline_s: float = 10.0) -> Steered:
    """Move a task to the worker in a slot, live."""
    return _steer(client, app, WishKind.MOVE, str(task), slot, deadline_s)


def drain(client: ClientConfig, app: str, slot: Slot, *, deadline_s: float = 10.0) -> Steered:
    """Take every task away from the worker in a slot, until it is started again."""
    return _steer(client, app, WishKind.DRAIN, slot, "", deadline_s)


def pause(client: ClientConfig, app: str, task: TaskId | None, *, deadline_s: float = 10.0) -> Steered:
    """Let a task, or every task, take no input; it stays where it is and keeps its state."""
    return _steer(client, app, WishKind.PAUSE, str(task or ""), "", deadline_s)


def resume_all(client: ClientConfig, app: str, *, deadline_s: float = 10.0) -> Steered:
    """Let every paused task go on."""
    return _steer(client, app, WishKind.RESUME, "", "", deadline_s)


def _steer(client: ClientConfig, app: str, kind: WishKind, subject: str, value: str, deadline_s: float) -> Steered:
    if control_topic(app) not in (names := Topics(client).names()):
        raise NoSuchApp(app, str(client.get("bootstrap.servers")), known_apps(names))
    control = ControlReader(client, app)
    try:
        _check(app, control.read_to_end(), kind, subject, value)
        wish = Wish(kind, subject, int(time.time() * 1000), value)
        write_wish(client, app, wish)
        control.read_to_end()
        end, key = time.monotonic() + deadline_s, wish_key(wish).decode().removeprefix("wish/")
        while key in control.view.wishes and time.monotonic() < end:
            control.follow(0.1)
        answered = key not in control.view.wishes
        if not answered:
            take_back_wish(client, app, wish)
        return Steered(answered, control.view.plan)
    finally:
        control.close()


def _check(app: str, view: View, kind: WishKind, subject: str, value: str) -> None:
    slots = tuple(sorted(slot_of(app, one) for one in view.plan.members)) if view.plan is not None else ()
    slot = value if kind is WishKind.MOVE else subject if kind is WishKind.DRAIN else None
    if slot is not None and slot not in slots:
        raise NoSuchSlot(app, slot, slots)
    if kind in (WishKind.MOVE, WishKind.PAUSE) and subject:
        check_task(app, TaskId.parse(subject), view.plan)
