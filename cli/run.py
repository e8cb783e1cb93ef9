"""`streamlet run`: one worker in this process."""

from pathlib import Path
from typing import Annotated

import typer

from streamlet.cli.logs import LogFormat, set_up_logs
from streamlet.cli.restore_bar import restore_shown
from streamlet.config import command_line_layer
from streamlet.loading import load_app
from streamlet.runtime.run import run_app, settings_for


def run(
    file: Annotated[str, typer.Argument(metavar="FILE[:APP]", help="Python file that declares the app.")],
    brokers: Annotated[str | None, typer.Option(help="Addresses of the Kafka brokers.")] = None,
    state_dir: Annotated[Path | None, typer.Option(help="Folder for local copies of state.")] = None,
    config: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A property for every Kafka client; may be given again.")
    ] = None,
    config_file: Annotated[Path | None, typer.Option(help="Use this file instead of ./streamlet.toml.")] = None,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Answer /metrics, /healthz, /readyz and /status there; a PORT alone means the loopback. [default: off]",
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
    """Run an app until Ctrl-C or SIGTERM."""
    set_up_logs(log_format, log_level.upper())
    app = load_app(file)
    given = command_line_layer({"brokers": brokers, "state_dir": state_dir, "http": http}, config or [])
    with restore_shown() as view:
        settings = settings_for(app, given, config_file)
        run_app(app, settings, create_missing=dev, file=file, accepted=accept_change or (), restore_view=view)
