"""A task whose place in its input is gone: said with the choice a person has, never guessed."""

from streamlet.changelog.replay import Partition
from streamlet.errors import StreamletError
from streamlet.ids import TaskId


class OffsetLost(StreamletError):
    """A task's committed position is not in its source topic any more, or is not known any more."""

    exit_code = 2

    def __init__(self, task: TaskId, partition: Partition, offset: int | None, oldest: int, newest: int) -> None:
        super().__init__(task, partition, offset, oldest, newest)
        self.task, self.partition, self.offset, self.oldest, self.newest = task, partition, offset, oldest, newest
        self.topic = partition.topic

    def __str__(self) -> str:
        had = "has no committed offset although it ran before" if self.offset is None else f"had to go on at offset {self.offset}"
        return (
            f"Task {self.task} stopped: {self.partition} {had}, and the topic now holds {self.oldest} to {self.newest}. "
            "Records were deleted before they were processed, or offsets expired. Choose: `streamlet reset` starts the app over, or set the "
            f"group's offset for {self.partition} with Kafka's own tools (earliest = {self.oldest}, latest = {self.newest}) and start again."
        )
