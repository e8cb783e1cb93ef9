import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from streamlet.local.process import ProcessId, identify, is_alive, send, spawn, wait_until_gone
from tests.bed.processes import Processes
from tests.bed.waiting import eventually

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)"]


def start(tmp_path: Path) -> ProcessId:
    return spawn(SLEEPER, output=tmp_path / "out.log", folder=tmp_path, die_with_parent=True)


def end(process: ProcessId) -> list[ProcessId]:
    send(process, signal.SIGKILL)
    return wait_until_gone([process], time.monotonic() + 10)


def test_a_process_is_alive_until_it_is_killed(tmp_path: Path) -> None:
    process = start(tmp_path)

    assert is_alive(process)
    assert end(process) == []
    assert not is_alive(process)


def test_a_reused_pid_is_not_taken_for_the_old_process() -> None:
    me = identify(os.getpid())

    assert is_alive(me)
    assert not is_alive(ProcessId(me.pid, me.started - 100))


def test_a_signal_to_a_reused_pid_is_not_sent(tmp_path: Path) -> None:
    process = start(tmp_path)
    former = ProcessId(process.pid, process.started - 100)

    send(former, signal.SIGKILL)

    assert wait_until_gone([process], time.monotonic() + 0.2) == [process]
    end(process)


def test_waiting_ends_at_its_deadline_and_names_who_is_left(tmp_path: Path) -> None:
    process = start(tmp_path)

    assert wait_until_gone([process], time.monotonic() + 0.05) == [process]
    assert end(process) == []


def test_output_goes_to_the_file(tmp_path: Path) -> None:
    process = start(tmp_path)

    eventually(lambda: (tmp_path / "out.log").read_text() == "up\n", within_s=10)
    end(process)


def test_a_process_outlives_the_thread_that_asked_for_it(tmp_path: Path) -> None:
    started: list[ProcessId] = []
    thread = threading.Thread(target=lambda: started.append(start(tmp_path)))
    thread.start()
    thread.join()

    eventually(lambda: (tmp_path / "out.log").read_text() == "up\n", within_s=10)
    assert is_alive(started[0])
    end(started[0])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_bound_process_dies_when_its_parent_is_killed(tmp_path: Path, processes: Processes) -> None:
    source = f"""
import time
from pathlib import Path
from streamlet.local.process import spawn
child = spawn({SLEEPER!r}, output=Path({str(tmp_path / "out.log")!r}), folder=Path({str(tmp_path)!r}), die_with_parent=True)
print("child", child.pid, child.started, flush=True)
time.sleep(60)
"""
    parent = processes.start_python(source, name="parent")
    found = parent.wait_for(r"child (\d+) ([\d.]+)", within_s=20)
    child = ProcessId(int(found[1]), float(found[2]))
    assert is_alive(child)

    parent.kill()

    eventually(lambda: not is_alive(child), within_s=10)
