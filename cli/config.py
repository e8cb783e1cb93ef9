"""`streamlet config FILE`: what an app runs with, and where each value comes from."""

import json

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from streamlet.cli.options import AsJson, Brokers, Config, ConfigFile, File, StateDir
from streamlet.config import command_line_layer
from streamlet.loading import load_app


def config(
    file: File,
    brokers: Brokers = None,
    state_dir: StateDir = None,
    config: Config = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show every setting of an app and where it was found. Secrets are masked. Needs no broker."""
    from streamlet.runtime.run import settings_for  # the clients are loaded here and not before

    declared = load_app(file)
    settings = settings_for(declared, command_line_layer({"brokers": brokers, "state_dir": state_dir}, config or []), config_file)
    shown = settings.shown()
    if as_json:
        rows = {key: {"value": value, "from": str(settings.origins[key])} for key, value in shown.items()}
        typer.echo(json.dumps({"app": declared.name, "settings": rows}, indent=2))
        return
    table = Table("setting", "value", "from", box=None, pad_edge=False)
    for key, value in shown.items():
        table.add_row(key, escape(value), escape(str(settings.origins[key])))
    Console(highlight=False, soft_wrap=True).print(table)
