"""The shared fixtures do what they promise; each is shown failing in a pytest run of its own."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEAVER = """
import subprocess, sys
def test_leaves_a_process_behind():
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
"""
DETACHER = """
import subprocess, sys
def test_leaves_a_daemon_behind():
    start = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)"
    subprocess.run([sys.executable, "-c", start], check=True)
"""
CRASHER = """
def test_with_a_worker(processes):
    processes.start_python("print('the last words')", name="worker").wait(20)
    assert False
"""


def run_pytest(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    """Run the shared conftest over one test file, in a folder outside the repo."""
    (folder / "test_inner.py").write_text(source)
    (folder / "conftest.py").write_text(
        "from tests.conftest import *\nfrom tests.conftest import pytest_configure, pytest_runtest_makereport\n"
    )
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(folder)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_a_test_that_leaves_a_child_behind_fails(tmp_path):
    result = run_pytest(tmp_path, LEAVER)

    assert result.returncode == 1
    assert "processes were left running" in result.stdout
    assert "import time; time.sleep(600)" in result.stdout


def test_a_test_that_leaves_a_detached_process_behind_fails(tmp_path):
    result = run_pytest(tmp_path, DETACHER)

    assert result.returncode == 1
    assert "processes were left running" in result.stdout


def test_logs_of_the_processes_are_shown_when_a_test_fails(tmp_path):
    result = run_pytest(tmp_path, CRASHER)

    assert result.returncode == 1
    assert "log of worker" in result.stdout
    assert "the last words" in result.stdout


def test_unique_names_are_usable_as_topics_and_differ_between_runs(unique: str, tmp_path):
    result = run_pytest(tmp_path, "def test_unique_name(unique):\n    print('name is', unique)\n    assert False\n")

    assert unique.startswith("test-unique-names-are-usable-as-topics-a")
    assert set(unique) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert "name is test-unique-name-" in result.stdout
