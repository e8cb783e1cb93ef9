"""A real Kafka cluster as a Python object, for tests, demos, benchmarks and the `streamlet kafka` command.

Its only writer is the process that started it. Without `die_with_parent` the brokers outlive that process, and
`LocalKafka.attach` finds them again through the record in their folder.
"""

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from streamlet.errors import ConfigError, RetryError
from streamlet.local import registry
from streamlet.local.artefacts import fetch
from streamlet.local.broker import BrokerFailed, format_nodes, last_words, start_broker, write_settings
from streamlet.local.jars import read_lock
from streamlet.local.java import Java, find_java
from streamlet.local.kafka import Admin, NotReady
from streamlet.local.ports import free_ports, require_free
from streamlet.local.process import ProcessId, identify, is_alive, send, wait_until_gone
from streamlet.local.properties import HOST, SECURE_USER, Node, Plan
from streamlet.local.registry import FolderNotUsable
from streamlet.local.secrets import make_secrets, read_secrets

START_S: Final = 90.0
STOP_S: Final = 15.0
SMALLEST_SPACE: Final = 256 * 1024 * 1024
_POLL_S: Final = 0.03
_PORT_TRIES: Final = 3
_TEMPORARY: Final = "streamlet-kafka-"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOptions:
    """What kind of cluster: `port=None` takes free ports, `data=None` a temporary folder that goes away at stop."""

    brokers: int = 1
    port: int | None = None
    data: Path | None = None
    secure: bool = False
    prompt_cleaner: bool = False

    def __post_init__(self) -> None:
        if self.brokers not in {1, 3}:
            raise ConfigError(f"A local Kafka has 1 or 3 brokers, not {self.brokers}: two could not outvote each other.")
        if self.port is not None and not 1024 <= self.port <= 65_000:
            raise ConfigError(f"Port {self.port} cannot be used. Choose one from 1024 to 65000.")


class AlreadyRunning(ConfigError):
    """Brokers run on this folder already."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        super().__init__(folder, bootstrap)
        self.folder, self.bootstrap = folder, bootstrap

    def __str__(self) -> str:
        return f"A Kafka runs on {self.folder} already, at {self.bootstrap}. Use it, or stop it first (streamlet kafka down --data '{self.folder}')."


class LocalKafka:
    """One broker, or three in one quorum, on the loopback address."""

    def __init__(self, plan: Plan, folder: Path, processes: dict[int, ProcessId], *, temporary: bool, owner: ProcessId | None) -> None:
        """Use `start` or `attach`."""
        self.plan, self.folder = plan, folder
        self._processes = processes
        self._temporary = temporary
        self._owner = owner  # the brokers die with this process; None if they stand alone

    @classmethod
    def start(cls, options: KafkaOptions | None = None, *, die_with_parent: bool = True) -> Self:
        """Start a cluster and wait until every broker answers.

        With `die_with_parent` no broker outlives this process, however it ends (Linux; elsewhere the next start cleans up).
        """
        options = options or KafkaOptions()
        java, jars = find_java(), fetch(read_lock())
        folder = _usable_folder(options.data)
        try:
            for _ in range(_PORT_TRIES):
                cluster = cls._spawn_all(options, folder, java, jars, die_with_parent=die_with_parent)
                try:
                    cluster.wait_ready()
                except BaseException as error:
                    cluster._stop(0.0)
                    if not (isinstance(error, BrokerFailed) and error.is_port_taken):
                        raise
                else:
                    return cluster
            raise RetryError(f"Other processes took the brokers' ports {_PORT_TRIES} times in a row. Start again.")
        except BaseException:
            if options.data is None:
                shutil.rmtree(folder, ignore_errors=True)
            raise

    @classmethod
    def _spawn_all(cls, options: KafkaOptions, folder: Path, java: Java, jars: list[Path], *, die_with_parent: bool) -> Self:
        with registry.holding(folder):
            plan = _make_plan(options, folder, java)
            owner = identify(os.getpid()) if die_with_parent else None
            cluster = cls(plan, folder, {}, temporary=options.data is None, owner=owner)
            try:
                for node in plan.nodes:
                    write_settings(plan, node)
                format_nodes(plan, java, jars)
                for node in plan.nodes:
                    cluster._spawn(node, java, jars)
            except OSError as error:
                cluster._stop(0.0)
                raise FolderNotUsable(folder, error.strerror or str(error)) from error
            except BaseException:
                cluster._stop(0.0)
                raise
        return cluster

    @classmethod
    def attach(cls, folder: Path) -> Self | None:
        """The cluster that runs on `folder`; None if none does."""
        running, identity = registry.read_running(folder), registry.read_identity(folder)
        if running is None or identity is None:
            return None
        nodes = running.nodes(folder)
        secrets = read_secrets(folder / "secrets") if nodes[0].secure_port else None
        plan = Plan(nodes, identity.cluster_id, running.prompt_cleaner, secrets)
        return cls(plan, folder, {each.id: each.process for each in running.brokers}, temporary=False, owner=running.owner)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers, as clients want them."""
        return self.plan.bootstrap

    @property
    def client_config(self) -> dict[str, str]:
        """Settings with which a client connects."""
        return {"bootstrap.servers": self.bootstrap}

    @property
    def secure_client_config(self) -> dict[str, str]:
        """Settings with which a client connects to the TLS + SASL listener."""
        if self.plan.secrets is None:
            raise ConfigError("This Kafka has no secure listener. Start it with KafkaOptions(secure=True).")
        return {
            "bootstrap.servers": ",".join(f"{HOST}:{node.secure_port}" for node in self.plan.nodes),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": SECURE_USER,
            "sasl.password": self.plan.secrets.password,
            "ssl.ca.location": str(self.plan.secrets.certificate),
        }

    @property
    def addresses(self) -> dict[int, str]:
        """Address of every broker by its id."""
        return {node.id: node.address for node in self.plan.nodes}

    @property
    def processes(self) -> dict[int, ProcessId]:
        """Process of every broker that was started and not stopped, by its id."""
        return dict(self._processes)

    def is_alive(self, broker: int) -> bool:
        """True while the broker's process runs, paused or not."""
        process = self._processes.get(broker)
        return process is not None and is_alive(process)

    def answering(self) -> set[int]:
        """Ids of the brokers that answer a metadata request themselves."""
        alive = [node for node in self.plan.nodes if self.is_alive(node.id)]
        admins = {node.id: Admin({"bootstrap.servers": node.address}) for node in alive}
        return {broker for broker, admin in admins.items() if broker in admin.brokers()}

    def wait_ready(self, *, timeout_s: float = START_S, brokers: Sequence[int] | None = None) -> None:
        """Wait until each of these brokers (default: all) answers a metadata request in which all of them are listed."""
        wanted = [node for node in self.plan.nodes if brokers is None or node.id in brokers]
        ids = {node.id for node in wanted}
        deadline = time.monotonic() + timeout_s
        for node in wanted:
            admin = Admin({"bootstrap.servers": node.address})
            while not ids <= admin.brokers():
                self._check_alive(wanted)
                if time.monotonic() > deadline:
                    raise NotReady(f"broker {node.id} does not answer", node.address, timeout_s)
                time.sleep(_POLL_S)

    def create_topic(self, name: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic, replicated as the cluster is, and wait until it has leaders."""
        self._admin.create_topic(name, partitions=partitions, config=config or {})

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        self._admin.delete_topic(name)

    def topics(self) -> dict[str, int]:
        """The user's topics with their partition counts."""
        return self._admin.topics()

    def kill(self, broker: int) -> None:
        """SIGKILL: the broker is gone at once, without a word."""
        process = self._processes[self._node(broker).id]
        send(process, signal.SIGKILL)
        left = wait_until_gone([process], time.monotonic() + STOP_S)
        assert not left, "nothing survives SIGKILL"

    def pause(self, broker: int) -> None:
        """SIGSTOP: the broker holds its connections and does nothing."""
        send(self._processes[self._node(broker).id], signal.SIGSTOP)

    def resume(self, broker: int) -> None:
        """SIGCONT: a paused broker goes on."""
        send(self._processes[self._node(broker).id], signal.SIGCONT)

    def restart(self, broker: int, *, timeout_s: float = START_S) -> None:
        """Start the broker again, stopping it first if it runs; returns when it answers and all its copies are in sync."""
        node = self._node(broker)
        if broker in self._processes:
            self._end([self._processes[broker]], STOP_S)
        write_settings(self.plan, node)
        self._spawn(node, find_java(), fetch(read_lock()))
        deadline = time.monotonic() + timeout_s
        self.wait_ready(timeout_s=timeout_s, brokers=[broker])
        while self._admin.out_of_sync(broker) != set():
            self._check_alive([node])
            if time.monotonic() > deadline:
                raise NotReady(f"broker {broker} is not in sync again", self.bootstrap, timeout_s)
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Stop every broker; a temporary folder is removed. Stopping twice is fine."""
        self._stop(0.0 if self._temporary else STOP_S)
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    @cached_property
    def _admin(self) -> Admin:
        return Admin(self.client_config)

    def _node(self, broker: int) -> Node:
        for node in self.plan.nodes:
            if node.id == broker:
                return node
        raise ConfigError(f"There is no broker {broker}; this cluster has {', '.join(str(node.id) for node in self.plan.nodes)}.")

    def _spawn(self, node: Node, java: Java, jars: list[Path]) -> None:
        self._processes[node.id] = start_broker(node, java, jars, die_with_parent=self._owner is not None)
        registry.write_running(self.folder, self.plan, self._processes, self._owner)

    def _check_alive(self, nodes: list[Node]) -> None:
        for node in nodes:
            if not self.is_alive(node.id):
                raise BrokerFailed(node.id, node.log, last_words(node))

    def _stop(self, grace_s: float) -> None:
        self._end(list(self._processes.values()), grace_s)
        self._processes.clear()
        registry.forget_running(self.folder)

    def _end(self, processes: list[ProcessId], grace_s: float) -> None:
        """SIGTERM, then after `grace_s` SIGKILL."""
        if grace_s > 0:
            for process in processes:
                send(process, signal.SIGTERM)
                send(process, signal.SIGCONT)  # a paused process would sleep through its end
            processes = wait_until_gone(processes, time.monotonic() + grace_s)
        for process in processes:
            send(process, signal.SIGKILL)
        left = wait_until_gone(processes, time.monotonic() + STOP_S)
        if left:
            raise RetryError(f"Processes {[process.pid for process in left]} do not end. Stop them by hand.")


def _usable_folder(chosen: Path | None) -> Path:
    """The data folder, made and with room in it."""
    if chosen is None:
        registry.sweep(Path(tempfile.gettempdir()), _TEMPORARY)
        return Path(tempfile.mkdtemp(prefix=_TEMPORARY))
    folder = chosen.expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        raise FolderNotUsable(folder, error.strerror or str(error)) from error
    check_space(folder, free)
    return folder


def check_space(folder: Path, free: int) -> None:
    """Refuse a disk that is as good as full: a broker stops for good when it cannot write."""
    if free < SMALLEST_SPACE:
        raise FolderNotUsable(folder, f"the disk is full ({free // 1_000_000} MB left, {SMALLEST_SPACE // 1_000_000} MB needed)")


def _make_plan(options: KafkaOptions, folder: Path, java: Java) -> Plan:
    running = registry.read_running(folder)
    if running is not None:
        raise AlreadyRunning(folder, Plan(running.nodes(folder), "").bootstrap)
    identity = registry.claim_identity(folder, options.brokers)
    count = options.brokers
    ports = free_ports(count) if options.port is None else require_free(options.port, count)
    others = free_ports(2 * count, avoid=frozenset(ports))
    controllers, secure = others[:count], others[count:]
    secrets = make_secrets(folder / "secrets", java) if options.secure else None
    nodes = tuple(
        registry.node_of(folder, number, ports[number - 1], controllers[number - 1], secure[number - 1] if secrets else None)
        for number in range(1, count + 1)
    )
    return Plan(nodes, identity.cluster_id, options.prompt_cleaner, secrets)
