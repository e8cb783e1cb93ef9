"""Asking a running app to go on with a parked task: a wish on the control topic, and the wait for its answer."""

import time
from enum import Enum, auto

from streamlet.changelog.kafka import ClientConfig
from streamlet.errors import ConfigError
from streamlet.ids import TaskId
from streamlet.operations.apps import NoSuchApp, known_apps
from streamlet.rebalance.kafka import ControlReader, control_topic, take_back_wish, write_wish
from streamlet.rebalance.records import Plan, Wish, WishKind, wish_key
from streamlet.topics.kafka import Topics


class Outcome(Enum):
    """What became of the wish."""

    ANSWERED = auto()  # a worker has taken it up
    STANDS = auto()  # no worker answered; the next one to start will skip the record it stopped at
    TAKEN_BACK = auto()  # no worker answered; nothing is left of the wish


class NoSuchTask(ConfigError):
    """The app has no task of this name."""

    def __init__(self, app: str, task: TaskId, known: tuple[str, ...]) -> None:
        super().__init__(app, task, known)
        self.app, self.task, self.known = app, task, known

    def __str__(self) -> str:
        some = ", ".join(self.known[:10]) + (" …" if len(self.known) > 10 else "")
        return f"'{self.app}' has no task {self.task}. It has: {some or 'none yet'}."


def resume_task(client: ClientConfig, app: str, task: TaskId, *, skip: bool, deadline_s: float = 15.0) -> Outcome:
    """Ask for a parked task to go on, at the record that stopped it or behind it; returns when a worker answered, or at the deadline."""
    topics = Topics(client)
    if control_topic(app) not in (names := topics.names()):
        raise NoSuchApp(app, str(client.get("bootstrap.servers")), known_apps(names))
    control = ControlReader(client, app)
    try:
        check_task(app, task, control.read_to_end().plan)
        wish = Wish(WishKind.SKIP if skip else WishKind.RESUME, str(task), int(time.time() * 1000))
        write_wish(client, app, wish)
        control.read_to_end()
        end = time.monotonic() + deadline_s
        key = wish_key(wish).decode().removeprefix("wish/")
        while key in control.view.wishes and time.monotonic() < end:
            control.follow(0.1)
        if key not in control.view.wishes:
            return Outcome.ANSWERED
    finally:
        control.close()
    if skip:
        return Outcome.STANDS
    take_back_wish(client, app, wish)
    return Outcome.TAKEN_BACK


def check_task(app: str, task: TaskId, plan: Plan | None) -> None:
    """Refuse a task the app does not have."""
    known = tuple(sorted(plan.tasks, key=TaskId.parse)) if plan else ()
    if str(task) not in known:
        raise NoSuchTask(app, task, known)
