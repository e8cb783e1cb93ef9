"""Locked sets of jars: exactly which files a Java program runs on, with their checksums.

A lock is kept in the package, so that every machine runs the same bytes and nothing is resolved at start.

Invariant: a lock that was written and read again is the same lock.
"""

from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from streamlet.errors import ConfigError

KAFKA_VERSION: Final = "4.3.1"
KAFKA_LOCK: Final = f"kafka-{KAFKA_VERSION}"


class BadLock(ConfigError):
    """A lock file that cannot be read."""

    def __init__(self, name: str, line: str) -> None:
        super().__init__(name, line)
        self.name, self.line = name, line

    def __str__(self) -> str:
        return f"Lock '{self.name}' has a line that is not 'group:artifact:version[:classifier] sha256 size': {self.line!r}. Install streamlet again."


@dataclass(frozen=True, slots=True)
class Jar:
    """One file of a Maven repository and what its bytes must be."""

    group: str
    artifact: str
    version: str
    classifier: str  # empty for the main jar
    sha256: str
    size: int

    @property
    def filename(self) -> str:
        """The file's name, as in the repository."""
        ending = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{ending}.jar"

    @property
    def coordinate(self) -> str:
        """`group:artifact:version[:classifier]`."""
        return ":".join(part for part in (self.group, self.artifact, self.version, self.classifier) if part)


@dataclass(frozen=True, slots=True)
class Lock:
    """A named set of jars that belong on one class path."""

    name: str
    jars: tuple[Jar, ...]

    @property
    def size(self) -> int:
        """Bytes of all jars together."""
        return sum(jar.size for jar in self.jars)


def read_lock(name: str = KAFKA_LOCK) -> Lock:
    """Read a lock that is part of this package."""
    return parse_lock(name, files("streamlet.local").joinpath(f"{name}.lock").read_text("utf-8"))


def parse_lock(name: str, text: str) -> Lock:
    """Read what `render_lock` wrote."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return Lock(name, tuple(_parse_line(name, line) for line in lines))


def _parse_line(name: str, line: str) -> Jar:
    fields = line.split(" ")
    coordinate = fields[0].split(":")
    if len(fields) != 3 or len(coordinate) not in {3, 4} or len(fields[1]) != 64 or not fields[2].isdecimal():
        raise BadLock(name, line)
    group, artifact, version, *classifier = coordinate
    return Jar(group, artifact, version, "".join(classifier), fields[1], int(fields[2]))


def render_lock(lock: Lock, *, comment: str) -> str:
    """The text of a lock file: sorted, one jar per line."""
    jars = sorted(lock.jars, key=lambda jar: jar.coordinate)
    return "".join([f"# {comment}\n", *(f"{jar.coordinate} {jar.sha256} {jar.size}\n" for jar in jars)])
