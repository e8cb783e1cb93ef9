"""`streamlet resume APP [TASK]`: let a parked or paused task go on, or all that were paused."""

from typing import Annotated

import typer

from streamlet.cli.options import AppName, Brokers, Config, ConfigFile, connection
from streamlet.ids import TaskId


def resume(
    app: AppName,
    task: Annotated[
        str | None,
        typer.Argument(metavar="[TASK]", help="The parked or paused task, for example orders/3; without it all that are paused."),
    ] = None,
    skip: Annotated[bool, typer.Option("--skip", help="Go on behind the record that stopped it: that record is never processed.")] = False,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait for a worker's answer.")] = 15.0,
    brokers: Brokers = None,
    config: Config = None,
    config_file: ConfigFile = None,
) -> None:
    """Let a parked or paused task go on; a parked one at the record that stopped it, or behind it.

    When every task of an app is parked, its worker ends. A skip may be asked for then too: it stands until the next
    worker has started and stopped at the same record, and is answered by going on behind it.
    """
    from streamlet.operations.resume import Outcome, resume_task  # the clients are loaded here and not before
    from streamlet.operations.steer import resume_all

    settings = connection(app, brokers, config, config_file)
    if task is None:
        if skip:
            raise typer.BadParameter("a record is skipped of one task: name it.", param_hint="--skip")
        answered = resume_all(settings.connection.client_config, app, deadline_s=timeout).answered
        typer.echo(
            f"Every paused task of '{app}' goes on." if answered else f"No leader of '{app}' answered in {timeout:.0f} s.", err=not answered
        )
        raise typer.Exit(0 if answered else 3)
    outcome = resume_task(settings.connection.client_config, app, TaskId.parse(task), skip=skip, deadline_s=timeout)
    if outcome is Outcome.ANSWERED:
        typer.echo(
            f"{task} was told to go on{' behind the record that stopped it' if skip else ''}. Its worker's log and /status say how it fares."
        )
        return
    if outcome is Outcome.STANDS:
        typer.echo(
            f"No worker of '{app}' answered in {timeout:.0f} s. The wish stands: the next worker that starts skips the record {task} stops at, "
            "if it is the first one it reads. Start it with `streamlet run`.",
            err=True,
        )
    else:
        typer.echo(
            f"No worker of '{app}' answered in {timeout:.0f} s, so the wish was taken back. If none runs, start one: it tries the record again. "
            "If one runs, it is busy in a handler or cut off from the brokers; its /status says more.",
            err=True,
        )
    raise typer.Exit(3)
