"""From `FILE[:app]`, as it is typed, to the App in that file.

The file is imported as Python would import a script's neighbour: its folder comes first on the path, so it may import
what lies beside it. When the file itself fails, only the user's own lines are shown.
"""

import importlib.util
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from streamlet.app import App
from streamlet.errors import ConfigError, StreamletError


class FileMissing(ConfigError):
    """There is no such file. `nearby` are Python files in its folder."""

    def __init__(self, file: str, nearby: tuple[str, ...]) -> None:
        super().__init__(file, nearby)
        self.file, self.nearby = file, nearby

    def __str__(self) -> str:
        hint = f"There are: {', '.join(self.nearby)}." if self.nearby else "Give the path of the Python file that declares the app."
        return f"There is no file {self.file}. {hint}"


class FileFailed(ConfigError):
    """The file raised while it was imported. `trace` is the traceback through the user's lines only."""

    def __init__(self, file: str, trace: str) -> None:
        super().__init__(file, trace)
        self.file, self.trace = file, trace

    def __str__(self) -> str:
        return f"{self.file} cannot be imported, so there is no app to look at.\n{self.trace}"


class NoApp(ConfigError):
    """The file declares no App, or none of the name that was asked for. `found` has the apps by variable."""

    def __init__(self, file: str, wanted: str | None, found: Mapping[str, str]) -> None:
        super().__init__(file, wanted, found)
        self.file, self.wanted, self.found = file, wanted, dict(found)

    def __str__(self) -> str:
        if not self.found:
            return f'{self.file} declares no App. Add one at its top level: app = App("my-app").'
        listed = ", ".join(f"{self.file}:{variable} (App {name!r})" for variable, name in self.found.items())
        if self.wanted is None:
            return f"{self.file} declares several Apps. Say which one: {listed}."
        return f"{self.file} has no App {self.wanted!r}. It has: {listed}."


def load_app(target: str) -> App:
    """The App that `FILE` or `FILE:name` means; the name is that of the variable or of the App."""
    file, name = _split(target)
    return choose_app(file, name, import_file(file))


def choose_app(file: str, name: str | None, module: ModuleType) -> App:
    """The only App of a module, or the one of this name."""
    apps = {variable: value for variable, value in vars(module).items() if isinstance(value, App)}
    first_names: dict[int, str] = {}
    for variable, value in apps.items():
        first_names.setdefault(id(value), variable)
    found = {variable: apps[variable].name for variable in first_names.values()}
    if name is not None:
        wanted = apps.get(name) or next((value for value in apps.values() if value.name == name), None)
        if wanted is None:
            raise NoApp(file, name, found)
        return wanted
    if len(found) != 1:
        raise NoApp(file, None, found)
    return apps[next(iter(found))]


def import_file(file: str) -> ModuleType:
    """Import a Python file by its path. Its own errors are shown as they are; ours say what is wrong with the app."""
    path = Path(file).resolve()
    if not path.is_file():
        folder = path.parent if path.parent.is_dir() else Path()
        raise FileMissing(file, tuple(sorted(near.name for near in folder.glob("*.py")))[:10])
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    name = _module_name(path)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FileFailed(file, "It is not a Python file: its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module  # a dataclass or a Struct looks its own module up by name
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        if isinstance(error, StreamletError | KeyboardInterrupt):
            raise
        raise FileFailed(file, _users_trace(error, path)) from None
    return module


def _split(target: str) -> tuple[str, str | None]:
    file, colon, name = target.rpartition(":")
    return (file, name) if colon and file and "/" not in name else (target, None)


def _module_name(path: Path) -> str:
    """The file's own name, unless another module has it: an app in `queue.py` must not replace Python's."""
    known = sys.modules.get(path.stem)
    is_free = known is None or getattr(known, "__file__", None) == str(path)
    return path.stem if is_free else f"streamlet_app_{path.stem}"


def _users_trace(error: BaseException, path: Path) -> str:
    """The traceback from the user's file on, without the machinery that imported it."""
    frames = traceback.extract_tb(error.__traceback__)
    first = next((index for index, frame in enumerate(frames) if Path(frame.filename) == path), len(frames))
    told = "".join(traceback.format_list(frames[first:]))
    return f"{told}{''.join(traceback.format_exception_only(error))}".rstrip()
