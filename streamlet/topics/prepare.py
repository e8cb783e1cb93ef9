"""Which topics an app needs, which must be created and which are refused: decided here, done by the shell."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from streamlet.partitioning import internal_partitions, plan_partitions
from streamlet.topics.facts import MissingTopics, NewTopic, TopicFacts, WrongPartitions
from streamlet.topics.kafka import Topics
from streamlet.topology import Topology

DEV_PARTITIONS: Final = 4  # what --dev gives a topic that says nothing itself


@dataclass(frozen=True, slots=True)
class Prepared:
    """The topics as they are now: their partition counts, and the number of tasks of every sub-topology."""

    counts: Mapping[str, int]
    sizes: Mapping[str, int]
    topic_ids: Mapping[str, str]


def user_topics(topology: Topology) -> dict[str, int | None]:
    """Every topic of the user's, with the partitions its declaration allows us to create."""
    found: dict[str, int | None] = {topic.name: topic.partitions for topic in topology.topics}
    for name in topology.dead_letters:
        found.setdefault(name, None)
    return found


def missing_user_topics(
    topology: Topology, existing: Mapping[str, TopicFacts], *, create_missing: bool, file: str | None
) -> list[NewTopic]:
    """Topics of the user's to create: only where that was allowed."""
    wanted = user_topics(topology)
    missing = sorted(wanted.keys() - existing.keys())
    forbidden = tuple(name for name in missing if wanted[name] is None and not create_missing)
    if forbidden:
        raise MissingTopics(forbidden, file)
    return [NewTopic(name, wanted[name] or DEV_PARTITIONS) for name in missing]


def missing_internal_topics(topology: Topology, existing: Mapping[str, TopicFacts], sizes: Mapping[str, int]) -> list[NewTopic]:
    """The app's own topics to create; one whose partition count does not fit is refused."""
    needs = internal_partitions(topology, sizes)
    for topic in topology.internal:
        found = existing.get(topic.name)
        if found is not None and found.partitions != needs[topic.name]:
            raise WrongPartitions(topic.name, found.partitions, needs[topic.name])
    return [NewTopic(topic.name, needs[topic.name], topic.config) for topic in topology.internal if topic.name not in existing]


def prepare_topics(topology: Topology, topics: Topics, *, create_missing: bool, file: str | None = None) -> Prepared:
    """Make sure that every topic is there and fits."""
    names = [*user_topics(topology), *(topic.name for topic in topology.internal)]
    existing = topics.describe(names)
    topics.create(missing_user_topics(topology, existing, create_missing=create_missing, file=file))
    existing = topics.describe(names)
    counts = {name: facts.partitions for name, facts in existing.items()}
    internal = {topic.name for topic in topology.internal}
    sizes = plan_partitions(topology, counts, {name: count for name, count in counts.items() if name in internal})
    topics.create(missing_internal_topics(topology, existing, sizes))
    existing = topics.describe(names)
    return Prepared(
        {name: facts.partitions for name, facts in existing.items()}, sizes, {name: facts.topic_id for name, facts in existing.items()}
    )
