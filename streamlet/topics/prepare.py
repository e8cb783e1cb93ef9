"""Which topics an app needs, which must be created and which are refused: decided here, done by the shell."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from streamlet.internal_topics import TopicKind
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


def plan_user_topics(topology: Topology, existing: Mapping[str, TopicFacts], *, partitions: int) -> list[NewTopic]:
    """Every topic of the user's that is missing, with `partitions` where its declaration says nothing."""
    return [NewTopic(name, stated or partitions) for name, stated in sorted(user_topics(topology).items()) if name not in existing]


def missing_internal_topics(topology: Topology, existing: Mapping[str, TopicFacts], sizes: Mapping[str, int]) -> list[NewTopic]:
    """The app's own topics to create; one whose partition count does not fit is refused.

    Commit records are found by task, wherever they stand: their topic keeps the size it was made with when a source grows.
    """
    needs = internal_partitions(topology, sizes)
    for topic in topology.internal:
        found = existing.get(topic.name)
        if found is not None and found.partitions != needs[topic.name] and topic.kind is not TopicKind.COMMITS:
            raise WrongPartitions(topic.name, found.partitions, needs[topic.name])
    return [NewTopic(topic.name, needs[topic.name], topic.config) for topic in topology.internal if topic.name not in existing]


@dataclass(frozen=True, slots=True)
class Survey:
    """The topics as they were found, and those of the user's that may be created; nothing has been created yet."""

    existing: Mapping[str, TopicFacts]
    new: tuple[NewTopic, ...]
    sizes: Mapping[str, int]

    @property
    def counts(self) -> dict[str, int]:
        """Partition counts as they will be."""
        return {name: facts.partitions for name, facts in self.existing.items()} | {topic.name: topic.partitions for topic in self.new}

    @property
    def topic_ids(self) -> dict[str, str]:
        """Ids of the topics that exist."""
        return {name: facts.topic_id for name, facts in self.existing.items()}

    def fixed(self, topology: Topology) -> dict[str, int]:
        """Partition counts of the internal topics that exist: they keep the size they were made with."""
        return {topic.name: self.existing[topic.name].partitions for topic in topology.internal if topic.name in self.existing}


def survey_topics(topology: Topology, topics: Topics, *, create_missing: bool, file: str | None = None) -> Survey:
    """Look at every topic an app needs; refuse what is missing and may not be created."""
    existing = topics.describe(_names(topology))
    new = tuple(missing_user_topics(topology, existing, create_missing=create_missing, file=file))
    found = Survey(existing, new, {})
    return Survey(existing, new, plan_partitions(topology, found.counts, found.fixed(topology)))


def create_topics(topology: Topology, topics: Topics, survey: Survey) -> Prepared:
    """Create what is missing; the control topic comes last, so that it exists only where everything else does."""
    internal = missing_internal_topics(topology, survey.existing, survey.sizes)
    control = {topic.name for topic in topology.internal if topic.kind is TopicKind.CONTROL}
    topics.create([*survey.new, *(topic for topic in internal if topic.name not in control)])
    topics.create(topic for topic in internal if topic.name in control)
    existing = topics.describe(_names(topology))
    return Prepared(
        {name: facts.partitions for name, facts in existing.items()},
        survey.sizes,
        {name: facts.topic_id for name, facts in existing.items()},
    )


def _names(topology: Topology) -> list[str]:
    return [*user_topics(topology), *(topic.name for topic in topology.internal)]
