"""Kafka's own console producer and consumer, run from their jars: clients that know nothing of streamlet."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

from streamlet.local import LocalKafka
from streamlet.local.artefacts import fetch
from streamlet.local.jars import parse_lock, read_lock
from streamlet.local.java import find_java

LOCK = Path(__file__).with_name("kafka-tools-4.3.1.lock")
SERIALIZATION = "org.apache.kafka.common.serialization"


def _run(main: str, *arguments: str, given: str = "") -> str:
    tools = parse_lock("kafka-tools", LOCK.read_text("utf-8"))
    class_path = ":".join(str(path) for path in (*fetch(read_lock()), *fetch(tools)))
    command = [str(find_java().path), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", class_path, main, *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def java_produce(kafka: LocalKafka, topic: str, records: Iterable[tuple[str, str]]) -> None:
    """Write records with string keys and values; Java's own partitioner chooses where they go."""
    lines = "".join(f"{key}\t{value}\n" for key, value in records)
    _run(
        "org.apache.kafka.tools.ConsoleProducer",
        *("--bootstrap-server", kafka.bootstrap, "--topic", topic),
        *("--reader-property", "parse.key=true", "--reader-property", "key.separator=\t"),
        given=lines,
    )


def java_consume(kafka: LocalKafka, topic: str, count: int, *, value: str) -> list[tuple[int, str, str]]:
    """Read `count` committed records with string keys: partition, key and value as Java prints them."""
    printed = _run(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", kafka.bootstrap, "--topic", topic, "--from-beginning"),
        *("--max-messages", str(count), "--timeout-ms", "60000", "--isolation-level", "read_committed"),
        *("--formatter-property", "print.key=true", "--formatter-property", "print.partition=true"),
        *("--formatter-property", f"key.deserializer={SERIALIZATION}.StringDeserializer"),
        *("--formatter-property", f"value.deserializer={SERIALIZATION}.{value}"),
    )
    found = [line.split("\t") for line in printed.splitlines() if line.startswith("Partition:")]
    return [(int(partition.removeprefix("Partition:")), key, text) for partition, key, text in found]
