"""What is asked of a running local Kafka: does it answer, who is in sync, topics, and a few records through it."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Final, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from streamlet.errors import ConfigError, RetryError

_POLL_S: Final = 0.05
_REQUEST_S: Final = 1.0
_ADMIN_S: Final = 30.0

_Operation = Callable[..., dict[str, Future[None]]]


class TopicRefused(ConfigError):
    """The broker refused a topic."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(topic, reason)
        self.topic, self.reason = topic, reason

    def __str__(self) -> str:
        return f"Topic '{self.topic}' was refused: {self.reason}. Choose another name or other settings, or delete the old topic first."


class NotReady(RetryError):
    """The brokers did not do what was waited for."""

    def __init__(self, what: str, bootstrap: str, seconds: float) -> None:
        super().__init__(what, bootstrap, seconds)
        self.what, self.bootstrap, self.seconds = what, bootstrap, seconds

    def __str__(self) -> str:
        return (
            f"After {self.seconds:.0f} s {self.what} ({self.bootstrap}). The machine may be overloaded; `streamlet kafka logs` tells more."
        )


class Admin:
    """A quiet admin client: it says nothing while a broker is not there yet."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._address = config["bootstrap.servers"]
        self._client = AdminClient({"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "log_level": 0, **config})

    def brokers(self) -> set[int]:
        """Ids of the brokers that a metadata answer lists; empty while nobody answers."""
        try:
            return {int(broker) for broker in self._client.list_topics(timeout=_REQUEST_S).brokers}
        except KafkaException:
            return set()

    def out_of_sync(self, broker: int) -> set[tuple[str, int]] | None:
        """Partitions that have a copy on this broker which is not in sync; None while nobody answers."""
        try:
            topics = self._client.list_topics(timeout=_REQUEST_S).topics
        except KafkaException:
            return None
        return {
            (name, number)
            for name, topic in topics.items()
            for number, partition in topic.partitions.items()
            if broker in partition.replicas and (broker not in partition.isrs or partition.leader < 0)
        }

    def create_topic(self, name: str, *, partitions: int, config: Mapping[str, str]) -> None:
        """Create a topic and wait until every partition has a leader."""
        topic = NewTopic(name, num_partitions=partitions, config=dict(config))
        _run(cast("_Operation", self._client.create_topics), name, topic)  # pyright: ignore[reportUnknownMemberType] - the client's types end here
        deadline = time.monotonic() + _ADMIN_S
        while not self._has_leaders(name, partitions):
            if time.monotonic() > deadline:
                raise NotReady(f"topic '{name}' has no leader for every partition", self._address, _ADMIN_S)
            time.sleep(_POLL_S)

    def _has_leaders(self, name: str, partitions: int) -> bool:
        try:
            found = self._client.list_topics(name, timeout=_REQUEST_S).topics[name].partitions
        except KafkaException:
            return False
        return len(found) == partitions and all(partition.leader >= 0 for partition in found.values())

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        _run(cast("_Operation", self._client.delete_topics), name, name)  # pyright: ignore[reportUnknownMemberType] - the client's types end here

    def topics(self) -> dict[str, int]:
        """The user's topics with their partition counts."""
        topics = self._client.list_topics(timeout=_ADMIN_S).topics
        return {name: len(topic.partitions) for name, topic in sorted(topics.items()) if not name.startswith("__")}


class Feeder:
    """A plain producer: what it sends arrives once, in order."""

    def __init__(self, config: Mapping[str, str], topic: str) -> None:
        self._topic, self._address = topic, config["bootstrap.servers"]
        self._producer = Producer({"enable.idempotence": True, "linger.ms": 5, "log_level": 0, **config})

    def send(self, value: str) -> None:
        """Send one record without a key."""
        self._producer.produce(self._topic, value.encode())
        self._producer.poll(0)

    def finish(self, timeout_s: float) -> None:
        """Wait until the broker has everything."""
        left = self._producer.flush(timeout_s)
        if left:
            raise NotReady(f"{left} records for topic '{self._topic}' were not taken by the broker", self._address, timeout_s)


class CommittedReader:
    """A plain consumer of text keys and whole numbers, from the beginning; it sees what is committed and nothing else."""

    def __init__(self, config: Mapping[str, str], topic: str, partitions: int) -> None:
        settings = {"group.id": f"{topic}-reader", "enable.auto.commit": False, "isolation.level": "read_committed"}
        speed = {"fetch.wait.max.ms": 10, "fetch.queue.backoff.ms": 5, "log_level": 0}
        self._consumer = Consumer({**settings, **speed, **config})
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])

    def read(self, timeout_s: float) -> list[tuple[str, int]]:
        """What has come, in the order of each partition."""
        messages = [message for message in self._consumer.consume(10_000, timeout_s) if message.error() is None]
        return [((message.key() or b"").decode(), int.from_bytes(message.value() or b"", "big", signed=True)) for message in messages]

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close()


def _run(operation: _Operation, name: str, subject: object) -> None:
    try:
        operation([subject], operation_timeout=_ADMIN_S)[name].result(_ADMIN_S)
    except KafkaException as error:
        raise TopicRefused(name, _reason(error)) from error


def _reason(error: KafkaException) -> str:
    cause = error.args[0]
    return cause.str() if isinstance(cause, KafkaError) else str(error)
