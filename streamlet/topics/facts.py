"""What a broker says of a topic, and what is to be created. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamlet.errors import ConfigError


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic that exists."""

    name: str
    partitions: int
    topic_id: str


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created; without a replication the broker's default counts."""

    name: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict[str, str])


class MissingTopics(ConfigError):
    """Topics of the user's that are not there, and that nobody allowed us to create."""

    def __init__(self, names: tuple[str, ...], file: str | None = None) -> None:
        super().__init__(names, file)
        self.names, self.file = names, file

    def __str__(self) -> str:
        what = ", ".join(f"'{name}'" for name in self.names)
        return (
            f"These topics do not exist: {what}. Create them with `streamlet topics create {self.file or 'FILE'}`, give their "
            "declaration partitions=, or run with --dev, which creates what is missing."
        )


class WrongPartitions(ConfigError):
    """An internal topic has another partition count than its tasks need."""

    def __init__(self, topic: str, has: int, needs: int) -> None:
        super().__init__(topic, has, needs)
        self.topic, self.has, self.needs = topic, has, needs

    def __str__(self) -> str:
        return (
            f"The internal topic '{self.topic}' has {self.has} partitions, but the app's sources need {self.needs}. State cannot follow a change "
            "of the partition count. Give the source topic its old count, or start over with `streamlet reset`."
        )
