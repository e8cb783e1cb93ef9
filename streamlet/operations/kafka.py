"""The Kafka client's edge for commands: write a few records, follow a topic, look at and delete a group's offsets."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Message, Producer, TopicPartition

from streamlet.changelog.kafka import COMMON, BrokerUnavailable, ClientConfig, LogOffsets, admin_client, consumer_config
from streamlet.changelog.replay import Partition
from streamlet.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Shown:
    """A record as it came."""

    partition: Partition
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class RecordRefused(ConfigError):
    """A broker did not take a record."""

    def __init__(self, topic: str, why: str) -> None:
        super().__init__(topic, why)
        self.topic, self.why = topic, why

    def __str__(self) -> str:
        return f"A record for {self.topic} was not taken: {self.why}."


def write_records(client: ClientConfig, topic: str, records: Iterable[tuple[bytes | None, bytes | None]], deadline_s: float = 30.0) -> int:
    """Write records, keyed as Java's clients would; returns how many, when all are acknowledged."""
    producer = Producer({**COMMON, **client, "enable.idempotence": True, "partitioner": "murmur2_random", "linger.ms": 5})
    failed: list[KafkaError] = []
    count = 0

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    for key, value in records:
        while True:
            try:
                producer.produce(topic, value, key, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
        count += 1
    if producer.flush(deadline_s):
        raise BrokerUnavailable(str(client.get("bootstrap.servers")), "write records", f"no acknowledgement in {deadline_s:.0f} s")
    if failed:
        raise RecordRefused(topic, failed[0].str())
    return count


def follow_records(client: ClientConfig, group: str, starts: Mapping[Partition, int], *, to_end: bool) -> Iterator[Shown]:
    """Committed records from these offsets on, as they come; `to_end` stops at what is there now."""
    ends = LogOffsets(client).ends(starts) if to_end else {}
    open_ones = {partition for partition, end in ends.items() if end > starts[partition]}
    if to_end and not open_ones:
        return
    consumer = Consumer(consumer_config(client, group))
    consumer.assign([TopicPartition(p.topic, p.number, offset) for p, offset in starts.items()])
    try:
        while not to_end or open_ones:
            message = consumer.poll(0.2)
            if message is None:
                continue
            partition = Partition(message.topic() or "", message.partition() or 0)
            error, offset = message.error(), message.offset() or 0
            if error is None:
                yield Shown(partition, offset, message.timestamp()[1], message.key(), message.value(), tuple(_headers(message)))
            elif error.code() == KafkaError._PARTITION_EOF:
                if offset >= ends.get(partition, offset + 1):
                    open_ones.discard(partition)
            elif not error.retriable():
                raise KafkaException(error)
    finally:
        consumer.close()


def _headers(message: Message) -> list[tuple[str, bytes | None]]:
    return cast("list[tuple[str, bytes | None]]", message.headers() or [])  # the client's hint admits texts, which it never gives


class GroupOffsets:
    """The committed offsets of one group."""

    def __init__(self, client: ClientConfig, group: str) -> None:
        self._admin, self._group, self._brokers = admin_client(client), group, str(client.get("bootstrap.servers"))

    def committed(self, deadline_s: float = 30.0) -> dict[Partition, int]:
        """Every offset the group has."""
        end = time.monotonic() + deadline_s
        while True:
            try:
                futures = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self._group)], request_timeout=5.0)
                found = futures[self._group].result().topic_partitions
                return {Partition(tp.topic, tp.partition): tp.offset for tp in found if tp.offset >= 0}
            except KafkaException as error:
                cause = cast("KafkaError", error.args[0])
                if cause.code() == KafkaError.GROUP_ID_NOT_FOUND:
                    return {}
                if time.monotonic() > end:
                    raise BrokerUnavailable(self._brokers, "ask for a group's offsets", cause.str()) from error

    def delete(self, deadline_s: float = 30.0) -> None:
        """Delete the group with its offsets; one that is not there is fine."""
        end = time.monotonic() + deadline_s
        while True:
            try:
                self._admin.delete_consumer_groups([self._group], request_timeout=5.0)[self._group].result()
            except KafkaException as error:
                cause = cast("KafkaError", error.args[0])
                if cause.code() == KafkaError.GROUP_ID_NOT_FOUND:
                    return
                if time.monotonic() > end:
                    raise BrokerUnavailable(self._brokers, "delete a group's offsets", cause.str()) from error
            else:
                return
