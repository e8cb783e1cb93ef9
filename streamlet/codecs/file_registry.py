"""A schema registry in one JSON file: for laptops and tests, shared by the processes of one machine.

It files and finds; unlike a registry server it does not judge compatibility.
Invariant: the file is replaced whole, under a lock, so that a reader sees all of a registration or nothing.
"""

import fcntl
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from streamlet.codecs.registry import SchemaNotFiled, UnknownSchemaId
from streamlet.errors import ConfigError

_FORMAT: Final = 1


class _Entry(msgspec.Struct, frozen=True):
    subject: str
    id: int
    schema: str


class _Content(msgspec.Struct, frozen=True):
    format: int = _FORMAT
    schemas: tuple[_Entry, ...] = ()


class BadRegistryFile(ConfigError):
    """The file is there, but it is no registry of ours."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(path, why)
        self.path, self.why = path, why

    def __str__(self) -> str:
        return f"{self.path} is not a schema registry file: {self.why}. Name another file, or move this one away to begin a new one."


@dataclass(frozen=True, slots=True)
class FileRegistry:
    """Schemas in the file at `path`, which is made on the first registration. Writers take turns by its lock."""

    path: Path

    def register(self, subject: str, schema: str) -> int:
        """File a schema and return its id; ids are shared between subjects, as in a registry server."""
        with self._locked():
            content = self._read()
            meaning = json.loads(schema)
            same = [entry for entry in content.schemas if json.loads(entry.schema) == meaning]
            if any(entry.subject == subject for entry in same):
                return same[0].id
            schema_id = same[0].id if same else max((entry.id for entry in content.schemas), default=0) + 1
            self._replace(_Content(schemas=(*content.schemas, _Entry(subject, schema_id, schema))))
            return schema_id

    def find(self, subject: str, schema: str) -> int:
        """The id of a schema that is filed already."""
        meaning = json.loads(schema)
        for entry in self._read().schemas:
            if entry.subject == subject and json.loads(entry.schema) == meaning:
                return entry.id
        raise SchemaNotFiled(subject, str(self.path))

    def by_id(self, schema_id: int) -> str:
        """The schema a record was written with."""
        for entry in self._read().schemas:
            if entry.id == schema_id:
                return entry.schema
        raise UnknownSchemaId(schema_id, str(self.path))

    def latest(self, subject: str) -> tuple[int, str]:
        """Id and text of the newest schema of a subject."""
        for entry in reversed(self._read().schemas):
            if entry.subject == subject:
                return entry.id, entry.schema
        raise SchemaNotFiled(subject, str(self.path))

    def _read(self) -> _Content:
        try:
            content = msgspec.json.decode(self.path.read_bytes(), type=_Content)
        except FileNotFoundError:
            return _Content()
        except msgspec.MsgspecError as error:
            raise BadRegistryFile(self.path, str(error)) from error
        if content.format != _FORMAT:
            raise BadRegistryFile(self.path, f"its format is {content.format}, this release reads {_FORMAT}")
        return content

    def _replace(self, content: _Content) -> None:
        fresh = self.path.with_name(self.path.name + ".new")
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(content)))
        fresh.replace(self.path)

    @contextmanager
    def _locked(self) -> Generator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # The lock is a file of its own, since the registry's file is replaced. Closing it releases the lock.
        handle = os.open(self.path.with_name(self.path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)
