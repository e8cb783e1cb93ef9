"""Whether new code can go on with old state: the old manifest against the new one. Pure.

Accepted: new handlers, new stores, fields added with a default. Refused: whatever would silently start from nothing or
misread what is stored, and a handler under another name, which dead letters, metrics and later state would not know; each
refusal names the difference and the way on.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum

from msgspec.structs import replace

from streamlet.errors import ConfigError
from streamlet.internal_topics import TopicKind
from streamlet.manifest import Manifest, StoreEntry, TopicEntry
from streamlet.schema import differences


class Change(Enum):
    """What kind of difference stands in the way."""

    RENAMED = "renamed"
    REMOVED = "removed"
    TYPE = "type"
    CODEC = "codec"
    TASK = "task"
    PARTITIONS = "partitions"
    RECREATED = "recreated"


@dataclass(frozen=True, slots=True)
class Difference:
    """One reason why the new code cannot go on. `subject` is a store, a topic or a handler; `before` and `after` are for people."""

    change: Change
    subject: str
    before: str
    after: str
    way_on: str


@dataclass(frozen=True, slots=True)
class Compatible:
    """The new code goes on; `manifest` is what the control topic shall hold, `news` what is new in it."""

    manifest: Manifest
    news: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Incompatible:
    """The new code would lose or misread state."""

    app: str
    diff: tuple[Difference, ...]

    @property
    def way_on(self) -> tuple[str, ...]:
        """What to do about each difference."""
        return tuple(difference.way_on for difference in self.diff)


class IncompatibleChange(ConfigError):
    """The code does not fit the state this app has on the broker."""

    def __init__(self, verdict: Incompatible) -> None:
        super().__init__(verdict)
        self.verdict = verdict

    def __str__(self) -> str:
        lines = [f"The code of '{self.verdict.app}' has changed in a way that its state cannot follow:"]
        for difference in self.verdict.diff:
            lines += [f"  {difference.subject}", f"  - {difference.before}", f"  + {difference.after}", f"    {difference.way_on}"]
        return "\n".join(lines)


def compare(old: Manifest, new: Manifest, *, accepted: Collection[str] = ()) -> Compatible | Incompatible:
    """Judge new code by the manifest it finds. `accepted` are stores, topics and handlers whose change a person has agreed to."""
    found = [*_store_differences(old, new), *_topic_differences(old, new), *_handler_differences(old, new)]
    open_ones = tuple(difference for difference in found if difference.subject not in accepted)
    if open_ones:
        return Incompatible(new.app, open_ones)
    same = replace(new, version=old.version)
    if same == old:
        return Compatible(old, ())
    return Compatible(replace(new, version=old.version + 1), tuple(_news(old, new)))


def _store_differences(old: Manifest, new: Manifest) -> Iterator[Difference]:
    for name, before in old.stores.items():
        after = new.stores.get(name)
        if after is None:
            yield _vanished(old, new, name, before)
        else:
            yield from _changed_store(new.app, name, before, after)


def _vanished(old: Manifest, new: Manifest, name: str, before: StoreEntry) -> Difference:
    """A store that is gone: most often its handler or parameter was renamed, and a new one of its shape stands there."""
    heir = next((other for other, entry in new.stores.items() if other not in old.stores and entry.shown == before.shown), None)
    if heir is None:
        way_on = (
            f"streamlet reset {new.app} --store {name}  # deletes its state; or streamlet run FILE --accept-change {name}  # keeps it aside"
        )
        return Difference(Change.REMOVED, name, f"store {name}: {before.shown}", "(no store)", way_on)
    renamed = [handler for handler in before.handlers if handler not in new.handlers]
    if renamed and len(before.handlers) == 1:
        way_on = f'@app.process(…, name="{renamed[0]}")  # the old name keeps the state of "{name}"'
    else:
        kind = before.shown.partition(" per ")[0]
        way_on = f'Annotated[{kind}, state(name="{name}")]  # the old name keeps the state'
    return Difference(Change.RENAMED, name, f"store {name}: {before.shown}", f"store {heir}: {new.stores[heir].shown}", way_on)


def _changed_store(app: str, name: str, before: StoreEntry, after: StoreEntry) -> Iterator[Difference]:
    reset = f'streamlet reset {app} --store {name}  # starts it empty; or state(name="{name}-2") beside the old one'

    def difference(change: Change, was: str, now: str) -> Difference:
        return Difference(change, name, was, now, reset)

    if _layout(before) != _layout(after):
        yield difference(Change.TYPE, before.shown, after.shown)
    elif before.codec != after.codec:
        yield difference(Change.CODEC, f"codec {before.codec or 'default'}", f"codec {after.codec or 'default'}")
    elif before.value is not None and after.value is not None:
        for reason in differences(before.value, after.value):
            yield difference(Change.TYPE, before.shown, f"{after.shown} ({reason})")
    if before.task != after.task:
        yield difference(Change.TASK, f"kept by tasks {before.task}/…", f"kept by tasks {after.task}/…")


def _layout(store: StoreEntry) -> tuple[object, ...]:
    return store.kind, store.scope, store.key, store.fields, store.value is None


def _topic_differences(old: Manifest, new: Manifest) -> Iterator[Difference]:
    for name, before in old.topics.items():
        after = new.topics.get(name)
        if after is not None:
            yield from _changed_topic(old, new, name, before, after)
        elif before.role == TopicKind.REPARTITION.value:
            yield _lost_repartition(old, new, name, before)


def _lost_repartition(old: Manifest, new: Manifest, name: str, before: TopicEntry) -> Difference:
    heirs = [(other, entry) for other, entry in new.topics.items() if other not in old.topics and entry.role == TopicKind.REPARTITION.value]
    if before.handler not in new.handlers and heirs:
        way_on = f'@app.process(…, name="{before.handler}")  # the old name keeps what is on its way'
        return Difference(Change.RENAMED, name, f"handler {before.handler}", f"handler {heirs[0][1].handler}", way_on)
    way_on = f"streamlet run FILE --accept-change {name}  # once the old code has drained it"
    return Difference(Change.REMOVED, name, f"repartition topic of {before.handler}", "(none: records on their way would be lost)", way_on)


def _changed_topic(old: Manifest, new: Manifest, name: str, before: TopicEntry, after: TopicEntry) -> Iterator[Difference]:
    stateful = any(store.task == before.task for store in old.stores.values()) or before.role != "source"
    reset = f"streamlet reset {new.app}"
    if before.partitions != after.partitions and before.role == TopicKind.COMMITS.value and after.partitions > before.partitions:
        pass  # it grows with the largest sub-topology: its records are found by task, not by partition
    elif before.partitions != after.partitions and stateful:
        was, now = (f"{count} partition{'' if count == 1 else 's'}" for count in (before.partitions, after.partitions))
        way_on = f"a topic with {before.partitions} partitions as before; or {reset}  # starts with empty state"
        yield Difference(Change.PARTITIONS, name, was, now, way_on)
    if before.topic_id and after.topic_id and before.topic_id != after.topic_id:
        way_on = f"{reset}  # it was deleted and made anew: what it held is gone; or streamlet run FILE --accept-change {name}"
        yield Difference(Change.RECREATED, name, f"topic id {before.topic_id}", f"topic id {after.topic_id}", way_on)
    if stateful and before.key_codec != after.key_codec:
        way_on = f"key_codec= as before; or {reset}  # keys would land in other partitions than their state"
        yield Difference(Change.CODEC, name, f"keys {before.key_codec}", f"keys {after.key_codec}", way_on)
    if before.value_codec != after.value_codec:
        way_on = f"the type as before; or {reset}  # records on their way could not be read"
        yield Difference(Change.CODEC, name, f"values {before.value_codec}", f"values {after.value_codec}", way_on)
    elif before.value is not None and after.value is not None:
        for reason in differences(before.value, after.value):
            way_on = f"a default for the new field, or the type as before; or {reset}"
            yield Difference(Change.TYPE, name, "values as they were", reason, way_on)


def _handler_differences(old: Manifest, new: Manifest) -> Iterator[Difference]:
    """Handlers that stand there under another name. Those whose stores or repartition topic went with the name are told by these."""
    told = {handler for name, store in old.stores.items() if name not in new.stores for handler in store.handlers}
    told |= {topic.handler for name, topic in old.topics.items() if name not in new.topics and topic.handler is not None}
    heirs = {new.wiring[name]: name for name in reversed(new.handlers) if name not in old.handlers}
    for name in old.handlers:
        heir = heirs.get(old.wiring.get(name, ""))
        if name in new.handlers or name in told or heir is None:
            continue
        way_on = f'@app.process(…, name="{name}")  # keeps its name; or streamlet run FILE --accept-change {name}'
        if old.wiring[name].startswith("batch"):
            way_on = way_on.replace("@app.process", "@app.batch")
        yield Difference(Change.RENAMED, name, f"handler {name}: {old.wiring[name]}", f"handler {heir}: {new.wiring[heir]}", way_on)


def _news(old: Manifest, new: Manifest) -> Iterator[str]:
    for name in new.handlers:
        if name not in old.handlers:
            yield f"new handler {name}"
    for name in old.handlers:
        if name not in new.handlers:
            yield f"handler {name} is gone"
        elif name in old.wiring and old.wiring[name] != new.wiring[name]:
            yield f"handler {name} is connected otherwise: {new.wiring[name]}"
    for name, entry in new.stores.items():
        if name not in old.stores:
            yield f"new store {name}: {entry.shown}"
        elif entry.value != old.stores[name].value:
            yield f"store {name} has a new value type that reads the old one"
    for name, topic in new.topics.items():
        if name not in old.topics and topic.role == "source":
            yield f"new source {name}"
