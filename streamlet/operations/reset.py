"""Starting an app, or one of its stores, over: what goes is shown first, and only then does it go.

Topics of the user's are never touched. The app's own topics are known by its manifest; where there is none they are found
by name, leaving out those of another app whose name begins with this one's.
"""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from streamlet import manifest as manifests
from streamlet.changelog.kafka import ClientConfig
from streamlet.changelog.replay import Partition
from streamlet.errors import ConfigError
from streamlet.ids import Incarnation
from streamlet.internal_topics import TopicKind, changelog_name, control_topics
from streamlet.manifest import Manifest
from streamlet.operations.apps import NoSuchApp, known_apps, read_view
from streamlet.operations.kafka import GroupOffsets
from streamlet.operations.status import StatusReader
from streamlet.rebalance.kafka import Leader, control_topic, fence
from streamlet.rebalance.records import MANIFEST_KEY, PLAN_KEY, ControlRecord, Entry, OwnKind, Plan
from streamlet.rebalance.records import Manifest as ManifestRecord
from streamlet.rebalance.view import View
from streamlet.runtime.slots import held_seats
from streamlet.topics.kafka import Topics

_OWN_KINDS = tuple(kind.value for kind in TopicKind)


@dataclass(frozen=True, slots=True)
class Reset:
    """What a reset will do. `holders` are incarnations that took tasks and never let them go: they run, or were killed."""

    app: str
    store: str | None
    topics: tuple[str, ...]
    offsets: Mapping[Partition, int]
    folders: tuple[Path, ...]
    holders: tuple[Incarnation, ...]
    members: tuple[Incarnation, ...]
    manifest: Manifest | None


class WorkerRuns(ConfigError):
    """A worker of the app runs on this machine."""

    def __init__(self, app: str, folder: Path, pid: str) -> None:
        super().__init__(app, folder, pid)
        self.app, self.folder, self.pid = app, folder, pid

    def __str__(self) -> str:
        return f"A worker of '{self.app}' runs here (process {self.pid or 'unknown'}, folder {self.folder}). Stop it first, then reset."


class WorkersAlive(ConfigError):
    """Workers of the app run on other machines."""

    def __init__(self, app: str, slots: tuple[str, ...]) -> None:
        super().__init__(app, slots)
        self.app, self.slots = app, slots

    def __str__(self) -> str:
        return f"'{self.app}' is running: {', '.join(self.slots)}. Stop its workers first (SIGTERM or Ctrl-C), then reset. `streamlet status {self.app}` shows them."


class NoSuchStore(ConfigError):
    """The app has no store of this name."""

    def __init__(self, app: str, store: str, known: tuple[str, ...]) -> None:
        super().__init__(app, store, known)
        self.app, self.store, self.known = app, store, known

    def __str__(self) -> str:
        return f"'{self.app}' has no store '{self.store}'. It has: {', '.join(self.known) or 'none'}."


def look(client: ClientConfig, state_dir: Path, app: str, store: str | None = None) -> Reset:
    """Find out what a reset would do; changes nothing."""
    names = Topics(client).names()
    if control_topic(app) not in names and not own_topics(app, None, names):
        raise NoSuchApp(app, str(client.get("bootstrap.servers")), known_apps(names))
    view = read_view(client, app) if control_topic(app) in names else View()
    stored = manifests.decode(view.manifest) if view.manifest is not None else None
    holders = {own.incarnation for own in view.own.values() if own.kind is OwnKind.CLAIM}
    members = view.plan.members if view.plan else ()
    refuse_running(app, state_dir)
    if members:
        refuse_alive(client, app)
    if store is not None:
        changelog = checked_store(app, store, stored)
        return Reset(app, store, (changelog,) if changelog in names else (), {}, (), tuple(sorted(holders)), members, stored)
    folder = state_dir / app
    return Reset(
        app,
        None,
        own_topics(app, stored, names),
        GroupOffsets(client, app).committed(),
        (folder,) if folder.exists() else (),
        tuple(sorted(holders)),
        members,
        stored,
    )


def apply_reset(client: ClientConfig, reset: Reset, state_dir: Path) -> None:
    """Do what was shown. Workers elsewhere are fenced first, so that none can write any more."""
    refuse_running(reset.app, state_dir)
    topics = Topics(client)
    if control_topic(reset.app) in topics.names():
        leader = Leader(client, reset.app)
        for member in reset.members:
            fence(client, member)
        leader.publish(*_farewell(reset, read_view(client, reset.app)))
    for folder in reset.folders:
        shutil.rmtree(folder, ignore_errors=True)
    if reset.store is None:
        GroupOffsets(client, reset.app).delete()
    control = control_topic(reset.app)
    topics.delete(name for name in reset.topics if name != control)
    topics.delete(name for name in reset.topics if name == control)  # last: until then a second try finds everything


def own_topics(app: str, stored: Manifest | None, names: Iterable[str]) -> tuple[str, ...]:
    """The app's own topics among all there are."""
    existing = frozenset(names)
    always = {topic.name for topic in control_topics(app)}
    if stored is not None:
        promised = {name for name, entry in stored.topics.items() if entry.role in _OWN_KINDS}
        return tuple(sorted((promised | always) & existing))
    others = [f"{other}-" for other in known_apps(existing) if other != app and other.startswith(f"{app}-")]
    endings = tuple(f"-{kind}" for kind in _OWN_KINDS)
    found = {name for name in existing if name.startswith(f"{app}-") and name.endswith(endings) and not name.startswith(tuple(others))}
    return tuple(sorted(found))


def without_store(stored: Manifest, store: str) -> Manifest:
    """The manifest as if the store had never been: the next start makes it anew, empty."""
    changelog = changelog_name(stored.app, store)
    return replace(
        stored,
        version=stored.version + 1,
        stores={name: entry for name, entry in stored.stores.items() if name != store},
        topics={name: entry for name, entry in stored.topics.items() if name != changelog},
    )


def checked_store(app: str, store: str, stored: Manifest | None) -> str:
    """The changelog of a store that the app has."""
    known = tuple(sorted(stored.stores)) if stored else ()
    if store not in known:
        raise NoSuchStore(app, store, known)
    return changelog_name(app, store)


def refuse_running(app: str, state_dir: Path) -> None:
    """Refuse while a process on this machine holds one of the app's state folders."""
    for folder, pid in held_seats(state_dir, app):
        raise WorkerRuns(app, folder, pid)


def refuse_alive(client: ClientConfig, app: str) -> None:
    """Refuse while a worker on any machine speaks: it would come back and begin to write again."""
    reader = StatusReader(client, app)
    try:
        slots = tuple(worker.slot for worker in reader.read().workers)
    finally:
        reader.close()
    if slots:
        raise WorkersAlive(app, slots)


def _farewell(reset: Reset, view: View) -> list[tuple[bytes, ControlRecord | None]]:
    """A plan that names nobody who runs, so that workers elsewhere stop; and the manifest without the store."""
    earlier = view.plan
    plan = Plan(
        version=(earlier.version if earlier else 0) + 1,
        members=(Incarnation(f"{reset.app}-reset"),),
        tasks={name: Entry(owner=0, term=entry.term) for name, entry in earlier.tasks.items()} if earlier else {},
    )
    records: list[tuple[bytes, ControlRecord | None]] = [(PLAN_KEY, plan)]
    if reset.store is not None and reset.manifest is not None:
        records.append((MANIFEST_KEY, ManifestRecord(manifests.encode(without_store(reset.manifest, reset.store)))))
    return records
