"""Fixtures for every test: a shared broker, a shared cluster, names of one's own, processes that cannot stay behind."""

from __future__ import annotations

import re
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.bed.leftovers import mark_this_run, marked_since, pids_now
from tests.bed.processes import Processes, tail
from tests.bed.waiting import NeverHappened, eventually

if TYPE_CHECKING:
    from streamlet.local import LocalKafka

SHARED: list[LocalKafka] = []  # started by the two fixtures below, in use until the run ends


def pytest_configure() -> None:
    mark_this_run()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell starts background jobs like that, and children would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def kafka() -> Iterator[LocalKafka]:
    """One broker, started when the first test asks for it and shared by all: use names from `unique`."""
    yield from _shared(brokers=1)


@pytest.fixture(scope="session")
def cluster() -> Iterator[LocalKafka]:
    """Three brokers, shared; a test that kills or pauses one brings it back before it ends."""
    yield from _shared(brokers=3)


def _shared(brokers: int) -> Iterator[LocalKafka]:
    from streamlet.local import KafkaOptions, LocalKafka  # here, so that tests without a broker load no client

    with LocalKafka.start(KafkaOptions(brokers=brokers)) as started:
        SHARED.append(started)
        yield started
        SHARED.remove(started)


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> str:
    """A prefix for topics, groups and ids that no other test has, in this run or an earlier one."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40].strip("-")
    return f"{name}-{secrets.token_hex(4)}"


@pytest.fixture
def processes(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Processes]:
    """Starts real processes; all are gone when the test ends, and their logs are shown if it fails."""
    folder = tmp_path / "processes"
    folder.mkdir()
    with Processes(folder) as started:
        request.node.stash[_STARTED] = started
        yield started


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    """Fail a test that leaves a process behind, and end that process."""
    before = pids_now()
    yield
    try:
        eventually(lambda: not marked_since(before, _pids_of_shared_brokers()), within_s=2)
    except NeverHappened:
        left = marked_since(before, _pids_of_shared_brokers())
        names = [_describe(process) for process in left]
        for process in left:
            process.kill()
        pytest.fail("processes were left running: " + "; ".join(names))


def _pids_of_shared_brokers() -> set[int]:
    return {process.pid for started in SHARED for process in started.processes.values()}


def _describe(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:200]}"
    except psutil.Error:
        return str(process.pid)


_STARTED = pytest.StashKey[Processes]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Add the logs of the test's processes, and of the brokers it used, to the report of a failure."""
    report: pytest.TestReport = yield  # type: ignore[assignment, misc]  # pytest sends the inner hook's result
    if report.failed:
        if _STARTED in item.stash:
            report.sections += [(f"log of {process.name}", tail(process.log(), 100)) for process in item.stash[_STARTED].started]
        if {"kafka", "cluster"} & set(getattr(item, "fixturenames", ())):
            report.sections += [
                (f"log of {path.parent.name}/{path.name}", tail(path.read_text(errors="replace"))) for path in _broker_logs()
            ]
    return report  # type: ignore[return-value]


def _broker_logs() -> list[Path]:
    return [path for started in SHARED for node in started.plan.nodes for path in (node.output, node.log) if path.exists()]
