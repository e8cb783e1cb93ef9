import re

import pytest

from streamlet.local.jars import BadLock, Jar, Lock, parse_lock, read_lock, render_lock

PLAIN = Jar("org.example", "plain", "1.0", "", "a" * 64, 10)
NATIVE = Jar("org.example", "native", "2.0", "linux", "b" * 64, 20)


def test_a_lock_that_was_written_reads_back_the_same() -> None:
    lock = Lock("some", (NATIVE, PLAIN))

    assert parse_lock("some", render_lock(lock, comment="why")) == lock
    assert lock.size == 30


def test_a_classifier_is_part_of_name_and_coordinate() -> None:
    assert NATIVE.filename == "native-2.0-linux.jar"
    assert NATIVE.coordinate == "org.example:native:2.0:linux"
    assert PLAIN.filename == "plain-1.0.jar"


@pytest.mark.parametrize("line", ["org.example:plain:1.0", "org.example:plain 0 1", f"org.example:plain:1.0 {'a' * 64} many"])
def test_a_line_that_is_no_jar_is_refused(line: str) -> None:
    with pytest.raises(BadLock) as caught:
        parse_lock("some", line)

    assert caught.value.line == line


def test_the_kafka_lock_names_every_jar_once_with_one_version_of_kafka() -> None:
    jars = read_lock().jars

    assert len({(jar.group, jar.artifact, jar.classifier) for jar in jars}) == len(jars) == 46
    assert {jar.version for jar in jars if jar.group == "org.apache.kafka"} == {"4.3.1"}
    assert all(re.fullmatch(r"[0-9a-f]{64}", jar.sha256) for jar in jars)


def test_the_kafka_lock_has_the_bridge_without_which_the_broker_logs_nothing() -> None:
    assert "log4j-slf4j-impl" in {jar.artifact for jar in read_lock().jars}
