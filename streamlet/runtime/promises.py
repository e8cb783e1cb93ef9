"""Whether this code and these topics fit what the app promised to its own past: the manifest on the control topic.

Asked before anything is created, so that a refused start leaves no trace, and again whenever another manifest stands there.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from streamlet import manifest as manifests
from streamlet.changelog.kafka import ClientConfig, LogOffsets
from streamlet.changelog.replay import Partition
from streamlet.errors import ConfigError
from streamlet.evolution import Incompatible, IncompatibleChange, compare
from streamlet.internal_topics import TopicKind, changelog_name, control_topics
from streamlet.manifest import Manifest
from streamlet.rebalance.kafka import ControlReader, control_topic
from streamlet.topics.facts import TopicFacts
from streamlet.topics.prepare import Prepared, Survey
from streamlet.topology import Topology

_HOLDS_TRUTH = frozenset({TopicKind.CHANGELOG.value, TopicKind.REPARTITION.value})


@dataclass(frozen=True, slots=True)
class Loss:
    """A topic that held the truth and does not any more. `now` is the id of the topic that took its name, None if there is none."""

    topic: str
    store: str | None
    was: str
    now: str | None


class TopicsLost(ConfigError):
    """Changelogs or repartition topics were deleted, or deleted and made anew: starting would silently begin with nothing."""

    def __init__(self, app: str, losses: tuple[Loss, ...]) -> None:
        super().__init__(app, losses)
        self.app, self.losses = app, losses

    def __str__(self) -> str:
        lines = [f"'{self.app}' does not start, because topics that held its state are gone:"]
        for loss in self.losses:
            how = "was deleted" if loss.now is None else f"was deleted and made anew (id {loss.was} before, {loss.now} now)"
            what = f"the changelog of store {loss.store}" if loss.store else "what was on its way between handlers"
            name = loss.store or loss.topic
            lines += [f"  {loss.topic}, {what}, {how}", f"    to go on without it, empty: streamlet run FILE --accept-change {name}"]
        lines.append(
            f"Was that the wrong cluster? Look with `streamlet config FILE`. To start the whole app over: streamlet reset {self.app}"
        )
        return "\n".join(lines)


class ControlLost(ConfigError):
    """The app's changelogs hold state, but its control topic, which says what they mean, is gone."""

    def __init__(self, app: str, changelogs: tuple[str, ...]) -> None:
        super().__init__(app, changelogs)
        self.app, self.changelogs = app, changelogs

    def __str__(self) -> str:
        control = f"{self.app}-{TopicKind.CONTROL.value}"
        return (
            f"'{self.app}' does not start: its control topic {control} is gone, but these changelogs hold state: {', '.join(self.changelogs)}. "
            "Without it nothing says whether this code can read them, nor who wrote them last.\n"
            f"  to go on with the state as it is: streamlet run FILE --accept-change {control}\n"
            f"  to start over: streamlet reset {self.app}"
        )


def check_promises(
    stored: bytes | None, topology: Topology, survey: Survey, accepted: Collection[str], *, filled_changelogs: Collection[str] = ()
) -> None:
    """Refuse code or topics that the app's state cannot follow. `filled_changelogs` hold records although no control topic exists."""
    if filled_changelogs and f"{topology.app}-{TopicKind.CONTROL.value}" not in accepted:
        raise ControlLost(topology.app, tuple(sorted(filled_changelogs)))
    if stored is None:
        return
    old, agreed = manifests.decode(stored), _with_topics(topology.app, accepted)
    losses = tuple(find_losses(old, topology, survey.existing, agreed))
    if losses:
        raise TopicsLost(topology.app, losses)
    new = manifests.manifest_of(topology, survey.counts, survey.topic_ids, fixed=survey.fixed(topology))
    verdict = compare(old, new, accepted=agreed)
    if isinstance(verdict, Incompatible):
        raise IncompatibleChange(verdict)


def what_was_promised(client: ClientConfig, topology: Topology, survey: Survey) -> tuple[bytes | None, tuple[str, ...]]:
    """The manifest on the control topic; where there is no control topic, the changelogs that hold records all the same."""
    if control_topic(topology.app) in survey.existing:
        control = ControlReader(client, topology.app)
        try:
            return control.read_to_end().manifest, ()
        finally:
            control.close()
    changelogs = [topic.name for topic in topology.internal if topic.kind is TopicKind.CHANGELOG and topic.name in survey.existing]
    partitions = [Partition(name, number) for name in changelogs for number in range(survey.existing[name].partitions)]
    ends = LogOffsets(client).ends(partitions)
    return None, tuple(name for name in changelogs if any(ends[p] for p in partitions if p.topic == name))


@dataclass(frozen=True, slots=True)
class Renewed:
    """What the control topic shall hold; `news` is what is new in it."""

    content: bytes
    version: int
    news: tuple[str, ...]


def renew_promises(stored: bytes | None, topology: Topology, prepared: Prepared, accepted: Collection[str]) -> Renewed | None:
    """The manifest to publish; None if the stored one says the same. Every topic exists by now, so every id is known."""
    new = manifests.manifest_of(topology, prepared.counts, prepared.topic_ids, fixed=_internal_counts(topology, prepared))
    if stored is None:
        return Renewed(manifests.encode(new), new.version, ())
    old = manifests.decode(stored)
    verdict = compare(old, new, accepted=_with_topics(topology.app, accepted))
    if isinstance(verdict, Incompatible):
        raise IncompatibleChange(verdict)
    return None if verdict.manifest == old else Renewed(manifests.encode(verdict.manifest), verdict.manifest.version, verdict.news)


def find_losses(old: Manifest, topology: Topology, existing: Mapping[str, TopicFacts], agreed: Collection[str]) -> Iterator[Loss]:
    """Topics of the manifest that this code still needs and that are not what they were."""
    stores = {topic.name: topic.store for topic in topology.internal}
    for name, entry in sorted(old.topics.items()):
        if name not in stores or name in agreed or entry.role not in _HOLDS_TRUTH or not entry.topic_id:
            continue
        found = existing.get(name)
        if found is None or found.topic_id != entry.topic_id:
            yield Loss(name, stores[name], entry.topic_id, found.topic_id if found else None)


def _with_topics(app: str, accepted: Collection[str]) -> frozenset[str]:
    """Whoever agrees to the change of a store agrees to that of its changelog; topics without truth in them nobody need agree to."""
    replaceable = {topic.name for topic in control_topics(app)}
    return frozenset(accepted) | {changelog_name(app, name) for name in accepted} | replaceable


def _internal_counts(topology: Topology, prepared: Prepared) -> dict[str, int]:
    return {topic.name: prepared.counts[topic.name] for topic in topology.internal}
