"""Settings and where each came from: command line > STREAMLET_* environment > streamlet.toml > App(...) > defaults.

`resolve` is pure: everything it looks at is handed in, so a test, `streamlet run` and `streamlet config` cannot
disagree. Names, codecs and guarantees are not settings: they belong to the code of an app.

Invariant: every value of `Settings` was checked, and `origins` says where it was found.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from streamlet.errors import ConfigError

T = TypeVar("T")
MEGABYTE: Final = 1024 * 1024
MOST_COMMIT_BYTES: Final = 64 * MEGABYTE  # gathered results are held in memory until the commit
MOST_WRITE_LAG_MS: Final = 1_000  # what a killed worker replays at its next start
MOST_WRITE_LAG_BYTES: Final = 32 * MEGABYTE
DEFAULT_BROKERS: Final = "127.0.0.1:9092"
HTTP_OFF: Final = "off"
_LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """When a worker commits: as soon as its input is drained, and at the latest when one of these is reached."""

    interval_ms: int = 100
    max_bytes: int = MOST_COMMIT_BYTES

    def __post_init__(self) -> None:
        _check("commit_interval_ms", _count, self.interval_ms)
        _check("commit_max_bytes", _commit_bytes, self.max_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """Where local copies of state live, and how far they may lag behind the last commit."""

    state_dir: Path
    write_interval_ms: int = MOST_WRITE_LAG_MS
    write_max_bytes: int = MOST_WRITE_LAG_BYTES

    def __post_init__(self) -> None:
        _check("state_dir", _folder, self.state_dir)
        _check("write_interval_ms", _write_interval, self.write_interval_ms)
        _check("write_max_bytes", _write_bytes, self.write_max_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """How many processes share the work, and how many copies of every task follow its owner."""

    workers: int = 1
    standbys: int = 0
    rack: str | None = None  # standbys go to other racks first

    def __post_init__(self) -> None:
        _check("workers", _count, self.workers)
        _check("standbys", _count_or_none, self.standbys)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How every client reaches Kafka. `properties` may hold passwords, so they are not shown by `repr`."""

    brokers: str = DEFAULT_BROKERS
    properties: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def __post_init__(self) -> None:
        _check("brokers", _addresses, self.brokers)

    @property
    def client_config(self) -> dict[str, str]:
        """What a Kafka client is made with."""
        return {**self.properties, "bootstrap.servers": self.brokers}


@dataclass(frozen=True, slots=True)
class Address:
    """Where the HTTP endpoint listens; port 0 takes a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was found, as people would look for it."""

    source: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.source} {self.name}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything an app runs with, grouped by concern. `origins` has the same keys as `shown`."""

    connection: Connection
    storage: Storage
    commit: Commit
    processes: Processes
    http: Address | None  # None: no endpoint
    origins: Mapping[str, Origin]

    def shown(self) -> dict[str, str]:
        """Every value by its key, secrets masked: fit for a screen or a log."""
        plain = {
            "brokers": self.connection.brokers,
            "state_dir": str(self.storage.state_dir),
            "workers": str(self.processes.workers),
            "standbys": str(self.processes.standbys),
            "rack": self.processes.rack or "",
            "commit_interval_ms": str(self.commit.interval_ms),
            "commit_max_bytes": str(self.commit.max_bytes),
            "write_interval_ms": str(self.storage.write_interval_ms),
            "write_max_bytes": str(self.storage.write_max_bytes),
            "http": str(self.http or HTTP_OFF),
        }
        return plain | {f"kafka.{name}": masked(name, value) for name, value in sorted(self.connection.properties.items())}


@dataclass(frozen=True, slots=True)
class Layer:
    """One place where values come from. `origin` names the place of one key; properties are Kafka's own."""

    origin: Callable[[str], Origin]
    values: Mapping[str, object] = field(default_factory=dict[str, object])
    properties: Mapping[str, str] = field(default_factory=dict[str, str])


class BadSetting(ConfigError):
    """A value that a setting cannot have."""

    def __init__(self, key: str, value: object, why: str, origin: Origin | None = None) -> None:
        super().__init__(key, value, why, origin)
        self.key, self.value, self.why, self.origin = key, value, why, origin

    def __str__(self) -> str:
        where = f" ({self.origin})" if self.origin else ""
        return f"{self.key} = {masked(self.key, str(self.value))!r}{where} cannot be used: {self.why}."


class UnknownSetting(ConfigError):
    """A name that is no setting; `nearest` is the one that was probably meant."""

    def __init__(self, key: str, origin: Origin, nearest: str | None, known: Sequence[str]) -> None:
        super().__init__(key, origin, nearest, known)
        self.key, self.origin, self.nearest, self.known = key, origin, nearest, known

    def __str__(self) -> str:
        hint = f"Did you mean {self.nearest}?" if self.nearest else f"Known are: {', '.join(self.known)}."
        return f"There is no setting {self.key} ({self.origin}). {hint}"


class ReservedProperty(ConfigError):
    """A Kafka property on which the guarantees rest: streamlet sets it for each client itself."""

    def __init__(self, name: str, origin: Origin) -> None:
        super().__init__(name, origin)
        self.name, self.origin = name, origin

    def __str__(self) -> str:
        return f"The Kafka property {self.name} ({self.origin}) is set by streamlet itself, as exactly-once depends on it. Remove it."


def resolve(layers: Sequence[Layer], *, default_state_dir: Path) -> Settings:
    """Choose every value from the first layer that has it; `layers` go from the strongest to the weakest."""
    layers = [_with_brokers(layer) for layer in layers]
    origins: dict[str, Origin] = {}

    def pick(setting: "Setting[T]", default: T) -> T:
        for layer in layers:
            value = layer.values.get(setting.key)
            if value is not None:
                origins[setting.key] = layer.origin(setting.key)
                return _check(setting.key, setting.read, value, origins[setting.key])
        origins[setting.key] = Origin("default")
        return default

    properties: dict[str, str] = {}
    for layer in reversed(layers):
        _check_layer(layer)
        properties.update(layer.properties)
        origins.update({f"kafka.{name}": layer.origin(f"kafka.{name}") for name in layer.properties})
    return Settings(
        connection=Connection(brokers=pick(BROKERS, DEFAULT_BROKERS), properties=MappingProxyType(properties)),
        storage=Storage(
            state_dir=pick(STATE_DIR, default_state_dir),
            write_interval_ms=pick(WRITE_INTERVAL, MOST_WRITE_LAG_MS),
            write_max_bytes=pick(WRITE_BYTES, MOST_WRITE_LAG_BYTES),
        ),
        commit=Commit(interval_ms=pick(COMMIT_INTERVAL, 100), max_bytes=pick(COMMIT_BYTES, MOST_COMMIT_BYTES)),
        processes=Processes(workers=pick(WORKERS, 1), standbys=pick(STANDBYS, 0), rack=pick(RACK, None)),
        http=pick(HTTP, None),
        origins=MappingProxyType(origins),
    )


def command_line_layer(values: Mapping[str, object], properties: Sequence[str] = ()) -> Layer:
    """What was typed: options by their key (None if not given) and `--config key=value` for Kafka's properties."""
    parsed: dict[str, str] = {}
    for text in properties:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise BadSetting("--config", text, "it is written key=value, for example --config security.protocol=SASL_SSL")
        parsed[name.strip()] = value.strip()

    def origin(key: str) -> Origin:
        return Origin(
            "command line", f"--config {key.removeprefix('kafka.')}" if key.startswith("kafka.") else f"--{key.replace('_', '-')}"
        )

    return Layer(origin, values, parsed)


def environment_layer(environment: Mapping[str, str]) -> Layer:
    """`STREAMLET_<KEY>` and `STREAMLET_KAFKA_<PROPERTY>`.

    A name that nearly is a setting is refused. Others are left alone: container platforms invent variables that
    begin with a service's name.
    """
    values: dict[str, object] = {}
    properties: dict[str, str] = {}
    for name in sorted(environment):
        key = name.removeprefix(_PREFIX).lower()
        if not name.startswith(_PREFIX) or not environment[name]:
            continue
        if key.startswith("kafka_"):
            properties[key.removeprefix("kafka_").replace("_", ".")] = environment[name]
        elif key in KEYS:
            values[key] = environment[name]
        elif key not in _NOT_SETTINGS and (near := nearest(key, KEYS)):
            raise UnknownSetting(name, Origin("environment"), _PREFIX + near.upper(), [_PREFIX + known.upper() for known in KEYS])
    return Layer(lambda key: Origin("environment", _PREFIX + key.upper().replace(".", "_")), values, properties)


def code_layer(*, brokers: str | None = None, state_dir: Path | None = None, commit: Commit | None = None) -> Layer:
    """What the app's own code says in `App(...)`."""
    values: dict[str, object] = {"brokers": brokers, "state_dir": state_dir}
    if commit is not None:
        values |= {"commit_interval_ms": commit.interval_ms, "commit_max_bytes": commit.max_bytes}
    return Layer(lambda _: Origin("App(...)"), values)


def nearest(name: str, known: Sequence[str]) -> str | None:
    """The known name that was probably meant, if one is near."""
    return next(iter(difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.75)), None)


def masked(name: str, value: str) -> str:
    """`value`, or stars if `name` is that of a secret."""
    return "********" if value and any(word in name.lower() for word in _SECRET_WORDS) else value


def _with_brokers(layer: Layer) -> Layer:
    """`bootstrap.servers` among the properties is another way to say `brokers`."""
    properties = dict(layer.properties)
    brokers = properties.pop("bootstrap.servers", None)
    if brokers is None:
        return layer
    values = {**layer.values, "brokers": layer.values.get("brokers") or brokers}
    return Layer(layer.origin, values, properties)


def _check_layer(layer: Layer) -> None:
    for key in layer.values:
        if key not in KEYS:
            raise UnknownSetting(key, layer.origin(key), nearest(key, KEYS), KEYS)
    for name in layer.properties:
        if name in RESERVED_PROPERTIES:
            raise ReservedProperty(name, layer.origin(f"kafka.{name}"))


def _check(key: str, read: Callable[[object], T], value: object, origin: Origin | None = None) -> T:
    try:
        return read(value)
    except ValueError as error:
        raise BadSetting(key, value, str(error), origin) from None


def _addresses(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("it is a list of host:port, for example 127.0.0.1:9092")
    for address in value.split(","):
        host, _, port = address.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
            raise ValueError(f"{address.strip()!r} is not host:port, for example 127.0.0.1:9092")
    return ",".join(address.strip() for address in value.split(","))


def _name(value: object) -> str | None:
    return str(value).strip() or None


def _listen(value: object) -> Address | None:
    text = str(value).strip()
    if text.lower() == HTTP_OFF:
        return None
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise ValueError(f"it is HOST:PORT, a PORT on {_LOOPBACK}, or {HTTP_OFF}, for example 0.0.0.0:8080")
    return Address(host or _LOOPBACK, int(port))


def _folder(value: object) -> Path:
    if not isinstance(value, str | Path) or not str(value).strip():
        raise ValueError("it is the path of a folder")
    return Path(value).expanduser().absolute()


def _count(value: object) -> int:
    number = _count_or_none(value)
    if number == 0:
        raise ValueError("it is 1 or more")
    return number


def _commit_bytes(value: object) -> int:
    return _at_most(value, MOST_COMMIT_BYTES, "a commit's results are held in memory")


def _write_interval(value: object) -> int:
    return _at_most(value, MOST_WRITE_LAG_MS, "a worker that was killed replays what its copy lacked")


def _write_bytes(value: object) -> int:
    return _at_most(value, MOST_WRITE_LAG_BYTES, "changes not yet written are held in memory, and replayed after a kill")


def _at_most(value: object, most: int, because: str) -> int:
    number = _count(value)
    if number > most:
        raise ValueError(f"it is at most {most}, since {because}")
    return number


def _count_or_none(value: object) -> int:
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("it is a whole number, 0 or more")
    return value


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """A key and how its value is read and checked: `read` raises ValueError with the reason."""

    key: str
    read: Callable[[object], T]


BROKERS: Final = Setting("brokers", _addresses)
STATE_DIR: Final = Setting("state_dir", _folder)
WORKERS: Final = Setting("workers", _count)
STANDBYS: Final = Setting("standbys", _count_or_none)
RACK: Final = Setting("rack", _name)
COMMIT_INTERVAL: Final = Setting("commit_interval_ms", _count)
COMMIT_BYTES: Final = Setting("commit_max_bytes", _commit_bytes)
WRITE_INTERVAL: Final = Setting("write_interval_ms", _write_interval)
WRITE_BYTES: Final = Setting("write_max_bytes", _write_bytes)
HTTP: Final = Setting("http", _listen)
KEYS: Final = tuple(
    s.key for s in (BROKERS, STATE_DIR, WORKERS, STANDBYS, RACK, COMMIT_INTERVAL, COMMIT_BYTES, WRITE_INTERVAL, WRITE_BYTES, HTTP)
)

RESERVED_PROPERTIES: Final = frozenset(
    {
        "auto.offset.reset",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "enable.partition.eof",
        "group.id",
        "group.instance.id",
        "isolation.level",
        "partitioner",
        "transactional.id",
    }
)
_PREFIX: Final = "STREAMLET_"
_NOT_SETTINGS: Final = frozenset({"config", "cache", "python", "test_run"})
_SECRET_WORDS: Final = ("password", "secret", "token", "jaas", "oauthbearer.config", "key.pem", "credential")
