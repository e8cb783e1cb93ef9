"""The Kafka client's edge for topics: describe and create."""

import time
from collections.abc import Iterable, Mapping
from typing import Final, cast

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.cimpl import NewTopic as ClientNewTopic

from streamlet.changelog.kafka import BrokerUnavailable, ClientConfig, admin_client, reason_of
from streamlet.changelog.replay import Partition
from streamlet.topics.facts import NewTopic, TopicFacts

_ABSENT: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)


class Topics:
    """Asks and tells the brokers about topics."""

    def __init__(self, client: ClientConfig) -> None:
        self._admin = admin_client(client)
        self._brokers = str(client.get("bootstrap.servers"))

    def wait_for_broker(self, deadline_s: float) -> None:
        """Return when a broker answers."""
        end = time.monotonic() + deadline_s
        while True:
            try:
                self._admin.list_topics(timeout=2.0)
            except KafkaException as error:
                if time.monotonic() > end:
                    raise BrokerUnavailable(self._brokers, "connect", reason_of(error)) from error
            else:
                return

    def names(self, deadline_s: float = 30.0) -> frozenset[str]:
        """Every topic there is."""
        end = time.monotonic() + deadline_s
        while True:
            try:
                return frozenset(self._admin.list_topics(timeout=5.0).topics)
            except KafkaException as error:
                if time.monotonic() > end:
                    raise BrokerUnavailable(self._brokers, "list topics", reason_of(error)) from error

    def describe(self, names: Iterable[str], deadline_s: float = 30.0) -> dict[str, TopicFacts]:
        """The topics of these that exist."""
        wanted = sorted(set(names))
        if not wanted:
            return {}
        end = time.monotonic() + deadline_s
        while True:
            try:
                return self._describe(wanted)
            except KafkaException as error:
                if time.monotonic() > end:
                    raise BrokerUnavailable(self._brokers, "describe topics", reason_of(error)) from error

    def _describe(self, wanted: list[str]) -> dict[str, TopicFacts]:
        futures = self._admin.describe_topics(TopicCollection(wanted), request_timeout=5.0)
        found: dict[str, TopicFacts] = {}
        for name, future in futures.items():
            try:
                told = future.result()
            except KafkaException as error:
                if cast("KafkaError", error.args[0]).code() in _ABSENT:
                    continue
                raise
            found[name] = TopicFacts(name, len(told.partitions), str(told.topic_id))
        return found

    def create(self, topics: Iterable[NewTopic], deadline_s: float = 30.0) -> None:
        """Create topics and wait until the brokers know them; one that exists already is fine."""
        new = list(topics)
        if not new:
            return
        request = [ClientNewTopic(topic.name, topic.partitions, config=dict(topic.config)) for topic in new]
        for future in self._admin.create_topics(request, operation_timeout=deadline_s).values():
            try:
                future.result()
            except KafkaException as error:
                if cast("KafkaError", error.args[0]).code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise BrokerUnavailable(self._brokers, "create topics", reason_of(error)) from error
        names = {topic.name for topic in new}
        end = time.monotonic() + deadline_s
        while set(self.describe(names)) != names:
            if time.monotonic() > end:
                raise BrokerUnavailable(self._brokers, "create topics", f"{', '.join(sorted(names))} did not appear in {deadline_s:.0f} s")

    def delete(self, names: Iterable[str], deadline_s: float = 30.0) -> None:
        """Delete topics; one that is not there is fine."""
        wanted = sorted(set(names))
        if not wanted:
            return
        for future in self._admin.delete_topics(wanted, operation_timeout=deadline_s).values():
            try:
                future.result()
            except KafkaException as error:
                if cast("KafkaError", error.args[0]).code() not in _ABSENT:
                    raise BrokerUnavailable(self._brokers, "delete topics", reason_of(error)) from error

    def delete_below(self, positions: Mapping[Partition, int]) -> None:
        """Ask for the deletion of records below these offsets; nobody waits for it, the next time asks again."""
        wanted = [TopicPartition(partition.topic, partition.number, offset) for partition, offset in positions.items() if offset > 0]
        if wanted:
            self._admin.delete_records(wanted, request_timeout=10.0)
