"""The Kafka client's edge for everything that reads changelogs: settings, end offsets, the replay consumer.

Two facts decide this file. "The end" of a partition is its high watermark, asked with READ_UNCOMMITTED: the last
stable offset lags a commit that has already returned. And the end is reached when an end-of-partition event names
an offset at or behind it: markers and aborted records are never delivered, so no record's offset tells.
"""

import itertools
import logging
import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Protocol, cast

from confluent_kafka import (
    OFFSET_END,
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import ListOffsetsResultInfo, OffsetSpec
from confluent_kafka.admin._topic import TopicDescription
from confluent_kafka.cimpl import NewTopic

from streamlet.changelog.replay import Partition, Read
from streamlet.errors import RetryError

ClientConfig = Mapping[str, str | int | float | bool]

# The client's own words about a fenced producer only alarm people: what matters reaches us as errors.
CLIENT_LOG: Final = logging.getLogger("streamlet.client")
CLIENT_LOG.addFilter(lambda _record: logging.getLogger("streamlet").isEnabledFor(logging.DEBUG))

# Every client: reconnect quickly, and never wait a second to fetch again after a full queue (librdkafka's default).
COMMON: Final[dict[str, str | int | float | bool]] = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 1000,
    "log.connection.close": False,
    "log_level": 0,  # what matters reaches us through calls and callbacks; lines about each retry only alarm people
    "allow.auto.create.topics": False,
}
CONSUMER: Final[dict[str, str | int | float | bool]] = {
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "fetch.queue.backoff.ms": 5,
    "fetch.wait.max.ms": 10,
    "fetch.error.backoff.ms": 20,
    "queued.max.messages.kbytes": 16_384,
}

_ASK_AGAIN_S: Final = 0.03
LATEST: Final = cast("OffsetSpec", OffsetSpec.latest())  # type: ignore[no-untyped-call]  # the client leaves it untyped
EARLIEST: Final = cast("OffsetSpec", OffsetSpec.earliest())  # type: ignore[no-untyped-call]  # likewise


class BrokerUnavailable(RetryError):
    """The brokers did not answer in time."""

    def __init__(self, brokers: str, what: str, why: str) -> None:
        super().__init__(brokers, what, why)
        self.brokers, self.what, self.why = brokers, what, why

    def __str__(self) -> str:
        return (
            f"Kafka at {self.brokers} did not answer while trying to {self.what}: {self.why}. "
            f"Is it running? `streamlet doctor --brokers {self.brokers}` looks closer; `streamlet kafka up` starts one here."
        )


def reason_of(error: KafkaException) -> str:
    """The client's error in words, without its codes."""
    return cast("KafkaError", error.args[0]).str()  # confluent_kafka always puts its KafkaError there


def consumer_config(client: ClientConfig, group: str) -> dict[str, str | int | float | bool]:
    """Settings of a consumer that is assigned by hand. The group only names whose offsets it may ask for."""
    return {**COMMON, **CONSUMER, **client, "group.id": group}


class Metadata(Protocol):
    """What `list_topics` tells, as far as we ask."""

    @property
    def topics(self) -> Mapping[str, object]: ...


class CommittedOffsets(Protocol):
    """What `list_consumer_group_offsets` tells."""

    @property
    def topic_partitions(self) -> list[TopicPartition]: ...


class Admin(Protocol):
    """The client's admin calls as we use them, with the types it leaves out."""

    def list_offsets(
        self, partitions: dict[TopicPartition, OffsetSpec], **options: object
    ) -> dict[TopicPartition, Future[ListOffsetsResultInfo]]: ...
    def describe_topics(self, topics: TopicCollection, **options: object) -> dict[str, Future[TopicDescription]]: ...
    def create_topics(self, topics: list[NewTopic], **options: object) -> dict[str, Future[None]]: ...
    def delete_topics(self, topics: list[str], **options: object) -> dict[str, Future[None]]: ...
    def delete_records(self, positions: list[TopicPartition], **options: object) -> dict[TopicPartition, Future[object]]: ...
    def list_topics(self, *, timeout: float) -> Metadata: ...
    def list_consumer_group_offsets(
        self, groups: list[ConsumerGroupTopicPartitions], **options: object
    ) -> dict[str, Future[CommittedOffsets]]: ...
    def delete_consumer_groups(self, groups: list[str], **options: object) -> dict[str, Future[None]]: ...


def admin_client(client: ClientConfig) -> Admin:
    """An admin client with the app's connection settings."""
    return cast("Admin", AdminClient({**COMMON, **client}))


class LogOffsets:
    """Asks where partitions begin and end. One connection, many questions."""

    def __init__(self, client: ClientConfig) -> None:
        self._client, self._admin = client, admin_client(client)
        self._brokers = str(client.get("bootstrap.servers"))

    def ends(self, partitions: Iterable[Partition], deadline_s: float = 30.0) -> dict[Partition, int]:
        """High watermarks, whatever transactions are open."""
        return self._ask(partitions, LATEST, deadline_s)

    def starts(self, partitions: Iterable[Partition], deadline_s: float = 30.0) -> dict[Partition, int]:
        """First offsets still in the log."""
        return self._ask(partitions, EARLIEST, deadline_s)

    def _ask(self, partitions: Iterable[Partition], spec: OffsetSpec, deadline_s: float) -> dict[Partition, int]:
        wanted = {TopicPartition(p.topic, p.number): spec for p in partitions}
        end = time.monotonic() + deadline_s
        while wanted:
            try:
                futures = self._admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=5.0)
                return {_plain(tp): _known(future.result().offset) for tp, future in futures.items()}
            except KafkaException as error:
                if time.monotonic() >= end:
                    raise BrokerUnavailable(self._brokers, "ask for offsets", reason_of(error)) from error
                time.sleep(_ASK_AGAIN_S)
                self._admin = admin_client(self._client)  # one that saw an election may go on answering from before it
        return {}


def _known(offset: int) -> int:
    """An offset; around an election the client reports success without one."""
    if offset < 0:
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    return offset


@dataclass(frozen=True, slots=True)
class Answers:
    """What the brokers say: a group's committed next offsets, first and next offsets of logs."""

    committed: Mapping[Partition, int | None]
    starts: Mapping[Partition, int]
    ends: Mapping[Partition, int]


class Inquiry:
    """Questions whose answers are fetched later, so that a loop goes on meanwhile; asked again until all are answered.

    Committed offsets are asked require-stable: while a transaction on them is undecided there is no answer, never an old one.
    """

    def __init__(self, admin: Admin, client: ClientConfig, group: str, sources: Collection[Partition], logs: Collection[Partition]) -> None:
        """`admin` is a connection that stands already."""
        self._client, self._admin = client, admin
        self._group, self._sources, self._logs = group, tuple(sources), tuple({*sources, *logs})
        self.asked_at = time.monotonic()
        self._again_at = 0.0
        self._ask()

    def poll(self) -> Answers | None:
        """The answers, or None while they are on the way."""
        if self._again_at:
            if time.monotonic() >= self._again_at:
                self._again_at = 0.0
                self._ask()
            return None
        offsets = [*self._starts.values(), *self._ends.values()]
        if not all(future.done() for future in offsets) or not all(future.done() for future in self._offsets.values()):
            return None
        try:
            committed = [found for future in self._offsets.values() for found in future.result().topic_partitions]
            for found in committed:
                if found.error is not None:
                    raise KafkaException(found.error)
            return Answers(
                {Partition(found.topic, found.partition): found.offset if found.offset >= 0 else None for found in committed},
                {_plain(partition): _known(future.result().offset) for partition, future in self._starts.items()},
                {_plain(partition): _known(future.result().offset) for partition, future in self._ends.items()},
            )
        except KafkaException:
            self._again_at = time.monotonic() + _ASK_AGAIN_S
            self._admin = admin_client(self._client)  # one that saw an election may go on answering from before it
            return None

    def _ask(self) -> None:
        wanted = [TopicPartition(partition.topic, partition.number) for partition in self._logs]
        level = IsolationLevel.READ_UNCOMMITTED
        self._ends = self._admin.list_offsets(dict.fromkeys(wanted, LATEST), isolation_level=level, request_timeout=5.0) if wanted else {}
        self._starts = (
            self._admin.list_offsets(dict.fromkeys(wanted, EARLIEST), isolation_level=level, request_timeout=5.0) if wanted else {}
        )
        self._offsets: dict[str, Future[CommittedOffsets]] = {}
        if self._sources:
            asked = ConsumerGroupTopicPartitions(self._group, [TopicPartition(p.topic, p.number) for p in self._sources])
            self._offsets = self._admin.list_consumer_group_offsets([asked], require_stable=True, request_timeout=5.0)


def _plain(partition: TopicPartition) -> Partition:
    return Partition(partition.topic, partition.partition)


class ReplayConsumer:
    """Reads committed records of changelog partitions in slices. Its only user is the worker's loop (or the bulk child)."""

    def __init__(self, client: ClientConfig, group: str) -> None:
        self._consumer = Consumer(consumer_config(client, group))
        self._brokers = str(client.get("bootstrap.servers"))

    def keep_warm(self, partitions: Collection[Partition]) -> None:
        """Hold connections to the leaders of these partitions open, reading none."""
        held = [TopicPartition(partition.topic, partition.number, OFFSET_END) for partition in partitions]
        self._consumer.incremental_assign(held)
        self._consumer.pause(held)

    def add(self, partition: Partition, offset: int) -> None:
        """Begin to read a partition at `offset`."""
        self._consumer.incremental_assign([TopicPartition(partition.topic, partition.number, offset)])

    def remove(self, partition: Partition) -> None:
        """Stop reading a partition."""
        self._consumer.incremental_unassign([TopicPartition(partition.topic, partition.number)])

    def read(self, most: int, timeout_s: float) -> list[Read]:
        """Take what is there, grouped by partition, in order; `end` is set where the end of the partition was seen."""
        return group_reads(self._consumer.consume(most, timeout_s))

    def known_end(self, partition: Partition) -> int | None:
        """Where a partition ended when it was last fetched: asks no broker."""
        _, end = self._consumer.get_watermark_offsets(TopicPartition(partition.topic, partition.number), cached=True)
        return end if end >= 0 else None

    def close(self) -> None:
        """Leave the brokers."""
        self._consumer.close()


def group_reads(messages: list[Message]) -> list[Read]:
    """Turn client messages into plain values, one `Read` per partition."""
    found: dict[Partition, Read] = {}
    if has_events(messages):
        for message in messages:
            if message.error() is not None:
                _note_event(found, message)
        messages = [message for message in messages if message.error() is None]
    for partition, run in split_runs(messages, one_topic=False):
        read = found.setdefault(partition, Read(partition))
        last = run[-1].offset()
        assert last is not None, "a delivered record has an offset"
        read.records.extend(cast("Iterable[tuple[bytes, bytes | None]]", zip(map(Message.key, run), map(Message.value, run), strict=True)))
        read.offset = max(read.offset, last + 1)
    return list(found.values())


def _note_event(found: dict[Partition, Read], message: Message) -> None:
    error, topic, number, offset = message.error(), message.topic(), message.partition(), message.offset()
    assert error is not None, "only events come here"
    if topic is None or number is None:
        return
    partition = Partition(topic, number)
    read = found.setdefault(partition, Read(partition))
    if error.code() == KafkaError._PARTITION_EOF:
        assert offset is not None, "an end-of-partition event names its offset"
        read.end = read.offset = offset
    elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        read.out_of_range = True


def split_runs(messages: list[Message], *, one_topic: bool) -> list[tuple[Partition, list[Message]]]:
    """Records in the runs of one partition that they come in. Nothing is done per record but what the client does in C.

    With one topic only the partition is compared, which halves the time; events are taken out by the caller before.
    """
    key = Message.partition if one_topic else _topic_and_partition
    runs = [list(run) for _, run in itertools.groupby(messages, key)]
    return [(_partition_of(run[0]), run) for run in runs]


def has_events(messages: list[Message]) -> bool:
    """Whether anything but records is among them."""
    return any(map(Message.error, messages))


def _topic_and_partition(message: Message) -> tuple[str | None, int | None]:
    return message.topic(), message.partition()


def _partition_of(message: Message) -> Partition:
    topic, number = message.topic(), message.partition()
    assert topic is not None, "what a consumer gives has a topic"
    assert number is not None, "what a consumer gives has a partition"
    return Partition(topic, number)
