"""Stores as values: what the topology, the manifest, the changelog and the task must agree on."""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from streamlet.ids import StoreName
from streamlet.state.keys import hint_name


class Kind(Enum):
    """How a store lays out its entries."""

    VALUE = "value"  # key
    MAP = "map"  # E(key) E(field) … E(field)
    LOG = "log"  # E(key) 'h' → (head, tail); E(key) 'e' u64 → element
    SET = "set"  # E(key) E(element)


class Scope(Enum):
    """What a store's entries belong to."""

    KEY = "key"  # the record's key
    TASK = "task"  # the whole task: no key part in the layout


class AnyCodec(Protocol):
    """A codec of the app's own for the values of one store."""

    def encode(self, value: object, /) -> bytes: ...
    def decode(self, data: bytes, /) -> object: ...


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """One store: a column family in each task's RocksDB, and a changelog."""

    name: StoreName
    kind: Kind
    scope: Scope
    key: object | None  # hint of the record key; None for task-level stores
    fields: tuple[object, ...]  # hints of the path below the key: map fields from the outside in, a Set's element last
    value: object | None  # hint of what is stored per entry; None for a Set
    ttl_ms: int | None = None
    codec: AnyCodec | None = None

    @property
    def field(self) -> object | None:
        """The innermost field of a Map, or a Set's element."""
        return self.fields[-1] if self.fields else None

    def describe(self) -> str:
        """The shape in one line, equal for equal layouts: what a manifest compares."""
        inner = [] if self.value is None else [hint_name(self.value)]
        depth = len(self.fields) - (self.kind in (Kind.MAP, Kind.SET))
        names = [hint_name(field) for field in self.fields]
        text = f"{self.kind.value.capitalize()}[{', '.join(names[depth:] + inner)}]"
        for name in reversed(names[:depth]):
            text = f"Map[{name}, {text}]"
        codec = "" if self.codec is None else f" by {type(self.codec).__qualname__}"
        return text + codec + (" per task" if self.scope is Scope.TASK else f" per {hint_name(self.key)}")
