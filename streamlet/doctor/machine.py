"""Checks of the machine itself. Each function takes what it judges as arguments where a test must be able to choose it."""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from streamlet.doctor.findings import Finding, error, ok, warning
from streamlet.errors import ConfigError
from streamlet.local.java import find_java

OLDEST_PYTHON: Final = (3, 11)
LITTLE_SPACE: Final = 5 * 1000**3
NO_SPACE: Final = 500 * 1000**2


def check_python(version: tuple[int, int, int] = sys.version_info[:3], *, optimized: bool = bool(sys.flags.optimize)) -> Finding:
    """New enough, and with assertions on."""
    text = ".".join(str(part) for part in version)
    if version[:2] < OLDEST_PYTHON:
        return error("Python", f"{text} is too old", "Use Python 3.11 or newer.")
    if optimized:
        return error(
            "Python", f"{text} runs with -O, which removes the checks that protect state", "Run without -O and without PYTHONOPTIMIZE."
        )
    return ok("Python", text)


def check_java() -> Finding:
    """Only the local Kafka and Spark need it, so its absence is no error."""
    try:
        java = find_java()
    except ConfigError as missing:
        return warning("Java", "none that a local Kafka could use", str(missing))
    return ok("Java", f"{java.major} from {java.source} ({java.path})")


def check_disk(folder: Path, free: int | None = None) -> Finding:
    """Room for local copies of state."""
    place = _existing(folder)
    free = shutil.disk_usage(place).free if free is None else free
    text = f"{free / 1000**3:.1f} GB free at {place}"
    fix = "Free some space, or choose another folder with --state-dir or STREAMLET_STATE_DIR."
    if free < NO_SPACE:
        return error("disk", text, fix)
    return warning("disk", text, fix) if free < LITTLE_SPACE else ok("disk", text)


def check_state_folder(folder: Path) -> Finding:
    """Can be written, or made; nothing is left behind."""
    place = _existing(folder)
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as refused:
        why = refused.strerror or str(refused)
        fix = f"Make {place} a folder that you may write to, or choose another one with --state-dir or STREAMLET_STATE_DIR."
        return error("state folder", f"{folder} cannot be written: {why}", fix)
    return ok("state folder", f"{folder} can be written" if place == folder else f"{folder} can be made")


def _existing(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if place.exists())
