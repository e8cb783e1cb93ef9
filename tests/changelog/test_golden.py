"""Changelogs, commit records and ownership as a real run once wrote them: what this version reads cannot change unnoticed.

`python -m tests.broker.test_golden_changelog` writes the dump anew, which is right only together with a new format number.
"""

import json
from pathlib import Path
from typing import Any

from streamlet.changelog.commits import decode_commit
from streamlet.ids import StoreName, TaskId
from streamlet.rebalance.records import OwnKind
from streamlet.rebalance.view import View, replay
from streamlet.state.backend import Batch
from streamlet.state.memory import MemoryBackend
from streamlet.state.task_state import TaskState
from streamlet.topology import build
from tests.changelog.golden_app import FIRST_MS, VISITS, app, note

GOLDEN = Path(__file__).parent / "golden" / "changelog.json"
TASK = TaskId("golden-visits", 0)


def records(topic: str) -> list[tuple[bytes, bytes | None]]:
    """Committed records of one topic of the dump."""
    dump = json.loads(GOLDEN.read_text())
    return [(bytes.fromhex(key), None if value is None else bytes.fromhex(value)) for key, value in dump[topic]]


def restored() -> TaskState:
    """The state that the dump's changelogs lead to."""
    stores, backend = build(app).sub(TASK.name).stores, MemoryBackend()
    for spec in stores:
        changes = records(f"golden-{spec.name}-changelog")
        backend.apply(Batch(changes={spec.name: sorted(dict(changes).items())}, offsets={spec.name: len(changes)}))
    return TaskState(stores, backend)


def handles(state: TaskState, key: str) -> dict[str, Any]:
    state.key = key.encode()
    return {param.name: state.handle(param.store.declaration) for param in note.signature.params if param.store is not None}


def test_the_kept_changelogs_lead_to_the_state_they_were_written_from() -> None:
    state = restored()

    ada = handles(state, "ada")
    assert ada["total"].get() == 3
    assert dict(ada["pages"].items()) == {"cart": 1, "home": 2}
    assert list(ada["trail"]) == ["cart", "home"]
    assert set(ada["seen"]) == {"cart", "home"}
    zofie = handles(state, "žofie")
    assert (zofie["total"].get(), list(zofie["trail"])) == (1, ["home"])


def test_a_key_that_was_deleted_is_deleted_in_the_kept_changelogs() -> None:
    bob = handles(restored(), "bob")

    assert bob["total"].get() is None
    assert [list(bob[name]) for name in ("pages", "trail", "seen")] == [[], [], []]
    assert any(value is None for _, value in records("golden-note-total-changelog"))


def test_the_stream_time_is_kept_beside_the_state() -> None:
    assert restored().stream_time == FIRST_MS + len(VISITS) - 1


def test_the_kept_commit_records_name_every_position() -> None:
    key, value = records("golden-commits")[-1]

    assert key == b"golden-visits/0"
    assert value is not None
    record = decode_commit(value)
    assert record.task == str(TASK)
    assert record.source == {"golden-visits": len(VISITS)}
    assert set(record.changelog) == {StoreName(f"note-{name}") for name in ("total", "pages", "trail", "seen")}
    assert all(offset > 0 for offset in record.changelog.values())


def test_the_kept_control_topic_says_who_owned_the_task_and_that_it_was_released() -> None:
    view = replay(View(), records("golden-control"))

    assert view.plan is not None
    assert view.plan.owner(TASK) == (view.plan.members[0], 1)
    own = view.own[TASK]
    assert (own.kind, own.incarnation, own.term) == (OwnKind.RELEASE, view.plan.members[0], 1)
    assert own.source == {"golden-visits": len(VISITS)}
    assert view.manifest
