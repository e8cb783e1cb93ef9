"""`streamlet status APP`: members, tasks, copies and what is under way, as brokers and members tell."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from streamlet.cli.options import AppName, AsJson, Brokers, Config, ConfigFile, connection

if TYPE_CHECKING:
    from streamlet.operations.status import AppStatus, TaskStatus


def status(
    app: AppName,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again and again, until Ctrl-C.")] = False,
    brokers: Brokers = None,
    config: Config = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """How an app is. Needs neither its code nor a leader. Exit code 1 if no member is alive."""
    from streamlet.operations.status import StatusReader  # the clients are loaded here and not before

    reader = StatusReader(connection(app, brokers, config, config_file).connection.client_config, app)
    try:
        if watch:
            _watch(reader.read)
            return
        found = reader.read()
    finally:
        reader.close()
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2))
    else:
        Console(highlight=False).print(shown(found))
    if not found.workers:
        raise typer.Exit(1)


def shown(found: "AppStatus") -> RenderableType:
    """One screen."""
    alive = f"{len(found.workers)} workers" if len(found.workers) != 1 else "1 worker"
    target = f" of {found.target} wished" if found.target is not None else ""
    head = f"{found.app}: {alive}{target}, leader {found.leader or 'none'}, plan {found.plan_version or 'none'}"
    parts: list[RenderableType] = [escape(head if found.workers else f"{found.app}: no member alive, plan {found.plan_version or 'none'}")]
    if found.why:
        parts.append(escape(f"last change: {found.why}"))
    if found.wishes:
        parts.append(escape(f"open wishes: {', '.join(found.wishes)}"))
    if found.workers:
        workers = Table("worker", "host", "rack", "tasks", "load", "", box=None, pad_edge=False)
        for worker in found.workers:
            note = "leaving" if worker.leaving else ""
            workers.add_row(worker.slot, worker.host, worker.rack or "", str(worker.tasks), f"{worker.load:.0%}", note)
        parts += ["", workers]
    if found.tasks:
        tasks = Table("task", "owner", "phase", "lag", "records/s", "copies", box=None, pad_edge=False)
        for task in found.tasks:
            rate = "" if task.rate is None else f"{task.rate:,.0f}"
            tasks.add_row(escape(task.task), task.owner, task.phase, _number(task.lag), rate, _copies(task))
        parts += ["", tasks]
    parts += [escape(f"{task.task} stopped: {task.failure}") for task in found.tasks if task.failure]
    return Group(*parts)


def _copies(task: "TaskStatus") -> str:
    return ", ".join(f"{copy.slot} {copy.kind}{'' if copy.lag is None else f' {copy.lag:,} behind'}" for copy in task.copies)


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _watch(read: "Read") -> None:
    with Live(console=Console(highlight=False), auto_refresh=False) as live:
        try:
            while True:
                live.update(shown(read()), refresh=True)
        except KeyboardInterrupt:
            return


if TYPE_CHECKING:
    from collections.abc import Callable

    Read = Callable[[], AppStatus]
