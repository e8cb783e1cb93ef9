"""The harness's own way to the broker: topics, input data, and what a contestant has committed so far.

Nobody's word is taken for a rate: it is read from the end offsets that a read_committed reader would see.
"""

# The client's admin calls return futures of an open type.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import repeat
from typing import TypeVar, cast

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]  # exported, but not listed
from workload import PARTITIONS, VALUE_BYTES, key_of

K = TypeVar("K")
T = TypeVar("T")
VALUE = cast("Callable[[Message], bytes]", Message.value)  # no output here is a tombstone
CHUNK = 100_000
ANSWER_S = 30.0
READER = {
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "fetch.queue.backoff.ms": 5,
    "fetch.wait.max.ms": 10,
}


class WrongOutput(Exception):
    """A contestant lost, doubled or reordered something: its speed means nothing."""


class Broker:
    """One Kafka, by its address."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._admin = AdminClient({"bootstrap.servers": address})

    def create(self, topic: str, config: Mapping[str, str] | None = None) -> None:
        """Create a topic and wait until its partitions have leaders."""
        new = NewTopic(topic, PARTITIONS, 1, config=dict(config or {}))
        _wait(self._admin.create_topics([new], operation_timeout=ANSWER_S))
        deadline = time.monotonic() + ANSWER_S
        while True:
            try:
                self.ends(topic)
            except KafkaException:  # "not leader" for some milliseconds, longer on a busy machine
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
                self._admin = AdminClient({"bootstrap.servers": self.address})  # the old one may remember "no leader" for good
            else:
                return

    def topics(self, marker: str) -> list[str]:
        """Names of all topics that contain `marker`."""
        return [name for name in self._admin.list_topics(timeout=ANSWER_S).topics if marker in name]

    def remove(self, marker: str) -> None:
        """Remove every topic whose name contains `marker`: a run's own ones and those its framework made."""
        if topics := self.topics(marker):
            _wait(self._admin.delete_topics(topics, operation_timeout=ANSWER_S))

    def ends(self, topic: str, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED) -> dict[int, int]:
        """End offset of every partition, as seen under `isolation`."""
        latest = cast("OffsetSpec", OffsetSpec.latest())  # type: ignore[no-untyped-call]
        asked = {TopicPartition(topic, number): latest for number in range(PARTITIONS)}
        answers = _wait(self._admin.list_offsets(asked, isolation_level=isolation, request_timeout=ANSWER_S))
        return {place.partition: found.offset for place, found in answers.items()}

    def fill(self, topic: str, *, records: int, keys: int, seed: int, value: bytes = b"x" * VALUE_BYTES) -> float:
        """Write the input with uniform random keys; return the seconds it took."""
        producer = Producer({"bootstrap.servers": self.address, **LOADER})
        draw = random.Random(seed).random
        names = [key_of(number) for number in range(keys)]
        started = time.monotonic()
        for first in range(0, records, CHUNK):
            chosen = [names[int(draw() * keys)] for _ in range(min(CHUNK, records - first))]
            deque(map(producer.produce, repeat(topic), repeat(value), chosen), 0)
            producer.flush(ANSWER_S)
        assert len(producer) == 0, "the broker did not take the whole input"
        return time.monotonic() - started

    def send(self, topic: str, records: Iterable[tuple[int, bytes, bytes]]) -> None:
        """Write a few records, each to a given partition."""
        producer = Producer({"bootstrap.servers": self.address, **LOADER})
        for partition, key, value in records:
            producer.produce(topic, value, key, partition)
        producer.flush(ANSWER_S)

    def read(self, topic: str, *, deadline: float, upto: Mapping[int, int] | None = None) -> Iterator[list[Message]]:
        """Committed records of a topic from its start to its end, in batches."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "benchmark-reader", **READER})
        targets = dict(upto or self.ends(topic, IsolationLevel.READ_UNCOMMITTED))
        consumer.assign([TopicPartition(topic, number, 0) for number in targets])
        try:
            while targets:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{topic}: partitions {sorted(targets)} were not read to their end in time")
                batch = consumer.consume(2000, 0.02)
                for message in (found for found in batch if found.error()):
                    error = message.error()
                    if error is None or error.code() != KafkaError._PARTITION_EOF:
                        raise KafkaException(error)
                    if (message.offset() or 0) >= targets.get(message.partition() or 0, 0):
                        targets.pop(message.partition() or 0, None)
                yield [message for message in batch if not message.error()]
        finally:
            consumer.close()

    def tail(self, topic: str, *, alive: Callable[[], None], deadline: float) -> Iterator[tuple[float, bytes, bytes]]:
        """Committed records of a topic as they come: when each was seen, key, value."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "benchmark-reader", **READER, "enable.partition.eof": False})
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        try:
            while True:
                batch = consumer.consume(200, 0.001)
                at = time.monotonic()
                alive()
                if at > deadline:
                    raise TimeoutError(f"{topic}: outputs are missing; committed ends {self.ends(topic)}")
                for message in batch:
                    if message.error():
                        raise KafkaException(message.error())
                    yield at, message.key() or b"", message.value() or b""
        finally:
            consumer.close()


def _wait(answers: Mapping[K, Future[T]]) -> dict[K, T]:
    """All answers of an admin call, whose types the client leaves open."""
    return {asked: answer.result(ANSWER_S) for asked, answer in answers.items()}


LOADER = {
    "queue.buffering.max.messages": 2 * CHUNK,
    "queue.buffering.max.kbytes": 1 << 20,
    "linger.ms": 5,
    "batch.size": 1 << 20,
    "partitioner": "murmur2_random",
    "acks": "all",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """How many offsets were committed at a moment (a commit marker counts as one: some 40 among 100,000)."""

    at: float
    count: int


def follow(broker: Broker, topic: str, *, alive: Callable[[], None], deadline: float) -> Iterator[Sample]:
    """A topic's committed end, over and over, until the caller has seen enough."""
    while True:
        sample = Sample(time.monotonic(), sum(broker.ends(topic).values()))
        yield sample
        alive()
        if sample.at > deadline:
            raise TimeoutError(f"{topic}: only {sample.count:,} offsets when the time was over")
        time.sleep(0.02)


def check_counts(broker: Broker, topic: str, *, decode: Callable[[bytes], int], deadline: float) -> int:
    """Read the output: every key must count 1, 2, 3, … without gap or repetition. Returns the number of records."""
    counts: dict[bytes | None, int] = {}
    before = counts.get
    records = 0
    for batch in broker.read(topic, deadline=deadline):
        records += len(batch)
        for key, value in zip(map(Message.key, batch), map(VALUE, batch), strict=True):
            expected = before(key, 0) + 1
            if decode(value) != expected:
                raise WrongOutput(f"{topic}: key {key!r} counts {decode(value)} where {expected} must come")
            counts[key] = expected
    return records
