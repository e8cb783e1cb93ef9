"""Options that many commands share: how the brokers are reached."""

from pathlib import Path
from typing import Annotated

import typer

from streamlet.config import Settings, command_line_layer
from streamlet.config_file import load

File = Annotated[str, typer.Argument(metavar="FILE[:APP]", help="The Python file that declares the app.")]
AppName = Annotated[str, typer.Argument(metavar="APP", help="Name of the app, as in App(...).")]
Brokers = Annotated[str | None, typer.Option(metavar="HOST:PORT,…", help="Addresses of the Kafka brokers.")]
Config = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A property for every Kafka client; may be given again.")]
ConfigFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Use this file instead of ./streamlet.toml.")]
StateDir = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for local copies of state.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON, for scripts.")]


def connection(
    app: str | None, brokers: str | None, config: list[str] | None, config_file: Path | None, state_dir: Path | None = None
) -> Settings:
    """The settings of a command that is given a name at most, and no code."""
    return load(app, command_line_layer({"brokers": brokers, "state_dir": state_dir}, config or []), config_file=config_file)
