"""How much memory the local copies of one process may take together, and how much they take."""

from dataclasses import dataclass

from streamlet.errors import ConfigError

MB = 1 << 20


class BadBudget(ConfigError):
    """A memory budget that cannot work, or a second one in the same process."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"The memory budget for state cannot be used: {self.why}. All tasks of a process share one budget; set it once, before the first opens."


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBudget:
    """One per process: every task's RocksDB shares it. Sizes are in bytes.

    Index and filter blocks live in the block cache and need about 2 bytes per key: a cache too small for them costs a factor of 5.
    The sum of write buffers is a trigger for flushing, not a cap: each family of each task may hold one arena block beyond it.
    """

    block_cache: int = 64 * MB
    write_buffers: int = 32 * MB
    write_buffer: int = 4 * MB  # of one family
    arena_block: int = 64 << 10
    max_wal: int = 16 * MB  # per task: reopening costs 10-22 ms per MB

    def __post_init__(self) -> None:
        for name in ("block_cache", "write_buffers", "write_buffer", "arena_block", "max_wal"):
            if getattr(self, name) <= 0:
                raise BadBudget(f"{name} is {getattr(self, name)}, but must be more than 0")
        if self.write_buffer > self.write_buffers:
            raise BadBudget(f"one write buffer ({self.write_buffer}) is larger than all of them together ({self.write_buffers})")


@dataclass(frozen=True, slots=True)
class MemoryUsage:
    """What metrics show, in bytes."""

    block_cache: int
    block_cache_pinned: int
    block_cache_budget: int
    write_buffers: int
    write_buffers_budget: int
