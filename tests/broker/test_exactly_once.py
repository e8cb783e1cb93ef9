"""Nothing is lost and nothing is doubled, whatever happens to a worker: on a real broker, with real kills."""

import os
from pathlib import Path
from random import Random

import pytest

from streamlet.local import LocalKafka
from tests.bed.changelogs import replay_all
from tests.bed.engine import CountedWords, replayed
from tests.bed.processes import Processes, RunningProcess
from tests.bed.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

WORDS = [f"w{number}" for number in range(200)]


def lines(random: Random, count: int) -> list[str]:
    return [" ".join(random.choices(WORDS, k=3)) for _ in range(count)]


def seeds() -> list[object]:
    """One by default, fifty under `full`; STREAMLET_SEEDS=7,8 runs exactly those, to go on where a long run ended."""
    chosen = os.environ.get("STREAMLET_SEEDS")
    if chosen:
        return [pytest.param(int(seed)) for seed in chosen.split(",")]
    return [pytest.param(1), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 52))]


def test_an_undisturbed_worker_counts_every_word_once(kafka: LocalKafka, processes: Processes, unique: str, tmp_path: Path) -> None:
    app = CountedWords(kafka, processes, unique, tmp_path)
    app.feed(lines(Random(1), 3000))

    worker = app.start_worker()
    app.assert_exactly_once()
    worker.terminate()

    assert worker.wait(20) == 0
    assert app.stored() == app.logged() == dict(app.expected)


@pytest.mark.parametrize("seed", seeds())
def test_a_worker_killed_again_and_again_loses_and_doubles_nothing(
    kafka: LocalKafka, processes: Processes, unique: str, tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    app = CountedWords(kafka, processes, unique, tmp_path)
    workers: list[RunningProcess] = []
    for _ in range(10 if seed == 1 else random.randrange(2, 6)):
        app.feed(lines(random, random.randrange(200, 2000)))
        workers.append(app.start_worker())
        workers[-1].wait_for("worker started", 30)
        try:
            workers[-1].wait(random.uniform(0.0, 2.0))
        except AssertionError:
            workers[-1].kill()
        app.feed(lines(random, random.randrange(0, 500)))

    workers.append(app.start_worker())
    app.assert_exactly_once()
    workers[-1].terminate()

    assert workers[-1].wait(20) == 0
    assert app.stored() == app.logged() == dict(app.expected)
    last = app.start_worker()
    eventually(lambda: len(replayed(last)) == 2 * app.partitions, 30, "all tasks to be restored")
    last.terminate()
    assert last.wait(20) == 0
    assert set(replayed(last).values()) == {0}, "after a clean end nothing is left to replay"
    assert_only_tails_were_replayed(app, workers)


def assert_only_tails_were_replayed(app: CountedWords, workers: list[RunningProcess]) -> None:
    """No start repeats what an earlier one replayed or wrote: together they replay less than the changelogs hold."""
    for number in range(app.partitions):
        starts = [replayed(worker).get(f"split/{number}", 0) for worker in workers]
        held = len(replay_all(app.kafka, app.changelog(number)).records)
        assert sum(starts) <= held, f"{starts} records were replayed of the {held} in {app.changelog(number)}"
    assert not [worker for worker in workers if "set aside" in worker.log()]
