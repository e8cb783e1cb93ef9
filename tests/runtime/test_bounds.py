"""When a worker commits and writes its copies."""

import pytest

from streamlet import App, Record, Value
from streamlet.runtime.bounds import CommitBounds
from tests.bed.memory_worker import run_worker

FAR = CommitBounds(interval_s=1000.0, max_bytes=10**9, write_interval_ms=10**6, write_max_bytes=10**9)


@pytest.fixture
def app():
    app = App("app")
    entries, out = app.topic("entries", key=str, value=str), app.topic("out", key=str, value=str)

    @app.process(entries, to=out)
    def keep(text: str, held: Value[str]) -> str:
        return held.set(text)

    return app


@pytest.fixture
def moving_app():
    app = App("app")
    entries, out = app.topic("entries", key=str, value=str), app.topic("out", key=str, value=int)

    @app.process(entries)
    def move(text: str) -> Record[str, str]:
        return Record(text[:1], text)

    @app.process(move, to=out)
    def count(text: str, total: Value[int]) -> int:
        return total.add(1)

    return app


def test_within_wide_bounds_a_busy_worker_gathers_everything_into_one_commit(app):
    assert run_worker(app, FAR) == ([100], 1)


def test_the_bytes_of_gathered_outputs_force_a_commit(app):
    bounds = CommitBounds(interval_s=1000.0, max_bytes=133 * 10, write_interval_ms=10**6, write_max_bytes=10**9)

    assert run_worker(app, bounds)[0] == [*range(10, 101, 10)]


def test_outputs_on_their_way_through_a_repartition_topic_count_too(moving_app):
    bounds = CommitBounds(interval_s=1000.0, max_bytes=133 * 10, write_interval_ms=10**6, write_max_bytes=10**9)

    assert run_worker(moving_app, bounds)[0] == [*range(10, 101, 10)]


def test_the_bytes_a_copy_lacks_force_a_write(app):
    """Each commit of ten records leaves one entry of about 105 bytes to be written."""
    bounds = CommitBounds(interval_s=1000.0, max_bytes=133 * 10, write_interval_ms=10**6, write_max_bytes=1)

    assert run_worker(app, bounds)[1] == 11, "once per commit, and once at the end"


def test_the_time_a_copy_lags_forces_a_write(app):
    every_commit = CommitBounds(interval_s=1000.0, max_bytes=133 * 10, write_interval_ms=1, write_max_bytes=10**9)
    never = CommitBounds(interval_s=1000.0, max_bytes=133 * 10, write_interval_ms=10**6, write_max_bytes=10**9)

    assert run_worker(app, every_commit, turn_ms=10)[1] == 12, "the claim's too"
    assert run_worker(app, never, turn_ms=10)[1] == 1
