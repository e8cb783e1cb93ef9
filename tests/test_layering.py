"""Who may import what (STYLE R1 to R3), over the real tree; and each rule seen failing on a made-up one."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bed.layering import CLIENTS, RULES, Tree, clients_inside, cycles, read_tree, top_imports_below, unlisted_folders, wrong_arrows

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "streamlet": "streamlet",
    "streamlet.state": "state",
    "streamlet.changelog": "changelog",
    "streamlet.rebalance": "rebalance",
    "streamlet.analytics": "analytics",
    "streamlet.cli": "cli",
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_sources_keep_the_rule(rule):
    assert rule(read_tree(ROOT)) == []


def test_importing_streamlet_loads_no_client():
    assert loaded_clients("import streamlet", ROOT) == []


def test_a_package_that_loads_a_client_is_seen(tmp_path):
    (tmp_path / "heavy.py").write_text("import typer\n")

    assert "typer" in loaded_clients("import heavy", tmp_path)


def made_up(root: Path, files: dict[str, str]) -> Tree:
    """A small tree with the real folders, one file each plus `files`."""
    listed = "".join(f'"{name}" = "{folder}"\n' for name, folder in FOLDERS.items())
    (root / "pyproject.toml").write_text(f"[tool.setuptools]\npackages = {list(FOLDERS)}\n[tool.setuptools.package-dir]\n{listed}")
    for path, source in {**{f"{folder}/__init__.py": "" for folder in FOLDERS.values()}, **files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(source)
    return read_tree(root)


def test_a_tree_that_keeps_the_rules_passes_them_all(tmp_path):
    tree = made_up(
        tmp_path,
        {
            "streamlet/errors.py": "import re\n",
            "streamlet/kafka.py": "import confluent_kafka\n",
            "streamlet/app.py": "from streamlet.state import keys\ndef run():\n    from streamlet.runtime import worker\n",
            "streamlet/runtime.py": "from streamlet.app import App\n",
            "state/keys.py": "from streamlet.errors import ConfigError\n",
            "state/rocksdb.py": "import rocksdict\n",
            "rebalance/leader.py": "from streamlet.state.keys import encode\nfrom streamlet.changelog import cuts\n",
            "analytics/arrow.py": "import pyarrow as pa\n",
            "cli/main.py": "import typer\nfrom streamlet import App\nfrom streamlet.analytics.arrow import table\n",
        },
    )

    assert [rule(tree) for rule in RULES] == [[], [], [], [], []]


def test_an_import_against_the_arrows_is_refused(tmp_path):
    tree = made_up(tmp_path, {"state/keys.py": "from streamlet.changelog.cuts import Cut\n", "changelog/cuts.py": ""})

    assert wrong_arrows(tree) == ["state/keys.py:1 imports streamlet.changelog.cuts, but state/ may not import changelog/"]


def test_a_late_import_against_the_arrows_is_refused(tmp_path):
    tree = made_up(tmp_path, {"changelog/cuts.py": "def cut():\n    from streamlet.rebalance import leader\n", "rebalance/leader.py": ""})

    assert wrong_arrows(tree) == ["changelog/cuts.py:2 imports streamlet.rebalance.leader, but changelog/ may not import rebalance/"]


def test_a_relative_import_against_the_arrows_is_refused(tmp_path):
    tree = made_up(tmp_path, {"state/keys.py": "from ..analytics import arrow\n", "analytics/arrow.py": ""})

    assert wrong_arrows(tree) == ["state/keys.py:1 imports streamlet.analytics.arrow, but state/ may not import analytics/"]


def test_a_leaf_with_a_library_is_refused(tmp_path):
    tree = made_up(tmp_path, {"streamlet/ids.py": "import msgspec\nimport rich\n"})

    assert wrong_arrows(tree) == ["streamlet/ids.py:2 imports rich, but a leaf uses the standard library and msgspec only"]


def test_a_circle_of_imports_is_refused_also_under_type_checking(tmp_path):
    hidden = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from streamlet.state.cache import Cache\n"
    tree = made_up(tmp_path, {"state/keys.py": hidden, "state/cache.py": "from streamlet.state.keys import encode\n"})

    assert cycles(tree) == ["modules import each other in a circle: streamlet.state.cache → streamlet.state.keys → streamlet.state.cache"]


@pytest.mark.parametrize(
    ("path", "library"),
    [
        ("streamlet/worker.py", "confluent_kafka"),
        ("state/memory.py", "rocksdict"),
        ("changelog/table.py", "pyarrow"),
        ("streamlet/app.py", "typer"),
    ],
)
def test_a_client_away_from_its_edge_is_refused(tmp_path, path, library):
    tree = made_up(tmp_path, {path: f"def late():\n    import {library}.inner\n"})

    assert [breach.split(", which")[0] for breach in clients_inside(tree)] == [f"{path}:2 imports {library}"]


def test_a_lower_folder_that_imports_the_top_package_is_refused(tmp_path):
    tree = made_up(tmp_path, {"rebalance/leader.py": "from streamlet import App\n", "cli/main.py": "from streamlet import App\n"})

    assert top_imports_below(tree) == ["rebalance/leader.py:1 imports from streamlet itself: name the module (from streamlet.ids import …)"]


def test_a_folder_with_code_that_is_not_packaged_is_refused(tmp_path):
    made_up(tmp_path, {"state/deep/er.py": "", "windows/__init__.py": "", "benchmarks/app.py": ""})
    (tmp_path / "cli" / "__init__.py").unlink()

    assert unlisted_folders(read_tree(tmp_path)) == [
        "state/deep/ has code, but pyproject.toml does not list it",
        "windows/ has code, but pyproject.toml does not list it",
        "pyproject.toml lists cli, which has no code",
    ]


def loaded_clients(statement: str, folder: Path) -> list[str]:
    """Which client libraries a fresh Python has loaded after `statement`."""
    source = f"import sys\n{statement}\nprint(*sorted({CLIENTS!r} & sys.modules.keys()))"
    result = subprocess.run([sys.executable, "-c", source], cwd=folder, capture_output=True, text=True, check=True, timeout=60)
    return result.stdout.split()
