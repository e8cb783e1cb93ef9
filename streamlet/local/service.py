"""The cluster behind `streamlet kafka`: brought up on a folder, found again, looked at, brought down.

Invariant: after `bring_down` no broker of the folder runs; after `bring_up` all of them do, or none of those it started.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Final

from streamlet.local import registry
from streamlet.local.cluster import AlreadyRunning, KafkaOptions, LocalKafka
from streamlet.local.jars import KAFKA_VERSION
from streamlet.local.java import find_java
from streamlet.local.process import is_alive, resident_bytes
from streamlet.local.registry import WrongFolder

_WATCH_S: Final = 0.2


class Outcome(Enum):
    """What `bring_up` did."""

    STARTED = auto()
    FOUND = auto()  # it was running
    REPAIRED = auto()  # some of its brokers were gone and were started again


@dataclass(frozen=True, slots=True)
class Up:
    """A cluster that is up, and how that came."""

    cluster: LocalKafka
    outcome: Outcome
    notes: tuple[str, ...]


def bring_up(folder: Path, *, brokers: int | None, port: int, foreground: bool) -> Up:
    """Start the cluster of this folder, or find it running; what a crash left behind is cleaned up first."""
    notes: list[str] = []
    running = registry.read_running(folder)
    if running is not None and running.is_orphaned:
        bring_down(folder)
        notes.append("stopped brokers that a killed `up --foreground` had left behind")
        running = None
    if running is not None:
        return _found(folder, brokers)
    identity = registry.read_identity(folder)
    count = brokers or (identity.brokers if identity else 1)
    notes.extend(find_java().notes)
    try:
        cluster = LocalKafka.start(KafkaOptions(brokers=count, port=port, data=folder), die_with_parent=foreground)
    except AlreadyRunning:  # another `up` was faster
        return _found(folder, brokers)
    return Up(cluster, Outcome.STARTED, tuple(notes))


def _found(folder: Path, brokers: int | None) -> Up:
    cluster = LocalKafka.attach(folder)
    assert cluster is not None, "its record was read a moment ago"
    count = len(cluster.plan.nodes)
    if brokers not in {None, count}:
        raise WrongFolder(folder, f"a running cluster of {count}", f"one of {brokers}")
    gone = [node.id for node in cluster.plan.nodes if not cluster.is_alive(node.id)]
    for broker in gone:
        cluster.restart(broker)
    cluster.wait_ready()
    if not gone:
        return Up(cluster, Outcome.FOUND, ())
    return Up(cluster, Outcome.REPAIRED, (f"started broker {', '.join(map(str, gone))} again",))


def watch(cluster: LocalKafka) -> Iterator[int]:
    """Yield the id of each broker that ends; done when none is left (somebody called `down`)."""
    alive = {node.id for node in cluster.plan.nodes}
    while alive:
        for broker in sorted(alive):
            if not cluster.is_alive(broker):
                alive.discard(broker)
                yield broker
        time.sleep(_WATCH_S)


def bring_down(folder: Path) -> bool:
    """Stop every broker of this folder. True if there was one."""
    if not folder.is_dir():
        return False
    with registry.holding(folder):
        cluster = LocalKafka.attach(folder)
        if cluster is None:
            registry.forget_running(folder)
            return False
        cluster.stop()
    return True


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """One broker, as people see it."""

    id: int
    address: str
    state: str  # "up", "silent" (runs, does not answer) or "gone"
    pid: int
    memory_mb: int


@dataclass(frozen=True, slots=True)
class Status:
    """The cluster of one folder."""

    folder: Path
    version: str
    bootstrap: str | None
    brokers: tuple[BrokerStatus, ...]

    @property
    def is_up(self) -> bool:
        """True if every broker answers."""
        return bool(self.brokers) and all(broker.state == "up" for broker in self.brokers)

    def to_json(self) -> dict[str, object]:
        """For scripts."""
        return {"up": self.is_up, **asdict(self), "folder": str(self.folder)}


def read_status(folder: Path) -> Status:
    """Ask every broker of this folder."""
    cluster = LocalKafka.attach(folder)
    if cluster is None:
        return Status(folder, KAFKA_VERSION, None, ())
    answering = cluster.answering()
    brokers = tuple(
        BrokerStatus(
            node.id,
            node.address,
            "up" if node.id in answering else "silent" if is_alive(cluster.processes[node.id]) else "gone",
            cluster.processes[node.id].pid,
            resident_bytes(cluster.processes[node.id]) // 1_000_000,
        )
        for node in cluster.plan.nodes
    )
    return Status(folder, KAFKA_VERSION, cluster.bootstrap, brokers)
