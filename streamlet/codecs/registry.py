"""Where writers file their Avro schemas, so that readers find the one each record was written with.

Two implementations: `HttpRegistry` (Confluent's REST interface) and `FileRegistry` (one JSON file, for laptops and tests).

    ConfigError
    ├── RegistryRefused      credentials, path or request: nothing will change by trying again
    ├── IncompatibleSchema   the new schema would break readers of the old records
    ├── BadSchema            what was given is no Avro schema
    └── SchemaNotFiled       register=False, and nobody has filed this schema
    RetryError
    └── RegistryUnavailable  no answer, or 5xx, after all tries
    StreamletError
    └── UnknownSchemaId      a record names an id that the registry does not have
"""

from typing import Protocol

from streamlet.errors import ConfigError, RetryError, StreamletError


class Registry(Protocol):
    """Schemas by id and by subject. Texts are JSON; an id never changes its meaning, so answers may be cached for ever."""

    def register(self, subject: str, schema: str) -> int: ...  # the id; the same schema gets the same id again
    def find(self, subject: str, schema: str) -> int: ...  # the id, without filing anything
    def by_id(self, schema_id: int) -> str: ...
    def latest(self, subject: str) -> tuple[int, str]: ...


class RegistryUnavailable(RetryError):
    """The registry gave no usable answer, although asked several times."""

    def __init__(self, url: str, tries: int, why: str) -> None:
        super().__init__(url, tries, why)
        self.url, self.tries, self.why = url, tries, why

    def __str__(self) -> str:
        return f"The schema registry at {self.url} did not answer after {self.tries} tries: {self.why}. No record is at fault; try again when it is back."


class RegistryRefused(ConfigError):
    """The registry answered, and refused."""

    def __init__(self, url: str, status: int, why: str) -> None:
        super().__init__(url, status, why)
        self.url, self.status, self.why = url, status, why

    def __str__(self) -> str:
        fix = "Check user and password" if self.status in (401, 403) else "Check the address and the request"
        return f"The schema registry refused {self.url} with status {self.status}: {self.why}. {fix}."


class IncompatibleSchema(ConfigError):
    """The registry will not take this schema beside the ones the subject has."""

    def __init__(self, subject: str, why: str) -> None:
        super().__init__(subject, why)
        self.subject, self.why = subject, why

    def __str__(self) -> str:
        return (
            f"The schema of '{self.subject}' breaks what is already filed there: {self.why}. "
            "Give new fields a default and remove none without one, or relax the subject's compatibility in the registry."
        )


class BadSchema(ConfigError):
    """What was given as an Avro schema cannot be used as one."""

    def __init__(self, subject: str, why: str) -> None:
        super().__init__(subject, why)
        self.subject, self.why = subject, why

    def __str__(self) -> str:
        return f"The Avro schema of '{self.subject}' cannot be used: {self.why}. Correct the schema or the type it was derived from."


class SchemaNotFiled(ConfigError):
    """A schema or subject was looked up and is not in the registry."""

    def __init__(self, subject: str, where: str) -> None:
        super().__init__(subject, where)
        self.subject, self.where = subject, where

    def __str__(self) -> str:
        return (
            f"The registry {self.where} has no such schema under '{self.subject}'. File it there first, or let avro(register=True) do it."
        )


class UnknownSchemaId(StreamletError):
    """A record was written with a schema that the registry does not have."""

    exit_code = 6

    def __init__(self, schema_id: int, where: str) -> None:
        super().__init__(schema_id, where)
        self.schema_id, self.where = schema_id, where

    def __str__(self) -> str:
        return f"The registry {self.where} has no schema with id {self.schema_id}. The record is not in Confluent's format, or its writer used another registry."
