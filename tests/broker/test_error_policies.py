"""What happens to records that fail, and to tasks whose input is gone: on a real broker."""

import re
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from streamlet.ids import TaskId
from streamlet.local import LocalKafka
from streamlet.rebalance.kafka import write_wish
from streamlet.rebalance.records import Wish, WishKind
from tests.bed.engine import AppUnderTest, read_numbers
from tests.bed.processes import Processes
from tests.bed.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]

POLICY_APP = """
import os
from streamlet import App, Value, dead_letter, skip

name = os.environ["TEST_APP"]
app = App(name)
letters = dead_letter(name + "-dead", retries=1)
orders = app.topic(name + "-orders", key=str, value=int, errors=letters)
sums = app.topic(name + "-sums", key=str, value=int)
seen = app.topic(name + "-seen", key=str, value=int)

@app.process(orders, to=sums, errors=letters)
def add(number: int, total: Value[int]) -> int:
    now = total.add(number)
    if number == 13:
        raise ValueError("thirteen is refused")
    return now

@app.process(orders, to=seen, errors=skip)
def glance(number: int, count: Value[int]) -> int:
    nth = count.add(1)
    if number == 7:
        raise RuntimeError("seven is skipped")
    return nth
"""

FAIL_APP = """
import os
from streamlet import App, Value

name = os.environ["TEST_APP"]
app = App(name)
orders = app.topic(name + "-orders", key=str, value=int)
sums = app.topic(name + "-sums", key=str, value=int)

@app.process(orders, to=sums)
def add(number: int, total: Value[int]) -> int:
    now = total.add(number)
    if number == 13:
        raise ValueError("thirteen is refused")
    return now
"""


class Orders(AppUnderTest):
    """An app that sums orders, with its topics."""

    def __init__(self, kafka: LocalKafka, processes: Processes, name: str, folder: Path, source: str, *, partitions: int) -> None:
        super().__init__(kafka, processes, name, folder, source)
        self.orders = f"{name}-orders"
        for topic in ("orders", "sums", "seen", "dead"):
            kafka.create_topic(f"{name}-{topic}", partitions=partitions)

    def send(self, key: str, value: int | bytes, *, partition: int = 0, headers: list[tuple[str, bytes]] | None = None) -> None:
        data = value if isinstance(value, bytes) else value.to_bytes(8, "big")
        self.producer.produce(self.orders, data, key, partition, headers=headers)
        assert self.producer.flush(30) == 0

    def sums(self, count: int) -> dict[str, list[int]]:
        return read_numbers(self.kafka, f"{self.name}-sums", count)


def read_letters(kafka: LocalKafka, topic: str, count: int) -> list[tuple[bytes, bytes, list[tuple[str, bytes]]]]:
    """Committed records with their headers, in order."""
    consumer = Consumer({**kafka.client_config, "group.id": "letters", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[bytes, bytes, list[tuple[str, bytes]]]] = []

    def enough() -> bool:
        messages = [message for message in consumer.consume(count, 0.2) if message.error() is None]
        found.extend((message.key(), message.value(), message.headers() or []) for message in messages)
        return len(found) >= count

    try:
        eventually(enough, 60, f"{count} dead letters")
    finally:
        consumer.close()
    return found


def test_skipped_and_dead_letters_leave_no_trace_but_their_own(
    kafka: LocalKafka, processes: Processes, unique: str, tmp_path: Path
) -> None:
    app = Orders(kafka, processes, unique, tmp_path, POLICY_APP, partitions=1)
    app.send("a", 1)
    app.send("a", 13, headers=[("trace", b"t-1")])
    app.send("a", b"three")
    app.send("a", 7)
    app.send("a", 2)

    worker = app.start_worker()
    letters = read_letters(kafka, f"{unique}-dead", 2)
    sums, seen = app.sums(3), read_numbers(kafka, f"{unique}-seen", 3)
    worker.terminate()

    assert worker.wait(20) == 0
    assert sums == {"a": [1, 8, 10]}
    assert seen == {"a": [1, 2, 3]}
    (failed_key, failed, failed_headers), (bad_key, bad, bad_headers) = letters
    assert (failed_key, failed) == (b"a", (13).to_bytes(8, "big"))
    assert failed_headers == [
        ("trace", b"t-1"),
        ("streamlet-topic", app.orders.encode()),
        ("streamlet-partition", b"0"),
        ("streamlet-offset", b"1"),
        ("streamlet-handler", b"add"),
        ("streamlet-error", b"ValueError"),
        ("streamlet-reason", b"thirteen is refused"),
    ]
    assert (bad_key, bad) == (b"a", b"three")
    told = dict(bad_headers)
    assert (told["streamlet-offset"], told["streamlet-topic"]) == (b"2", app.orders.encode())
    assert told["streamlet-reason"]


def test_a_failure_parks_its_task_while_others_go_on_and_a_wish_lets_it_pass(
    kafka: LocalKafka, processes: Processes, unique: str, tmp_path: Path
) -> None:
    app = Orders(kafka, processes, unique, tmp_path, FAIL_APP, partitions=2)
    app.send("a", 1, partition=0)
    app.send("a", 13, partition=0)
    app.send("a", 2, partition=0)
    app.send("b", 5, partition=1)

    worker = app.start_worker()
    stopped = worker.wait_for(r"task stopped .*", 60)[0]
    app.send("b", 6, partition=1)
    while_parked = app.sums(3)
    write_wish(kafka.client_config, unique, Wish(WishKind.SKIP, str(TaskId(app.orders, 0)), int(time.time() * 1000)))
    worker.wait_for("task resumed", 30)
    after = app.sums(4)
    worker.terminate()

    assert worker.wait(20) == 0
    assert f"'add' failed at {app.orders}/0 offset 1: ValueError: thirteen is refused" in stopped
    assert while_parked == {"a": [1], "b": [5, 11]}
    assert after == {"a": [1, 3], "b": [5, 11]}


def test_input_deleted_before_it_was_processed_stops_its_task_and_no_other(
    kafka: LocalKafka, processes: Processes, unique: str, tmp_path: Path
) -> None:
    app = Orders(kafka, processes, unique, tmp_path, FAIL_APP, partitions=2)
    app.send("a", 1, partition=0)
    app.send("b", 5, partition=1)
    worker = app.start_worker()
    app.sums(2)
    app.wait_until_processed(app.orders)
    worker.terminate()
    assert worker.wait(20) == 0
    for number in (2, 3, 4):
        app.send("a", number, partition=0)
    app.send("b", 6, partition=1)
    admin = AdminClient(kafka.client_config)
    for future in admin.delete_records([TopicPartition(app.orders, 0, 3)]).values():
        future.result(20)

    worker = app.start_worker()
    sums = app.sums(3)
    stopped = worker.wait_for(r"task stopped .*", 30)[0]
    worker.terminate()

    assert worker.wait(20) == 0
    assert sums == {"a": [1], "b": [5, 11]}
    assert f"Task {app.orders}/0 stopped: {app.orders}/0 had to go on at offset 1, and the topic now holds 3 to 4" in stopped
    assert "Choose:" in stopped


def test_offsets_that_expired_stop_the_tasks_with_the_choice_and_never_start_over_silently(
    kafka: LocalKafka, processes: Processes, unique: str, tmp_path: Path
) -> None:
    app = Orders(kafka, processes, unique, tmp_path, FAIL_APP, partitions=1)
    app.send("a", 1)
    worker = app.start_worker()
    app.sums(1)
    app.wait_until_processed(app.orders)
    worker.terminate()
    assert worker.wait(20) == 0
    admin = AdminClient(kafka.client_config)
    for future in admin.delete_consumer_groups([unique]).values():
        future.result(20)
    app.send("a", 2)

    worker = app.start_worker()

    assert worker.wait(60) == 2
    assert re.search(rf"Task {app.orders}/0 stopped: {app.orders}/0 has no committed offset although it ran before", worker.log())
    assert "Choose:" in worker.log()
    assert app.sums(1) == {"a": [1]}
