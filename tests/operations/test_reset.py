"""What a reset would take, decided without a broker."""

import os
from pathlib import Path

import pytest

from streamlet import App, Value
from streamlet.manifest import Manifest, manifest_of
from streamlet.operations.reset import NoSuchStore, WorkerRuns, checked_store, own_topics, refuse_running, without_store
from streamlet.runtime.slots import take_seat
from streamlet.topology import build

NAMES = frozenset(
    {"words", "app-count-total-changelog", "app-control", "app-members", "app-commits", "app-two-control", "app-two-x-changelog"}
)


def manifest() -> Manifest:
    app = App("app")
    words = app.topic("words", key=str, value=int)

    @app.process(words)
    def count(n: int, total: Value[int]) -> None:
        total.add(n)

    return manifest_of(build(app), {"words": 2}, {})


def test_a_manifest_names_exactly_the_topics_that_go() -> None:
    assert own_topics("app", manifest(), NAMES) == ("app-commits", "app-control", "app-count-total-changelog", "app-members")


def test_without_a_manifest_topics_of_an_app_with_a_longer_name_stay() -> None:
    assert own_topics("app", None, NAMES) == ("app-commits", "app-control", "app-count-total-changelog", "app-members")
    assert own_topics("app-two", None, NAMES) == ("app-two-control", "app-two-x-changelog")


def test_a_store_leaves_the_manifest_with_its_changelog() -> None:
    before = manifest()

    after = without_store(before, "count-total")

    assert (after.version, after.stores) == (2, {})
    assert before.topics.keys() - after.topics.keys() == {"app-count-total-changelog"}


def test_a_store_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(NoSuchStore) as refused:
        checked_store("app", "total", manifest())

    assert refused.value.known == ("count-total",)


def test_a_worker_on_this_machine_is_noticed_by_its_lock(tmp_path: Path) -> None:
    with take_seat(tmp_path, "app") as seat:
        with pytest.raises(WorkerRuns) as refused:
            refuse_running("app", tmp_path)
        assert (refused.value.folder, refused.value.pid) == (seat.folder, str(os.getpid()))
        refuse_running("another", tmp_path)

    refuse_running("app", tmp_path)
