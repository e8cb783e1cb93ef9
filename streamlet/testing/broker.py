"""As much of a broker as one app needs, in memory: logs with offsets, transactions, committed positions.

A transaction leaves a marker behind in every partition it wrote, as Kafka's do: offsets have gaps, and nobody may count
on the next record being at the last one plus one.
Invariant: what a transaction wrote is there after its commit, all of it, and never before.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from streamlet.changelog.replay import Partition, Read
from streamlet.murmur2 import partition_for
from streamlet.record import Headers
from streamlet.runtime.commit import Changes, OnEnd
from streamlet.runtime.outbox import Output


@dataclass(frozen=True, slots=True)
class Kept:
    """A record in a log; what the task's loop asks a client's message, it can ask this."""

    at: int
    key_bytes: bytes | None
    value_bytes: bytes | None
    time_ms: int
    pairs: Headers

    def key(self) -> bytes | None:
        """The key as it came."""
        return self.key_bytes

    def value(self) -> bytes | None:
        """The value as it came."""
        return self.value_bytes

    def timestamp(self) -> tuple[int, int]:
        """Its kind (1: set by the producer) and milliseconds."""
        return 1, self.time_ms

    def offset(self) -> int:
        """Where it stands in its partition."""
        return self.at

    def headers(self) -> Headers | None:
        """Its headers; None without any, as the client gives them."""
        return self.pairs or None


@dataclass(slots=True)
class PartitionLog:
    """One partition. `end` is the next offset to be given out."""

    records: list[Kept] = field(default_factory=list[Kept])
    end: int = 0

    def append(self, output: Output) -> None:
        """Put a record at the end."""
        _, key, value, timestamp, headers = output
        self.records.append(Kept(self.end, key, value, timestamp, tuple(headers or ())))
        self.end += 1


class MemoryBroker:
    """The topics of one app. Its only user is the driver."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        """`counts` are the partitions of every topic the app reads."""
        self.counts = dict(counts)
        self.written: dict[str, list[Kept]] = {}  # by topic: what the app wrote and the test has not read
        self.positions: dict[Partition, int] = {}  # the group's committed offsets
        self._logs: dict[Partition, PartitionLog] = {}
        self._dealt: dict[str, int] = {}

    def log(self, partition: Partition) -> PartitionLog:
        """A partition; one never written is empty."""
        return self._logs.setdefault(partition, PartitionLog())

    def place(self, topic: str, key: bytes | None) -> Partition:
        """Where a producer puts a key; records without one go round."""
        count = self.counts[topic]
        if key is not None:
            return Partition(topic, partition_for(key, count))
        turn = self._dealt[topic] = self._dealt.get(topic, -1) + 1
        return Partition(topic, turn % count)

    def append(self, output: Output) -> Partition:
        """A record from outside the app."""
        partition = self.place(output[0], output[1])
        self.log(partition).append(output)
        return partition

    def from_offset(self, partition: Partition, offset: int) -> list[Kept]:
        """The records at or behind an offset."""
        records = self.log(partition).records
        return records[bisect_left(records, offset, key=Kept.offset) :]

    def replay(self, partition: Partition, offset: int) -> Read:
        """A changelog from an offset to its end, as a restore reads it."""
        log = self.log(partition)
        changes: list[tuple[bytes, bytes | None]] = []
        for record in self.from_offset(partition, offset):
            assert record.key_bytes is not None, "a changelog record has a key"
            changes.append((record.key_bytes, record.value_bytes))
        return Read(partition, changes, log.end, log.end)


@dataclass(slots=True)
class MemoryTransaction:
    """Twin of the transactional producer: everything becomes visible in `commit`, or nothing."""

    broker: MemoryBroker
    outputs: list[Output] = field(default_factory=list[Output])
    placed: dict[Partition, list[Output]] = field(default_factory=dict[Partition, list[Output]])
    positions: dict[Partition, int] = field(default_factory=dict[Partition, int])
    delivered: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])

    def begin(self) -> None:
        """Open it."""
        assert [self.outputs, self.placed, self.positions] == [[], {}, {}], "the transaction before has ended"

    def send(self, outputs: Sequence[Output]) -> None:
        """Records for the app's outputs. Those of a topic that the app reads as well go where its key lives."""
        for output in outputs:
            self.outputs.append(output)
            if output[0] in self.broker.counts:
                self.placed.setdefault(self.broker.place(output[0], output[1]), []).append(output)

    def send_to(self, topic: str, partition: int, changes: Changes, on_end: OnEnd) -> None:
        """Changes for one partition of an internal topic; `on_end` hears the offset behind the last."""
        self.send_stamped(topic, partition, [(topic, key, value, 0, None) for key, value in changes], on_end)

    def send_stamped(self, topic: str, partition: int, records: Sequence[Output], on_end: OnEnd) -> None:
        """Records with their times for one partition."""
        place = Partition(topic, partition)
        queued = self.placed.setdefault(place, [])
        queued.extend(records)
        end = self.broker.log(place).end + len(queued)
        self.delivered.append(lambda: on_end(end))

    def flush(self) -> None:
        """Tell everybody their offsets."""
        for tell in self.delivered:
            tell()
        self.delivered.clear()

    def send_offsets(self, positions: Mapping[Partition, int], group_metadata: object) -> None:  # noqa: ARG002  # the seam's shape
        """Input positions."""
        self.positions.update(positions)

    def commit(self) -> None:
        """Make it all visible."""
        self.flush()
        for partition, records in self.placed.items():
            log = self.broker.log(partition)
            for record in records:
                log.append(record)
            log.end += 1  # the marker
        for topic, key, value, timestamp, headers in self.outputs:
            self.broker.written.setdefault(topic, []).append(Kept(-1, key, value, timestamp, tuple(headers or ())))
        self.broker.positions.update(self.positions)
        self.outputs, self.placed, self.positions = [], {}, {}
