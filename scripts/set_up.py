"""Make `.venv` ready for `scripts/demo` or `scripts/test`: packages, Kafka's jars, wheels for the packaging test.

Runs on the newcomer's own Python, so only the standard library is used here. What is already in place is not
touched: a second run needs no network.

Invariant: one set-up at a time per clone; a stamp is written only after its step has succeeded.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
EXTRAS = {"demo": ["local"], "test": ["dev", "local"]}


class SetUpFailed(Exception):
    """A step did not work; the text says what to do."""


def main(purpose: str) -> None:
    """Bring everything that `purpose` needs into place."""
    with one_at_a_time():
        make_venv()
        install_project(EXTRAS[purpose])
        fetch_kafka()
        if purpose == "test":
            collect_wheels()


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Hold the clone's set-up lock; the kernel drops it when this process ends, however it ends."""
    folder = ROOT / ".streamlet"
    folder.mkdir(exist_ok=True)
    with (folder / "set-up.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another set-up is running here, waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make_venv() -> None:
    """Create `.venv`, or create it again when its Python is gone or too old."""
    probe = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    if PYTHON.exists() and subprocess.run([PYTHON, "-c", probe], check=False, capture_output=True).returncode == 0:
        return
    say(f"making .venv with Python {sys.version.split()[0]}")
    if VENV.exists():
        shutil.rmtree(VENV)
    result = subprocess.run([sys.executable, "-m", "venv", VENV], check=False, capture_output=True, text=True)
    if result.returncode != 0:
        shutil.rmtree(VENV, ignore_errors=True)
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise SetUpFailed(
            f"{sys.executable} cannot make a virtual environment: {(result.stdout + result.stderr).strip()}\n"
            f"On Debian and Ubuntu the module is a package of its own: apt install python{version}-venv. Then run this again."
        )


def install_project(extras: list[str]) -> None:
    """Install the project, editable, when pyproject.toml has changed since the last time."""
    stamp = VENV / f"installed-{'-'.join(extras)}"
    if is_stamped(stamp):
        return
    what = f".[{','.join(extras)}]"
    say(f"installing {what} (a few minutes the first time)")
    pip("install", "--quiet", "--editable", what)
    write_stamp(stamp)


def fetch_kafka() -> None:
    """Bring Kafka's jars into the user's cache folder; the module itself knows what is already there."""
    if not (ROOT / "streamlet" / "local" / "artefacts.py").exists():
        return
    run([PYTHON, "-m", "streamlet.local.artefacts"], "Kafka could not be fetched")


def collect_wheels() -> None:
    """Keep wheels of what a plain `pip install streamlet` needs, so that the packaging test works offline."""
    house = VENV / "wheelhouse"
    stamp = house / "collected"
    if is_stamped(stamp):
        return
    say("collecting wheels for the packaging test")
    shutil.rmtree(house, ignore_errors=True)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    pip("wheel", "--quiet", "--wheel-dir", str(house), *project["project"]["dependencies"], *project["build-system"]["requires"])
    write_stamp(stamp)


def is_stamped(stamp: Path) -> bool:
    """Whether the step behind `stamp` was done for the pyproject.toml of now."""
    return stamp.exists() and stamp.read_text() == fingerprint()


def write_stamp(stamp: Path) -> None:
    """Remember that the step is done for the pyproject.toml of now."""
    stamp.write_text(fingerprint())


def fingerprint() -> str:
    """Changes when the project must be installed again: other dependencies, other packages, a moved clone."""
    return hashlib.sha256(str(ROOT).encode() + (ROOT / "pyproject.toml").read_bytes()).hexdigest()


def pip(*arguments: str) -> None:
    """Run the venv's pip in the clone."""
    run(
        [PYTHON, "-m", "pip", "--disable-pip-version-check", *arguments],
        "pip could not finish (its own words are above). The first set-up needs a network; check it, then run this again",
    )


def run(command: list[str | Path], trouble: str) -> None:
    """Run one step in the clone; its output goes to the screen."""
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        raise SetUpFailed(f"{trouble}.")


def say(text: str) -> None:
    """One calm line of progress."""
    print(f"set-up: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    os.umask(0o022)
    try:
        main(sys.argv[1])
    except SetUpFailed as failure:
        say(str(failure))
        sys.exit(2)
    except KeyboardInterrupt:
        say("interrupted; the next run goes on from here")
        sys.exit(130)
