"""A worker's numbers as plain values: written by its loop now and then, read by whoever shows them. No library here.

The loop hands over whole frozen values by one assignment each, so a reader in another thread needs no lock and never
sees half of one.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

COMMIT_BUCKETS_S: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


@dataclass(frozen=True, slots=True)
class TaskNumbers:
    """One task as it was at the last look."""

    task: str
    phase: str  # restored, running, parked
    term: int
    positions: Mapping[str, int]  # source topic → next offset to process
    ends: Mapping[str, int]  # source topic → where it ends, as far as that is known
    processed: int
    skipped: int
    dead_letters: int
    nulls: int
    cache_hits: int
    cache_misses: int
    cache_entries: int
    pending_bytes: int
    failure: str | None

    @property
    def lag(self) -> int:
        """Records (and markers) between the task and the end of its input."""
        return sum(max(0, self.ends[topic] - position) for topic, position in self.positions.items() if topic in self.ends)


@dataclass(frozen=True, slots=True)
class RestoreNumbers:
    """A task whose state is being replayed."""

    task: str
    records: int
    left: int  # offsets still to go
    running_s: float


@dataclass(frozen=True, slots=True)
class MemoryNumbers:
    """Bytes the state backend holds for the whole process."""

    block_cache: int = 0
    block_cache_budget: int = 0
    write_buffers: int = 0
    write_buffers_budget: int = 0


@dataclass(frozen=True, slots=True)
class Look:
    """Everything at one moment."""

    at: float  # monotonic seconds
    tasks: tuple[TaskNumbers, ...] = ()
    restoring: tuple[RestoreNumbers, ...] = ()
    stopped: Mapping[str, str] = field(default_factory=dict[str, str])  # tasks that could not even start, with the reason
    memory: MemoryNumbers = field(default_factory=MemoryNumbers)

    @property
    def parked(self) -> dict[str, str]:
        """Tasks that stand still, with the reason."""
        return {task.task: task.failure or "" for task in self.tasks if task.phase == "parked"} | dict(self.stopped)


@dataclass(frozen=True, slots=True)
class CommitTimes:
    """How long commits took: counts per bucket (the last one for longer ones), and their sum."""

    buckets: tuple[int, ...] = (0,) * (len(COMMIT_BUCKETS_S) + 1)
    sum_s: float = 0.0

    def and_one_of(self, took_s: float) -> "CommitTimes":
        """With one commit more."""
        index = bisect_left(COMMIT_BUCKETS_S, took_s)
        counts = (*self.buckets[:index], self.buckets[index] + 1, *self.buckets[index + 1 :])
        return CommitTimes(counts, self.sum_s + took_s)

    @property
    def count(self) -> int:
        """Commits in all."""
        return sum(self.buckets)
