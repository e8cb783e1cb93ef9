"""Every error that streamlet raises on purpose.

The branches are named by what the catcher does next:

    StreamletError
    ├── ConfigError    stop and fix what is named: code, settings, machine or broker
    ├── RetryError     make the same call again later
    ├── FencedError    drop the tasks and touch nothing: somebody else owns them now
    ├── StateError     set the local copy aside and rebuild it from the changelog
    └── HandlerError   user code or user data failed: the `errors=` policy decides

A message says what happened, why, and what to do next. Facts are typed fields, so that tests and callers
never read the text.
"""

from typing import ClassVar


class StreamletError(Exception):
    """Root of the tree. `exit_code` is what the command line ends with."""

    exit_code: ClassVar[int] = 1


class ConfigError(StreamletError):
    """Something is set up wrong: nothing will get better by trying again."""

    exit_code = 2


class RetryError(StreamletError):
    """Something is not there yet, or not any more: the same call may succeed later."""

    exit_code = 3


class FencedError(StreamletError):
    """Another process took over what this one owned: drop it and touch nothing."""

    exit_code = 4


class StateError(StreamletError):
    """A local copy of state cannot be used: set it aside and replay its changelog."""

    exit_code = 5


class HandlerError(StreamletError):
    """User code or user data failed at one record."""

    exit_code = 6

    def __init__(self, handler: str, topic: str, partition: int, offset: int, reason: str) -> None:
        super().__init__(handler, topic, partition, offset, reason)
        self.handler, self.topic, self.partition, self.offset, self.reason = handler, topic, partition, offset, reason

    def __str__(self) -> str:
        return (
            f"'{self.handler}' failed at {self.topic}/{self.partition} offset {self.offset}: {self.reason}. "
            "The record was not committed. Fix the handler or the data, or give the handler an errors= policy "
            "(skip, dead_letter) and start again."
        )
