"""Developer command that writes the lock files of this package: `python -m streamlet.local.lock`.

It resolves the roots transitively (runtime scope), downloads every jar and notes what its bytes are.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from streamlet.local.artefacts import sha256_of
from streamlet.local.jars import KAFKA_LOCK, KAFKA_VERSION, Jar, Lock, render_lock

ROOTS: Final = {
    # Kafka's artefact brings log4j and the slf4j interface, but not the bridge between them: without it the broker logs nothing.
    KAFKA_LOCK: (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"),
}


def resolve(name: str, roots: Sequence[str], workplace: Path) -> Lock:
    """Resolve `roots` and everything they need at run time; where two want different versions, the earlier root wins."""
    from jgo.config import GlobalSettings
    from jgo.maven import MavenContext

    context = MavenContext(repo_cache=workplace, remote_repos=GlobalSettings.load().repositories or None)
    found: dict[tuple[str, str, str], Jar] = {}
    for root in roots:  # one at a time: jgo lets the managed versions of every root apply to all of them
        inputs, transitive = context.resolver.resolve([context.create_dependency(root)])
        for dependency in (*inputs, *transitive):
            name_only = (dependency.groupId, dependency.artifactId, dependency.classifier)
            if name_only in found or dependency.scope in {"test", "provided"} or dependency.type != "jar":
                continue
            path = dependency.artifact.resolve()
            found[name_only] = Jar(
                dependency.groupId, dependency.artifactId, dependency.version, dependency.classifier, sha256_of(path), path.stat().st_size
            )
    return Lock(name, tuple(found.values()))


def main() -> None:
    """Write every lock file anew."""
    for name, roots in ROOTS.items():
        with tempfile.TemporaryDirectory() as workplace:
            lock = resolve(name, roots, Path(workplace))
        target = Path(__file__).parent / f"{name}.lock"
        target.write_text(
            render_lock(lock, comment=f"{' + '.join(roots)}, runtime scope; written by python -m streamlet.local.lock"), "utf-8"
        )
        sys.stdout.write(f"{target.name}: {len(lock.jars)} jars, {lock.size / 1e6:.1f} MB\n")


if __name__ == "__main__":
    main()
