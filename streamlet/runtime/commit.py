"""The commit: outputs, changelog, ownership or commit records and input offsets of all tasks in ONE Kafka transaction.

No transaction is open while user code runs: it is begun, filled from buffered bytes and committed here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from streamlet.changelog.commits import CommitRecord, commit_key, encode_commit
from streamlet.changelog.replay import Partition
from streamlet.ids import Incarnation, StoreName, TaskId, Term
from streamlet.rebalance.records import Own, OwnKind, encode, own_key
from streamlet.runtime.outbox import Outbox, Output
from streamlet.runtime.partitioner import Partitioner

Changes = Sequence[tuple[bytes, bytes | None]]


class Outlet(Protocol):
    """Where outputs leave: the transaction itself, or a plain producer where at least once is enough."""

    def send(self, outputs: Sequence[Output]) -> None: ...
    def flush(self) -> None: ...


class Transaction(Outlet, Protocol):
    """What the commit asks of a transactional producer: production's is in kafka.py."""

    def begin(self) -> None: ...
    def send_to(self, topic: str, partition: int, changes: Changes, on_end: "OnEnd") -> None: ...
    def send_stamped(self, topic: str, partition: int, records: Sequence[Output], on_end: "OnEnd") -> None: ...
    def send_offsets(self, positions: Mapping[Partition, int], group_metadata: object) -> None: ...
    def commit(self) -> None: ...


class OnEnd(Protocol):
    """Hears the next offset behind the last record of a partition in this commit."""

    def __call__(self, offset: int, /) -> None: ...


@dataclass(slots=True)
class Part:
    """What one task brings to a commit, and the offsets it learns from it."""

    task: TaskId
    term: Term
    outbox: Outbox
    changes: Mapping[StoreName, Changes]
    positions: Mapping[Partition, int]  # next input offsets
    changelog: dict[StoreName, int]  # next changelog offsets; this commit moves them on
    repartition: dict[str, dict[int, int]] = field(default_factory=dict[str, dict[int, int]])
    own: OwnKind | None = None  # claim, release, or neither
    record: bool = False  # whether a commit record is due


@dataclass(frozen=True, slots=True)
class CommitTopics:
    """Where a commit writes besides the outputs."""

    app: str
    commits_partitions: int

    def changelog(self, store: StoreName) -> str:
        """Changelog of a store."""
        return f"{self.app}-{store}-changelog"

    @property
    def commits(self) -> str:
        """Topic of the commit records."""
        return f"{self.app}-commits"

    @property
    def control(self) -> str:
        """Topic of the ownership records."""
        return f"{self.app}-control"


def commit(
    transaction: Transaction,
    outlet: Outlet,
    parts: Sequence[Part],
    topics: CommitTopics,
    partitioner: Partitioner,
    *,
    incarnation: Incarnation,
    group_metadata: object,
    answered: Sequence[bytes],
    now_ms: int,
) -> None:
    """Commit all parts together, or raise and have committed none of them."""
    transaction.begin()
    for part in parts:
        outlet.send(part.outbox.records)
        _send_moved(transaction, part, partitioner)
        _send_changelogs(transaction, part, topics)
    if any(part.own or part.record for part in parts):
        transaction.flush()  # the records below name offsets that the broker has just given out
        _send_commit_records(transaction, parts, topics, now_ms)
        _send_ownership(transaction, parts, topics, incarnation)
    if answered:
        transaction.send_to(topics.control, 0, [(wish, None) for wish in answered], _ignore)
    if positions := _positions(parts):
        transaction.send_offsets(positions, group_metadata)
    if outlet is not transaction:
        outlet.flush()  # outputs outside the transaction are there before their input counts as processed
    transaction.commit()


def _send_changelogs(transaction: Transaction, part: Part, topics: CommitTopics) -> None:
    for store, changes in part.changes.items():

        def learn(offset: int, /, store: StoreName = store) -> None:
            part.changelog[store] = offset

        transaction.send_to(topics.changelog(store), part.task.partition, changes, learn)


def _send_moved(transaction: Transaction, part: Part, partitioner: Partitioner) -> None:
    """Records for repartition topics, each partition's last one with a word about its offset."""
    if not part.outbox.moved:
        return
    for (topic, partition), records in partitioner.split(part.outbox.moved).items():

        def learn(offset: int, /, topic: str = topic, partition: int = partition) -> None:
            part.repartition.setdefault(topic, {})[partition] = offset

        transaction.send_stamped(topic, partition, records, learn)


def _send_commit_records(transaction: Transaction, parts: Iterable[Part], topics: CommitTopics, now_ms: int) -> None:
    for part in parts:
        if not part.record:
            continue
        record = CommitRecord(
            task=str(part.task),
            at_ms=now_ms,
            source={partition.topic: offset for partition, offset in part.positions.items()},
            changelog=dict(part.changelog),
            repartition=part.repartition,
        )
        partition = part.task.partition % topics.commits_partitions
        transaction.send_to(topics.commits, partition, [(commit_key(part.task), encode_commit(record))], _ignore)


def _send_ownership(transaction: Transaction, parts: Iterable[Part], topics: CommitTopics, incarnation: Incarnation) -> None:
    for part in parts:
        if part.own is not None:
            source = {partition.topic: offset for partition, offset in part.positions.items()}
            own = Own(kind=part.own, incarnation=incarnation, term=part.term, source=source, changelog_end=dict(part.changelog))
            transaction.send_to(topics.control, 0, [(own_key(part.task), encode(own))], _ignore)


def _positions(parts: Iterable[Part]) -> dict[Partition, int]:
    return {partition: offset for part in parts for partition, offset in part.positions.items()}


def _ignore(_offset: int, /) -> None:
    """For records whose offset nobody needs."""
