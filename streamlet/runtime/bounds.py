"""How long a worker may gather before a commit, and how far its local copies may lag behind the last one."""

from dataclasses import dataclass
from typing import Self

from streamlet.config import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitBounds:
    """The latest moments of a commit and of a local write, by time and by size. Settings keep them under what the design allows."""

    interval_s: float
    max_bytes: int
    write_interval_ms: int
    write_max_bytes: int

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The bounds that an app runs with."""
        return cls(
            interval_s=settings.commit.interval_ms / 1000,
            max_bytes=settings.commit.max_bytes,
            write_interval_ms=settings.storage.write_interval_ms,
            write_max_bytes=settings.storage.write_max_bytes,
        )

    def commit_due(self, working_s: float, buffered_bytes: int) -> bool:
        """Whether work that began `working_s` ago must become final now."""
        return working_s >= self.interval_s or buffered_bytes >= self.max_bytes

    def write_due(self, lag_ms: int, pending_bytes: int) -> bool:
        """Whether a local copy must take up the commits it lacks now."""
        return lag_ms >= self.write_interval_ms or pending_bytes >= self.write_max_bytes
