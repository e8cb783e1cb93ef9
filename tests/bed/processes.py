"""Real processes for tests: any command with its log in a file, and the faults a machine can do to it.

Invariant: a `Processes` that was closed has left nothing running.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.bed.waiting import NeverHappened, eventually


class DiedTooEarly(AssertionError):
    """A process ended while the test was waiting for something it should have done."""

    def __init__(self, name: str, exit_code: int, waited_for: str, log: str) -> None:
        super().__init__(name, exit_code, waited_for, log)
        self.name, self.exit_code, self.waited_for, self.log = name, exit_code, waited_for, log

    def __str__(self) -> str:
        return f"{self.name} ended with {self.exit_code} while the test waited for {self.waited_for}; its log ends:\n{tail(self.log)}"


class RunningProcess:
    """One process that a test started. Output and errors go to one log file, in the order they were written."""

    def __init__(self, name: str, popen: subprocess.Popen[bytes], log_path: Path) -> None:
        self.name, self.log_path = name, log_path
        self._popen = popen

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """What it ended with (minus the signal's number if one killed it), None while it runs."""
        return self._popen.poll()

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def kill(self) -> None:
        """SIGKILL: no last words, as when the machine loses power. Returns when it is gone."""
        self._popen.kill()
        self._popen.wait(10)

    def terminate(self) -> None:
        """SIGTERM: asks it to end; see `wait`."""
        self._popen.terminate()

    def interrupt(self) -> None:
        """SIGINT: what Ctrl-C sends."""
        self._popen.send_signal(signal.SIGINT)

    def pause(self) -> None:
        """SIGSTOP: alive but silent, as in a long garbage collection or on a frozen virtual machine."""
        self._popen.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: goes on as if no time had passed."""
        self._popen.send_signal(signal.SIGCONT)

    def wait(self, within_s: float) -> int:
        """Wait for its end and return its exit code."""
        try:
            return self._popen.wait(within_s)
        except subprocess.TimeoutExpired:
            raise NeverHappened(f"the end of {self.name} (log ends: {tail(self.log())})", within_s, None) from None

    def wait_for(self, pattern: str, within_s: float) -> re.Match[str]:
        """Wait until the log matches the regular expression `pattern`, and return the match."""
        what = f"{pattern!r} in the log of {self.name}"

        def match() -> re.Match[str] | None:
            ended = self.exit_code  # asked before the log is read, so that last words are seen
            found = re.search(pattern, self.log(), re.MULTILINE)
            if found is None and ended is not None:
                raise DiedTooEarly(self.name, ended, what, self.log())
            return found

        found = eventually(match, within_s, what)
        assert found is not None, "eventually returns what is true"
        return found

    def close(self) -> None:
        """Make sure that it is gone, also when it was paused."""
        if self.exit_code is None:
            self.kill()


class Processes:
    """All processes of one test; closed by the fixture of the same name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.started: list[RunningProcess] = []

    def start(
        self, command: Sequence[str | Path], *, name: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> RunningProcess:
        """Start `command`, with `env` added to this process's environment."""
        log_path = self._folder / f"{len(self.started)}-{name}.log"
        with log_path.open("wb") as log:
            popen = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=cwd or self._folder,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
            )
        process = RunningProcess(name, popen, log_path)
        self.started.append(process)
        return process

    def start_python(self, source: str, *, name: str, env: Mapping[str, str] | None = None) -> RunningProcess:
        """Start this Python on a piece of source."""
        return self.start([sys.executable, "-c", source], name=name, env=env)

    def start_streamlet(self, *arguments: str | Path, name: str = "streamlet", env: Mapping[str, str] | None = None) -> RunningProcess:
        """Start the `streamlet` command that is installed beside this Python."""
        return self.start([Path(sys.executable).with_name("streamlet"), *arguments], name=name, env=env)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.started:
            process.close()


def tail(text: str, lines: int = 40) -> str:
    """The last lines of a log."""
    return "\n".join(text.splitlines()[-lines:])
