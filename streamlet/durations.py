"""Lengths of time: integer milliseconds that say their unit where they are written.

A bare number is refused wherever a duration is meant, so nobody has to remember which options are seconds.

Invariant: a `Duration` is a whole number of milliseconds, zero or more.
"""

from datetime import timedelta
from typing import Final, Self

from streamlet.declaration import DeclarationError


class Duration(int):
    """A whole number of milliseconds. Made by `milliseconds`, `seconds`, `minutes`, `hours` and `days`."""

    __slots__ = ()

    def __new__(cls, ms: int) -> Self:
        """Hold `ms` milliseconds; a negative length of time is refused."""
        if ms < 0:
            raise DeclarationError("duration", f"{ms} ms is negative, and time only goes forward", "milliseconds(0)  # or more")
        return super().__new__(cls, ms)

    def __add__(self, other: int) -> "Duration":
        """Two durations together."""
        return Duration(int(self) + duration_ms(other, "a duration added to another"))

    def __mul__(self, times: int) -> "Duration":
        """The duration, several times."""
        return Duration(int(self) * times)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        for unit, ms in _UNITS:
            if self % ms == 0 and self >= ms:
                return f"{unit}({int(self) // ms})"
        return f"milliseconds({int(self)})"


def milliseconds(count: int) -> Duration:
    """`count` thousandths of a second."""
    return _whole("milliseconds", count, 1)


def seconds(count: float) -> Duration:
    """`count` seconds; a fraction is fine as long as it makes whole milliseconds."""
    return _whole("seconds", count, 1_000)


def minutes(count: float) -> Duration:
    """`count` minutes."""
    return _whole("minutes", count, 60_000)


def hours(count: float) -> Duration:
    """`count` hours."""
    return _whole("hours", count, 3_600_000)


def days(count: float) -> Duration:
    """`count` days of 24 hours."""
    return _whole("days", count, 86_400_000)


def duration_ms(value: object, what: str) -> int:
    """Milliseconds of a `Duration` or `timedelta`; anything else, a bare number above all, is refused by name."""
    if isinstance(value, Duration):
        return int(value)
    if isinstance(value, timedelta):
        ms = value // timedelta(milliseconds=1)
        if ms < 0 or value % timedelta(milliseconds=1):
            raise DeclarationError(what, f"{value!r} is not a whole number of milliseconds, zero or more", "seconds(1)")
        return ms
    example = f"seconds({value})" if isinstance(value, int) and not isinstance(value, bool) else "seconds(1)"
    raise DeclarationError(what, f"{value!r} has no unit", f"{example}  # or milliseconds, minutes, hours, days, or a timedelta")


_UNITS: Final = (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000), ("seconds", 1_000))


def _whole(unit: str, count: float, unit_ms: int) -> Duration:
    ms = count * unit_ms
    if ms != int(ms):
        raise DeclarationError(f"{unit}({count})", "it is not a whole number of milliseconds", f"milliseconds({round(ms)})")
    return Duration(int(ms))
