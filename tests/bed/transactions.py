"""Transactions left undecided on purpose, and a bystander who tells what became of them.

Broker facts are told in these words: the high end of a log, its stable end, and the traces of a transaction.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from streamlet.local import LocalKafka
from tests.bed.waiting import eventually

QUICK = {"linger.ms": 0, "retry.backoff.ms": 5, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "log_level": 0}
NO_OFFSET = -1001
PATIENCE_S = 40.0


class Ends(NamedTuple):
    """Where a partition ends: for readers of everything, and for readers of committed records."""

    high: int
    stable: int


def initialised(kafka: LocalKafka, transactional_id: str, **settings: object) -> Producer:
    """A producer that has just taken this id, from whomever had it."""
    producer = Producer({**QUICK, **kafka.client_config, "transactional.id": transactional_id, **settings})
    producer.init_transactions(30)
    return producer


def refusal(call: Callable[[], object]) -> KafkaError | None:
    """The error that a client's call ends with; None if it succeeds."""
    try:
        call()
    except KafkaException as error:
        cause = error.args[0]
        assert isinstance(cause, KafkaError), "the client puts its KafkaError there"
        return cause
    return None


class Witness:
    """A bystander with connections of its own, kept warm: sees what any other client could see. Close it at the end."""

    def __init__(self, kafka: LocalKafka) -> None:
        self._config = {key: value for key, value in QUICK.items() if key != "linger.ms"} | kafka.client_config
        self._admin = AdminClient(self._config)
        self._consumers: dict[tuple[str, bool], Consumer] = {}

    def ends(self, topic: str, number: int) -> Ends:
        """Both ends; the stable one is asked first, so that it can never seem to have overtaken the other."""
        (stable,) = self.stable_ends(topic, [number])
        (high,) = self.high_ends(topic, [number])
        return Ends(high, stable)

    def high_ends(self, topic: str, partitions: Sequence[int]) -> list[int]:
        """High watermarks."""
        return self._latest(topic, partitions, IsolationLevel.READ_UNCOMMITTED)

    def stable_ends(self, topic: str, partitions: Sequence[int]) -> list[int]:
        """Last stable offsets: no transaction that began before one is undecided."""
        return self._latest(topic, partitions, IsolationLevel.READ_COMMITTED)

    def _latest(self, topic: str, partitions: Sequence[int], isolation: IsolationLevel) -> list[int]:
        wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in partitions}
        deadline = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(KafkaException):  # a partition between two leaders
                asked = self._admin.list_offsets(wanted, isolation_level=isolation, request_timeout=5)
                ends = [asked[partition].result().offset for partition in wanted]
                if min(ends) >= 0:
                    return ends  # the client may also report an end below zero where it should report an error
            assert time.monotonic() < deadline, f"{topic} tells no end"
            self._admin = AdminClient(self._config)  # after an election an old one can go on like that for a long time

    def records(self, topic: str, number: int, *, committed_only: bool = True) -> list[tuple[bytes | None, bytes | None]]:
        """Keys and values that a reader gets from the beginning to the end it is told of."""
        consumer = self._consumer("bystander", committed_only=committed_only)
        consumer.assign([TopicPartition(topic, number, 0)])
        read: list[Message] = []

        def is_at_the_end() -> bool:
            messages = consumer.consume(1000, 0.01)
            read.extend(message for message in messages if message.error() is None)
            return any(code_of(message) == KafkaError._PARTITION_EOF for message in messages)

        eventually(is_at_the_end, PATIENCE_S, f"the end of {topic}/{number}")
        consumer.unassign()
        return [(message.key(), message.value()) for message in read]

    def offset(self, group: str, topic: str, number: int, *, stable: bool = True, within_s: float = PATIENCE_S) -> int | None:
        """The group's committed offset (`NO_OFFSET` if there is none); None if the broker does not answer in time."""
        consumer = self._consumer(group, committed_only=stable)
        try:
            return consumer.committed([TopicPartition(topic, number)], timeout=within_s)[0].offset
        except KafkaException as error:
            if error.args[0].code() != KafkaError._TIMED_OUT:
                raise
            return None

    def consumer(self, group: str, *, committed_only: bool = True) -> Consumer:
        """A new consumer that assigns and commits by hand and is told where a partition ends."""
        isolation = "read_committed" if committed_only else "read_uncommitted"
        reading = {"enable.partition.eof": True, "enable.auto.commit": False, "fetch.wait.max.ms": 10, "auto.offset.reset": "earliest"}
        return Consumer({**self._config, **reading, "group.id": group, "isolation.level": isolation})

    def _consumer(self, group: str, *, committed_only: bool) -> Consumer:
        if (group, committed_only) not in self._consumers:
            self._consumers[group, committed_only] = self.consumer(group, committed_only=committed_only)
        return self._consumers[group, committed_only]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for consumer in self._consumers.values():
            consumer.close()


def code_of(message: Message) -> int | None:
    """The code of an event among the records; None for a record."""
    error = message.error()
    return None if error is None else error.code()


def send_offset(kafka: LocalKafka, producer: Producer, group: str, offset: TopicPartition) -> None:
    """Put a group's offset into the open transaction as a worker does: without being a member, so without a generation."""
    outsider = Consumer({**kafka.client_config, "group.id": group, "isolation.level": "read_uncommitted", "log_level": 0})
    try:
        # The client never comes back from sending offsets to a group whose coordinator is not there yet: wait for it here.
        outsider.committed([offset], timeout=PATIENCE_S)
        producer.send_offsets_to_transaction([offset], outsider.consumer_group_metadata(), 30)
    finally:
        outsider.close()


class Undecided:
    """A transaction on partitions that no other one touches and on the first one's offset, all acknowledged, not decided."""

    def __init__(self, kafka: LocalKafka, producer: Producer, partitions: tuple[str, Sequence[int]], group: str) -> None:
        self.producer, self._group = producer, group
        self._topic, self._partitions = partitions
        producer.begin_transaction()
        for number in self._partitions:
            producer.produce(self._topic, b"written", partition=number)
        assert producer.flush(30) == 0, "every record is acknowledged"
        send_offset(kafka, producer, group, TopicPartition(self._topic, self._partitions[0], 7))

    def commit(self, within_s: float = 30.0) -> KafkaError | None:
        """Decide it; the error if the client reports one, which says nothing about the decision."""
        return refusal(lambda: self.producer.commit_transaction(within_s))

    def unsettled(self, witness: Witness) -> list[int]:
        """Partitions on which the decision is not written yet."""
        stable = witness.stable_ends(self._topic, self._partitions)  # asked first: the other only grows
        high = witness.high_ends(self._topic, self._partitions)
        return [number for number, *ends in zip(self._partitions, stable, high, strict=True) if ends[0] < ends[1]]

    def traces(self, witness: Witness) -> list[bool]:
        """For each partition and then for the offset: is it there? All or none, or the transaction was torn."""
        on_partitions = [(None, b"written") in witness.records(self._topic, number) for number in self._partitions]
        offset = witness.offset(self._group, self._topic, self._partitions[0])
        assert offset in {7, NO_OFFSET}, f"{offset} is no answer about a decided transaction"
        return [*on_partitions, offset == 7]
