"""The topics an app makes for itself: their names, which last, and their settings, which matter.

Changelogs and commit records are compacted, and the cleaner stays away from the last 15 minutes, so that a scan pinned
to a moment finds every record it needs. Repartition topics never expire: their owner deletes what it has committed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from streamlet.durations import days, hours, minutes
from streamlet.ids import StoreName

_MB: Final = 1024 * 1024


class TopicKind(Enum):
    """What an internal topic is for; also the last part of its name."""

    CHANGELOG = "changelog"
    REPARTITION = "repartition"
    CONTROL = "control"
    MEMBERS = "members"
    COMMITS = "commits"


@dataclass(frozen=True, slots=True)
class Like:
    """As many partitions as the sub-topology of this name has tasks."""

    sub: str


@dataclass(frozen=True, slots=True)
class Largest:
    """As many partitions as the largest sub-topology has tasks: task `name/p` writes to partition `p`."""


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic the app makes for itself. `partitions` is a number or the rule that gives it."""

    name: str
    kind: TopicKind
    partitions: int | Like | Largest
    store: StoreName | None = None

    @property
    def config(self) -> Mapping[str, str]:
        """The topic's settings. Replication is the cluster's own default and is not set here."""
        return SETTINGS[self.kind]


def _settings(**values: object) -> Mapping[str, str]:
    return MappingProxyType({name.replace("_", "."): str(value) for name, value in values.items()})


_COMPACTED: Final = {
    "cleanup_policy": "compact",
    "min_compaction_lag_ms": int(minutes(15)),
    "delete_retention_ms": int(days(1)),
    "segment_bytes": 64 * _MB,
    "segment_ms": int(hours(1)),
    "min_cleanable_dirty_ratio": 0.2,
    "message_timestamp_type": "CreateTime",
}

SETTINGS: Final[Mapping[TopicKind, Mapping[str, str]]] = MappingProxyType(
    {
        # The active segment is never cleaned: it must roll, by size or by the hour, for a changelog to shrink at all.
        TopicKind.CHANGELOG: _settings(**_COMPACTED),
        TopicKind.COMMITS: _settings(**{**_COMPACTED, "segment_bytes": 16 * _MB}),
        TopicKind.REPARTITION: _settings(cleanup_policy="delete", retention_ms=-1, retention_bytes=-1, segment_bytes=64 * _MB),
        TopicKind.CONTROL: _settings(cleanup_policy="compact", segment_bytes=16 * _MB, min_cleanable_dirty_ratio=0.01),
        TopicKind.MEMBERS: _settings(
            cleanup_policy="delete", retention_ms=int(hours(1)), segment_bytes=4 * _MB, segment_ms=int(minutes(10))
        ),
    }
)


def changelog_name(app: str, store: str) -> str:
    """Where every change of a store is."""
    return f"{app}-{store}-{TopicKind.CHANGELOG.value}"


def repartition_name(app: str, handler: str) -> str:
    """Where a handler's output finds the partitions of its new keys."""
    return f"{app}-{handler}-{TopicKind.REPARTITION.value}"


def control_topics(app: str) -> tuple[InternalTopic, ...]:
    """The three topics every app has."""
    return (
        InternalTopic(f"{app}-{TopicKind.CONTROL.value}", TopicKind.CONTROL, 1),
        InternalTopic(f"{app}-{TopicKind.MEMBERS.value}", TopicKind.MEMBERS, 1),
        InternalTopic(f"{app}-{TopicKind.COMMITS.value}", TopicKind.COMMITS, Largest()),
    )
