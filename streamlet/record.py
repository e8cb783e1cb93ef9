"""What handlers take and give when the value alone is not enough.

Both are created once per output, so they are compiled structs: building a frozen dataclass costs several times more.
"""

from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

K_co = TypeVar("K_co", covariant=True)
V_co = TypeVar("V_co", covariant=True)

Headers = Sequence[tuple[str, bytes]]


class Record(msgspec.Struct, Generic[K_co, V_co], frozen=True):
    """A key with its value. As an output: without `timestamp` it carries its input's, and headers only if given."""

    key: K_co
    value: V_co
    timestamp: int | None = None
    headers: Headers = ()


class Sent(msgspec.Struct, frozen=True):
    """A record for one declared topic, made by `topic.record(...)`. It goes there only, not to followers or `to=`."""

    topic: str
    key: object
    value: object
    timestamp: int | None = None
    headers: Headers = ()
