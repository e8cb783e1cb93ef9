"""Identifiers, each with a type of its own so that no two can be mixed up."""

import re
from dataclasses import dataclass
from typing import Final, NewType, Self

from streamlet.errors import ConfigError

StoreName = NewType("StoreName", str)
Slot = NewType("Slot", str)  # "<host>/<n>": a seat for a worker, with its state folder; survives restarts
Incarnation = NewType("Incarnation", str)  # "<app>-<slot>-<random>": one start of a worker, its transactional id
Term = NewType("Term", int)  # number of one ownership of one task, +1 at each change of owner

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
RESERVED_SUFFIXES: Final = ("-changelog", "-repartition", "-control", "-members", "-commits")


class BadName(ConfigError):
    """A name that cannot become part of a Kafka topic name."""

    def __init__(self, kind: str, name: str, why: str) -> None:
        super().__init__(kind, name, why)
        self.kind, self.name, self.why = kind, name, why

    def __str__(self) -> str:
        return f"{self.kind} name {self.name!r} cannot be used: {self.why}. Choose letters, digits, '.', '_' and '-', at most 200 of them."


def checked_name(kind: str, name: str) -> str:
    """Return `name` if it may become part of topic names, file names and transactional ids."""
    if not _NAME.fullmatch(name):
        raise BadName(kind, name, "it is empty, too long, begins with '.' or '-', or has a character Kafka does not allow")
    return name


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """Unit of work and of movement: `<name>/<partition>`, where the name is a source topic or a handler."""

    name: str
    partition: int

    def __str__(self) -> str:
        return f"{self.name}/{self.partition}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str` wrote."""
        name, slash, partition = text.rpartition("/")
        if not slash or not name or not partition.isdecimal():
            raise BadName("task", text, "a task is written <name>/<partition>, for example orders/3")
        return cls(name, int(partition))
