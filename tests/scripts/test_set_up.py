"""The set-up behind scripts/demo and scripts/test: what it says when it cannot go on, and that it does nothing twice."""

import fcntl
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.bed.processes import Processes

ROOT = Path(__file__).parents[2]
NO_NETWORK = {
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "https_proxy": "http://127.0.0.1:9",
    "PIP_NO_INDEX": "1",
}


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"script_{name}", ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fake_command(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def is_set_up() -> None:
    if not (ROOT / ".venv" / "wheelhouse" / "collected").exists() or Path(sys.prefix) != ROOT / ".venv":
        pytest.skip("this environment was not made by scripts/test")


@pytest.mark.usefixtures("is_set_up")
def test_the_second_set_up_is_silent_and_needs_no_network():
    command = [sys.executable, str(ROOT / "scripts" / "set_up.py"), "test"]

    result = subprocess.run(command, env={**os.environ, **NO_NETWORK}, capture_output=True, text=True, timeout=100, check=False)

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.usefixtures("is_set_up")
def test_two_set_ups_at_once_wait_for_each_other(processes: Processes):
    with (ROOT / ".streamlet" / "set-up.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = processes.start([sys.executable, ROOT / "scripts" / "set_up.py", "test"], name="set-up", env=NO_NETWORK)
        second.wait_for("another set-up is running here", within_s=60)
        assert second.exit_code is None

    assert second.wait(within_s=100) == 0


def test_a_machine_without_a_new_python_is_told_what_to_install(tmp_path):
    for name in ("python3", "python"):
        fake_command(tmp_path / name, 'case $1 in --version) echo "Python 3.9.2";; *) exit 1;; esac')
    source = f"root={ROOT}; PATH={tmp_path}; . {ROOT}/scripts/setup.sh; set_up demo"

    result = subprocess.run(["/bin/sh", "-c", source], capture_output=True, text=True, env={}, timeout=60, check=False)

    assert result.returncode == 2
    assert "needs Python 3.11 or newer, and PATH offers: Python 3.9.2." in result.stderr
    assert "apt install python3" in result.stderr


def test_a_python_without_venv_names_the_package_to_install(tmp_path, monkeypatch):
    script = load_script("set_up")
    monkeypatch.setattr(script, "VENV", tmp_path / "venv")
    monkeypatch.setattr(script, "PYTHON", tmp_path / "venv" / "bin" / "python")
    monkeypatch.setattr(sys, "executable", str(fake_command(tmp_path / "python3", "echo ensurepip is not available; exit 1")))

    with pytest.raises(script.SetUpFailed) as failure:
        script.make_venv()

    assert "ensurepip is not available" in str(failure.value)
    assert f"apt install python{sys.version_info.major}.{sys.version_info.minor}-venv" in str(failure.value)
    assert not (tmp_path / "venv").exists()


def test_a_failed_install_is_tried_again_next_time(tmp_path, monkeypatch):
    script = load_script("set_up")
    tmp_path.joinpath("venv", "bin").mkdir(parents=True)
    monkeypatch.setattr(script, "VENV", tmp_path / "venv")
    monkeypatch.setattr(script, "PYTHON", fake_command(tmp_path / "venv" / "bin" / "python", "exit 1"))

    for _ in range(2):
        with pytest.raises(script.SetUpFailed):
            script.install_project(["local"])


def test_paths_of_the_checked_copy_become_those_of_the_clone():
    in_the_clone = load_script("checks").in_the_clone

    assert in_the_clone(".venv/checked/streamlet/state/keys.py:3: error") == "state/keys.py:3: error"
    assert in_the_clone(f"{ROOT}/.venv/checked/streamlet/local/java.py:1:2 - error") == "streamlet/local/java.py:1:2 - error"
    assert in_the_clone(f"{ROOT}/tests/typing/x.py:1") == "tests/typing/x.py:1"


def test_help_of_the_test_command_needs_no_set_up():
    result = subprocess.run([ROOT / "scripts" / "test", "--help"], capture_output=True, text=True, timeout=60, check=True)

    assert result.stdout.startswith("All checks and tests: scripts/test [--fast | --full]")
    assert "--no-checks" in result.stdout
