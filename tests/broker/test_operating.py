"""An app as its operator meets it: commands, endpoint, refusals at start, a secured cluster. On a real broker."""

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamlet.changelog.bulk import BulkJob, BulkRestore
from streamlet.changelog.kafka import LogOffsets
from streamlet.changelog.replay import Partition
from streamlet.local import KafkaOptions, LocalKafka
from streamlet.topics.kafka import Topics
from tests.bed.processes import Processes, RunningProcess
from tests.bed.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

SHARES_APP = """
import os
from streamlet import App, Value

app = App(os.environ["TEST_APP"])
cakes = app.topic(os.environ["TEST_APP"] + "-cakes", key=str, value=int, partitions=2)
shares = app.topic(os.environ["TEST_APP"] + "-shares", key=str, value=int, partitions=2)

@app.process(cakes, to=shares)
def share(guests: int, seen: Value[int]) -> int:
    seen.add(1)
    return 100 // guests
"""


class Operator:
    """Somebody with a terminal: runs commands on one app and reads what they print."""

    def __init__(self, name: str, folder: Path, processes: Processes, *, brokers: str | None, toml: str = "") -> None:
        self.name, self.folder, self._processes = name, folder, processes
        self.file = folder / "app.py"
        self.file.write_text(SHARES_APP)
        (folder / "streamlet.toml").write_text(toml)
        self.cakes, self.shares = f"{name}-cakes", f"{name}-shares"
        self._env = {"TEST_APP": name, "STREAMLET_STATE_DIR": str(folder / "state"), "STREAMLET_CONFIG": str(folder / "streamlet.toml")}
        if brokers is not None:
            self._env["STREAMLET_BROKERS"] = brokers

    def run(self, *options: str) -> RunningProcess:
        return self._processes.start_streamlet("run", self.file, *options, name="worker", env=self._env)

    def do(self, *arguments: str | Path, expect: int = 0) -> str:
        """Run one command to its end; what it printed, errors included."""
        command = [str(Path(sys.executable).with_name("streamlet")), *map(str, arguments)]
        done = subprocess.run(
            command, env={**os.environ, **self._env}, cwd=self.folder, capture_output=True, text=True, timeout=90, check=False
        )
        assert done.returncode == expect, f"{arguments} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def send(self, key: str, guests: int) -> None:
        self.do("send", self.cakes, str(guests), "--key", key, "--app", self.file)

    def shared(self) -> list[tuple[str, int]]:
        lines = self.do("tail", self.shares, "--app", self.file, "--from", "earliest", "--no-follow", "--json").splitlines()
        return sorted((line["key"], line["value"]) for line in map(json.loads, lines))


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def page(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except urllib.error.URLError:
        return 0, ""


@contextmanager
def running(operator: Operator, *options: str) -> Iterator[int]:
    """A worker that is ready, and the port of its endpoint; ended cleanly."""
    port = free_port()
    worker = operator.run("--http", str(port), *options)
    worker.wait_for("worker started", 60)
    eventually(lambda: page(port, "/readyz")[0] == 200, 30, "a ready worker")
    yield port
    worker.terminate()
    assert worker.wait(30) == 0


def test_an_app_is_operated_by_its_commands(kafka: LocalKafka, processes: Processes, unique: str, tmp_path: Path) -> None:
    operator = Operator(unique, tmp_path, processes, brokers=kafka.bootstrap)
    assert json.loads(operator.do("topics", "create", operator.file, "--json"))["created"] == {operator.cakes: 2, operator.shares: 2}

    with running(operator) as port:
        operator.send("ann", 5)
        operator.send("ann", 0)
        operator.send("ann", 4)
        task = f"{operator.cakes}/{parked_partition(port)}"
        assert page(port, "/readyz")[0] == 503
        assert f'streamlet_task_phase{{phase="parked",task="{task}"}} 1.0' in page(port, "/metrics")[1]
        assert operator.shared() == [("ann", 20)]
        refused = operator.do("reset", unique, expect=2)
        assert "runs here" in refused

        operator.do("resume", unique, task, "--skip")

        eventually(lambda: page(port, "/readyz")[0] == 200, 30, "a task that goes on")
        eventually(lambda: operator.shared() == [("ann", 20), ("ann", 25)], 30, "the record behind the skipped one")
        (entry,) = operator.do("state", "get", operator.file, "share-seen", "ann", "--json").splitlines()
        assert json.loads(entry) == {"task": task, "key": "ann", "path": [], "value": 2}

    assert "No worker" in operator.do("resume", unique, task, "--timeout", "1", expect=3)
    shown = json.loads(operator.do("reset", unique, "--json"))
    assert f"{unique}-share-seen-changelog" in shown["topics"]
    assert shown["held_by"] == []
    operator.do("reset", unique, "--yes")
    left = {name for name in Topics(kafka.client_config).names() if name.startswith(unique)}
    assert left == {operator.cakes, operator.shares}
    assert not (tmp_path / "state" / unique).exists()


def parked_partition(port: int) -> int:
    def found() -> str | None:
        tasks = json.loads(page(port, "/status")[1])["tasks"]
        return next((task["task"] for task in tasks if task["phase"] == "parked" and "ZeroDivisionError" in task["failure"]), None)

    return int(str(eventually(found, 30, "a parked task")).rpartition("/")[2])


def test_a_deleted_changelog_is_refused_until_somebody_agrees_and_old_copies_are_not_trusted(
    kafka: LocalKafka, processes: Processes, unique: str, tmp_path: Path
) -> None:
    operator, changelog = Operator(unique, tmp_path, processes, brokers=kafka.bootstrap), f"{unique}-share-seen-changelog"
    topics = Topics(kafka.client_config)
    with running(operator):
        operator.send("ann", 5)
        eventually(lambda: operator.shared() == [("ann", 20)], 30, "the first output")
    topics.delete([changelog])
    eventually(lambda: changelog not in topics.names(), 30, "a deleted topic")

    refused = operator.run()

    assert refused.wait(60) == 2
    assert f"{changelog}, the changelog of store share-seen, was deleted" in refused.log()
    assert changelog not in topics.names()
    with running(operator, "--accept-change", "share-seen"):
        operator.send("ann", 4)
        eventually(lambda: operator.shared() == [("ann", 20), ("ann", 25)], 30, "the second output")
        assert json.loads(operator.do("state", "get", operator.file, "share-seen", "ann", "--json"))["value"] == 1
    assert "another_changelog" in processes.started[-1].log()


def test_every_client_takes_the_login_and_the_certificate_from_streamlet_toml(processes: Processes, unique: str, tmp_path: Path) -> None:
    with LocalKafka.start(KafkaOptions(secure=True)) as kafka:
        client = kafka.secure_client_config
        toml = "[kafka]\n" + "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in client.items())
        operator = Operator(unique, tmp_path, processes, brokers=None, toml=toml)

        with running(operator):
            operator.send("ann", 5)
            eventually(lambda: operator.shared() == [("ann", 20)], 60, "the output")

        assert client["sasl.password"] not in operator.do("config", operator.file) + operator.do("config", operator.file, "--json")
        changelog = f"{unique}-share-seen-changelog"
        partitions = [Partition(changelog, number) for number in range(2)]
        ends = LogOffsets(client).ends(partitions)
        filled = next(partition for partition in partitions if ends[partition])
        child = BulkRestore(BulkJob(changelog, filled.number, 0, ends[filled]), client, unique, tmp_path)
        try:
            eventually(child.poll, 60, "the bulk restore's child")
            assert child.records >= 1
        finally:
            child.close()
        operator.do("reset", unique, "--yes")
