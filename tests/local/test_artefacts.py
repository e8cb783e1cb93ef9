import hashlib
from pathlib import Path

import pytest

from streamlet.local.artefacts import CacheNotWritable, JarNotFetched, WrongChecksum, cache_folder, download_with_jgo, fetch
from streamlet.local.jars import Jar, Lock
from streamlet.local.progress import Progress, Silent


def jar(name: str, content: bytes) -> Jar:
    return Jar("org.example", name, "1.0", "", hashlib.sha256(content).hexdigest(), len(content))


ONE, TWO = b"first jar", b"second jar"
LOCK = Lock("pair", (jar("one", ONE), jar("two", TWO)))
CONTENT = {"one": ONE, "two": TWO}


class Repository:
    """Stands for the network: hands out contents, counts what was asked for, and can break off."""

    def __init__(self, content: dict[str, bytes], breaks_at: str | None = None) -> None:
        self.content, self.breaks_at = content, breaks_at
        self.asked: list[str] = []

    def __call__(self, wanted: Jar, workplace: Path, progress: Progress) -> Path:
        self.asked.append(wanted.artifact)
        path = workplace / wanted.filename
        path.write_bytes(self.content[wanted.artifact])
        progress.advance(len(self.content[wanted.artifact]))
        if wanted.artifact == self.breaks_at:
            raise JarNotFetched(wanted.coordinate, workplace.parent, "the line was cut")
        return path


def test_jars_are_fetched_once_and_then_taken_from_the_cache(tmp_path: Path) -> None:
    repository = Repository(CONTENT)

    first = fetch(LOCK, folder=tmp_path, download=repository)
    second = fetch(LOCK, folder=tmp_path, download=repository)

    assert [path.read_bytes() for path in first] == [ONE, TWO]
    assert first == second
    assert repository.asked == ["one", "two"]


def test_a_jar_with_other_bytes_is_refused_and_not_kept(tmp_path: Path) -> None:
    with pytest.raises(WrongChecksum) as caught:
        fetch(LOCK, folder=tmp_path, download=Repository({**CONTENT, "two": b"second jaR"}))

    assert caught.value.coordinate == "org.example:two:1.0"
    assert [path.name for path in tmp_path.rglob("*.jar")] == ["one-1.0.jar"]


def test_after_a_broken_download_only_the_rest_is_fetched(tmp_path: Path) -> None:
    with pytest.raises(JarNotFetched):
        fetch(LOCK, folder=tmp_path, download=Repository(CONTENT, breaks_at="two"))
    repository = Repository(CONTENT)

    paths = fetch(LOCK, folder=tmp_path, download=repository)

    assert repository.asked == ["two"]
    assert [path.read_bytes() for path in paths] == [ONE, TWO]
    assert not list(tmp_path.rglob(".fetch-*"))


def test_a_cut_off_jar_in_the_cache_is_fetched_again(tmp_path: Path) -> None:
    first, _ = fetch(LOCK, folder=tmp_path, download=Repository(CONTENT))
    first.write_bytes(ONE[:-1])

    fetch(LOCK, folder=tmp_path, download=Repository(CONTENT))

    assert first.read_bytes() == ONE


def test_a_cache_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(CacheNotWritable) as caught:
        fetch(LOCK, folder=tmp_path / "file", download=Repository(CONTENT))

    assert caught.value.folder == tmp_path / "file" / "jars"
    assert "STREAMLET_CACHE" in str(caught.value)


def test_without_network_the_error_says_where_the_jars_will_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody listens there
    workplace = tmp_path / "jars" / "workplace"

    with pytest.raises(JarNotFetched) as caught:
        download_with_jgo(LOCK.jars[0], workplace, Silent())

    assert caught.value.folder == tmp_path / "jars"
    assert "Run once with network" in str(caught.value)


def test_the_cache_folder_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMLET_CACHE", str(tmp_path))

    assert cache_folder() == tmp_path


def test_a_download_outside_a_terminal_shows_plain_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fetch(LOCK, folder=tmp_path, download=Repository(CONTENT))

    assert capsys.readouterr().err.splitlines() == ["Fetching pair: 2 files, 0 MB", "Fetching pair: done"]
