"""What the world can do to a worker besides killing it: fence it, replace it, take its broker away, make it slow."""

from pathlib import Path
from random import Random

import pytest

from streamlet.local import LocalKafka
from streamlet.rebalance.kafka import ControlReader, fence
from tests.bed.engine import CountedWords
from tests.bed.processes import Processes
from tests.broker.test_exactly_once import lines

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]


def test_a_fenced_worker_that_nobody_replaced_comes_back_under_a_new_id(
    kafka: LocalKafka, processes: Processes, unique: str, tmp_path: Path
) -> None:
    app = CountedWords(kafka, processes, unique, tmp_path)
    app.feed(lines(Random(2), 500))
    worker = app.start_worker()
    app.assert_exactly_once()
    control = ControlReader(kafka.client_config, unique)
    plan = control.read_to_end().plan
    control.close()
    assert plan is not None

    fence(kafka.client_config, plan.members[0])
    app.feed(lines(Random(3), 500))

    worker.wait_for("worker lost its id", 30)
    app.assert_exactly_once()
    worker.terminate()
    assert worker.wait(20) == 0
    assert app.stored() == dict(app.expected)


def test_a_worker_frozen_while_it_is_replaced_cannot_write_when_it_wakes(
    kafka: LocalKafka, processes: Processes, unique: str, tmp_path: Path
) -> None:
    app = CountedWords(kafka, processes, unique, tmp_path)
    app.feed(lines(Random(6), 500))
    zombie = app.start_worker()
    zombie.wait_for("task restored", 30)
    app.feed(lines(Random(7), 1000))
    zombie.pause()

    successor = app.start_worker()
    successor.wait_for("task restored", 60)
    app.feed(lines(Random(8), 500))
    zombie.resume()

    zombie.wait_for("worker lost its id", 30)
    app.assert_exactly_once()
    zombie.terminate()
    assert zombie.wait(40) == 0
    successor.terminate()
    assert successor.wait(40) == 0


def test_a_broker_that_goes_away_under_load_costs_time_and_nothing_else(
    kafka: LocalKafka, processes: Processes, unique: str, tmp_path: Path
) -> None:
    app = CountedWords(kafka, processes, unique, tmp_path)
    app.feed(lines(Random(9), 3000))
    worker = app.start_worker()
    worker.wait_for("worker started", 30)

    kafka.kill(1)
    try:
        worker.wait_for("no broker answers", 30)
    finally:
        kafka.restart(1)
    app.feed(lines(Random(10), 500))

    app.assert_exactly_once()
    assert worker.log().count("no broker answers") == 1, "said once"
    worker.terminate()
    assert worker.wait(20) == 0
    assert app.stored() == dict(app.expected)
