"""Stored entries as people read them, for every kind of store."""

import pytest

from streamlet.ids import StoreName
from streamlet.state.memory import MemoryBackend
from streamlet.state.reading import Entry, entry_reader, keys_of
from streamlet.state.spec import Kind, Scope, StoreSpec
from streamlet.state.task_state import TaskState
from streamlet.state.types import Log, Map, Set, Value


def spec(kind: Kind, fields: tuple[object, ...] = (), value: object | None = int, scope: Scope = Scope.KEY) -> StoreSpec:
    return StoreSpec(StoreName("store"), kind, scope, str if scope is Scope.KEY else None, fields, value)


def entries(store: StoreSpec, key: bytes = b"k\x00") -> list[Entry]:
    """What a task wrote under `key` and under another one, read back from the changes of its commit."""
    state = TaskState([store], MemoryBackend())
    for current in (key, b"other"):
        state.key = current
        _fill(state.handle(store))
    state.set_stream_time(5)
    read, wanted = entry_reader(store), keys_of(store, key.decode())
    stored = sorted((data, value) for data, value in state.changes()[StoreName("store")] if value is not None and wanted(data))
    return [entry for data, value in stored if (entry := read(data, value)) is not None]


def _fill(handle: object) -> None:
    if isinstance(handle, Value):
        handle.set(7)
    elif isinstance(handle, Log):
        handle.append(1)
        handle.append(2)
    elif isinstance(handle, Set):
        handle.add("x")
    elif isinstance(handle, Map):
        handle["a"] = 1
        handle["b\x00"] = 2


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        (spec(Kind.VALUE), [Entry("k\x00", (), 7)]),
        (spec(Kind.VALUE, scope=Scope.TASK), [Entry(None, (), 7)]),
        (spec(Kind.MAP, (str,)), [Entry("k\x00", ("a",), 1), Entry("k\x00", ("b\x00",), 2)]),
        (spec(Kind.MAP, (str,), scope=Scope.TASK), [Entry(None, ("a",), 1), Entry(None, ("b\x00",), 2)]),
        (spec(Kind.SET, (str,), None), [Entry("k\x00", ("x",), None)]),
        (spec(Kind.LOG), [Entry("k\x00", (0,), 1), Entry("k\x00", (1,), 2)]),
    ],
    ids=lambda value: value.describe() if isinstance(value, StoreSpec) else "",
)
def test_every_kind_of_store_is_read_back_by_key(store: StoreSpec, expected: list[Entry]) -> None:
    assert entries(store) == expected
