"""The worker's input consumer against a real broker: what is held back comes later, once and in order."""

import pytest
from confluent_kafka import Producer

from streamlet.changelog.replay import Partition
from streamlet.local import LocalKafka
from streamlet.runtime.kafka import BrokerWatch, InputConsumer
from tests.bed.waiting import eventually

pytestmark = pytest.mark.broker

COUNT = 30_000


def test_a_held_partition_stays_with_the_broker_and_goes_on_without_a_gap(kafka: LocalKafka, unique: str) -> None:
    kafka.create_topic(unique)
    producer = Producer(kafka.client_config)
    for _ in range(COUNT):
        producer.produce(unique, b"x" * 50)
    assert producer.flush(30) == 0
    partition, offsets = Partition(unique, 0), list[int | None]()
    consumer = InputConsumer(kafka.client_config, unique, BrokerWatch())

    def take() -> int:
        offsets.extend(message.offset() for message in consumer.take(500, 0.05) if message.error() is None)
        return len(offsets)

    try:
        consumer.add({partition: 0})
        eventually(lambda: take() >= 1000, 30)
        consumer.hold({partition})
        held_at = len(offsets)
        for _ in range(10):
            take()
        assert len(offsets) == held_at, "nothing comes while the partition is held"

        consumer.hold(set())
        eventually(lambda: take() >= COUNT, 30)
        assert offsets == list(range(COUNT))
    finally:
        consumer.close()
