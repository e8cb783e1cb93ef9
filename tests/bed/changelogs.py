"""Changelogs as a test writes and reads them: whole transactions, and replays as production makes them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from confluent_kafka import Producer

from streamlet.changelog.kafka import LogOffsets, ReplayConsumer
from streamlet.changelog.replay import Partition, Replay
from streamlet.local import LocalKafka
from tests.bed.waiting import eventually

Record = tuple[bytes, bytes | None]


class TransactionalWriter:
    """One transactional producer that can also stop in the middle of a transaction."""

    def __init__(self, kafka: LocalKafka, transactional_id: str, topic: str) -> None:
        self.id, self._topic = transactional_id, topic
        self.producer = Producer({**kafka.client_config, "transactional.id": transactional_id, "retry.backoff.ms": 5, "linger.ms": 0})
        self.producer.init_transactions(20)

    def open(self, records: Iterable[Record]) -> None:
        """Begin a transaction and have its records in the log."""
        self.producer.begin_transaction()
        for key, value in records:
            self.producer.produce(self._topic, value, key, 0)
        assert self.producer.flush(20) == 0

    def commit(self, records: Iterable[Record] = ()) -> None:
        """Commit the open transaction, or one with these records."""
        if records:
            self.open(records)
        self.producer.commit_transaction(20)

    def abort(self, records: Iterable[Record] = ()) -> None:
        """Abort the open transaction, or one with these records."""
        if records:
            self.open(records)
        self.producer.abort_transaction(20)


def numbered(count: int, prefix: str = "k") -> list[Record]:
    """Records with keys of their own."""
    return [(f"{prefix}{number}".encode(), b"%d" % number) for number in range(count)]


def settled_end(kafka: LocalKafka, partition: Partition, end: int) -> None:
    """Wait until the high watermark is `end`: markers are written after a commit has returned."""
    offsets = LogOffsets(kafka.client_config)
    eventually(lambda: offsets.ends([partition])[partition] == end, 10, f"{partition} to end at {end}")


@dataclass
class Replayed:
    """What a replay brought, and every end it was told of on the way."""

    replay: Replay
    records: list[Record] = field(default_factory=list[Record])
    ends: list[int] = field(default_factory=list[int])
    out_of_range: bool = False

    @property
    def state(self) -> dict[bytes, bytes]:
        """The last value of every key that is not deleted."""
        return {key: value for key, value in dict(self.records).items() if value is not None}


class RunningReplay:
    """A replay of one partition with the production reader; `step` reads one slice."""

    def __init__(self, kafka: LocalKafka, partition: Partition, *, start: int | None = None, target: int | None = None) -> None:
        offsets = LogOffsets(kafka.client_config)
        begin = offsets.starts([partition])[partition] if start is None else start
        end = offsets.ends([partition])[partition] if target is None else target
        self.found = Replayed(Replay(partition, begin, end))
        self._consumer = ReplayConsumer(kafka.client_config, "replay-test")
        self._consumer.add(partition, begin)

    def step(self) -> bool:
        """Read one slice; True when the replay is over."""
        for read in self._consumer.read(2000, 0.02):
            self.found.replay.feed(read)
            self.found.records += read.records
            self.found.out_of_range |= read.out_of_range
            if read.end is not None:
                self.found.ends.append(read.end)
        return self.found.replay.done or self.found.out_of_range

    def finish(self, within_s: float = 30.0) -> Replayed:
        """Read to the end and leave."""
        try:
            eventually(self.step, within_s, "the end of the replay")
        finally:
            self._consumer.close()
        return self.found


def replay_all(kafka: LocalKafka, partition: Partition, *, start: int | None = None) -> Replayed:
    """Replay a changelog partition from `start` (or its beginning) to its end of now."""
    return RunningReplay(kafka, partition, start=start).finish()
