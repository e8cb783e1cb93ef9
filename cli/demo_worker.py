"""The worker of the demo: `streamlet run` as a process of its own, the way a user starts it, killed without warning and started again."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

from streamlet.errors import StreamletError
from streamlet.local.process import ProcessId, is_alive, send, spawn, wait_until_gone

_STOP_S: Final = 10.0
_KILL_S: Final = 10.0
_LAST_LINES: Final = 15


class WorkerEnded(StreamletError):
    """The worker ended although nobody asked it to."""

    def __init__(self, log: Path, last_words: str) -> None:
        super().__init__(log, last_words)
        self.log, self.last_words = log, last_words

    def __str__(self) -> str:
        return f"The demo's worker ended by itself. `streamlet doctor` may find out why; the worker's last words:\n{self.last_words}"


class DemoWorker:
    """At most one worker at a time, always on the same state folder. Leaving the block stops it."""

    def __init__(self, file: Path, brokers: str, folder: Path) -> None:
        self._command: list[str | Path] = [
            *(sys.executable, "-m", "streamlet.cli", "run", file),
            *("--brokers", brokers, "--state-dir", folder / "state", "--log-format", "json"),
        ]
        self._folder = folder
        self._process: ProcessId | None = None
        self._starts = 0

    def __enter__(self) -> "DemoWorker":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> int:
        """Start a worker and return its pid. It has nothing of this process's settings but what the command says."""
        assert self._process is None, "one worker at a time"
        self._starts += 1
        clean = {name: value for name, value in os.environ.items() if not name.startswith("STREAMLET_")}
        self._process = spawn(self._command, output=self._log, folder=self._folder, die_with_parent=True, environment=clean)
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL: gone at once, as when the machine loses power."""
        self._end(signal.SIGKILL, _KILL_S)

    def stop(self) -> None:
        """SIGTERM: a last commit, then the end; SIGKILL if that takes too long."""
        self._end(signal.SIGTERM, _STOP_S)

    def check_alive(self) -> None:
        """Raise if it ended by itself."""
        if self._process is not None and not is_alive(self._process):
            self._process = None
            raise WorkerEnded(self._log, "\n".join(self._log.read_text(errors="replace").splitlines()[-_LAST_LINES:]))

    def replayed(self) -> int | None:
        """How many changelog records it replayed at its start, by its own log; None until every task has said so."""
        return replayed_in(self._log.read_text(errors="replace"))

    @property
    def _log(self) -> Path:
        return self._folder / f"worker-{self._starts}.log"

    def _end(self, number: signal.Signals, within_s: float) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        send(process, number)
        if wait_until_gone([process], time.monotonic() + within_s):
            send(process, signal.SIGKILL)
            wait_until_gone([process], time.monotonic() + _KILL_S)


def replayed_in(log: str) -> int | None:
    """The sum over all tasks; None while one of them is still restored. Half a line at the end is not read."""
    said = [json.loads(line) for line in log.splitlines(keepends=True) if line.startswith("{") and line.endswith("\n")]
    tasks = next((int(each["tasks"]) for each in said if each["message"] == "worker started"), None)
    records = [int(each["records"]) for each in said if each["message"] == "task restored"]
    return sum(records) if tasks is not None and len(records) >= tasks else None
