"""What we ship works away from the repo: wheel and sdist, installed in clean environments, without network."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
WHEELHOUSE = Path(sys.prefix) / "wheelhouse"
OUTSIDE = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


def run(*command: str | Path, cwd: Path) -> str:
    result = subprocess.run([str(part) for part in command], cwd=cwd, env=OUTSIDE, capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, f"{command} failed:\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Wheel and sdist, built from a copy of the tree so that the tree stays clean; the wheel is made from the sdist."""
    folder = tmp_path_factory.mktemp("build")
    ignored = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, folder / "tree", ignore=ignored)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", folder / "tree", cwd=folder)
    files = list((folder / "dist").iterdir())
    return {"wheel": next(f for f in files if f.suffix == ".whl"), "sdist": next(f for f in files if f.suffix == ".gz")}


def expected_files() -> set[str]:
    """Every source and data file of every package, by its place in an installation."""
    found = {"streamlet/py.typed"}
    for package, folder in SETTINGS["package-dir"].items():
        found |= {f"{package.replace('.', '/')}/{path.name}" for path in (ROOT / folder).glob("*.py")}
    for package, patterns in SETTINGS["package-data"].items():
        data = {path for pattern in patterns for path in (ROOT / SETTINGS["package-dir"][package]).glob(pattern)}
        found |= {f"{package.replace('.', '/')}/{path.name}" for path in data}
    return found


def test_the_wheel_holds_every_file_of_every_package(shipped):
    names = set(zipfile.ZipFile(shipped["wheel"]).namelist())

    assert {name for name in names if ".dist-info/" not in name} == expected_files()
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_sdist_holds_license_and_readme(shipped):
    with tarfile.open(shipped["sdist"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert {"LICENSE", "README.md", "pyproject.toml"} <= names


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_what_we_ship_works_in_a_clean_environment(shipped, tmp_path, kind):
    assert WHEELHOUSE.exists(), "no wheels were collected for this test: run scripts/test once, it does so"
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"

    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--find-links", WHEELHOUSE, shipped[kind], cwd=tmp_path)

    imports = "import sys, streamlet; " + "; ".join(f"import {package}" for package in SETTINGS["packages"])
    where = run(python, "-I", "-c", f"{imports}; print(streamlet.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(tmp_path)
    assert "Usage: streamlet" in run(python.with_name("streamlet"), "--help", cwd=tmp_path)
