"""Nothing is lost and nothing is doubled, whatever happens to a worker: on a real broker, with real kills."""

from pathlib import Path
from random import Random

import pytest

from streamlet.ids import StoreName
from streamlet.local import LocalKafka
from streamlet.state.rocksdb import RocksBackend
from streamlet.state.values import value_codec
from tests.bed.engine import CountedWords
from tests.bed.processes import Processes

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

WORDS = [f"w{number}" for number in range(200)]


def lines(random: Random, count: int) -> list[str]:
    return [" ".join(random.choices(WORDS, k=3)) for _ in range(count)]


def stored_counts(state_dir: Path, app: str) -> dict[str, int]:
    """What the local copies hold, over all tasks of the counting handler."""
    decode = value_codec(int).decode
    found: dict[str, int] = {}
    for folder in sorted((state_dir / app / "0" / "split").iterdir()):
        backend = RocksBackend.open(folder, [StoreName("count-total")])
        try:
            for key, value in backend.scan(StoreName("count-total")):
                if key in {word.encode() for word in WORDS}:
                    found[key.decode()] = decode(value)
        finally:
            backend.close()
    return found


def test_an_undisturbed_worker_counts_every_word_once(kafka: LocalKafka, processes: Processes, unique: str, tmp_path: Path) -> None:
    app = CountedWords(kafka, processes, unique, tmp_path)
    app.feed(lines(Random(1), 3000))

    worker = app.start_worker()
    app.assert_exactly_once()
    worker.terminate()

    assert worker.wait(20) == 0
    assert stored_counts(app.state_dir, app.name) == dict(app.expected)


@pytest.mark.parametrize("seed", [1])
def test_a_worker_killed_again_and_again_loses_and_doubles_nothing(
    kafka: LocalKafka, processes: Processes, unique: str, tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    app = CountedWords(kafka, processes, unique, tmp_path)
    for _ in range(10):
        app.feed(lines(random, random.randrange(200, 2000)))
        worker = app.start_worker()
        worker.wait_for("worker started", 30)
        try:
            worker.wait(random.uniform(0.0, 1.0))
        except AssertionError:
            worker.kill()
        app.feed(lines(random, random.randrange(0, 500)))

    worker = app.start_worker()
    app.assert_exactly_once()
    worker.terminate()

    assert worker.wait(20) == 0
    assert stored_counts(app.state_dir, app.name) == dict(app.expected)
