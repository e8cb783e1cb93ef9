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
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
FETCH = """
import sys
from streamlet.errors import StreamletError
from streamlet.local.artefacts import fetch
from streamlet.local.jars import read_lock
try:
    fetch(read_lock())
except StreamletError as error:
    sys.exit(f"error: {error}")
"""
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
    """Install the project, editable: with its dependencies when those have changed, else only when it has moved."""
    what = f".[{','.join(extras)}]"
    dependencies = [VENV / f"dependencies-{extra}" for extra in extras]
    project = VENV / "project"
    if not all(is_stamped(stamp, wanted_packages()) for stamp in dependencies):
        say(f"installing {what} (a few minutes the first time)")
        pip("install", "--quiet", "--editable", what, *read_project()["build-system"]["requires"])
        for stamp in dependencies:
            stamp.write_text(wanted_packages())
        project.write_text(project_layout())
    elif not is_stamped(project, project_layout()):
        say("pyproject.toml has changed, installing the project again")
        pip("install", "--quiet", "--no-deps", "--no-build-isolation", "--editable", ".")  # needs no network
        project.write_text(project_layout())


def fetch_kafka() -> None:
    """Bring Kafka's jars into the user's cache folder; the module itself knows what is already there."""
    run([PYTHON, "-c", FETCH], "Kafka could not be fetched")


def collect_wheels() -> None:
    """Keep wheels of what a plain `pip install streamlet` needs, so that the packaging test works offline."""
    house = VENV / "wheelhouse"
    stamp = house / "collected"
    if is_stamped(stamp, wanted_packages()):
        return
    say("collecting wheels for the packaging test")
    shutil.rmtree(house, ignore_errors=True)
    project = read_project()
    pip("wheel", "--quiet", "--wheel-dir", str(house), *project["project"]["dependencies"], *project["build-system"]["requires"])
    stamp.write_text(wanted_packages())


def is_stamped(stamp: Path, fingerprint: str) -> bool:
    """Whether the step behind `stamp` was done for this fingerprint."""
    return stamp.exists() and stamp.read_text() == fingerprint


def wanted_packages() -> str:
    """Changes when other packages are wanted from the index."""
    project = read_project()["project"]
    build = read_project()["build-system"]["requires"]
    return fingerprint(f"{project['requires-python']} {project['dependencies']} {project['optional-dependencies']} {build}")


def project_layout() -> str:
    """Changes when the editable installation no longer fits: any change of pyproject.toml, or a moved clone."""
    return fingerprint(f"{ROOT} {(ROOT / 'pyproject.toml').read_text()}")


def read_project() -> dict[str, Any]:
    """The project's own description."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def fingerprint(text: str) -> str:
    """A short value that changes with `text`."""
    return hashlib.sha256(text.encode()).hexdigest()


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
