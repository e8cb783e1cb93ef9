"""`streamlet state ls | get | scan`: an app's state, read from its changelogs."""

import itertools
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from streamlet.cli.options import AsJson, Brokers, Config, ConfigFile, File
from streamlet.config import command_line_layer
from streamlet.loading import load_app
from streamlet.topology import Topology, build

if TYPE_CHECKING:
    from streamlet.operations.state import Found

app = typer.Typer(name="state", help="Look at an app's state, as its changelogs have it.", no_args_is_help=True)

StoreArgument = Annotated[str, typer.Argument(metavar="STORE", help="Name of the store: `state ls` shows them.")]
Timeout = Annotated[float, typer.Option(min=1, help="Seconds to read one partition.")]


@app.command()
def ls(file: File, brokers: Brokers = None, config: Config = None, config_file: ConfigFile = None, as_json: AsJson = False) -> None:
    """Every store of an app, its type and the length of its changelog."""
    from streamlet.operations.state import list_stores  # the clients are loaded here and not before

    topology, client = _open(file, brokers, config, config_file)
    stores = list_stores(client, topology)
    if as_json:
        keys = ("name", "type", "task", "changelog", "partitions", "offsets")
        typer.echo(json.dumps([{key: getattr(store, key) for key in keys} for store in stores], indent=2))
        return
    table = Table("store", "type", "tasks", "changelog", "offsets", box=None, pad_edge=False)
    for store in stores:
        tasks = f"{store.task}/0…{store.partitions - 1}" if store.partitions else "never ran"
        table.add_row(store.name, escape(store.type), tasks, store.changelog, str(store.offsets))
    Console(highlight=False, soft_wrap=True).print(table)


@app.command()
def get(
    file: File,
    store: StoreArgument,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The record key: a text as it is, anything else as JSON.")],
    timeout: Timeout = 120.0,
    brokers: Brokers = None,
    config: Config = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """The state of one key. Works while the app runs and shows its last commit. Exit code 1 if there is none."""
    from streamlet.operations.state import get_entries  # the clients are loaded here and not before

    topology, client = _open(file, brokers, config, config_file)
    found = get_entries(client, topology, store, key, timeout)
    _print(found, as_json)
    if not found:
        typer.echo(f"{store} has nothing under {key!r}", err=True)
        raise typer.Exit(1)


@app.command()
def scan(
    file: File,
    store: StoreArgument,
    partition: Annotated[int | None, typer.Option(min=0, help="Only the task of this partition.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many entries.")] = None,
    timeout: Timeout = 120.0,
    brokers: Brokers = None,
    config: Config = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """All entries of a store, task by task, in the order of their keys. Reads whole changelog partitions."""
    from streamlet.operations.state import scan_entries  # the clients are loaded here and not before

    topology, client = _open(file, brokers, config, config_file)
    _print(itertools.islice(scan_entries(client, topology, store, partition=partition, deadline_s=timeout), limit), as_json)


def _open(file: str, brokers: str | None, config: list[str] | None, config_file: ConfigFile) -> tuple[Topology, dict[str, str]]:
    from streamlet.runtime.run import settings_for

    loaded = load_app(file)
    settings = settings_for(loaded, command_line_layer({"brokers": brokers}, config or []), config_file)
    return build(loaded), settings.connection.client_config


def _print(found: "Iterable[Found]", as_json: bool) -> None:
    from streamlet.operations.texts import show_value

    for item in found:
        key, path, value = show_value(item.entry.key), [show_value(field) for field in item.entry.path], show_value(item.entry.value)
        if as_json:
            typer.echo(json.dumps({"task": str(item.task), "key": key, "path": path, "value": value}, ensure_ascii=False))
        else:
            place = "".join(f"[{json.dumps(field, ensure_ascii=False)}]" for field in path)
            typer.echo(f"{item.task}  {json.dumps(key, ensure_ascii=False)}{place}  {json.dumps(value, ensure_ascii=False)}")
