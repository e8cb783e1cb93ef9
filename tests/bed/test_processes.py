import signal

import psutil
import pytest

from tests.bed.processes import DiedTooEarly, Processes
from tests.bed.waiting import NeverHappened, eventually

TICKS = "import itertools, time\nfor n in itertools.count():\n    print('tick', n)\n    time.sleep(0.01)"


def test_output_and_errors_of_a_process_are_in_its_log(processes: Processes):
    process = processes.start_python("import sys; print('out'); print('err', file=sys.stderr)", name="speaker")

    assert process.wait(within_s=20) == 0
    assert process.log() == "out\nerr\n"


def test_waiting_for_a_log_line_returns_the_match(processes: Processes):
    process = processes.start_python(TICKS, name="ticker")

    assert process.wait_for(r"^tick (\d+)$", within_s=20)[1] == "0"


def test_waiting_for_a_line_of_a_dead_process_fails_at_once_with_its_log(processes: Processes):
    process = processes.start_python("print('sorry'); raise SystemExit(3)", name="short")

    with pytest.raises(DiedTooEarly) as failure:
        process.wait_for("never written", within_s=20)

    assert (failure.value.exit_code, failure.value.log) == (3, "sorry\n")


def test_waiting_for_the_end_of_a_running_process_has_a_deadline(processes: Processes):
    process = processes.start_python(TICKS, name="ticker")

    with pytest.raises(NeverHappened):
        process.wait(within_s=0.05)


def test_a_killed_process_is_gone_and_says_by_which_signal(processes: Processes):
    process = processes.start_python(TICKS, name="ticker")

    process.kill()

    assert process.exit_code == -signal.SIGKILL
    assert not psutil.pid_exists(process.pid)


def test_a_paused_process_is_silent_until_it_is_resumed(processes: Processes):
    process = processes.start_python(TICKS, name="ticker")
    process.wait_for("tick 3", within_s=20)

    process.pause()
    eventually(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED, within_s=5)
    silent = process.log()
    with pytest.raises(NeverHappened):
        eventually(lambda: process.log() != silent, within_s=0.2)
    process.resume()

    eventually(lambda: process.log() != silent, within_s=10)


def test_a_paused_process_is_gone_when_the_test_ends(tmp_path):
    with Processes(tmp_path) as processes:
        process = processes.start_python(TICKS, name="ticker")
        process.pause()

    assert process.exit_code == -signal.SIGKILL


def test_added_environment_reaches_the_process(processes: Processes):
    process = processes.start_python("import os; print(os.environ['GREETING'])", name="speaker", env={"GREETING": "hello"})

    process.wait(within_s=20)

    assert process.log() == "hello\n"


def test_the_installed_command_can_be_started(processes: Processes):
    process = processes.start_streamlet("--version")

    assert process.wait(within_s=30) == 0
    assert process.log().startswith("streamlet ")
