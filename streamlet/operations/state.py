"""Looking at an app's state from outside: the stores it has, one key of a store, all entries of a store.

Everything is read from the changelogs, committed records only: that works while the app runs, from any machine, and
shows the last commit. A store of many keys takes its time: each partition is read whole.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from streamlet.changelog.kafka import ClientConfig, LogOffsets
from streamlet.changelog.replay import Partition
from streamlet.changelog.table import read_table
from streamlet.errors import ConfigError
from streamlet.ids import TaskId
from streamlet.internal_topics import changelog_name
from streamlet.murmur2 import partition_for
from streamlet.operations.texts import read_key
from streamlet.state.reading import Entry, entry_reader, keys_of
from streamlet.state.spec import Scope, StoreSpec
from streamlet.topics.kafka import Topics
from streamlet.topology import SubTopology, Topology


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """A store and the size of its changelog; partitions are 0 while the app has never run."""

    name: str
    type: str
    task: str
    changelog: str
    partitions: int
    offsets: int  # between the first and the next one, over all partitions; compaction leaves gaps


class StoreUnknown(ConfigError):
    """The app's code declares no store of this name."""

    def __init__(self, app: str, store: str, known: tuple[str, ...]) -> None:
        super().__init__(app, store, known)
        self.app, self.store, self.known = app, store, known

    def __str__(self) -> str:
        return f"'{self.app}' declares no store '{self.store}'. It has: {', '.join(self.known) or 'none'}."


class NothingStored(ConfigError):
    """A store's changelog does not exist yet."""

    def __init__(self, app: str, changelog: str) -> None:
        super().__init__(app, changelog)
        self.app, self.changelog = app, changelog

    def __str__(self) -> str:
        return f"The changelog {self.changelog} does not exist: '{self.app}' has never run on these brokers with this store."


@dataclass(frozen=True, slots=True)
class Found:
    """An entry and the task that keeps it."""

    task: TaskId
    entry: Entry


def list_stores(client: ClientConfig, topology: Topology) -> list[StoreFacts]:
    """Every store of an app."""
    names = {spec.name: changelog_name(topology.app, spec.name) for sub in topology.subs for spec in sub.stores}
    existing = Topics(client).describe(names.values())
    partitions = [Partition(facts.name, number) for facts in existing.values() for number in range(facts.partitions)]
    offsets = LogOffsets(client)
    starts, ends = offsets.starts(partitions), offsets.ends(partitions)
    return [
        StoreFacts(
            name=spec.name,
            type=spec.describe(),
            task=sub.name,
            changelog=names[spec.name],
            partitions=existing[names[spec.name]].partitions if names[spec.name] in existing else 0,
            offsets=sum(ends[p] - starts[p] for p in partitions if p.topic == names[spec.name]),
        )
        for sub in topology.subs
        for spec in sub.stores
    ]


def get_entries(client: ClientConfig, topology: Topology, store: str, key_text: str, deadline_s: float = 120.0) -> list[Found]:
    """The entries of one record key: one for a Value, any number for a collection."""
    sub, spec = find_store(topology, store)
    partitions = _partition_count(client, topology.app, spec)
    if spec.scope is Scope.TASK:
        raise StoreIsTaskLevel(topology.app, store)
    key = read_key(spec.key, key_text)
    number = partition_for(_kafka_key(sub, key), partitions)
    return list(_read(client, topology.app, sub, spec, number, key, deadline_s))


class StoreIsTaskLevel(ConfigError):
    """A store without record keys was asked for one."""

    def __init__(self, app: str, store: str) -> None:
        super().__init__(app, store)
        self.app, self.store = app, store

    def __str__(self) -> str:
        return f"Store '{self.store}' is kept per task, not per key: look at all of it with `streamlet state scan FILE {self.store}`."


def scan_entries(
    client: ClientConfig, topology: Topology, store: str, *, partition: int | None = None, deadline_s: float = 120.0
) -> Iterator[Found]:
    """All entries of a store, task by task, in the order of their keys."""
    sub, spec = find_store(topology, store)
    partitions = _partition_count(client, topology.app, spec)
    for number in range(partitions) if partition is None else [partition]:
        yield from _read(client, topology.app, sub, spec, number, None, deadline_s)


def find_store(topology: Topology, store: str) -> tuple[SubTopology, StoreSpec]:
    """A store by its name, and where it is kept."""
    known = {spec.name: (sub, spec) for sub in topology.subs for spec in sub.stores}
    found = next((place for name, place in known.items() if name == store), None)
    if found is None:
        raise StoreUnknown(topology.app, store, tuple(known))
    return found


def _read(
    client: ClientConfig, app: str, sub: SubTopology, spec: StoreSpec, number: int, key: object, deadline_s: float
) -> Iterator[Found]:
    wanted = None if key is None else keys_of(spec, key)
    table = read_table(client, app, Partition(changelog_name(app, spec.name), number), wanted=wanted, deadline_s=deadline_s)
    read = entry_reader(spec)
    for data in sorted(table):
        entry = read(data, table[data])
        if entry is not None:
            yield Found(TaskId(sub.name, number), entry)


def _partition_count(client: ClientConfig, app: str, spec: StoreSpec) -> int:
    changelog = changelog_name(app, spec.name)
    existing = Topics(client).describe([changelog])
    if changelog not in existing:
        raise NothingStored(app, changelog)
    return existing[changelog].partitions


def _kafka_key(sub: SubTopology, key: object) -> bytes:
    """The key as the task's inputs carry it: it decides the partition."""
    topic = next(source.topic for source in sub.sources if source.topic.has_key)
    return topic.key_codec.encode(key)
