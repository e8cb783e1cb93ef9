"""Three real brokers: one is lost, work goes on, it comes back and catches up."""

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from streamlet.local import LocalKafka
from tests.bed.waiting import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]


def commit_numbers(producer: Producer, topic: str, numbers: range) -> None:
    """One transaction with these numbers."""
    producer.begin_transaction()
    for number in numbers:
        producer.produce(topic, b"%d" % number, b"k")
    producer.commit_transaction(60)


def test_transactions_go_on_while_a_broker_is_down_and_it_catches_up(cluster: LocalKafka, unique: str) -> None:
    cluster.create_topic(unique, partitions=3)
    producer = Producer({**cluster.client_config, "transactional.id": unique, "transaction.timeout.ms": 60_000, "retry.backoff.ms": 20})
    consumer = Consumer({**cluster.client_config, "group.id": unique, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(unique, partition, 0) for partition in range(3)])
    seen: list[int] = []

    def has_seen(count: int) -> bool:
        seen.extend(int(message.value() or b"-1") for message in consumer.consume(100, 0.1) if message.error() is None)
        return len(seen) >= count

    try:
        producer.init_transactions(60)
        commit_numbers(producer, unique, range(10))
        eventually(lambda: has_seen(10), within_s=30)

        cluster.kill(2)
        commit_numbers(producer, unique, range(10, 20))
        eventually(lambda: has_seen(20), within_s=60)
        assert not cluster.is_alive(2)

        cluster.restart(2)  # returns when every copy it holds is in sync
        commit_numbers(producer, unique, range(20, 30))
        eventually(lambda: has_seen(30), within_s=30)
    finally:
        consumer.close()
        if not cluster.is_alive(2):
            cluster.restart(2)

    assert cluster.answering() == {1, 2, 3}
    assert sorted(seen) == list(range(30))
