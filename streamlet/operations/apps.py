"""Apps as the brokers know them: by their control topics. For commands that are given a name and no code."""

import difflib

from streamlet.changelog.kafka import ClientConfig
from streamlet.errors import ConfigError
from streamlet.internal_topics import TopicKind
from streamlet.rebalance.kafka import ControlReader
from streamlet.rebalance.view import View

_SUFFIX = f"-{TopicKind.CONTROL.value}"


class NoSuchApp(ConfigError):
    """No app of this name has ever run on these brokers. `known` are those that have."""

    def __init__(self, app: str, brokers: str, known: tuple[str, ...]) -> None:
        super().__init__(app, brokers, known)
        self.app, self.brokers, self.known = app, brokers, known

    def __str__(self) -> str:
        near = difflib.get_close_matches(self.app, self.known, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(self.known)}." if self.known else "There is none at all."
        return f"There is no app '{self.app}' at {self.brokers}. {hint} The name is that in App(...), not that of the file."


def known_apps(topics: frozenset[str]) -> tuple[str, ...]:
    """Every app that has a control topic."""
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in topics if name.endswith(_SUFFIX)))


def read_view(client: ClientConfig, app: str) -> View:
    """What the control topic of an app says now."""
    control = ControlReader(client, app)
    try:
        return control.read_to_end()
    finally:
        control.close()
