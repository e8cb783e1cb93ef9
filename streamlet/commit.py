"""How an app's code says when work becomes final."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from streamlet import config
from streamlet.declaration import DeclarationError
from streamlet.durations import Duration, duration_ms, milliseconds

_INTERVAL: Final = milliseconds(100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """When work becomes final: at once when the input is drained, at latest after `interval` or `max_bytes` of results."""

    interval: Duration | timedelta = _INTERVAL
    max_bytes: int = config.MOST_COMMIT_BYTES

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if self.interval_ms == 0:
            raise DeclarationError("Commit", "interval is 0, so nothing could ever be gathered", "Commit(interval=milliseconds(100))")
        if self.max_bytes < 1024:
            raise DeclarationError("Commit", f"max_bytes={self.max_bytes} is too little", "Commit(max_bytes=64 * 1024 * 1024)")

        if self.max_bytes > config.MOST_COMMIT_BYTES:
            problem = f"max_bytes={self.max_bytes} is too much: a commit's results are held in memory"
            raise DeclarationError("Commit", problem, "Commit(max_bytes=64 * 1024 * 1024)  # or less")

    @property
    def setting(self) -> config.Commit:
        """The same, as settings hold it."""
        return config.Commit(interval_ms=self.interval_ms, max_bytes=self.max_bytes)

    @property
    def interval_ms(self) -> int:
        """The interval in milliseconds."""
        return duration_ms(self.interval, "Commit(interval=)")
