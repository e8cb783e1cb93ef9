"""A source topic gets more partitions between two starts: without state the app takes them up, with state it refuses to start."""

from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from streamlet.local import LocalKafka
from tests.bed.engine import CountedWords, KeptEntries
from tests.bed.processes import Processes

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]


def grow(kafka: LocalKafka, topic: str, partitions: int) -> None:
    admin = AdminClient(kafka.client_config)
    for done in admin.create_partitions([NewPartitions(topic, partitions)]).values():
        done.result(30)


def test_new_partitions_of_a_source_without_state_are_processed_from_the_next_start_on(
    kafka: LocalKafka, processes: Processes, unique: str, tmp_path: Path
) -> None:
    app, random = CountedWords(kafka, processes, unique, tmp_path, partitions=2), Random(1)
    for partitions in (2, 5, 7):
        if partitions > 2:
            grow(kafka, f"{unique}-lines", partitions)
        producer = Producer(kafka.client_config)  # an older one does not know the new partitions yet
        for number in range(partitions):
            line = " ".join(random.choices("abcdefgh", k=5))
            producer.produce(f"{unique}-lines", line, partition=number)
            app.expected.update(line.split())
        assert producer.flush(30) == 0
        worker = app.start_worker()
        app.assert_exactly_once()
        worker.terminate()
        assert worker.wait(20) == 0, worker.log()


def test_new_partitions_of_a_source_under_state_are_refused_with_the_way_on(
    kafka: LocalKafka, processes: Processes, unique: str, tmp_path: Path
) -> None:
    app = KeptEntries(kafka, processes, unique, tmp_path, partitions=2)
    app.feed([("a", 1), ("b", 2)])
    app.run_once()
    grow(kafka, app.topic, 3)

    worker = app.start_worker()

    assert worker.wait(30) == 2
    assert "- 2 partitions" in worker.log()
    assert "+ 3 partitions" in worker.log()
    assert f"streamlet reset {unique}" in worker.log()
    assert app.stored() == {"a": 1, "b": 2}, "a refused start touches nothing"
