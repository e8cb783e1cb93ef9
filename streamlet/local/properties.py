"""What a broker is told: server.properties and its logging, as pure functions of the cluster's plan.

Settings fit development and tests: few partitions for the internal topics, no delay before the first rebalance,
topics only when they are created on purpose.

Invariant: equal plans give equal text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
INTERNAL_PARTITIONS: Final = 4
SECURE_USER: Final = "streamlet"


@dataclass(frozen=True, slots=True)
class Node:
    """One broker, which is a controller as well: its id, its ports and its folder."""

    id: int
    port: int
    controller_port: int
    secure_port: int | None
    folder: Path

    @property
    def address(self) -> str:
        """Where plain clients connect."""
        return f"{HOST}:{self.port}"

    @property
    def data(self) -> Path:
        """Kafka's own folder."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """The broker's log file."""
        return self.folder / "logs" / "server.log"

    @property
    def output(self) -> Path:
        """What Java itself printed (a failed start, a crash)."""
        return self.folder / "logs" / "output.log"

    @property
    def settings(self) -> Path:
        """The server.properties."""
        return self.folder / "server.properties"

    @property
    def logging(self) -> Path:
        """The log4j2.properties."""
        return self.folder / "log4j2.properties"


@dataclass(frozen=True, slots=True)
class Secrets:
    """The key store of the secure listener and the one account that may use it."""

    keystore: Path
    certificate: Path  # PEM, for clients
    password: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole cluster, decided before anything runs."""

    nodes: tuple[Node, ...]
    cluster_id: str
    prompt_cleaner: bool = False
    secrets: Secrets | None = None

    @property
    def bootstrap(self) -> str:
        """Addresses of the plain listeners."""
        return ",".join(node.address for node in self.nodes)


def server_properties(plan: Plan, node: Node) -> str:
    """The server.properties of one node."""
    settings = _quorum(plan, node) | _listeners(plan, node) | _replication(len(plan.nodes)) | _DEVELOPMENT
    if plan.prompt_cleaner:
        settings |= _PROMPT_CLEANER
    return render(settings)


def render(settings: Mapping[str, str | int]) -> str:
    """Settings in Java's properties format."""
    return "".join(f"{key}={str(value).replace(chr(92), chr(92) * 2)}\n" for key, value in sorted(settings.items()))


def _quorum(plan: Plan, node: Node) -> dict[str, str | int]:
    return {
        "process.roles": "broker,controller",
        "node.id": node.id,
        # Fixed voters come from here and not from the formatted folder, so a kept folder may start again on other ports.
        "controller.quorum.voters": ",".join(f"{each.id}@{HOST}:{each.controller_port}" for each in plan.nodes),
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(node.data),
        "broker.heartbeat.interval.ms": 1000,
        "broker.session.timeout.ms": 6000,  # a killed broker's partitions move on after this
    }


def _listeners(plan: Plan, node: Node) -> dict[str, str | int]:
    clients = [f"PLAIN://{node.address}"]
    protocols = ["PLAIN:PLAINTEXT", "CONTROLLER:PLAINTEXT"]
    secure: dict[str, str | int] = {}
    if plan.secrets is not None and node.secure_port is not None:
        clients.append(f"SECURE://{HOST}:{node.secure_port}")
        protocols.append("SECURE:SASL_SSL")
        secure = {
            "listener.name.secure.ssl.keystore.type": "PKCS12",
            "listener.name.secure.ssl.keystore.location": str(plan.secrets.keystore),
            "listener.name.secure.ssl.keystore.password": plan.secrets.password,
            "listener.name.secure.ssl.key.password": plan.secrets.password,
            "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.secure.plain.sasl.jaas.config": (
                f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{SECURE_USER}="{plan.secrets.password}";'
            ),
        }
    return secure | {
        "listeners": ",".join([*clients, f"CONTROLLER://{HOST}:{node.controller_port}"]),
        "advertised.listeners": ",".join(clients),
        "listener.security.protocol.map": ",".join(protocols),
        "inter.broker.listener.name": "PLAIN",
    }


def _replication(brokers: int) -> dict[str, str | int]:
    copies, in_sync = (3, 2) if brokers >= 3 else (1, 1)
    return {
        "default.replication.factor": copies,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


_DEVELOPMENT: Final[dict[str, str | int]] = {
    "auto.create.topics.enable": "false",
    "num.partitions": 1,
    "offsets.topic.num.partitions": INTERNAL_PARTITIONS,
    "transaction.state.log.num.partitions": INTERNAL_PARTITIONS,
    "share.coordinator.state.topic.num.partitions": INTERNAL_PARTITIONS,
    "group.initial.rebalance.delay.ms": 0,
    "num.network.threads": 2,
    "num.io.threads": 4,
    "log.cleaner.dedupe.buffer.size": 32 * 1024 * 1024,  # on the heap from the start; the default takes 128 MB of it
    "group.coordinator.threads": 1,
}

_PROMPT_CLEANER: Final[dict[str, str | int]] = {
    "log.cleaner.backoff.ms": 100,
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.retention.check.interval.ms": 500,
    "log.segment.delete.delay.ms": 100,
}


def logging_properties(node: Node) -> str:
    """The log4j2.properties of one node: one bounded file."""
    return render(
        {
            "appender.file.type": "RollingFile",
            "appender.file.name": "File",
            "appender.file.fileName": str(node.log),
            "appender.file.filePattern": f"{node.log}.%i",
            "appender.file.layout.type": "PatternLayout",
            "appender.file.layout.pattern": "%d{ISO8601} %-5p %m (%c{1})%n",
            "appender.file.policies.type": "Policies",
            "appender.file.policies.size.type": "SizeBasedTriggeringPolicy",
            "appender.file.policies.size.size": "20MB",
            "appender.file.strategy.type": "DefaultRolloverStrategy",
            "appender.file.strategy.max": 2,
            "rootLogger.level": "INFO",
            "rootLogger.appenderRef.file.ref": "File",
            "logger.config.name": "org.apache.kafka.common.config.AbstractConfig",  # a thousand lines at every start
            "logger.config.level": "WARN",
        }
    )
