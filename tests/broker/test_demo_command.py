"""`streamlet demo` as a newcomer meets it: a real Kafka, a real kill, and counts that are right."""

import re
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streamlet.local import LocalKafka
from tests.bed.processes import Processes, RunningProcess
from tests.bed.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

STORY = r"""
Using the Kafka at (?P<kafka>[\d.:]+)\.
.* Worker (?P<first>\d+) started
.* Worker (?P=first) killed with SIGKILL
.* Worker (?P<second>\d+) started on the same state folder
.* It is back: first new count [\d.]+ s after its start, (?P<replayed>[\d,]+) changelog records replayed
.* What happened\. (?P<lines>[\d,]+) lines with (?P<words>[\d,]+) words
.* killed with SIGKILL after (?P<before>[\d,]+) words
.* Right: each of the 60 different words
"""


@pytest.fixture
def home(kafka: LocalKafka, tmp_path: Path) -> dict[str, str]:
    """A data folder in which the shared Kafka is the one that `streamlet kafka up` started."""
    (tmp_path / "streamlet").mkdir()
    (tmp_path / "streamlet" / "kafka").symlink_to(kafka.folder)
    return {"XDG_DATA_HOME": str(tmp_path)}


def told(demo: RunningProcess) -> str:
    return " ".join(demo.log().split())


def test_the_demo_kills_a_worker_half_way_and_ends_with_the_right_counts(
    kafka: LocalKafka, processes: Processes, home: dict[str, str]
) -> None:
    before = kafka.topics()

    demo = processes.start_streamlet("demo", "--seconds", "4", name="demo", env=home)

    assert demo.wait(180) == 0
    story = re.search("".join(STORY.strip().splitlines()), told(demo))
    assert story is not None, told(demo)
    numbers = {name: int(story[name].replace(",", "")) for name in ("replayed", "lines", "words", "before")}
    assert story["kafka"] == kafka.bootstrap
    assert story["first"] != story["second"]
    assert numbers["words"] > numbers["lines"] > 400
    assert 0 <= numbers["replayed"] < numbers["before"] < numbers["words"]
    assert kafka.topics() == before, "the demo leaves a Kafka as it found it"


def test_a_count_that_is_wrong_ends_the_demo_with_1(kafka: LocalKafka, processes: Processes, home: dict[str, str]) -> None:
    demo = processes.start_streamlet("demo", "--seconds", "1", name="demo", env=home)
    demo.wait_for("It is back", within_s=120)

    forger = Producer(kafka.client_config)
    forger.produce("counts", key=b"river", value=(1).to_bytes(8, "big"))
    assert forger.flush(30) == 0

    assert demo.wait(120) == 1
    assert re.search(r"Wrong: 1 counts are not what they must be\. 'river': 1 instead of \d+", told(demo))


def test_ctrl_c_ends_the_demo_its_worker_and_the_kafka_it_started(processes: Processes, tmp_path: Path) -> None:
    demo = processes.start_streamlet("demo", "--seconds", "300", name="demo", env={"XDG_DATA_HOME": str(tmp_path)})
    demo.wait_for("counted [1-9]", within_s=180)

    demo.interrupt()

    assert demo.wait(60) == 130
    assert "Stopped before the end." in demo.log()  # that nothing is left running is the test bed's own check


def test_topics_of_somebody_s_word_count_are_left_alone(kafka: LocalKafka, processes: Processes, home: dict[str, str]) -> None:
    eventually(lambda: "lines" not in kafka.topics(), within_s=30)
    kafka.create_topic("lines")
    try:
        demo = processes.start_streamlet("demo", "--seconds", "1", name="demo", env=home)
        demo.wait_for("they stay as they are, the demo starts its own", within_s=60)
        demo.interrupt()

        assert demo.wait(60) == 130
        assert "lines" in kafka.topics()
    finally:
        kafka.delete_topic("lines")
