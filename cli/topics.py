"""`streamlet topics create`: the topics of an app that are missing."""

import json
from typing import Annotated

import typer

from streamlet.cli.options import AsJson, Brokers, Config, ConfigFile, File
from streamlet.config import command_line_layer
from streamlet.loading import load_app
from streamlet.topology import build

app = typer.Typer(name="topics", help="The topics an app reads and writes.", no_args_is_help=True)


@app.callback()
def topics() -> None:
    """The topics an app reads and writes."""


@app.command()
def create(
    file: File,
    partitions: Annotated[int | None, typer.Option(min=1, help="Partitions of topics whose declaration says nothing. [default: 4]")] = None,
    brokers: Brokers = None,
    config: Config = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Create the topics of the user's that are missing. The app's own topics are made when it first runs."""
    from streamlet.runtime.run import settings_for  # the clients are loaded here and not before
    from streamlet.topics.kafka import Topics
    from streamlet.topics.prepare import DEV_PARTITIONS, plan_user_topics, user_topics

    declared = load_app(file)
    topology = build(declared)
    settings = settings_for(declared, command_line_layer({"brokers": brokers}, config or []), config_file)
    admin = Topics(settings.connection.client_config)
    admin.wait_for_broker(10.0)
    existing = admin.describe(user_topics(topology))
    new = plan_user_topics(topology, existing, partitions=partitions or DEV_PARTITIONS)
    admin.create(new)
    if as_json:
        rows = {topic.name: topic.partitions for topic in new}
        typer.echo(json.dumps({"created": rows, "existing": {name: facts.partitions for name, facts in sorted(existing.items())}}))
        return
    for topic in new:
        typer.echo(f"created  {topic.name}  {topic.partitions} partitions")
    for name, facts in sorted(existing.items()):
        typer.echo(f"exists   {name}  {facts.partitions} partitions")
