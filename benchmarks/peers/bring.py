"""Brings the peers: Kafka Streams by locked jars and compiled here, Quix Streams in a virtual environment of its own.

Both are kept in the user's cache folder, so that only the first run needs the network.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamlet.local.artefacts import cache_folder, fetch
from streamlet.local.jars import Lock, parse_lock
from streamlet.local.java import find_java

HERE: Final = Path(__file__).resolve().parent
SOURCE: Final = HERE / "kafka-streams" / "KeyedCount.java"
QUIX: Final = "quixstreams==3.28.1"
STEP_S: Final = 600


class PeerMissing(Exception):
    """A peer could not be brought; the text says what to do."""


@dataclass(frozen=True, slots=True)
class KafkaStreams:
    """How to start the Java peer."""

    java: Path
    class_path: str


def bring_kafka_streams() -> KafkaStreams:
    """Fetch the jars, compile the peer if it is new, and say how to start it."""
    java = find_java().path
    jars = fetch(_lock("kafka-streams-4.3.1"))
    class_path = ":".join(map(str, jars))
    fingerprint = hashlib.sha256(SOURCE.read_bytes() + class_path.encode()).hexdigest()[:16]
    classes = cache_folder() / "peers" / f"kafka-streams-{fingerprint}"
    if not classes.exists():
        classes.parent.mkdir(parents=True, exist_ok=True)
        workplace = Path(tempfile.mkdtemp(dir=classes.parent))
        _run([*_compiler(java), "-cp", class_path, "-d", str(workplace), str(SOURCE)], "the Kafka Streams peer does not compile")
        _keep(workplace, classes)
    return KafkaStreams(java, f"{classes}:{class_path}")


def _compiler(java: Path) -> list[str]:
    """The javac beside the Java in use; a runtime without one runs the Eclipse compiler."""
    if (javac := java.resolve().with_name("javac")).exists():
        return [str(javac), "-nowarn"]
    (compiler,) = fetch(_lock("ecj-3.40.0"))
    return [str(java), "-jar", str(compiler), "-17", "-nowarn", "-proc:none"]


def _lock(name: str) -> Lock:
    return parse_lock(name, (HERE / "kafka-streams" / f"{name}.lock").read_text("utf-8"))


def bring_quix() -> Path:
    """Install Quix Streams where it cannot touch our own packages; return its Python."""
    home = cache_folder() / "peers" / QUIX.replace("==", "-")
    python = home / "bin" / "python"
    stamp = home / "installed"
    if not stamp.exists():
        shutil.rmtree(home, ignore_errors=True)
        print(f"installing {QUIX} into {home}", file=sys.stderr)
        _run([sys.executable, "-m", "venv", str(home)], "no virtual environment for Quix Streams")
        _run([str(python), "-m", "pip", "install", "--quiet", QUIX], f"{QUIX} cannot be installed; it needs the network once")
        stamp.touch()
    return python


def _run(command: list[str], failure: str) -> None:
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=STEP_S)
    if result.returncode:
        raise PeerMissing(f"{failure}:\n{(result.stdout + result.stderr).strip()[-2000:]}")


def _keep(made: Path, final: Path) -> None:
    """Give a finished folder its name; if another run was faster, its folder is as good."""
    try:
        made.rename(final)
    except OSError:
        shutil.rmtree(made)


def write_locks() -> None:
    """Resolve the Java peers anew: `python benchmarks/peers/bring.py`."""
    from streamlet.local.jars import render_lock
    from streamlet.local.lock import resolve

    roots = {
        "kafka-streams-4.3.1": ("org.apache.kafka:kafka-streams:4.3.1", "org.slf4j:slf4j-nop:1.7.36"),
        "ecj-3.40.0": ("org.eclipse.jdt:ecj:3.40.0",),
    }
    for name, wanted in roots.items():
        with tempfile.TemporaryDirectory() as workplace:
            text = render_lock(resolve(name, wanted, Path(workplace)), comment=f"{' + '.join(wanted)}, runtime scope")
        (HERE / "kafka-streams" / f"{name}.lock").write_text(text, "utf-8")


if __name__ == "__main__":
    write_locks()
