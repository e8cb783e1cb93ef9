"""`streamlet run`: one worker in this process, or a supervisor with several."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from streamlet.cli.logs import LogFormat, set_up_logs
from streamlet.cli.restore_bar import restore_shown
from streamlet.config import command_line_layer
from streamlet.loading import load_app
from streamlet.runtime.child import CHILD
from streamlet.runtime.run import run_app, settings_for
from streamlet.runtime.supervisor import Supervisor


def run(
    file: Annotated[str, typer.Argument(metavar="FILE[:APP]", help="Python file that declares the app.")],
    brokers: Annotated[str | None, typer.Option(help="Addresses of the Kafka brokers.")] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Run so many worker processes under a supervisor. [default: one worker in this process]"),
    ] = None,
    standbys: Annotated[int | None, typer.Option(min=0, help="Copies of every task that follow its owner. [default: 0]")] = None,
    rack: Annotated[str | None, typer.Option(help="Where this machine stands: standbys go to other racks first.")] = None,
    state_dir: Annotated[Path | None, typer.Option(help="Folder for local copies of state.")] = None,
    config: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A property for every Kafka client; may be given again.")
    ] = None,
    config_file: Annotated[Path | None, typer.Option(help="Use this file instead of ./streamlet.toml.")] = None,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Answer /metrics, /healthz, /readyz and /status there; a PORT alone means the loopback. "
            "With --workers each worker takes the next port. [default: off]",
        ),
    ] = None,
    accept_change: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Go on although this store, topic or handler has changed; may be given again."),
    ] = None,
    dev: Annotated[bool, typer.Option("--dev", help="Create topics that are missing.")] = False,
    log_format: Annotated[LogFormat, typer.Option(help="How logs look.")] = LogFormat.TEXT,
    log_level: Annotated[str, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")] = "INFO",
) -> None:
    """Run an app until Ctrl-C or SIGTERM. Start it again elsewhere, or with --workers, and the work is shared."""
    set_up_logs(log_format, log_level.upper())
    app = load_app(file)
    given = {"brokers": brokers, "state_dir": state_dir, "http": http, "workers": workers, "standbys": standbys, "rack": rack}
    settings = settings_for(app, command_line_layer(given, config or []), config_file)
    if CHILD not in os.environ and (workers is not None or settings.processes.workers > 1):
        address = settings.http

        def command(number: int) -> list[str]:
            again = [sys.executable, "-m", "streamlet.cli", *sys.argv[1:]]
            return [*again, "--http", f"{address.host}:{address.port + number}"] if address is not None and address.port else again

        supervisor = Supervisor(
            app.name,
            settings.connection.client_config,
            command,
            workers=settings.processes.workers,
            standbys=settings.processes.standbys,
            rack=settings.processes.rack,
            state_dir=settings.storage.state_dir,
        )
        raise typer.Exit(supervisor.run())
    with restore_shown() as view:
        run_app(app, settings, create_missing=dev, file=file, accepted=accept_change or (), restore_view=view)
