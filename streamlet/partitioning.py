"""How many tasks every sub-topology has, and how many partitions every internal topic gets.

The inputs of one task must have one partition count, or equal keys would meet in different tasks. Repartition topics
follow: they take the count of the topics read beside them, else that of the largest input they are fed from.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from streamlet.declaration import DeclarationError
from streamlet.errors import ConfigError
from streamlet.ids import TaskId
from streamlet.internal_topics import Like
from streamlet.topology import SubTopology, Topology

_NOTHING_FIXED: Final[Mapping[str, int]] = {}


class NotCopartitioned(ConfigError):
    """Inputs of one task have different partition counts. `counts` has them by topic."""

    def __init__(self, sub: str, counts: Mapping[str, int], handlers: tuple[str, ...]) -> None:
        super().__init__(sub, counts, handlers)
        self.sub, self.counts, self.handlers = sub, dict(counts), handlers

    def __str__(self) -> str:
        counted = ", ".join(f"'{topic}' has {count}" for topic, count in self.counts.items())
        most = max(self.counts.values())
        smaller = next(topic for topic, count in self.counts.items() if count != most)
        return (
            f"Handlers {', '.join(self.handlers)} run in one task, because they share a source, a store or a follower, but the partition "
            f"counts of its inputs differ: {counted}. Equal keys would meet in different tasks.\n"
            f'    app.topic("{smaller}", …, partitions={most})  # a topic of that size; or @app.process(…, repartition={most})'
        )


class UnknownPartitions(DeclarationError):
    """A topic of the user's is missing on the broker and nothing says how large to make it."""


def check_copartitioning(topology: Topology, counts: Mapping[str, int]) -> None:
    """Refuse inputs of one task with different partition counts. `counts` are the broker's, by topic of the user's."""
    plan_partitions(topology, counts)


def plan_partitions(topology: Topology, counts: Mapping[str, int], fixed: Mapping[str, int] = _NOTHING_FIXED) -> dict[str, int]:
    """The number of tasks of every sub-topology, by its name.

    `counts` are partition counts of the user's source topics; `fixed` are those of internal topics that exist already:
    a repartition topic keeps the size it was made with.
    """
    sizes: dict[str, int] = {}
    for _ in range(len(topology.subs) + 1):  # each round settles at least one more sub-topology
        before = dict(sizes)
        for sub in topology.subs:
            size = _size(topology, sub, {**counts, **fixed}, sizes)
            if size:
                sizes[sub.name] = size
        if sizes == before:
            break
    for sub in topology.subs:
        _check_sizes(sub, {**counts, **fixed}, sizes[sub.name])
    return sizes


def internal_partitions(topology: Topology, sizes: Mapping[str, int]) -> dict[str, int]:
    """The partition count of every internal topic, by its name; `sizes` as `plan_partitions` gives them."""
    result: dict[str, int] = {}
    for topic in topology.internal:
        rule = topic.partitions
        result[topic.name] = rule if isinstance(rule, int) else sizes[rule.sub] if isinstance(rule, Like) else max(sizes.values())
    return result


def tasks(topology: Topology, sizes: Mapping[str, int]) -> tuple[TaskId, ...]:
    """Every task of the app."""
    return tuple(TaskId(sub.name, partition) for sub in topology.subs for partition in range(sizes[sub.name]))


def _size(topology: Topology, sub: SubTopology, known: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    """The tasks of one sub-topology, as far as it can be told yet; 0 if it cannot."""
    stated = list(_stated(sub, known))
    if stated:
        return stated[0][1]
    feeding = [
        other.name for source in sub.sources for other in topology.subs if any(node.handler is source.repartitions for node in other.nodes)
    ]
    return max((sizes.get(name, 0) for name in feeding), default=0)


def _stated(sub: SubTopology, known: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """The inputs whose count does not depend on another sub-topology: topics of the user's first."""
    for source in sub.sources:
        if source.repartitions is None:
            if source.topic.name not in known:
                raise UnknownPartitions(
                    f"topic '{source.topic.name}'",
                    "it is not on the broker",
                    "streamlet topics create FILE  # or app.topic(…, partitions=4), or streamlet run --dev",
                )
            yield source.topic.name, known[source.topic.name]
    for source in sub.sources:
        if source.repartitions is not None:
            count = known.get(source.topic.name) or source.topic.partitions
            if count is not None:
                yield source.topic.name, count


def _check_sizes(sub: SubTopology, known: Mapping[str, int], size: int) -> None:
    counts = dict(_stated(sub, known))
    if any(count != size for count in counts.values()):
        raise NotCopartitioned(sub.name, counts, tuple(node.handler.name for node in sub.nodes))
