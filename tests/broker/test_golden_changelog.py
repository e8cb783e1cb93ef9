"""A run of today writes the same changelogs as the run whose dump is kept. As a program, it writes that dump anew."""

import json
import sys
import tempfile
from pathlib import Path

import pytest

from streamlet.changelog.replay import Partition
from streamlet.local import LocalKafka
from tests.bed.changelogs import replay_all
from tests.bed.engine import AppUnderTest
from tests.bed.processes import Processes
from tests.changelog import golden_app
from tests.changelog.test_golden import GOLDEN

pytestmark = [pytest.mark.broker, pytest.mark.timeout(120)]

STORES = [f"note-{name}" for name in ("total", "pages", "trail", "seen")]


def run_app(kafka: LocalKafka, processes: Processes, name: str, folder: Path) -> dict[str, list[tuple[str, str | None]]]:
    """Process the golden visits with a real worker; every committed record of the app's own topics, in hex."""
    app = AppUnderTest(kafka, processes, name, folder, Path(golden_app.__file__).read_text())
    kafka.create_topic(f"{name}-visits")
    for number, (key, page) in enumerate(golden_app.VISITS):
        app.producer.produce(f"{name}-visits", page, key, timestamp=golden_app.FIRST_MS + number)
    assert app.producer.flush(30) == 0
    worker = app.start_worker()
    app.wait_until_processed(f"{name}-visits")
    worker.terminate()
    assert worker.wait(20) == 0, worker.log()
    topics = [f"{name}-{part}" for part in (*(f"{store}-changelog" for store in STORES), "commits", "control")]
    found = {topic: replay_all(kafka, Partition(topic, 0)).records for topic in topics}
    return {topic: [(key.hex(), None if value is None else value.hex()) for key, value in records] for topic, records in found.items()}


def test_a_run_of_today_leaves_the_changelogs_of_the_kept_dump(
    kafka: LocalKafka, processes: Processes, unique: str, tmp_path: Path
) -> None:
    kept = json.loads(GOLDEN.read_text())

    found = run_app(kafka, processes, unique, tmp_path)

    for store in STORES:
        newest = {key: value for key, value in found[f"{unique}-{store}-changelog"] if value is not None}
        before = dict(kept[f"golden-{store}-changelog"])
        assert {key: value for key, value in before.items() if value is not None} == newest, store


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, LocalKafka.start() as kafka, Processes(Path(folder)) as processes:
        GOLDEN.write_text(json.dumps(run_app(kafka, processes, "golden", Path(folder)), indent=1) + "\n")
    sys.stdout.write(f"{GOLDEN} written\n")


if __name__ == "__main__":
    main()
