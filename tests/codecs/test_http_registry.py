"""The HTTP client against a real server that speaks the registry's REST interface."""

import base64
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import msgspec
import pytest

from streamlet.codecs import DecodeError, codec_for
from streamlet.codecs.avro_format import avro
from streamlet.codecs.http_registry import HttpRegistry, RegistryUrl
from streamlet.codecs.registry import BadSchema, IncompatibleSchema, RegistryRefused, RegistryUnavailable, SchemaNotFiled, UnknownSchemaId


@dataclass
class Server:
    """A registry in memory. `failures` are given out first, one per request."""

    url: str = ""
    schemas: list[str] = field(default_factory=list)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    failures: list[tuple[int, bytes]] = field(default_factory=list)
    credentials: str | None = None
    answers: dict[str, tuple[int, object]] = field(default_factory=dict)

    def answer(self, method: str, path: str, authorization: str | None, body: bytes) -> tuple[int, bytes]:
        self.requests.append(f"{method} {path}")
        if self.failures:
            return self.failures.pop(0)
        if self.credentials and authorization != "Basic " + base64.b64encode(self.credentials.encode()).decode():
            return 401, b'{"error_code": 401, "message": "Unauthorized"}'
        status, answer = self.answers.get(path) or self.route(path.strip("/").split("/"), json.loads(body or b"{}"))
        return status, json.dumps(answer).encode()

    def route(self, path: list[str], body: dict[str, str]) -> tuple[int, object]:
        match path:
            case ["schemas", "ids", number]:
                known = int(number) <= len(self.schemas)
                return (
                    (200, {"schema": self.schemas[int(number) - 1]})
                    if known
                    else (404, {"error_code": 40403, "message": "Schema not found"})
                )
            case ["subjects", subject, "versions"]:
                return self.file(unquote(subject), body["schema"])
            case ["subjects", subject, "versions", "latest"]:
                ids = self.subjects.get(unquote(subject))
                return (
                    (200, {"id": ids[-1], "version": len(ids), "schema": self.schemas[ids[-1] - 1]})
                    if ids
                    else (404, {"error_code": 40401, "message": "Subject not found"})
                )
            case ["subjects", subject]:
                if body["schema"] in self.schemas and self.schemas.index(body["schema"]) + 1 in self.subjects.get(unquote(subject), []):
                    return 200, {"id": self.schemas.index(body["schema"]) + 1}
                return 404, {"error_code": 40403, "message": "Schema not found"}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def file(self, subject: str, schema: str) -> tuple[int, object]:
        if schema not in self.schemas:
            self.schemas.append(schema)
        ids = self.subjects.setdefault(subject, [])
        schema_id = self.schemas.index(schema) + 1
        if schema_id not in ids:
            ids.append(schema_id)
        return 200, {"id": schema_id}


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, answer = state.answer(self.command, self.path, self.headers.get("Authorization"), body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = handle_any  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        state.url = f"http://127.0.0.1:{http.server_address[1]}"
        yield state
        http.shutdown()
        thread.join()


class Item(msgspec.Struct):
    id: str
    count: int = 1


def test_records_go_from_writer_to_reader_through_the_registry(server):
    writer = codec_for(Item, avro(registry=HttpRegistry(server.url)), topic="items")
    reader = codec_for(Item, avro(registry=HttpRegistry(server.url), register=False), topic="items")

    data = writer.encode(Item("a", 2))

    assert data[:5] == b"\x00\x00\x00\x00\x01"
    assert reader.decode(data) == Item("a", 2)
    assert list(server.subjects) == ["items-value"]


def test_each_schema_is_asked_for_once(server):
    server.file("items-value", '{"type": "record", "name": "Item", "fields": [{"name": "id", "type": "string"}]}')
    codec = codec_for(Item, avro(registry=HttpRegistry(server.url)), topic="items")

    values = [codec.decode(b"\x00\x00\x00\x00\x01\x02a") for _ in range(3)]

    assert values == [Item("a", 1)] * 3
    assert server.requests == ["GET /schemas/ids/1"]


def test_lookups_find_what_was_filed(server):
    registry = HttpRegistry(server.url + "/")
    schema_id = registry.register("odd/subject name", '"long"')

    assert registry.find("odd/subject name", '"long"') == schema_id
    assert registry.latest("odd/subject name") == (schema_id, '"long"')
    assert registry.by_id(schema_id) == '"long"'
    assert server.requests[0] == "POST /subjects/odd%2Fsubject%20name/versions"


def test_credentials_are_sent_and_never_shown(server):
    server.credentials = "me:s3cret"
    registry = HttpRegistry(server.url, user="me", password="s3cret")

    assert registry.register("a", '"long"') == 1
    assert "s3cret" not in repr(registry)


def test_wrong_credentials_are_said_to_be_wrong_at_once(server):
    server.credentials = "me:s3cret"

    with pytest.raises(RegistryRefused) as failure:
        HttpRegistry(server.url, user="me", password="wrong").register("a", '"long"')

    assert (failure.value.status, failure.value.why) == (401, "Unauthorized")
    assert "Check user and password" in str(failure.value)
    assert "wrong" not in str(failure.value)
    assert len(server.requests) == 1


def test_an_unknown_id_is_a_fault_of_the_record_and_asked_once_in_a_while(server):
    now = [100.0]
    registry = HttpRegistry(server.url, clock=lambda: now[0])
    codec = codec_for(Item, avro(registry=registry), topic="items")

    for _ in range(3):
        with pytest.raises(DecodeError) as failure:
            codec.decode(b"\x00\x00\x00\x00\x07\x02a")
    now[0] += 11
    with pytest.raises(UnknownSchemaId):
        registry.by_id(7)

    assert isinstance(failure.value.__cause__, UnknownSchemaId)
    assert server.requests == ["GET /schemas/ids/7"] * 2


def test_an_unfiled_schema_or_subject_is_named(server):
    registry = HttpRegistry(server.url)

    with pytest.raises(SchemaNotFiled) as by_text:
        registry.find("items-value", '"long"')
    with pytest.raises(SchemaNotFiled):
        registry.latest("items-value")

    assert by_text.value.subject == "items-value"


def test_an_incompatible_schema_shows_the_registrys_reason(server):
    why = "Schema being registered is incompatible: READER_FIELD_MISSING_DEFAULT_VALUE at /fields/1"
    server.answers["/subjects/items-value/versions"] = (409, {"error_code": 409, "message": why})
    codec = codec_for(Item, avro(registry=HttpRegistry(server.url)), topic="items")

    with pytest.raises(IncompatibleSchema) as failure:
        codec.prepare()

    assert (failure.value.subject, failure.value.why) == ("items-value", why)
    assert len(server.requests) == 1


def test_an_invalid_schema_shows_the_registrys_reason(server):
    server.answers["/subjects/a/versions"] = (422, {"error_code": 42201, "message": "Invalid schema"})

    with pytest.raises(BadSchema) as failure:
        HttpRegistry(server.url).register("a", "{}")

    assert failure.value.why == "Invalid schema"


def test_a_schema_of_another_kind_is_refused(server):
    server.answers["/schemas/ids/1"] = (200, {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"})

    with pytest.raises(DecodeError, match="PROTOBUF"):
        codec_for(Item, avro(registry=HttpRegistry(server.url))).decode(b"\x00\x00\x00\x00\x01\x02a")


def test_a_passing_failure_is_survived(server):
    pauses: list[float] = []
    server.failures = [(500, b'{"message": "leader"}'), (503, b"<html>"), (429, b"")]

    assert HttpRegistry(server.url, sleep=pauses.append).register("a", '"long"') == 1
    assert pauses == [0.1, 0.2, 0.4]


def test_a_lasting_failure_is_nobodys_records_fault(server):
    pauses: list[float] = []
    server.failures = [(500, b'{"message": "leader lost"}')] * 10
    codec = codec_for(Item, avro(registry=HttpRegistry(server.url, tries=3, sleep=pauses.append)), topic="items")

    with pytest.raises(RegistryUnavailable) as failure:
        codec.decode(b"\x00\x00\x00\x00\x01\x02a")

    assert (failure.value.tries, failure.value.why) == (3, "status 500 leader lost")
    assert len(server.requests) == 3
    assert len(pauses) == 2


def test_a_registry_that_is_not_there_is_said_to_be_unavailable(server):
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as closed:
        port = closed.server_address[1]

    with pytest.raises(RegistryUnavailable, match="refused"):
        HttpRegistry(f"http://127.0.0.1:{port}", tries=2, sleep=lambda _: None).by_id(1)


def test_an_answer_that_is_no_registrys_is_refused(server):
    server.answers["/subjects/a/versions"] = (200, ["not", "an", "object"])

    with pytest.raises(RegistryRefused) as failure:
        HttpRegistry(server.url).register("a", '"long"')

    assert failure.value.status == 200


@pytest.mark.parametrize("url", ["registry:8081", "ftp://registry", "http://", "http://me:s3cret@registry:8081"])
def test_an_unusable_address_is_refused_without_showing_secrets(url):
    with pytest.raises(RegistryUrl) as failure:
        HttpRegistry(url)

    assert "s3cret" not in str(failure.value)
