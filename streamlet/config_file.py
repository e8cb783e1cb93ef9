"""streamlet.toml: `[app.<name>]` for one app, `[kafka]` for every Kafka client. Read, checked, turned into a layer.

The one place that looks at the machine for settings: `load` gathers everything that `streamlet.config.resolve` needs.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

import platformdirs

from streamlet.config import KEYS, BadSetting, Layer, Origin, Settings, UnknownSetting, environment_layer, nearest, resolve
from streamlet.errors import ConfigError

FILE_NAME: Final = "streamlet.toml"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """What a streamlet.toml says, every name checked. Values are checked when they are resolved."""

    path: Path
    apps: Mapping[str, Mapping[str, object]]
    kafka: Mapping[str, str] = field(repr=False)

    def layer(self, app: str | None) -> Layer:
        """The values for one app; without an app only `[kafka]` counts."""
        table: Mapping[str, object] = self.apps.get(app, {}) if app is not None else {}

        def origin(key: str) -> Origin:
            inside = key in table and not key.startswith("kafka.")
            return Origin(str(self.path), f"[app.{app}] {key}" if inside else f"[kafka] {key.removeprefix('kafka.')}")

        return Layer(origin, table, self.kafka)


class BadConfigFile(ConfigError):
    """A streamlet.toml that cannot be read."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(path, why)
        self.path, self.why = path, why

    def __str__(self) -> str:
        return f"{self.path} cannot be used: {self.why}."


def load(app: str | None, command_line: Layer, code: Layer | None = None, *, config_file: Path | None = None) -> Settings:
    """Resolve the settings of an app (or, without one, only the connection) on this machine."""
    path = find_config_file(config_file, os.environ, Path.cwd())
    from_file = [read_config_file(path).layer(app)] if path else []
    layers = [command_line, environment_layer(os.environ), *from_file, *([code] if code else [])]
    return resolve(layers, default_state_dir=default_state_dir())


def find_config_file(named: Path | None, environment: Mapping[str, str], folder: Path) -> Path | None:
    """The file named by --config-file or STREAMLET_CONFIG, else streamlet.toml in `folder` if there is one."""
    chosen = named or (Path(environment["STREAMLET_CONFIG"]) if environment.get("STREAMLET_CONFIG") else None)
    if chosen is None:
        found = folder / FILE_NAME
        return found if found.exists() else None
    if not chosen.exists():
        raise BadConfigFile(chosen, "it does not exist; it was named by " + ("--config-file" if named else "STREAMLET_CONFIG"))
    return chosen


def read_config_file(path: Path) -> ConfigFile:
    """Read and check a streamlet.toml."""
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadConfigFile(path, str(error)) from error
    return parse_config(content, path)


def parse_config(content: Mapping[str, object], path: Path) -> ConfigFile:
    """Check the names in a parsed file. Relative folders are meant from the file's own folder."""
    for name in content:
        if name not in {"app", "kafka"}:
            raise UnknownSetting(name, Origin(str(path)), nearest(name, ["[app.<name>]", "app", "kafka"]), ["[app.<name>]", "[kafka]"])
    apps = {name: _app_table(name, table, path) for name, table in _table(content.get("app", {}), "[app.<name>]", path).items()}
    return ConfigFile(path, apps, _properties(_table(content.get("kafka", {}), "[kafka]", path), path))


def default_state_dir() -> Path:
    """The platform's folder for what a program keeps but could rebuild."""
    return platformdirs.user_state_path("streamlet", appauthor=False)


def _app_table(app: str, content: object, path: Path) -> dict[str, object]:
    table = _table(content, f"[app.{app}]", path)
    for key in table:
        if key not in KEYS:
            raise UnknownSetting(key, Origin(str(path), f"[app.{app}]"), nearest(key, KEYS), KEYS)
    folder = table.get("state_dir")
    if isinstance(folder, str) and folder.strip():
        return {**table, "state_dir": path.absolute().parent / Path(folder).expanduser()}
    return table


def _properties(table: Mapping[str, object], path: Path, prefix: str = "") -> dict[str, str]:
    """Kafka's properties. TOML reads `security.protocol` as a table in a table, which is undone here."""
    found: dict[str, str] = {}
    for name, value in table.items():
        key = prefix + name
        if isinstance(value, dict):
            found |= _properties(_table(cast("object", value), key, path), path, f"{key}.")
        elif isinstance(value, bool):
            found[key] = str(value).lower()
        elif isinstance(value, str | int | float):
            found[key] = str(value)
        else:
            raise BadSetting(key, value, "a Kafka property is a text, a number, true or false", Origin(str(path), "[kafka]"))
    return found


def _table(content: object, name: str, path: Path) -> dict[str, object]:
    if not isinstance(content, dict):
        raise BadConfigFile(path, f"{name} must be a table")
    return cast("dict[str, object]", content)  # keys of a TOML table are always text
