"""`streamlet scale | move | drain | pause`: what people ask of a running app. Only brokers are needed, no code."""

from typing import TYPE_CHECKING, Annotated

import typer

from streamlet.cli.options import AppName, Brokers, Config, ConfigFile, connection
from streamlet.ids import Slot, TaskId

if TYPE_CHECKING:
    from streamlet.operations.steer import Steered

TaskName = Annotated[str, typer.Argument(metavar="TASK", help="A task, for example orders/3.")]
SlotName = Annotated[str, typer.Argument(metavar="SLOT", help="A worker's slot, for example web-1/0: `streamlet status` shows them.")]


def scale(
    app: AppName,
    workers: Annotated[str, typer.Argument(metavar="N|auto", help="Workers in all; auto: as many as each supervisor was started with.")],
    brokers: Brokers = None,
    config: Config = None,
    config_file: ConfigFile = None,
) -> None:
    """Run so many workers in all, over all supervisors (`streamlet run --workers`). It stands until you say otherwise."""
    from streamlet.operations import steer  # the clients are loaded here and not before

    if workers != "auto" and (not workers.isdecimal() or int(workers) < 1):
        raise typer.BadParameter(f"{workers!r} is neither a number of workers (1 or more) nor auto.", param_hint="N|auto")
    client = connection(app, brokers, config, config_file).connection.client_config
    steered = steer.scale(client, app, None if workers == "auto" else int(workers))
    quotas = steered.plan.quotas if steered.plan is not None else {}
    shared = ", ".join(f"{name} {count}" for name, count in sorted(quotas.items()))
    if workers != "auto" and steered.answered and sum(quotas.values()) < int(workers):
        shared += "; no supervisor is left that could run more (one started without --workers always runs one)"
    _say(app, steered, f"'{app}' goes to {'its own number of' if workers == 'auto' else workers} workers{': ' + shared if shared else ''}.")


def move(
    app: AppName, task: TaskName, slot: SlotName, brokers: Brokers = None, config: Config = None, config_file: ConfigFile = None
) -> None:
    """Move a task to another worker while it runs. It stays there until that worker leaves or the task is moved again."""
    from streamlet.operations import steer  # the clients are loaded here and not before

    client = connection(app, brokers, config, config_file).connection.client_config
    steered = steer.move(client, app, TaskId.parse(task), Slot(slot))
    _say(app, steered, f"{task} goes to {slot}, as soon as that worker's copy is up to date. `streamlet status {app}` shows it.")


def drain(app: AppName, slot: SlotName, brokers: Brokers = None, config: Config = None, config_file: ConfigFile = None) -> None:
    """Take every task away from a worker, live; it gets none until it is started again."""
    from streamlet.operations import steer  # the clients are loaded here and not before

    client = connection(app, brokers, config, config_file).connection.client_config
    _say(app, steer.drain(client, app, Slot(slot)), f"{slot} gives its tasks away. `streamlet status {app}` shows when it has none.")


def pause(
    app: AppName,
    task: Annotated[str | None, typer.Argument(metavar="[TASK]", help="One task; without it all of them.")] = None,
    brokers: Brokers = None,
    config: Config = None,
    config_file: ConfigFile = None,
) -> None:
    """Let a task, or the whole app, take no input until `streamlet resume`. State and place are kept."""
    from streamlet.operations import steer  # the clients are loaded here and not before

    client = connection(app, brokers, config, config_file).connection.client_config
    steered = steer.pause(client, app, TaskId.parse(task) if task else None)
    _say(app, steered, f"{task or 'Every task'} is paused. Go on with: streamlet resume {app}{' ' + task if task else ''}")


def _say(app: str, steered: "Steered", done: str) -> None:
    if steered.answered:
        typer.echo(done)
        return
    typer.echo(
        f"No leader of '{app}' answered, so the wish was taken back. Is it running? `streamlet status {app}` tells who is there.", err=True
    )
    raise typer.Exit(3)
