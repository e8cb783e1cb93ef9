"""`streamlet send` and `streamlet tail`: records of a topic by hand, with the app's codecs where its file is given."""

import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from streamlet.cli.options import AsJson, Brokers, Config, ConfigFile, connection
from streamlet.cli.signals import ending_on_signals
from streamlet.config import Settings, command_line_layer
from streamlet.errors import ConfigError
from streamlet.handler import AnyTopic
from streamlet.loading import load_app
from streamlet.topology import Topology, build

if TYPE_CHECKING:
    from streamlet.operations.kafka import Shown

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")]
AppFile = Annotated[str | None, typer.Option("--app", metavar="FILE[:APP]", help="Encode and decode as this app does.")]


class From(StrEnum):
    """Where reading begins."""

    EARLIEST = "earliest"
    LATEST = "latest"


class NotDeclared(ConfigError):
    """The app whose codecs are to be used does not know the topic."""

    def __init__(self, topic: str, app: str, known: tuple[str, ...]) -> None:
        super().__init__(topic, app, known)
        self.topic, self.app, self.known = topic, app, known

    def __str__(self) -> str:
        return f"'{self.app}' declares no topic '{self.topic}'. It has: {', '.join(self.known)}. Leave --app away for raw bytes."


def send(
    topic: TopicName,
    value: Annotated[
        str | None, typer.Argument(metavar="[VALUE | -]", help="The value; without it, or as -, one record per line of input.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="The key of every record.")] = None,
    null: Annotated[bool, typer.Option("--null", help="Send a null value: a tombstone.")] = False,
    app: AppFile = None,
    brokers: Brokers = None,
    config: Config = None,
    config_file: ConfigFile = None,
) -> None:
    """Write records to a topic. Texts are typed as they are; with --app everything else is JSON, encoded by the app's codecs."""
    from streamlet.operations.kafka import write_records  # the clients are loaded here and not before
    from streamlet.operations.texts import write_text

    settings, declared = _settings(topic, app, brokers, config, config_file)
    client = settings.connection.client_config
    _partitions(client, topic)
    if declared is None:
        key_bytes = None if key is None else key.encode()
        values: Iterable[bytes | None] = [None] if null else (text.encode() for text in _texts(value))
    else:
        key_bytes = None if key is None else write_text(declared.key_type, declared.key_codec, key)
        values = [None] if null else (write_text(declared.value_type, declared.value_codec, text) for text in _texts(value))
    count = write_records(client, topic, ((key_bytes, data) for data in values))
    typer.echo(f"{count} record{'' if count == 1 else 's'} written to {topic}")


def tail(
    topic: TopicName,
    app: AppFile = None,
    begin: Annotated[From, typer.Option("--from", help="Where to begin.")] = From.LATEST,
    count: Annotated[int | None, typer.Option("-n", min=1, help="End after so many records.")] = None,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Wait for more, or end at what is there now.")] = True,
    brokers: Brokers = None,
    config: Config = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the committed records of a topic as they come, until Ctrl-C. With --app values are decoded and shown as JSON."""
    from streamlet.changelog.kafka import LogOffsets  # the clients are loaded here and not before
    from streamlet.changelog.replay import Partition
    from streamlet.operations.kafka import follow_records

    settings, declared = _settings(topic, app, brokers, config, config_file)
    client = settings.connection.client_config
    partitions = [Partition(topic, number) for number in range(_partitions(client, topic))]
    offsets = LogOffsets(client)
    starts = offsets.ends(partitions) if begin is From.LATEST else offsets.starts(partitions)
    records = follow_records(client, f"streamlet-tail-{topic}", starts, to_end=not follow)
    show = _json_line(declared) if as_json else _text_line(declared)
    with ending_on_signals():
        try:
            for record in itertools.islice(records, count):
                typer.echo(show(record))
                sys.stdout.flush()
        except KeyboardInterrupt:
            return


def _settings(
    topic: str, app: str | None, brokers: str | None, config: list[str] | None, config_file: ConfigFile
) -> tuple[Settings, AnyTopic | None]:
    from streamlet.runtime.run import settings_for

    if app is None:
        return connection(None, brokers, config, config_file), None
    loaded = load_app(app)
    settings = settings_for(loaded, command_line_layer({"brokers": brokers}, config or []), config_file)
    return settings, _declared(topic, build(loaded))


def _declared(topic: str, topology: Topology) -> AnyTopic:
    """A topic of the user's, or a repartition topic."""
    known = {found.name: found for found in (*topology.topics, *(source.topic for sub in topology.subs for source in sub.sources))}
    if topic not in known:
        raise NotDeclared(topic, topology.app, tuple(known))
    return known[topic]


def _partitions(client: dict[str, str], topic: str) -> int:
    from streamlet.topics.facts import MissingTopics
    from streamlet.topics.kafka import Topics

    topics = Topics(client)
    topics.wait_for_broker(10.0)
    existing = topics.describe([topic])
    if topic not in existing:
        raise MissingTopics((topic,))
    return existing[topic].partitions


def _texts(value: str | None) -> Iterator[str]:
    if value is not None and value != "-":
        yield value
    else:
        yield from (line.rstrip("\n") for line in sys.stdin)


def _parts(record: "Shown", topic: AnyTopic | None) -> tuple[object, object]:
    from streamlet.operations.texts import show_part, show_raw

    if topic is None:
        return show_raw(record.key), show_raw(record.value)
    return show_part(topic.key_type, topic.key_codec, record.key), show_part(topic.value_type, topic.value_codec, record.value)


def _text_line(topic: AnyTopic | None) -> "Callable[[Shown], str]":
    def show(record: "Shown") -> str:
        key, value = _parts(record, topic)
        at = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
        shown = [part if isinstance(part, str) and topic is None else json.dumps(part, ensure_ascii=False) for part in (key, value)]
        return f"{record.partition.number}/{record.offset}  {at}  {shown[0] if key is not None else '-'}  {shown[1]}"

    return show


def _json_line(topic: AnyTopic | None) -> "Callable[[Shown], str]":
    from streamlet.operations.texts import show_raw

    def show(record: "Shown") -> str:
        key, value = _parts(record, topic)
        line = {
            "topic": record.partition.topic,
            "partition": record.partition.number,
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            "key": key,
            "value": value,
            "headers": [[name, show_raw(data)] for name, data in record.headers],
        }
        return json.dumps(line, ensure_ascii=False)

    return show
