"""Questions to a running cluster through the client that apps use: logged in, transactions possible, clock right."""

import secrets
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, cast

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

NAME_PREFIX: Final = "streamlet-doctor-"
_QUIET: Final = {"log_level": "0", "reconnect.backoff.max.ms": "500"}
_CLOCK_TRIES: Final = 3
_TRY_S: Final = 1.0

_Operation = Callable[..., dict[str, Future[None]]]


class Refused(Exception):
    """The cluster, or the client library, did not do what was asked."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(code, text)
        self.code, self.text = code, text


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What a logged-in client sees."""

    brokers: int
    topics: int


@dataclass(frozen=True, slots=True)
class Skew:
    """How far the broker's clock is ahead of ours, and how sure that is."""

    ahead_ms: float
    uncertainty_ms: float


def client_version() -> str:
    """Version of the client library, Python part and C part."""
    return f"confluent-kafka {confluent_kafka.__version__}, librdkafka {confluent_kafka.libversion()[0]}"


def view_cluster(config: Mapping[str, str], timeout_s: float) -> ClusterView:
    """Log in and read the cluster's metadata."""
    errors: list[KafkaError] = []
    deadline = time.monotonic() + timeout_s
    try:
        admin = _admin(config, errors)
    except KafkaException as failed:
        raise _telling(errors, failed) from failed
    while True:
        try:
            seen = admin.list_topics(timeout=_TRY_S)
        except KafkaException as failed:
            admin.poll(0)  # hands over what went wrong in the background
            if time.monotonic() > deadline or _logins(errors):
                raise _telling(errors, failed) from failed
        else:
            return ClusterView(len(seen.brokers), len(seen.topics))


def try_transaction(config: Mapping[str, str], timeout_s: float) -> None:
    """Take a transactional id that nobody has; the broker forgets it by itself."""
    errors: list[KafkaError] = []
    name = NAME_PREFIX + secrets.token_hex(6)
    try:
        producer = Producer({**_QUIET, **config, "transactional.id": name, "error_cb": errors.append})
        producer.init_transactions(timeout_s)
    except KafkaException as failed:
        raise _telling(errors, failed) from failed


def measure_clock(config: Mapping[str, str], timeout_s: float) -> Skew:
    """Compare clocks: the broker stamps a record on arrival, in a topic made for this and deleted at once."""
    name = NAME_PREFIX + secrets.token_hex(6)
    errors: list[KafkaError] = []
    try:
        admin = _admin(config, errors)
        topic = NewTopic(name, num_partitions=1, config={"message.timestamp.type": "LogAppendTime"})
        cast("_Operation", admin.create_topics)([topic], operation_timeout=timeout_s)[name].result(timeout_s)  # pyright: ignore[reportUnknownMemberType] - the client's types end here
    except KafkaException as failed:
        raise _telling(errors, failed) from failed
    try:
        producer = Producer({**_QUIET, **config, "linger.ms": "0", "message.timeout.ms": str(int(timeout_s * 1000))})
        return min((_measure_once(producer, name, timeout_s) for _ in range(_CLOCK_TRIES)), key=lambda skew: skew.uncertainty_ms)
    finally:
        cast("_Operation", admin.delete_topics)([name], operation_timeout=timeout_s)[name].result(timeout_s)  # pyright: ignore[reportUnknownMemberType] - as above


def _admin(config: Mapping[str, str], errors: list[KafkaError]) -> AdminClient:
    """A quiet admin client that collects what goes wrong in the background."""
    settings = {**_QUIET, **config, "error_cb": errors.append}
    return AdminClient(cast("dict[str, str | int | float | bool]", settings))  # its hints forget that callbacks are settings too


def _measure_once(producer: Producer, topic: str, timeout_s: float) -> Skew:
    """One record: its stamp was made somewhere between sending and acknowledgement."""
    outcome: list[tuple[KafkaError | None, float, float]] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        outcome.append((error, message.timestamp()[1], time.time() * 1000))

    sent_ms = time.time() * 1000
    producer.produce(topic, b"", on_delivery=delivered)
    producer.flush(timeout_s)
    if not outcome:
        raise Refused("_TIMED_OUT", f"no record was acknowledged within {timeout_s:g} s")
    error, stamped_ms, acknowledged_ms = outcome[0]
    if error is not None:
        raise Refused(error.name(), error.str())
    return Skew(stamped_ms - (sent_ms + acknowledged_ms) / 2, (acknowledged_ms - sent_ms) / 2)


def _telling(errors: list[KafkaError], failed: KafkaException) -> Refused:
    """The cause of a failure: login and TLS errors arrive aside, and the call itself only says that it timed out."""
    cause = failed.args[0]
    chosen = next(iter(_logins(errors)), cause)
    return Refused(chosen.name(), chosen.str()) if isinstance(chosen, KafkaError) else Refused("UNKNOWN", str(failed))


def _logins(errors: list[KafkaError]) -> list[KafkaError]:
    return [each for each in errors if each.code() in {KafkaError._AUTHENTICATION, KafkaError._SSL}]
