"""What happens to a record that cannot be decoded, or whose handler raises.

`fail` parks the task until somebody looks, `skip` drops the record and counts it, `dead_letter` sends the original
bytes with the reason to another topic, inside the same transaction.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, cast

from streamlet.declaration import DeclarationError
from streamlet.durations import Duration, duration_ms
from streamlet.ids import checked_name


@dataclass(frozen=True, slots=True)
class Fail:
    """Park the task: its offset stays, other tasks go on, `status` shows the record and the exception."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Drop the record and everything it changed or sent, count it, go on."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """After `retries` further tries, send the record as it came to `topic`. Exceptions outside `on` fail."""

    topic: str
    retries: int
    backoff_ms: int
    on: tuple[type[Exception], ...]


Policy = Fail | Skip | DeadLetter

fail: Final = Fail()
skip: Final = Skip()


def dead_letter(
    topic: str,
    *,
    retries: int = 0,
    backoff: Duration | timedelta = Duration(0),  # noqa: B008
    on: type[Exception] | tuple[type[Exception], ...] = Exception,
) -> DeadLetter:
    """Send failed records to `topic`, after `retries` more tries `backoff` apart; only for the exceptions in `on`."""
    given = cast("object", topic)  # what a caller without a type checker may give
    if not isinstance(given, str):
        shown = getattr(given, "name", "dead")
        raise DeclarationError("dead_letter", "it takes the topic's name: dead letters are raw bytes", f'dead_letter("{shown}")')
    if retries < 0:
        raise DeclarationError("dead_letter", f"retries={retries} is negative", f'dead_letter("{topic}", retries=0)')
    kinds = on if isinstance(on, tuple) else (on,)
    for kind in cast("tuple[object, ...]", kinds):
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise DeclarationError("dead_letter", f"on={kind!r} is not an exception class", f'dead_letter("{topic}", on=ValueError)')
    return DeadLetter(checked_name("topic", topic), retries, duration_ms(backoff, "dead_letter(backoff=)"), kinds)


def checked_policy(policy: object, subject: str) -> Policy:
    """Return `policy` if it is one; a common slip is the bare function `dead_letter`."""
    if isinstance(policy, Fail | Skip | DeadLetter):
        return policy
    raise DeclarationError(subject, f"errors={policy!r} is no error policy", 'errors=fail  # or skip, or dead_letter("topic", retries=2)')


def written(policy: Policy) -> str:
    """A policy as it stands in code."""
    match policy:
        case Fail():
            return "fail"
        case Skip():
            return "skip"
        case DeadLetter():
            return f'dead_letter("{policy.topic}"{f", retries={policy.retries}" if policy.retries else ""})'
