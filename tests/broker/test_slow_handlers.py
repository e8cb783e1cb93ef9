"""A handler that takes longer than a transaction may last: no transaction is open meanwhile, so nothing is fenced or doubled."""

from pathlib import Path

import pytest

from streamlet.local import LocalKafka
from streamlet.runtime.kafka import PRODUCER
from tests.bed.engine import AppUnderTest, read_numbers
from tests.bed.processes import Processes

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]

SLOW_APP = """
import os, time
from streamlet import App, Value

name = os.environ["TEST_APP"]
app = App(name)
jobs = app.topic(name + "-jobs", key=str, value=int)
done = app.topic(name + "-done", key=str, value=int)

@app.process(jobs, to=done)
def work(seconds: int, total: Value[int]) -> int:
    time.sleep(seconds)
    return total.add(1)
"""


@pytest.mark.parametrize("seconds", [12, pytest.param(25, marks=pytest.mark.full)])
def test_a_handler_longer_than_a_transaction_may_last_commits_once(
    kafka: LocalKafka, processes: Processes, unique: str, tmp_path: Path, seconds: int
) -> None:
    assert seconds * 1000 > int(PRODUCER["transaction.timeout.ms"])
    app = AppUnderTest(kafka, processes, unique, tmp_path, SLOW_APP)
    for topic in ("jobs", "done"):
        kafka.create_topic(f"{unique}-{topic}")
    for duration in (0, 0, seconds, 0, 0):
        app.producer.produce(f"{unique}-jobs", duration.to_bytes(8, "big"), "job")
    assert app.producer.flush(30) == 0

    worker = app.start_worker()
    app.wait_until_processed(f"{unique}-jobs", 90)
    worker.terminate()

    assert worker.wait(20) == 0
    assert read_numbers(kafka, f"{unique}-done", 5) == {"job": [1, 2, 3, 4, 5]}
    for trouble in ("lost its id", "aborted", "WARNING", "ERROR"):
        assert trouble not in worker.log()
