"""Finding the App in a file."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamlet import DeclarationError
from streamlet.loading import FileFailed, FileMissing, NoApp, load_app


@pytest.fixture(autouse=True)
def untouched_imports() -> Iterator[None]:
    modules, path = dict(sys.modules), list(sys.path)
    yield
    sys.modules.clear()
    sys.modules.update(modules)
    sys.path[:] = path


def written(folder: Path, name: str, *lines: str) -> str:
    (folder / name).write_text("\n".join(lines) + "\n")
    return str(folder / name)


ONE = ("from streamlet import App", "app = App('one')")
TWO = ("from streamlet import App", "first = App('one')", "second = App('two')", "again = first")


def test_the_only_app_of_a_file_needs_no_name(tmp_path: Path) -> None:
    assert load_app(written(tmp_path, "one.py", *ONE)).name == "one"


def test_an_app_is_found_by_its_variable_or_by_its_own_name(tmp_path: Path) -> None:
    file = written(tmp_path, "two.py", *TWO)

    assert load_app(f"{file}:second").name == "two"
    assert load_app(f"{file}:two").name == "two"


def test_several_apps_are_listed(tmp_path: Path) -> None:
    file = written(tmp_path, "two.py", *TWO)

    with pytest.raises(NoApp) as caught:
        load_app(file)
    assert caught.value.found == {"first": "one", "second": "two"}
    assert f"{file}:first (App 'one'), {file}:second (App 'two')" in str(caught.value)


def test_a_name_that_is_not_there_is_answered_by_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(NoApp) as caught:
        load_app(written(tmp_path, "two.py", *TWO) + ":third")
    assert (caught.value.wanted, caught.value.found) == ("third", {"first": "one", "second": "two"})


def test_a_file_without_an_app_says_how_to_add_one(tmp_path: Path) -> None:
    with pytest.raises(NoApp) as caught:
        load_app(written(tmp_path, "none.py", "x = 1"))
    assert caught.value.found == {}
    assert 'app = App("my-app")' in str(caught.value)


def test_a_missing_file_is_answered_by_its_neighbours(tmp_path: Path) -> None:
    written(tmp_path, "word_count.py", *ONE)

    with pytest.raises(FileMissing) as caught:
        load_app(str(tmp_path / "wordcount.py"))
    assert caught.value.nearby == ("word_count.py",)


def test_a_failing_file_shows_the_users_lines_only(tmp_path: Path) -> None:
    file = written(tmp_path, "failing.py", "def inner():", "    return {}['missing']", "", "inner()")

    with pytest.raises(FileFailed) as caught:
        load_app(file)
    assert "failing.py" in caught.value.trace
    assert "line 4" in caught.value.trace
    assert "line 2, in inner" in caught.value.trace
    assert caught.value.trace.endswith("KeyError: 'missing'")
    assert "importlib" not in caught.value.trace
    assert "loading.py" not in caught.value.trace
    assert "failing" not in sys.modules


def test_a_syntax_error_is_shown_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(FileFailed) as caught:
        load_app(written(tmp_path, "broken.py", "def f(:"))
    assert "def f(:" in caught.value.trace
    assert "SyntaxError" in caught.value.trace


def test_a_wrong_declaration_speaks_for_itself(tmp_path: Path) -> None:
    lines = (*ONE, "@app.process(app.topic('lines', value=str))", "def count(n: int) -> None: ...")

    with pytest.raises(DeclarationError) as caught:
        load_app(written(tmp_path, "wrong.py", *lines))
    assert caught.value.fix == "def count(n: str)  # topic 'lines' holds str, not int"


def test_a_file_may_import_its_neighbours(tmp_path: Path) -> None:
    written(tmp_path, "neighbour_of_app.py", "NAME = 'from-beside'")
    file = written(tmp_path, "with_neighbour.py", "from streamlet import App", "from neighbour_of_app import NAME", "app = App(NAME)")

    assert load_app(file).name == "from-beside"


def test_a_file_named_like_a_module_replaces_nothing(tmp_path: Path) -> None:
    import queue

    assert load_app(written(tmp_path, "queue.py", *ONE)).name == "one"
    assert sys.modules["queue"] is queue
