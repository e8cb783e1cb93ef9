"""One broker: formatted once, started, and its last words when it fails."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from streamlet.errors import ConfigError
from streamlet.local.java import Java
from streamlet.local.process import ProcessId, spawn
from streamlet.local.properties import Node, Plan, logging_properties, server_properties

_FORMAT_S: Final = 120
_TOOL_FLAGS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m")
_BROKER_FLAGS: Final = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-Djava.awt.headless=true")


class BrokerFailed(ConfigError):
    """A broker ended while it was starting, or could not be formatted."""

    def __init__(self, broker: int, log: Path, last_words: str) -> None:
        super().__init__(broker, log, last_words)
        self.broker, self.log, self.last_words = broker, log, last_words

    @property
    def is_port_taken(self) -> bool:
        """True if another process got one of its ports first."""
        return "Address already in use" in self.last_words

    def __str__(self) -> str:
        return f"Broker {self.broker} did not start. Its last words:\n{self.last_words}\nThe whole log is {self.log}. Fix what it names and start again."


def write_settings(plan: Plan, node: Node) -> None:
    """Write the node's files; its data is not touched."""
    node.log.parent.mkdir(parents=True, exist_ok=True)
    node.settings.write_text(server_properties(plan, node), "utf-8")
    node.logging.write_text(logging_properties(node), "utf-8")


def is_formatted(node: Node) -> bool:
    """True if Kafka's folder of this node was made before."""
    return (node.data / "meta.properties").exists()


def format_nodes(plan: Plan, java: Java, jars: Sequence[Path]) -> None:
    """Make Kafka's folders where they are not there yet."""
    new = [node for node in plan.nodes if not is_formatted(node)]
    running = [
        subprocess.Popen(
            _format_command(plan, node, java, jars),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for node in new
    ]
    for node, tool in zip(new, running, strict=True):
        output, _ = tool.communicate(timeout=_FORMAT_S)
        if tool.returncode:
            raise BrokerFailed(node.id, node.log, output.strip()[-2000:])


def _format_command(plan: Plan, node: Node, java: Java, jars: Sequence[Path]) -> list[str]:
    flags = [*_TOOL_FLAGS, f"-Dlog4j2.configurationFile={node.logging}"]
    arguments = ["--cluster-id", plan.cluster_id, "--config", str(node.settings)]
    return [str(java.path), *flags, "-cp", _class_path(jars), "kafka.tools.StorageTool", "format", *arguments]


def start_broker(node: Node, java: Java, jars: Sequence[Path], *, die_with_parent: bool) -> ProcessId:
    """Start the broker's process; it is not ready yet."""
    command: list[str | Path] = [
        java.path,
        *_BROKER_FLAGS,
        *(["--enable-native-access=ALL-UNNAMED"] if java.major >= 24 else []),  # else Java prints warnings about zstd
        f"-Dlog4j2.configurationFile={node.logging}",
        "-cp",
        _class_path(jars),
        "kafka.Kafka",
        node.settings,
    ]
    return spawn(command, output=node.output, folder=node.folder, die_with_parent=die_with_parent)


def last_words(node: Node, lines: int = 12) -> str:
    """What a broker said at last: Java's own output, then errors of its log."""
    said = [line for line in _tail(node.output) if line.strip()]
    log = _tail(node.log)
    errors = [line for line in log if " ERROR " in line or " FATAL " in line or "Exception" in line]
    return "\n".join([*said[-lines:], *(errors or log)[-lines:]]) or "(it said nothing)"


def _tail(path: Path, size: int = 32_000) -> list[str]:
    try:
        with path.open("rb") as handle:
            handle.seek(max(0, path.stat().st_size - size))
            return handle.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []


def _class_path(jars: Sequence[Path]) -> str:
    return ":".join(str(jar) for jar in jars)
