"""`streamlet kafka`: a real Kafka on this machine, up and down with one word each."""

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Final

import typer
from platformdirs import user_data_path
from rich.console import Console
from rich.table import Table

from streamlet.cli.signals import ending_on_signals
from streamlet.errors import ConfigError

app = typer.Typer(name="kafka", help="A real Kafka on this machine, without containers or an installed Java.", no_args_is_help=True)

_FOLLOW_S: Final = 0.2
_console = Console(stderr=True, highlight=False)

DataOption = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Folder of the cluster. [default: in your data folder]")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document, for scripts.")]


def default_folder() -> Path:
    """Where the cluster lives when nobody chose a folder."""
    return user_data_path("streamlet", appauthor=False) / "kafka"


@app.command()
def up(
    brokers: Annotated[
        int | None,
        typer.Option("--brokers", metavar="1|3", help="One broker, or three in one quorum. [default: 1, or what the folder holds]"),
    ] = None,
    port: Annotated[int, typer.Option("--port", help="Port of the first broker; the others follow.")] = 9092,
    data: DataOption = None,
    foreground: Annotated[bool, typer.Option("--foreground", help="Stay, and stop everything on Ctrl-C or SIGTERM.")] = False,
) -> None:
    """Start Kafka, or find the one that runs."""
    from streamlet.local.artefacts import fetch
    from streamlet.local.jars import read_lock
    from streamlet.local.service import Outcome, bring_up, watch

    folder = (data or default_folder()).expanduser().absolute()
    fetch(read_lock())  # shows its own progress
    with ending_on_signals():
        started = time.monotonic()
        with _console.status("Starting Kafka …"):
            result = bring_up(folder, brokers=brokers, port=port, foreground=foreground)
        took = time.monotonic() - started
        for note in result.notes:
            _console.print(f"[yellow]note:[/] {note}")
        count = len(result.cluster.plan.nodes)
        many = "1 broker" if count == 1 else f"{count} brokers"
        if result.outcome is Outcome.FOUND:
            typer.echo(f"Kafka is running already at {result.cluster.bootstrap} ({many}).")
            return
        typer.echo(f"Kafka is up at {result.cluster.bootstrap} ({many}, {took:.1f} s).")
        _console.print(f"[dim]data: {folder}[/]")
        if not foreground:
            _console.print(f"[dim]stop: streamlet kafka down{f' --data {folder}' if data else ''}[/]")
            return
        _console.print("[dim]Ctrl-C stops it.[/]")
        try:
            for broker in watch(result.cluster):
                _console.print(f"[yellow]note:[/] broker {broker} has ended")
        except KeyboardInterrupt:
            pass
        finally:
            with _console.status("Stopping Kafka …"):
                result.cluster.stop()
            typer.echo("Kafka is down.")


@app.command()
def down(data: DataOption = None) -> None:
    """Stop Kafka; its topics are kept for the next `up`."""
    from streamlet.local.service import bring_down

    folder = (data or default_folder()).expanduser().absolute()
    with _console.status("Stopping Kafka …"):
        stopped = bring_down(folder)
    typer.echo("Kafka is down." if stopped else "Kafka was not running.")


@app.command()
def status(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Show the brokers: address, process, memory. Exit code 3 if none runs."""
    from streamlet.local.service import read_status

    report = read_status((data or default_folder()).expanduser().absolute())
    if as_json:
        typer.echo(json.dumps(report.to_json(), indent=2))
    elif not report.brokers:
        typer.echo("Kafka is not running. Start it with: streamlet kafka up")
    else:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for column in ("broker", "address", "state", "pid", "memory"):
            table.add_column(column)
        for broker in report.brokers:
            colour = "green" if broker.state == "up" else "red"
            table.add_row(str(broker.id), broker.address, f"[{colour}]{broker.state}[/]", str(broker.pid), f"{broker.memory_mb} MB")
        Console(highlight=False).print(table)
        typer.echo(f"Kafka {report.version}, data in {report.folder}")
    if not report.is_up:
        raise typer.Exit(3)


@app.command()
def logs(
    broker: Annotated[int, typer.Option("--broker", metavar="N", help="Which broker.")] = 1,
    lines: Annotated[int, typer.Option("--lines", "-n", help="How many of the last lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    data: DataOption = None,
) -> None:
    """Show what a broker logged."""
    path = (data or default_folder()).expanduser().absolute() / f"broker-{broker}" / "logs" / "server.log"
    if not path.exists():
        raise ConfigError(f"Broker {broker} has no log at {path}. Start Kafka first (streamlet kafka up), or name its folder with --data.")
    with path.open("rb") as log:
        tail = log.read().splitlines(keepends=True)[-lines:] if lines else []
        sys.stdout.write(b"".join(tail).decode(errors="replace"))
        sys.stdout.flush()
        try:
            while follow:
                if new := log.read():
                    sys.stdout.write(new.decode(errors="replace"))
                    sys.stdout.flush()
                else:
                    time.sleep(_FOLLOW_S)
        except KeyboardInterrupt:
            return
