"""A Kafka topic as the app sees it: a name with the types and codecs of its keys and values."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from streamlet.codecs import BoundCodec
from streamlet.policy import Policy
from streamlet.record import Headers, Sent

K = TypeVar("K")
V = TypeVar("V")

Start = Literal["earliest", "latest"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Topic(Generic[K, V]):
    """Declared by `app.topic(...)`; a source for handlers, a target of `to=` and `also=`.

    Without `key=` the key is opaque bytes, carried along (`has_key` is false). `timestamp` takes the event time in
    milliseconds out of a value. `partitions` is permission to create the topic.
    """

    name: str
    key_type: object
    value_type: object
    has_key: bool
    key_codec: BoundCodec[K]
    value_codec: BoundCodec[V]
    errors: Policy
    timestamp: Callable[[V], int] | None = None
    partitions: int | None = None
    start: Start = "earliest"

    def record(self, key: K, value: V | None, *, timestamp: int | None = None, headers: Headers = ()) -> Sent:
        """A record for this topic, to be returned or yielded by a handler that lists the topic in `also=`."""
        return Sent(self.name, key, value, timestamp, headers)

    def __repr__(self) -> str:
        return f"<topic {self.name!r}>"
