"""Confluent's schema registry over its REST interface, with the standard library only.

Invariant: every call ends: each try has a timeout, and there are at most `tries` of them.
Invariant: no message and no `repr` shows a password.
"""

import base64
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Final, TypeVar, cast

from streamlet.codecs.registry import BadSchema, IncompatibleSchema, RegistryRefused, RegistryUnavailable, SchemaNotFiled, UnknownSchemaId
from streamlet.errors import ConfigError

V = TypeVar("V")

_CONTENT: Final = "application/vnd.schemaregistry.v1+json"
_ANSWER_BYTES: Final = 16 * 1024 * 1024  # more than any schema, less than what would hurt
_CACHED: Final = 1_000
_UNKNOWN_S: Final = 10.0  # how long "no such id" is believed: replicas of a registry may lag behind their writer


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: dict[str, object]

    def text(self, name: str) -> str:
        value = self.body.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> int:
        value = self.body.get(name)
        return value if isinstance(value, int) else -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """How to trust the registry, and how to prove who we are, as PEM files."""

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None

    def context(self) -> ssl.SSLContext:
        """The context for one client."""
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.cert_file is not None:
            context.load_cert_chain(self.cert_file, self.key_file)
        return context


@dataclass(slots=True)
class HttpRegistry:
    """A client with a cache. Its only writer is the loop that uses it."""

    url: str
    user: str | None = field(default=None, kw_only=True)
    password: str | None = field(default=None, kw_only=True, repr=False)
    tls: Tls = field(default=Tls(), kw_only=True)
    timeout_ms: int = field(default=5_000, kw_only=True)
    tries: int = field(default=4, kw_only=True)
    backoff_ms: int = field(default=100, kw_only=True)
    sleep: Callable[[float], None] = field(default=time.sleep, kw_only=True, repr=False)
    clock: Callable[[], float] = field(default=time.monotonic, kw_only=True, repr=False)
    _schemas: dict[int, str] = field(default_factory=dict[int, str], init=False, repr=False)
    _unknown: dict[int, float] = field(default_factory=dict[int, float], init=False, repr=False)
    _opener: urllib.request.OpenerDirector | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise RegistryUrl(self.url if parts.password is None else "...", "it does not begin with http:// or https:// and a host")
        if parts.username is not None:
            raise RegistryUrl(
                f"{parts.scheme}://...@{parts.hostname}", "it carries credentials, which would end up in logs; give user= and password="
            )
        if self.tries < 1 or self.timeout_ms < 1 or self.backoff_ms < 0:
            raise RegistryUrl(self.url, "tries and timeout_ms must be at least 1, backoff_ms at least 0")
        self.url = self.url.rstrip("/")

    def register(self, subject: str, schema: str) -> int:
        """File a schema and return its id."""
        answer = self._ask(f"/subjects/{_quoted(subject)}/versions", {"schema": schema})
        return self._id_of(answer, subject, f"/subjects/{_quoted(subject)}/versions")

    def find(self, subject: str, schema: str) -> int:
        """The id of a schema that is filed already."""
        answer = self._ask(f"/subjects/{_quoted(subject)}", {"schema": schema})
        return self._id_of(answer, subject, f"/subjects/{_quoted(subject)}")

    def latest(self, subject: str) -> tuple[int, str]:
        """Id and text of the newest schema of a subject."""
        path = f"/subjects/{_quoted(subject)}/versions/latest"
        answer = self._ask(path)
        return self._id_of(answer, subject, path), answer.text("schema")

    def by_id(self, schema_id: int) -> str:
        """The schema a record was written with; asked once."""
        if schema_id in self._schemas:
            return self._schemas[schema_id]
        if self.clock() < self._unknown.get(schema_id, float("-inf")):
            raise UnknownSchemaId(schema_id, self.url)
        path = f"/schemas/ids/{schema_id}"
        answer = self._ask(path)
        if answer.status == 404:
            _remember(self._unknown, schema_id, self.clock() + _UNKNOWN_S)
            raise UnknownSchemaId(schema_id, self.url)
        if answer.status != 200:
            raise self._refusal(answer, path)
        if (kind := answer.text("schemaType")) not in ("", "AVRO") or answer.body.get("references"):
            raise BadSchema(f"id {schema_id}", f"it is {kind or 'AVRO'} with references, and only self-contained Avro can be read")
        _remember(self._schemas, schema_id, answer.text("schema"))
        return self._schemas[schema_id]

    def _id_of(self, answer: _Answer, subject: str, path: str) -> int:
        if answer.status == 200 and (schema_id := answer.number("id")) >= 0:
            return schema_id
        if answer.status == 404 and answer.number("error_code") in (40401, 40402, 40403):  # subject, version, schema not found
            raise SchemaNotFiled(subject, self.url)
        if answer.status == 409:
            raise IncompatibleSchema(subject, answer.text("message").rstrip(".") or "the registry gives no reason")
        if answer.status == 422:
            raise BadSchema(subject, answer.text("message").rstrip(".") or "the registry gives no reason")
        raise self._refusal(answer, path)

    def _refusal(self, answer: _Answer, path: str) -> RegistryRefused:
        return RegistryRefused(self.url + path, answer.status, answer.text("message").rstrip(".") or "no reason given")

    def _ask(self, path: str, body: dict[str, str] | None = None) -> _Answer:
        why = ""
        for attempt in range(self.tries):
            if attempt:
                self.sleep(self.backoff_ms * 2 ** (attempt - 1) / 1000)
            try:
                answer = self._ask_once(path, body)
            except ssl.SSLCertVerificationError as error:
                raise RegistryRefused(self.url + path, 0, f"its certificate is not trusted ({error.verify_message})") from error
            except (OSError, HTTPException) as error:
                why = str(error) or type(error).__name__
                continue
            if answer.status < 500 and answer.status not in (408, 429):
                return answer
            why = f"status {answer.status} {answer.text('message')}".rstrip(" .")
        raise RegistryUnavailable(self.url, self.tries, why)

    def _ask_once(self, path: str, body: dict[str, str] | None) -> _Answer:
        request = urllib.request.Request(self.url + path, headers={"Accept": _CONTENT})  # noqa: S310  # the scheme is checked above
        if self.user is not None:
            pair = base64.b64encode(f"{self.user}:{self.password or ''}".encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {pair}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", _CONTENT)
        if self._opener is None:
            self._opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=self.tls.context()))
        try:
            with self._opener.open(request, timeout=self.timeout_ms / 1000) as response:
                return _Answer(response.status, _parsed(response.read(_ANSWER_BYTES)))
        except urllib.error.HTTPError as error:
            with error:
                return _Answer(error.code, _parsed(error.read(_ANSWER_BYTES)))
        except urllib.error.URLError as error:
            raise error.reason if isinstance(error.reason, OSError) else error from None


class RegistryUrl(ConfigError):
    """The address or a setting of a registry cannot be used."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(url, why)
        self.url, self.why = url, why

    def __str__(self) -> str:
        return f"HttpRegistry({self.url!r}) cannot be used: {self.why}. Example: HttpRegistry('https://registry:8081', user='me', password=...)."


def _parsed(body: bytes) -> dict[str, object]:
    try:
        answer: object = json.loads(body)
    except (ValueError, RecursionError):  # a proxy's error page
        return {}
    return cast("dict[str, object]", answer) if isinstance(answer, dict) else {}


def _quoted(subject: str) -> str:
    return urllib.parse.quote(subject, safe="")


def _remember(cache: dict[int, V], key: int, value: V) -> None:
    if len(cache) >= _CACHED:
        del cache[next(iter(cache))]
    cache[key] = value
