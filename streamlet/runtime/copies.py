"""A task's local copy: opened, judged by its changelogs, set aside where it cannot be continued."""

import logging
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamlet.changelog.replay import Partition, Replay, judge_copy
from streamlet.ids import StoreName, TaskId
from streamlet.internal_topics import changelog_name
from streamlet.runtime.restoring import StoreReplay
from streamlet.runtime.task import COMMIT_TIME
from streamlet.state.backend import Backend, Batch
from streamlet.state.errors import FolderUnusable
from streamlet.state.rocksdb import RocksBackend
from streamlet.topology import SubTopology, Topology

log = logging.getLogger("streamlet.run")

_DELETE_RETENTION_MS: Final = 86_400_000  # Kafka's default, which our changelogs keep


@dataclass(frozen=True, slots=True)
class Changelogs:
    """What the brokers say of the changelogs: ids by topic, first and next offsets by partition."""

    topic_ids: Mapping[str, str]
    starts: Mapping[Partition, int]
    ends: Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class LocalCopy:
    """A task's stores on this machine and what is left to replay into them."""

    backend: Backend
    replays: tuple[StoreReplay, ...]


def changelog_partitions(topology: Topology, task: TaskId) -> dict[StoreName, Partition]:
    """The changelog partition of each of a task's stores."""
    return {spec.name: Partition(changelog_name(topology.app, spec.name), task.partition) for spec in topology.sub(task.name).stores}


def kept_copies(folder: Path) -> list[TaskId]:
    """Tasks with a copy in a state folder."""
    places = [place for place in folder.glob("*/*") if place.is_dir() and place.name.isdecimal()]
    return sorted(TaskId(place.parent.name, int(place.name)) for place in places)


def open_copy(topology: Topology, task: TaskId, folder: Path, logs: Changelogs) -> LocalCopy:
    """Open a task's local copy; one that cannot be continued is set aside and replayed from the changelog's start."""
    sub, place = topology.sub(task.name), folder / task.name / str(task.partition)
    partitions = changelog_partitions(topology, task)
    backend: Backend = _open_backend(place, sub)
    unusable = {_judge(backend, name, partition, logs) for name, partition in partitions.items()} - {"keep", "empty"}
    if unusable:
        backend.close()
        set_aside(place, ", ".join(sorted(unusable)))
        backend = _open_backend(place, sub)
    _remember_ids(backend, {name: logs.topic_ids[partition.topic] for name, partition in partitions.items()})
    offsets = {name: backend.offset(name) for name in partitions}
    return LocalCopy(
        backend,
        tuple(
            StoreReplay(
                task,
                name,
                backend,
                Replay(partition, max(offsets[name] or 0, logs.starts[partition]), logs.ends[partition]),
                offsets[name] is None,
            )
            for name, partition in partitions.items()
        ),
    )


def _judge(backend: Backend, store: StoreName, partition: Partition, logs: Changelogs) -> str:
    """Whether one store of the copy goes on: `keep` or `empty`; anything else is the reason why not."""
    known = backend.meta(_id_name(store))
    if known is not None and known.decode() != logs.topic_ids[partition.topic]:
        return "another_changelog"  # offsets of one topic mean nothing in another of the same name
    verdict = judge_copy(
        offset=backend.offset(store),
        log_start=logs.starts[partition],
        target=logs.ends[partition],
        copy_time_ms=int(found) if (found := backend.meta(COMMIT_TIME)) else None,
        now_ms=int(time.time() * 1000),
        delete_retention_ms=_DELETE_RETENTION_MS,
    )
    return verdict.name.lower()


def _remember_ids(backend: Backend, ids: Mapping[StoreName, str]) -> None:
    new = {_id_name(store): topic_id.encode() for store, topic_id in ids.items() if backend.meta(_id_name(store)) is None}
    if new:
        backend.apply(Batch(changes={}, offsets={}, meta=new))


def _id_name(store: StoreName) -> str:
    return f"changelog-id/{store}"


def _open_backend(place: Path, sub: SubTopology) -> RocksBackend:
    names = [spec.name for spec in sub.stores]
    try:
        return RocksBackend.open(place, names)
    except FolderUnusable as error:
        set_aside(place, str(error))
        return RocksBackend.open(place, names)


def set_aside(place: Path, why: str) -> None:
    """Keep one unusable copy for whoever wants to look; the changelog is the truth."""
    aside = place.with_name(f"{place.name}.aside")
    shutil.rmtree(aside, ignore_errors=True)
    place.rename(aside)
    log.warning("local copy set aside; the changelog is replayed", extra={"copy": str(aside), "reason": why})
