"""Entry point of the `streamlet` command: builds the tree of commands and turns deliberate errors into text and an exit code."""

from typing import Annotated

import typer

from streamlet import __version__
from streamlet.cli import config, demo, doctor, kafka, records, reset, resume, run, state, status, steer, topics, topology
from streamlet.errors import StreamletError

cli = typer.Typer(
    name="streamlet",
    help="Stream applications in plain Python on Kafka.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
cli.add_typer(kafka.app)
cli.command()(demo.demo)
cli.command()(run.run)
cli.command()(status.status)
cli.command()(steer.scale)
cli.command()(steer.move)
cli.command()(steer.drain)
cli.command()(steer.pause)
cli.command()(resume.resume)
cli.command()(topology.topology)
cli.command()(config.config)
cli.add_typer(topics.app)
cli.command()(records.send)
cli.command()(records.tail)
cli.add_typer(state.app)
cli.command()(reset.reset)
cli.command()(doctor.doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"streamlet {__version__}")
        raise typer.Exit


@cli.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")] = False,
) -> None:
    """Stream applications in plain Python on Kafka."""


def main() -> None:
    """Run the command line; a deliberate error becomes one message and its exit code."""
    try:
        cli()
    except StreamletError as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(error.exit_code) from None
