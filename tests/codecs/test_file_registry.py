"""The registry in a file: ids, subjects, and writers that take turns."""

import json
import subprocess
import sys

import pytest

from streamlet.codecs.file_registry import BadRegistryFile, FileRegistry
from streamlet.codecs.registry import SchemaNotFiled, UnknownSchemaId


@pytest.fixture
def registry(tmp_path):
    return FileRegistry(tmp_path / "deep" / "schemas.json")


def test_the_same_schema_keeps_its_id_whatever_its_spelling(registry):
    first = registry.register("a-value", '{"type": "long"}')

    assert registry.register("a-value", '{ "type":"long" }') == first
    assert registry.register("b-value", '{"type": "long"}') == first
    assert registry.register("a-value", '"string"') == first + 1


def test_schemas_are_found_by_id_subject_and_text(registry):
    registry.register("a-value", '"long"')
    registry.register("a-value", '"string"')

    assert registry.by_id(1) == '"long"'
    assert registry.latest("a-value") == (2, '"string"')
    assert registry.find("a-value", '"long"') == 1


def test_what_is_not_filed_is_refused(registry):
    registry.register("a-value", '"long"')

    with pytest.raises(UnknownSchemaId) as unknown:
        registry.by_id(9)
    with pytest.raises(SchemaNotFiled):
        registry.latest("b-value")
    with pytest.raises(SchemaNotFiled):
        registry.find("a-value", '"string"')

    assert unknown.value.schema_id == 9


@pytest.mark.parametrize("content", [b"", b"[]", b'{"format": 99, "schemas": []}', b"\xff\xfe"])
def test_a_foreign_file_is_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "schemas.json"
    path.write_bytes(content)

    with pytest.raises(BadRegistryFile):
        FileRegistry(path).register("a-value", '"long"')

    assert path.read_bytes() == content


def test_processes_that_register_at_once_lose_nothing(tmp_path):
    path = tmp_path / "schemas.json"
    script = (
        "import sys, pathlib, json\n"
        "from streamlet.codecs.file_registry import FileRegistry\n"
        "registry = FileRegistry(pathlib.Path(sys.argv[1]))\n"
        "for n in range(20):\n"
        "    registry.register(f'{sys.argv[2]}-{n}', json.dumps({'type': 'fixed', 'name': f'F{sys.argv[2]}', 'size': n}))\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", script, str(path), name]) for name in ("a", "b", "c")]

    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    entries = json.loads(path.read_bytes())["schemas"]
    assert sorted(entry["id"] for entry in entries) == list(range(1, 61))
