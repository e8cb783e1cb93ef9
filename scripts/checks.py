"""Format, lint and both type checkers, side by side; prints what each found and ends with the worst exit code.

The checkers cannot see that `state/` is `streamlet.state`, so they run on an installed copy of the package.
Its paths are turned back into the clone's before they are shown, so that an editor can jump to them.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
COPY = ROOT / ".venv" / "checked"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
TYPING = ROOT / "tests" / "typing"


def main() -> int:
    """Run every check and return the worst exit code."""
    with (ROOT / ".streamlet" / "checks.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the copy and build/ have one writer
        linters = [start("ruff format", "ruff", "format", "--check", "."), start("ruff check", "ruff", "check", ".")]
        worst = 0 if (failed := install_copy()) is None else report("install", failed)
        checkers = [] if failed else [start_mypy(), *start_mypy_on_typing(), start_basedpyright()]
        return max([worst, *(finish(name, process) for name, process in (*linters, *checkers))])


def install_copy() -> subprocess.CompletedProcess[str] | None:
    """Install the tree as it is now into `.venv/checked`; None when that worked."""
    for stale in (ROOT / "build", COPY):
        shutil.rmtree(stale, ignore_errors=True)
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", COPY, "."]
    result = subprocess.run(command, cwd=ROOT, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    shutil.rmtree(ROOT / "build", ignore_errors=True)
    return result if result.returncode else None


def start_mypy() -> tuple[str, subprocess.Popen[str]]:
    """Mypy over the installed package, strict by pyproject.toml."""
    return start("mypy", "mypy", "-p", "streamlet", MYPYPATH=str(COPY))


def start_mypy_on_typing() -> list[tuple[str, subprocess.Popen[str]]]:
    """Mypy over tests/typing, where types are tested as behaviour."""
    if not any(TYPING.rglob("*.py")):
        return []
    cache = ROOT / ".mypy_cache" / "typing"  # two runs side by side must not share one
    return [start("mypy tests/typing", "mypy", "--cache-dir", str(cache), str(TYPING), MYPYPATH=str(COPY))]


def start_basedpyright() -> tuple[str, subprocess.Popen[str]]:
    """Basedpyright over the same files, with pyproject's settings and the copy's paths."""
    settings = PROJECT["tool"]["basedpyright"] | {
        "include": [str(COPY / "streamlet"), *([str(TYPING)] if TYPING.exists() else [])],
        "exclude": ["**/__pycache__"],
        "extraPaths": [str(COPY)],
    }
    config = ROOT / ".venv" / "basedpyright.json"
    config.write_text(json.dumps(settings, indent=2))
    return start("basedpyright", "basedpyright", "--project", str(config), "--pythonpath", sys.executable)


def start(name: str, tool: str, *arguments: str, **environment: str) -> tuple[str, subprocess.Popen[str]]:
    """Start one check in the clone."""
    process = subprocess.Popen(
        [BIN / tool, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return name, process


def finish(name: str, process: subprocess.Popen[str]) -> int:
    """Wait for one check, show what it found, return its exit code."""
    output, _ = process.communicate()
    return report(name, subprocess.CompletedProcess(process.args, process.returncode, output))


def report(name: str, result: subprocess.CompletedProcess[str]) -> int:
    """Print one line for a passed check, everything for a failed one."""
    output = in_the_clone(result.stdout).strip()
    verdict = "ok" if result.returncode == 0 else f"FAILED\n{output}"
    print(f"{name}: {verdict}", flush=True)
    return result.returncode


def in_the_clone(text: str) -> str:
    """Turn paths of the installed copy into the clone's: `.venv/checked/streamlet/state/…` is `state/…`."""
    folders: dict[str, str] = PROJECT["tool"]["setuptools"]["package-dir"]
    for package in sorted(folders, key=len, reverse=True):
        installed = package.replace(".", "/") + "/"
        for prefix in (f"{COPY}/", ".venv/checked/"):
            text = text.replace(prefix + installed, folders[package] + "/")
    return text.replace(f"{ROOT}/", "")


if __name__ == "__main__":
    sys.exit(main())
