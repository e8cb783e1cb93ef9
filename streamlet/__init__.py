"""Stream applications in plain Python on Kafka.

This module is the contract with app authors: what `__all__` names stays; everything else may change.
It stays light, since Python runs it before any sub-package: no client library is imported here.
"""

from typing import TYPE_CHECKING

from streamlet.app import App
from streamlet.commit import Commit
from streamlet.context import Context
from streamlet.declaration import DeclarationError
from streamlet.durations import Duration, days, hours, milliseconds, minutes, seconds
from streamlet.errors import ConfigError, FencedError, HandlerError, RetryError, StateError, StreamletError
from streamlet.handler import Handler
from streamlet.policy import dead_letter, fail, skip
from streamlet.record import Record, Sent
from streamlet.state.types import ByKey, Group, Log, Map, PerTask, Set, State, Value, state
from streamlet.topic import Topic

if TYPE_CHECKING:
    from streamlet.testing import TestDriver

__version__ = "0.1.0"

__all__ = [
    "App",
    "ByKey",
    "Commit",
    "ConfigError",
    "Context",
    "DeclarationError",
    "Duration",
    "FencedError",
    "Group",
    "Handler",
    "HandlerError",
    "Log",
    "Map",
    "PerTask",
    "Record",
    "RetryError",
    "Sent",
    "Set",
    "State",
    "StateError",
    "StreamletError",
    "TestDriver",
    "Topic",
    "Value",
    "__version__",
    "days",
    "dead_letter",
    "fail",
    "hours",
    "milliseconds",
    "minutes",
    "seconds",
    "skip",
    "state",
]


def __getattr__(name: str) -> object:
    """`TestDriver` brings the runtime along, so it is loaded when it is asked for."""
    if name == "TestDriver":
        from streamlet.testing import TestDriver

        return TestDriver
    raise AttributeError(f"module 'streamlet' has no attribute {name!r}")
