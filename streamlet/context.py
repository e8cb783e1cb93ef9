"""Where the current record came from: for handlers that ask for it by the type `Context`.

One object per task, written by the task's loop before each call and never kept by it: copy what must outlive the call.
"""

from streamlet.declaration import not_yet
from streamlet.ids import TaskId
from streamlet.record import Headers


class Context:
    """Facts about the record in hand. `timestamp` is its event time in milliseconds, `stream_time` the task's largest so far."""

    __slots__ = ("headers", "key", "offset", "partition", "stream_time", "task", "timestamp", "topic")

    def __init__(
        self,
        *,
        task: TaskId = TaskId("test", 0),  # noqa: B008
        topic: str = "test",
        partition: int = 0,
        offset: int = 0,
        timestamp: int = 0,
        headers: Headers = (),
        key: object = None,
        stream_time: int = 0,
    ) -> None:
        """Make one by hand for a unit test; every field has a harmless default."""
        self.task, self.topic, self.partition, self.offset = task, topic, partition, offset
        self.timestamp, self.headers, self.key, self.stream_time = timestamp, headers, key, stream_time

    def schedule(self, *_args: object, **_options: object) -> None:
        """Planned: call a timer handler later."""
        raise not_yet("ctx.schedule", "timers", "keep the due time in state and act on it at the key's next record")

    def cancel(self, *_args: object, **_options: object) -> None:
        """Planned: cancel what `schedule` asked for."""
        raise not_yet("ctx.cancel", "timers", "keep the due time in state and delete it there")
