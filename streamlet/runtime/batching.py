"""Records gathered for a batch handler: called with many at once, and one by one to find the one that fails."""

from collections.abc import Callable
from dataclasses import dataclass, field

from streamlet.policy import Policy
from streamlet.record import Record
from streamlet.runtime.incoming import Incoming

BatchCall = Callable[[list[Record[object, object]]], None]  # runs the handler and everything fused below it


@dataclass(slots=True)
class Gatherer:
    """What waits for one batch handler. Its only writer is the task's loop."""

    name: str
    call: BatchCall
    policy: Policy
    size: int
    within_s: float
    admits_null: bool
    messages: list[Incoming] = field(default_factory=list[Incoming])
    records: list[Record[object, object]] = field(default_factory=list[Record[object, object]])
    since: float = 0.0

    def add(self, message: Incoming, record: Record[object, object], now: float) -> bool:
        """Take one more; True when the batch is full."""
        if not self.records:
            self.since = now
        self.messages.append(message)
        self.records.append(record)
        return len(self.records) >= self.size

    def filling(self, now: float) -> bool:
        """Whether it still pays to wait for more."""
        return bool(self.records) and now - self.since < self.within_s

    def take(self) -> tuple[list[Incoming], list[Record[object, object]]]:
        """Empty it."""
        taken = self.messages, self.records
        self.messages, self.records = [], []
        return taken
