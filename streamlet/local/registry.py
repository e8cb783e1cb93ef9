"""What a data folder says about its cluster: what it was made for (kept), and which processes run on it now.

Invariant: a record of running brokers names each by pid and start time; a record whose processes are gone counts as none.
"""

import fcntl
import os
import shutil
from base64 import urlsafe_b64encode
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from streamlet.errors import ConfigError
from streamlet.local.jars import KAFKA_VERSION
from streamlet.local.process import ProcessId, is_alive
from streamlet.local.properties import Node, Plan

_FORMAT: Final = 1


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """cluster.json: what the folder was formatted for."""

    version: int = _FORMAT
    kafka: str
    cluster_id: str
    brokers: int


class RunningBroker(msgspec.Struct, frozen=True, kw_only=True):
    """One broker of a running cluster."""

    id: int
    port: int
    controller_port: int
    secure_port: int | None
    pid: int
    started: float

    @property
    def process(self) -> ProcessId:
        """The broker's process."""
        return ProcessId(self.pid, self.started)


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """running.json: the processes that run on the folder, and who started them."""

    version: int = _FORMAT
    owner_pid: int | None  # the process with which the brokers are meant to end; None if they stand alone
    owner_started: float | None
    prompt_cleaner: bool
    brokers: list[RunningBroker]

    @property
    def alive(self) -> list[RunningBroker]:
        """The brokers whose processes really run."""
        return [broker for broker in self.brokers if is_alive(broker.process)]

    @property
    def owner(self) -> ProcessId | None:
        """The process with which the brokers are meant to end."""
        return None if self.owner_pid is None or self.owner_started is None else ProcessId(self.owner_pid, self.owner_started)

    @property
    def is_orphaned(self) -> bool:
        """True if the process they belonged to is gone."""
        return self.owner is not None and not is_alive(self.owner)

    def nodes(self, folder: Path) -> tuple[Node, ...]:
        """The brokers as nodes of a plan."""
        return tuple(node_of(folder, each.id, each.port, each.controller_port, each.secure_port) for each in self.brokers)


class FolderNotUsable(ConfigError):
    """The data folder cannot be written."""

    def __init__(self, folder: Path, reason: str) -> None:
        super().__init__(folder, reason)
        self.folder, self.reason = folder, reason

    def __str__(self) -> str:
        return f"Cannot use the data folder {self.folder}: {self.reason}. Free space or fix its permissions, or choose another with --data DIR."


class WrongFolder(ConfigError):
    """The data folder was made for another cluster than the one asked for."""

    def __init__(self, folder: Path, found: str, wanted: str) -> None:
        super().__init__(folder, found, wanted)
        self.folder, self.found, self.wanted = folder, found, wanted

    def __str__(self) -> str:
        return (
            f"The data folder {self.folder} holds {self.found}, but {self.wanted} was asked for. "
            "Kafka cannot change that in place: choose another folder with --data DIR, start what is there, "
            f"or delete the folder with all its topics (rm -r '{self.folder}')."
        )


def node_of(folder: Path, number: int, port: int, controller_port: int, secure_port: int | None) -> Node:
    """A node of the cluster in `folder`."""
    return Node(number, port, controller_port, secure_port, folder / f"broker-{number}")


@contextmanager
def holding(folder: Path) -> Generator[None]:
    """Keep every other `up` and `down` on this folder waiting. The kernel lets go of it when a process dies."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = (folder / "lock").open("w")
    except OSError as error:
        raise FolderNotUsable(folder, error.strerror or str(error)) from error
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def claim_identity(folder: Path, brokers: int) -> Identity:
    """The folder's identity, made on first use; a folder of another shape is refused."""
    identity = read_identity(folder)
    if identity is None:
        identity = Identity(kafka=KAFKA_VERSION, cluster_id=new_cluster_id(), brokers=brokers)
        _write(folder / "cluster.json", identity)
    if identity.brokers != brokers:
        raise WrongFolder(folder, _brokers(identity.brokers), _brokers(brokers))
    return identity


def read_identity(folder: Path) -> Identity | None:
    """What the folder was made for; None if it is new."""
    path = folder / "cluster.json"
    try:
        identity = msgspec.json.decode(path.read_bytes(), type=Identity)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, OSError) as error:
        raise FolderNotUsable(folder, f"cluster.json cannot be read ({error})") from error
    if identity.version != _FORMAT:
        raise WrongFolder(folder, f"a cluster of a newer streamlet (format {identity.version})", f"format {_FORMAT}")
    return identity


def read_running(folder: Path) -> Running | None:
    """The record of running brokers, if at least one of them really runs."""
    record = _read_record(folder)
    return record if record and record.alive else None


def _read_record(folder: Path) -> Running | None:
    try:
        record = msgspec.json.decode((folder / "running.json").read_bytes(), type=Running)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except msgspec.DecodeError:
        return None  # not ours; Kafka's own lock still guards the data
    except OSError as error:
        raise FolderNotUsable(folder, error.strerror or str(error)) from error
    return record if record.version == _FORMAT else None


def sweep(parent: Path, prefix: str) -> None:
    """Remove temporary folders whose owner was killed before it could do so."""
    for folder in parent.glob(f"{prefix}*"):
        try:
            record = _read_record(folder)
        except FolderNotUsable:
            continue  # another user's
        if record and record.is_orphaned and not record.alive:
            shutil.rmtree(folder, ignore_errors=True)


def write_running(folder: Path, plan: Plan, processes: dict[int, ProcessId], owner: ProcessId | None) -> None:
    """Record the processes that run on the folder."""
    brokers = [
        RunningBroker(
            id=node.id,
            port=node.port,
            controller_port=node.controller_port,
            secure_port=node.secure_port,
            pid=processes[node.id].pid,
            started=processes[node.id].started,
        )
        for node in plan.nodes
        if node.id in processes
    ]
    record = Running(
        owner_pid=owner.pid if owner else None,
        owner_started=owner.started if owner else None,
        prompt_cleaner=plan.prompt_cleaner,
        brokers=brokers,
    )
    _write(folder / "running.json", record)


def forget_running(folder: Path) -> None:
    """Nothing runs on the folder any more."""
    (folder / "running.json").unlink(missing_ok=True)


def new_cluster_id() -> str:
    """A random id in Kafka's form: 16 bytes in base64, never with a dash in front."""
    while (text := urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")).startswith("-"):
        pass
    return text


def _write(path: Path, record: msgspec.Struct) -> None:
    draft = path.with_suffix(".new")
    try:
        draft.write_bytes(msgspec.json.format(msgspec.json.encode(record)) + b"\n")
        draft.replace(path)
    except OSError as error:
        raise FolderNotUsable(path.parent, error.strerror or str(error)) from error


def _brokers(count: int) -> str:
    return "one broker" if count == 1 else f"{count} brokers"
