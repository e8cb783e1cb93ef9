"""Both checkers, strict, on apps as users write them.

The other files of this folder are the cases. Where one expects an error it says so in a comment for each checker, and a
comment without its error fails as well: so every refusal is seen to happen.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
CASES = sorted(path for path in HERE.glob("*.py") if not path.name.startswith("test_"))
TOOLS = Path(sys.executable).parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as users have it: checkers cannot follow the clone's folder mapping."""
    copy, target = tmp_path_factory.mktemp("source") / "clone", tmp_path_factory.mktemp("installed")
    tracked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in tracked.stdout.splitlines():
        if (ROOT / name).is_file() and not name.startswith(("tests/", "benchmarks/", "docker/")):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", target, copy], check=True)
    return target


def test_mypy_agrees_with_every_case(installed: Path, tmp_path: Path) -> None:
    result = subprocess.run(
        [TOOLS / "mypy", "--strict", "--warn-unused-ignores", "--config-file", os.devnull, "--cache-dir", tmp_path, *CASES],
        env={**os.environ, "MYPYPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0, result.stdout + result.stderr
    assert f"no issues found in {len(CASES)} source files" in result.stdout


def test_pyright_agrees_with_every_case(installed: Path, tmp_path: Path) -> None:
    config = tmp_path / "pyrightconfig.json"
    settings = {
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "enableTypeIgnoreComments": False,  # those are mypy's
        "reportUnnecessaryTypeIgnoreComment": "error",
        "include": [str(case) for case in CASES],
        "extraPaths": [str(installed)],
    }
    config.write_text(json.dumps(settings))
    result = subprocess.run(
        [TOOLS / "basedpyright", "--outputjson", "--project", config, "--pythonpath", sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )

    report = json.loads(result.stdout)
    assert [f"{Path(d['file']).name}:{d['range']['start']['line'] + 1} {d['message']}" for d in report["generalDiagnostics"]] == []
    assert report["summary"]["filesAnalyzed"] >= len(CASES)
