"""What the control topic says, as one value: built by the same `replay` live, after a restart and in tests."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from streamlet.ids import TaskId
from streamlet.rebalance.records import Manifest, Own, Plan, Wish, decode

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class View:
    """The newest committed record of every kind. Its only writer is the reader of the control topic."""

    plan: Plan | None = None
    own: dict[TaskId, Own] = field(default_factory=dict[TaskId, Own])
    manifest: bytes | None = None
    wishes: dict[str, Wish] = field(default_factory=dict[str, Wish])


def replay(view: View, records: Iterable[tuple[bytes, bytes | None]]) -> View:
    """Apply records in the order of the topic; a tombstone takes its record away."""
    for key, value in records:
        kind, _, subject = key.decode(errors="replace").partition("/")
        record = decode(key, value) if value is not None else None
        if kind == "plan":
            view.plan = record if isinstance(record, Plan) else None
        elif kind == "manifest":
            view.manifest = record.content if isinstance(record, Manifest) else None
        elif kind == "own":
            _set(view.own, TaskId.parse(subject), record if isinstance(record, Own) else None)
        elif kind == "wish":
            _set(view.wishes, subject, record if isinstance(record, Wish) else None)
    return view


def _set(mapping: dict[K, V], key: K, value: V | None) -> None:
    if value is None:
        mapping.pop(key, None)
    else:
        mapping[key] = value
