"""`streamlet reset APP`: start an app, or one of its stores, over."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from streamlet.cli.options import AppName, AsJson, Brokers, Config, ConfigFile, StateDir, connection

if TYPE_CHECKING:
    from streamlet.operations.reset import Reset


def reset(
    app: AppName,
    store: Annotated[str | None, typer.Option(metavar="STORE", help="Only this store; input positions and other stores stay.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without this, only what would go is shown.")] = False,
    brokers: Brokers = None,
    config: Config = None,
    config_file: ConfigFile = None,
    state_dir: StateDir = None,
    as_json: AsJson = False,
) -> None:
    """Forget an app's state and positions, so that its next start is a first start.

    Shows what goes: its own topics, committed offsets and local folders. With --yes it goes. Topics of the user's stay.
    Refused while a worker runs on this machine; workers elsewhere are fenced, which ends them, but stop them before.
    """
    from streamlet.operations.reset import apply_reset, look  # the clients are loaded here and not before

    settings = connection(app, brokers, config, config_file, state_dir)
    client, folder = settings.connection.client_config, settings.storage.state_dir
    found = look(client, folder, app, store)
    if as_json:
        typer.echo(json.dumps({**_as_json(found), "done": yes}, indent=2))
    else:
        _print(found)
    if yes:
        apply_reset(client, found, folder)
    if not as_json:
        again = "done. The next start begins anew." if yes else "Nothing was changed. Add --yes to do it."
        typer.echo(again)


def _as_json(found: "Reset") -> dict[str, object]:
    return {
        "app": found.app,
        "store": found.store,
        "topics": found.topics,
        "offsets": {str(partition): offset for partition, offset in sorted(found.offsets.items())},
        "folders": [str(folder) for folder in found.folders],
        "held_by": found.holders,
    }


def _print(found: "Reset") -> None:
    for topic in found.topics:
        typer.echo(f"topic    {topic}")
    for partition, offset in sorted(found.offsets.items()):
        typer.echo(f"offset   {partition} at {offset}")
    for folder in found.folders:
        typer.echo(f"folder   {folder}")
    if found.store is not None:
        typer.echo("Input positions and all other stores stay; local copies are rebuilt at the next start.")
    if found.holders:
        typer.echo(
            f"warning: {', '.join(found.holders)} never let its tasks go. It was killed, or it runs on another machine: stop it first."
        )
