"""What an app has promised to its own past: names, types, codecs, partition counts and topic ids.

It stands on the control topic. A new version of the code is compared with it before anything runs: what can go on with
the old state goes on under a higher manifest version, what cannot is refused with the difference and the way on.

Invariant: encoded manifests begin with their format version; equal code gives equal fingerprints.
"""

import hashlib
from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from streamlet.codecs import BoundCodec
from streamlet.errors import ConfigError
from streamlet.handler import AnyHandler
from streamlet.internal_topics import TopicKind
from streamlet.partitioning import internal_partitions, plan_partitions
from streamlet.schema import Schema, schema_of
from streamlet.topology import Topology

FORMAT: Final = 1


class StoreEntry(msgspec.Struct, frozen=True):
    """One store: what its bytes mean and whose tasks keep it. `shown` is its type as people write it."""

    kind: str
    scope: str
    key: Schema | None
    fields: tuple[Schema, ...]
    value: Schema | None
    codec: str | None
    ttl_ms: int | None
    task: str
    handlers: tuple[str, ...]
    shown: str


class TopicEntry(msgspec.Struct, frozen=True):
    """One topic that tasks depend on. `role` is `source` or the kind of an internal topic; an empty id is not known."""

    role: str
    partitions: int
    topic_id: str
    task: str | None = None
    key_codec: str | None = None
    value_codec: str | None = None
    value: Schema | None = None
    handler: str | None = None  # whose output a repartition topic carries


class Manifest(msgspec.Struct, frozen=True):
    """Everything of an app that lasts. `version` counts accepted changes; `wiring` is how each handler is connected, for people."""

    app: str
    version: int
    fingerprint: str
    stores: dict[str, StoreEntry]
    topics: dict[str, TopicEntry]
    handlers: tuple[str, ...]
    wiring: dict[str, str] = {}


class NewerManifest(ConfigError):
    """The manifest was written by a later release."""

    def __init__(self, format_version: int) -> None:
        super().__init__(format_version)
        self.format_version = format_version

    def __str__(self) -> str:
        return (
            f"The app's manifest has format {self.format_version}, and this streamlet reads up to {FORMAT}: a later release wrote it. "
            "Run the app with that release or a newer one."
        )


def encode(manifest: Manifest) -> bytes:
    """One byte of format version, then JSON."""
    return bytes((FORMAT,)) + msgspec.json.encode(manifest)


def decode(data: bytes) -> Manifest:
    """Read what `encode` wrote."""
    if not data or data[0] != FORMAT:
        raise NewerManifest(data[0] if data else 0)
    return msgspec.json.decode(data[1:], type=Manifest)


def manifest_of(
    topology: Topology, counts: Mapping[str, int], topic_ids: Mapping[str, str], *, fixed: Mapping[str, int] | None = None
) -> Manifest:
    """The manifest of an app as its code stands. `counts` and `topic_ids` are the broker's; `fixed` as in `plan_partitions`."""
    fixed = fixed or {}
    sizes = plan_partitions(topology, counts, fixed)
    stores = _stores(topology)
    commits = {topic.name: fixed[topic.name] for topic in topology.internal if topic.kind is TopicKind.COMMITS and topic.name in fixed}
    internal = {**internal_partitions(topology, sizes), **commits}  # the topic of commit records does not grow with its sources
    topics = {**_sources(topology, sizes, topic_ids), **_internal(topology, internal, topic_ids)}
    wiring = {node.handler.name: _wiring(node.handler) for sub in topology.subs for node in sub.nodes}
    return Manifest(topology.app, 1, _fingerprint(stores, topics, tuple(wiring)), stores, topics, tuple(wiring), wiring)


def _wiring(handler: AnyHandler) -> str:
    wiring = handler.wiring
    outputs = [topic.name for topic in (*wiring.to, *wiring.also)]
    kind = "process" if wiring.batching is None else "batch"
    return f"{kind} {', '.join(source.name for source in wiring.sources)} → {', '.join(outputs) or 'no topic'}"


def _stores(topology: Topology) -> dict[str, StoreEntry]:
    entries: dict[str, StoreEntry] = {}
    for sub in topology.subs:
        for spec in sub.stores:
            users = [node.handler.name for node in sub.nodes if any(spec in use.specs for use in node.handler.signature.stores)]
            entries[spec.name] = StoreEntry(
                kind=spec.kind.value,
                scope=spec.scope.value,
                key=None if spec.key is None else schema_of(spec.key),
                fields=tuple(schema_of(field) for field in spec.fields),
                value=None if spec.value is None else schema_of(spec.value),
                codec=None if spec.codec is None else type(spec.codec).__qualname__,
                ttl_ms=spec.ttl_ms,
                task=sub.name,
                handlers=tuple(users),
                shown=spec.describe(),
            )
    return entries


def _sources(topology: Topology, sizes: Mapping[str, int], topic_ids: Mapping[str, str]) -> dict[str, TopicEntry]:
    entries: dict[str, TopicEntry] = {}
    for sub in topology.subs:
        for source in sub.sources:
            topic, carried = source.topic, source.repartitions
            entries[topic.name] = TopicEntry(
                role="source" if carried is None else TopicKind.REPARTITION.value,
                partitions=sizes[sub.name],
                topic_id=topic_ids.get(topic.name, ""),
                task=sub.name,
                key_codec=_family(topic.key_codec),
                value_codec=None if carried is None else _family(topic.value_codec),
                value=None if carried is None else schema_of(topic.value_type),
                handler=None if carried is None else carried.name,
            )
    return entries


def _internal(topology: Topology, counts: Mapping[str, int], topic_ids: Mapping[str, str]) -> dict[str, TopicEntry]:
    return {
        topic.name: TopicEntry(role=topic.kind.value, partitions=counts[topic.name], topic_id=topic_ids.get(topic.name, ""))
        for topic in topology.internal
        if topic.kind is not TopicKind.REPARTITION
    }


def _family(codec: BoundCodec[object]) -> str:
    """The codec without the type it is bound to: types may grow, formats may not change."""
    first = codec.describe().partition(" ")[0]
    return first if first in ("json", "msgpack", "avro") else codec.describe()


def _fingerprint(stores: Mapping[str, StoreEntry], topics: Mapping[str, TopicEntry], handlers: Collection[str]) -> str:
    """Of the code alone: what the broker adds (sizes and ids) is left out."""
    code = {
        "stores": {name: msgspec.to_builtins(entry) for name, entry in sorted(stores.items())},
        "topics": {
            name: msgspec.to_builtins(msgspec.structs.replace(entry, partitions=0, topic_id="")) for name, entry in sorted(topics.items())
        },
        "handlers": sorted(handlers),
    }
    return hashlib.sha256(msgspec.json.encode(code, order="sorted")).hexdigest()[:16]
