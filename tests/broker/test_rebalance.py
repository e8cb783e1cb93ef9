"""Workers join, leave, die and hand over on a real broker while records come: each is counted exactly once."""

import json
import os
import re
import signal
from pathlib import Path
from random import Random

import pytest

from streamlet.local import LocalKafka
from tests.bed.engine import CountedWords
from tests.bed.processes import Processes, RunningProcess
from tests.bed.waiting import eventually
from tests.broker.test_exactly_once import lines

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]


@pytest.fixture
def app(kafka: LocalKafka, processes: Processes, unique: str, tmp_path: Path) -> CountedWords:
    return CountedWords(kafka, processes, unique, tmp_path)


def started(app: CountedWords, *options: str, name: str) -> RunningProcess:
    """A process of the app, once it runs a task."""
    process = app.start_worker(*options, name=name)
    process.wait_for("task restored", 60)
    return process


def status(app: CountedWords) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = json.loads(app.steer("status", "--json"))
    return found


def owners(app: CountedWords) -> dict[str, str]:
    """Slot of every task that runs."""
    return {str(task["task"]): str(task["owner"]) for task in status(app)["tasks"] if task["phase"] == "running"}


def spread_over(app: CountedWords, slots: int, within_s: float = 60.0) -> dict[str, str]:
    """Wait until all six tasks run, evenly over so many slots."""

    def even() -> dict[str, str] | None:
        found = owners(app)
        counts = [list(found.values()).count(slot) for slot in set(found.values())]
        return found if len(found) == 6 and len(counts) == slots and max(counts) - min(counts) <= 1 else None

    return eventually(even, within_s, f"six tasks over {slots} slots") or {}


def started_pid(supervisor: RunningProcess, number: int) -> int:
    return int(re.findall(rf"worker process started\s+number={number} pid=(\d+)", supervisor.log())[-1])


def test_a_second_worker_shares_the_work_and_its_leave_hands_it_back_live(app: CountedWords) -> None:
    rng = Random(4)
    app.feed(lines(rng, 500))
    first = started(app, name="first")

    second = app.start_worker(name="second")
    app.feed(lines(rng, 500))
    spread_over(app, 2)
    app.feed(lines(rng, 500))
    second.terminate()

    assert second.wait(40) == 0
    assert "stopped without a last commit" not in second.log()
    app.feed(lines(rng, 200))
    app.assert_exactly_once()
    spread_over(app, 1)
    first.terminate()
    assert first.wait(40) == 0


def test_a_killed_worker_is_replaced_by_its_standby_and_comes_back(app: CountedWords) -> None:
    rng = Random(5)
    app.feed(lines(rng, 500))
    supervisor = started(app, "--workers", "2", "--standbys", "1", name="supervisor")
    spread_over(app, 2)

    os.kill(started_pid(supervisor, 1), signal.SIGKILL)
    app.feed(lines(rng, 500))

    supervisor.wait_for("workers lost", 20)
    app.assert_exactly_once()
    spread_over(app, 2)
    app.feed(lines(rng, 500))
    app.assert_exactly_once()
    supervisor.terminate()
    assert supervisor.wait(60) == 0


def test_people_scale_move_drain_and_pause_while_it_runs(app: CountedWords) -> None:
    rng = Random(6)
    app.feed(lines(rng, 300))
    supervisor = started(app, "--workers", "1", name="supervisor")
    spread_over(app, 1)

    app.steer("scale", "3")
    app.feed(lines(rng, 300))
    placed = spread_over(app, 3)

    task, target = "split/0", next(slot for slot in set(placed.values()) if slot != placed["split/0"])
    assert f"{task} goes to {target}" in app.steer("move", task, target)
    app.feed(lines(rng, 300))
    eventually(lambda: owners(app).get(task) == target, 30, f"{task} on {target}")

    assert "paused" in app.steer("pause", task)
    eventually(lambda: {t["phase"] for t in status(app)["tasks"] if t["task"] == task} == {"paused"}, 20)
    app.steer("resume", task)

    app.steer("scale", "1")
    app.feed(lines(rng, 300))
    spread_over(app, 1)
    app.assert_exactly_once()
    supervisor.terminate()
    assert supervisor.wait(60) == 0


def test_status_says_when_nobody_is_there(app: CountedWords, processes: Processes, kafka: LocalKafka) -> None:
    app.feed(lines(Random(7), 50))
    worker = app.start_worker()
    app.assert_exactly_once()
    worker.terminate()
    assert worker.wait(40) == 0

    asked = processes.start_streamlet("status", app.name, "--brokers", kafka.bootstrap, name="status")

    assert asked.wait(30) == 1
    assert "no member alive" in asked.log()
