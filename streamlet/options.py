"""The keyword options of an App's methods, named once for all their overloads."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Generic, TypedDict, TypeVar

from streamlet.durations import Duration
from streamlet.policy import Policy
from streamlet.topic import Start, Topic

V = TypeVar("V")


class TopicOptions(TypedDict, Generic[V], total=False):
    """Options of `app.topic`. `codec` is for values: "json", "msgpack", avro(...), or an object with encode and decode."""

    codec: object
    key_codec: object
    timestamp: Callable[[V], int] | None
    partitions: int | None
    errors: Policy | None
    start: Start


class ProcessOptions(TypedDict, total=False):
    """Options of `@app.process`."""

    also: Sequence[Topic[Any, Any]]
    name: str | None
    errors: Policy | None
    keeps_key: bool
    repartition: int | None


class BatchOptions(TypedDict, total=False):
    """Options of `@app.batch`."""

    also: Sequence[Topic[Any, Any]]
    name: str | None
    errors: Policy | None
    size: int
    within: Duration | timedelta
    repartition: int | None
