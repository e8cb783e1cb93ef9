"""Who competes, and how each one is started for one run. Broker, input, commit interval and checks are the same for all."""

import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from peers.bring import bring_kafka_streams, bring_quix
from workload import COMMIT_MS, PARTITIONS

PEERS: Final = Path(__file__).resolve().parent / "peers"
STREAMLET: Final = Path(sys.executable).with_name("streamlet")


@dataclass(frozen=True, slots=True)
class Run:
    """One start of one contestant: names that nothing else uses, and a folder of its own."""

    brokers: str
    input: str
    folder: Path
    id: str = field(default_factory=lambda: f"bench-{uuid.uuid4().hex[:10]}")

    @property
    def output(self) -> str:
        return f"{self.id}-output"

    @property
    def changelog(self) -> str:
        return f"{self.id}-floor-changelog"


@dataclass(frozen=True, slots=True)
class Contestant:
    """One framework in one setting."""

    name: str
    command: Callable[[Run], list[str]]
    environment: Callable[[Run], Mapping[str, str]] = lambda _: {}
    decode: Callable[[bytes], int] = lambda value: int.from_bytes(value, "big")
    needs_changelog: bool = False


def floor() -> Contestant:
    def command(run: Run) -> list[str]:
        options = {
            "brokers": run.brokers,
            "input": run.input,
            "output": run.output,
            "changelog": run.changelog,
            "group": run.id,
            "state-dir": str(run.folder),
            "partitions": str(PARTITIONS),
            "commit-ms": str(COMMIT_MS),
        }
        return [sys.executable, str(PEERS / "floor.py"), *_options(options)]

    return Contestant("floor", command, needs_changelog=True)


def streamlet(*, exactly_once: bool = True) -> Contestant:
    def command(run: Run) -> list[str]:
        return streamlet_command(run.brokers, run.folder)

    def environment(run: Run) -> dict[str, str]:
        topics = {"BENCH_APP": run.id, "BENCH_COUNT_INPUT": run.input, "BENCH_COUNT_OUTPUT": run.output}
        return topics if exactly_once else topics | {"BENCH_AT_LEAST_ONCE": "1"}

    return Contestant("streamlet" if exactly_once else "streamlet at-least-once", command, environment)


def streamlet_command(brokers: str, folder: Path) -> list[str]:
    return [str(STREAMLET), "run", str(PEERS / "streamlet_app.py"), "--brokers", brokers, "--state-dir", str(folder)]


def kafka_streams(*, cache: bool) -> Contestant:
    peer = bring_kafka_streams()

    def command(run: Run) -> list[str]:
        settings = {
            "bench.input": run.input,
            "bench.output": run.output,
            "bench.cache": str(cache).lower(),
            "application.id": run.id,
            "bootstrap.servers": run.brokers,
            "state.dir": str(run.folder),
            "commit.interval.ms": str(COMMIT_MS),
            "statestore.cache.max.bytes": str(64 << 20 if cache else 0),
        }
        return [str(peer.java), "-cp", peer.class_path, "KeyedCount", *(f"{name}={value}" for name, value in settings.items())]

    return Contestant(f"kafka-streams, cache {'on' if cache else 'off'}", command)


def quix() -> Contestant:
    python = bring_quix()

    def command(run: Run) -> list[str]:
        return quix_command(python, run)

    return Contestant("quix", command)


def quix_command(python: Path, run: Run, *flags: str) -> list[str]:
    options = {
        "brokers": run.brokers,
        "input": run.input,
        "output": run.output,
        "group": run.id,
        "state-dir": str(run.folder),
        "commit-ms": str(COMMIT_MS),
    }
    return [str(python), str(PEERS / "quix_app.py"), *_options(options), *flags]


def engine_is_there() -> bool:
    """Whether this tree's streamlet can already run an app."""
    if not STREAMLET.exists():
        return False
    return subprocess.run([str(STREAMLET), "run", "--help"], check=False, capture_output=True, timeout=60).returncode == 0


def _options(options: Mapping[str, str]) -> list[str]:
    return [part for name, value in options.items() for part in (f"--{name}", value)]
