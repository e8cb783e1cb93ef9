"""Replaying a changelog: where to begin, where to stop, and when the end has been reached. Pure.

The end rule: the previous writer has released the task or been fenced; the target is the high watermark taken
after that; reading is done when an end-of-partition event names an offset at or behind the target.
"""

from dataclasses import dataclass, field
from enum import Enum, auto

from streamlet.errors import StateError


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """One partition of one topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.number}"


@dataclass(slots=True)
class Read:
    """What one slice of reading brought from one partition."""

    partition: Partition
    records: list[tuple[bytes, bytes | None]] = field(default_factory=list[tuple[bytes, bytes | None]])
    offset: int = -1  # next offset to read, -1 if nothing came
    end: int | None = None  # where the partition ended, if that was seen
    out_of_range: bool = False


class CopyVerdict(Enum):
    """What to do with a local copy before replaying."""

    KEEP = auto()  # replay from its offset
    EMPTY = auto()  # there is no copy: replay from the log's start
    OUT_OF_RANGE = auto()  # its offset is not in the log: set it aside, replay from the log's start
    TOO_OLD = auto()  # deletions it has not seen may have been cleaned away: set it aside likewise


def judge_copy(
    *, offset: int | None, log_start: int, target: int, copy_time_ms: int | None, now_ms: int, delete_retention_ms: int
) -> CopyVerdict:
    """Whether a local copy may be continued.

    A copy that has slept longer than half of the tombstone retention could miss a deletion whose tombstone has
    been cleaned away, and a deleted key would come back to life. A copy that does not know its age counts as one.
    """
    if offset is None:
        return CopyVerdict.EMPTY
    if not log_start <= offset <= target:
        return CopyVerdict.OUT_OF_RANGE
    if offset < target and (copy_time_ms is None or now_ms - copy_time_ms > delete_retention_ms // 2):
        return CopyVerdict.TOO_OLD
    return CopyVerdict.KEEP


@dataclass(slots=True)
class Replay:
    """The replay of one store's changelog into a local copy. Its only writer is the loop that feeds it."""

    partition: Partition
    offset: int  # next to read
    target: int
    done: bool = False
    at_end: bool = False  # whether the last slice reached the end of the log
    by_position: bool = False  # whether it is known that everything below the target can be read now

    def feed(self, read: Read) -> None:
        """Take one slice of reading into account."""
        assert read.partition == self.partition, "a slice belongs to its own replay"
        assert read.offset < 0 or read.offset >= self.offset, "reading never goes back"
        self.offset = max(self.offset, read.offset)
        self.at_end = read.end is not None
        if (read.end is not None and read.end >= self.target) or (self.by_position and self.offset >= self.target):
            self.done = True

    def aim(self, target: int) -> None:
        """The writer has stopped at `target`: the copy is complete when everything below has been read."""
        self.target, self.by_position, self.done = target, True, self.offset >= target

    @property
    def left(self) -> int:
        """Offsets still to go, markers and cleaned records included."""
        return max(0, self.target - self.offset)


class ChangelogGap(StateError):
    """The log moved away under a running replay."""

    def __init__(self, partition: Partition, offset: int) -> None:
        super().__init__(partition, offset)
        self.partition, self.offset = partition, offset

    def __str__(self) -> str:
        return (
            f"The changelog {self.partition} no longer holds offset {self.offset}, where a replay had to go on: "
            "its records were deleted meanwhile. The local copy is set aside and the whole changelog is replayed."
        )
