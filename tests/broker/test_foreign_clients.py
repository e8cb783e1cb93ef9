"""Clients that know nothing of streamlet: Kafka's own Java classes write what we process and read what we wrote."""

from collections import Counter, defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from streamlet.local import LocalKafka
from streamlet.murmur2 import partition_for
from tests.bed.engine import AppUnderTest
from tests.bed.java_clients import java_consume, java_produce
from tests.bed.processes import Processes
from tests.bed.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

VISITS_APP = """
import os
from streamlet import App, Record, Value

name = os.environ["TEST_APP"]
app = App(name)
visits = app.topic(name + "-visits", key=str, value=str)
totals = app.topic(name + "-totals", key=str, value=int)
shares = app.topic(name + "-shares", key=str, value=float)
pages = app.topic(name + "-pages", key=str, value=str)

@app.process(visits, to=totals)
def count(page: str, total: Value[int]) -> int:
    return total.add(1)

@app.process(visits, to=shares)
def share(page: str) -> float:
    return len(page) / 8

@app.process(visits, to=pages)
def turn(page: str, key: str) -> Record[str, str]:
    return Record(page, key)
"""
PARTITIONS = 5
NAMES = ["Ada", "grace", "Žofie", "李", "a", "user-0000000001", "x" * 50, "🙂"]


def test_java_writes_what_we_process_and_reads_what_we_wrote(kafka: LocalKafka, processes: Processes, unique: str, tmp_path: Path) -> None:
    app = AppUnderTest(kafka, processes, unique, tmp_path, VISITS_APP)
    for topic in ("visits", "totals", "shares", "pages"):
        kafka.create_topic(f"{unique}-{topic}", partitions=PARTITIONS)
    visits = [(name, f"page{number}") for number in range(6) for name in NAMES]

    java_produce(kafka, f"{unique}-visits", visits)
    worker = app.start_worker()
    app.wait_until_processed(f"{unique}-visits")
    totals = java_consume(kafka, f"{unique}-totals", len(visits), value="LongDeserializer")
    shares = java_consume(kafka, f"{unique}-shares", len(visits), value="DoubleDeserializer")
    pages = java_consume(kafka, f"{unique}-pages", len(visits), value="StringDeserializer")
    worker.terminate()

    assert worker.wait(20) == 0
    counted: dict[str, list[int]] = defaultdict(list)
    for _, name, total in totals:
        counted[name].append(int(total))
    assert counted == {name: [1, 2, 3, 4, 5, 6] for name in NAMES}
    assert {value for _, _, value in shares} == {"0.625"}
    assert Counter((key, value) for _, key, value in pages) == Counter((page, name) for name, page in visits)
    for partition, key, _ in (*totals, *pages):
        assert partition == partition_for(key.encode(), PARTITIONS), "our producer and Java's put a key in one place"
    assert where_keys_are(kafka, f"{unique}-visits", len(visits)) == {name: {partition_for(name.encode(), PARTITIONS)} for name in NAMES}


def where_keys_are(kafka: LocalKafka, topic: str, count: int) -> dict[str, set[int]]:
    """The partitions in which each key is found."""
    consumer = Consumer({**kafka.client_config, "group.id": "where", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: dict[str, set[int]] = defaultdict(set)
    seen = 0

    def all_read() -> bool:
        nonlocal seen
        for message in consumer.consume(count, 0.2):
            found[message.key().decode()].add(message.partition())
            seen += 1
        return seen >= count

    try:
        eventually(all_read, 30, "all records of the topic")
    finally:
        consumer.close()
    return dict(found)
