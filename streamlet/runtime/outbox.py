"""What a task wants to send, kept as bytes until the commit puts it into one transaction."""

from dataclasses import dataclass, field

from streamlet.record import Headers

# topic, key, value, timestamp, headers: a plain tuple, since one is made per output record
Output = tuple[str, bytes | None, bytes | None, int, Headers | None]


@dataclass(slots=True)
class Outbox:
    """Outputs since the last commit. Its only writer is the task's loop.

    Records for repartition topics are kept apart: their partition is chosen by us, because the commit must know
    the last offset it wrote in each.
    """

    records: list[Output] = field(default_factory=list[Output])
    moved: list[Output] = field(default_factory=list[Output])

    def clear(self) -> None:
        """Empty it: committed, or given up."""
        self.records.clear()
        self.moved.clear()
