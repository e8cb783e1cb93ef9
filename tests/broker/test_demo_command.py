"""`streamlet demo` as a newcomer meets it."""

import re
from pathlib import Path

import pytest

from streamlet.local import LocalKafka
from tests.bed.processes import Processes

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]


def test_without_a_terminal_the_demo_ends_by_itself_with_a_summary(kafka: LocalKafka, processes: Processes, tmp_path: Path) -> None:
    (tmp_path / "streamlet").mkdir()
    (tmp_path / "streamlet" / "kafka").symlink_to(kafka.folder)  # the Kafka that runs already

    demo = processes.start_streamlet("demo", name="demo", env={"XDG_DATA_HOME": str(tmp_path)})

    assert demo.wait(90) == 0
    log = " ".join(demo.log().split())
    assert f"Using the Kafka at {kafka.bootstrap}" in log
    summary = re.search(r"Done\. (\d+) records sent, (\d+) received", log)
    assert summary is not None
    assert int(summary[1]) == int(summary[2]) > 100
    assert not [topic for topic in kafka.topics() if topic.startswith("streamlet-demo-")]


def test_ctrl_c_ends_the_demo_and_the_kafka_it_started(processes: Processes, tmp_path: Path) -> None:
    demo = processes.start_streamlet("demo", "--seconds", "300", name="demo", env={"XDG_DATA_HOME": str(tmp_path)})
    demo.wait_for("go in and come out", within_s=120)

    demo.interrupt()

    assert demo.wait(60) == 0
    assert "Done." in demo.log()
