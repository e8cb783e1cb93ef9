"""Signals: the first asks for the last commit, the second ends the process at once, whatever it is doing."""

import pytest

from tests.bed.processes import Processes

BLOCKED_IN_C = """
import logging, sys, threading
from streamlet.runtime.stopping import StopRequest, stopped_by_signals
logging.basicConfig(level=logging.INFO, stream=sys.stderr)
stop = StopRequest()
with stopped_by_signals(stop):
    print("ready", flush=True)
    lock = threading.Lock()
    lock.acquire()
    {block}
print("requested" if stop.requested else "not requested", flush=True)
"""


def test_one_signal_asks_and_the_work_goes_on(processes: Processes) -> None:
    worker = processes.start_python(BLOCKED_IN_C.format(block="import time\n    while not stop.requested: time.sleep(0.01)"), name="worker")
    worker.wait_for("ready", 30)

    worker.terminate()

    assert worker.wait(10) == 0
    assert "requested" in worker.log()


@pytest.mark.parametrize("block", ["__import__('os').read(__import__('os').pipe()[0], 1)", "exec('while True: pass')"])
def test_the_second_signal_ends_a_blocked_process_at_once(processes: Processes, block: str) -> None:
    worker = processes.start_python(BLOCKED_IN_C.format(block=block), name="worker")
    worker.wait_for("ready", 30)

    worker.interrupt()
    worker.wait_for("once more stops at once", 10)
    worker.interrupt()

    assert worker.wait(5) == 130
    assert "stopped at once" in worker.log()
