"""How a wrong declaration is said: who, which parameter, what is wrong, and the line as it should be.

A declaration is refused at the earliest moment that can know: at the decorator (signature), at build (graph and
names) or at start (broker). All three speak through this one shape, so that no message lacks its correction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamlet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable


class DeclarationError(ConfigError):
    """Something in the app's code cannot work. `fix` is the corrected line; `subject` and `parameter` say where."""

    def __init__(self, subject: str, problem: str, fix: str, parameter: str | None = None, place: str | None = None) -> None:
        super().__init__(subject, problem, fix, parameter, place)
        self.subject, self.problem, self.fix, self.parameter, self.place = subject, problem, fix, parameter, place

    def __str__(self) -> str:
        who = f"{self.subject}, parameter '{self.parameter}'" if self.parameter else self.subject
        where = f" ({self.place})" if self.place else ""
        return f"{who}{where}: {self.problem}.\n    {self.fix}"


class NotYet(DeclarationError):
    """Part of the contract that this release does not have."""


def not_yet(subject: str, what: str, instead: str) -> NotYet:
    """The refusal of something the contract announces for later, with what works today."""
    return NotYet(subject, f"{what} is planned and not in this release", instead)


def place_of(function: Callable[..., object]) -> str | None:
    """Where a function was written, as editors print it: file and line."""
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None
