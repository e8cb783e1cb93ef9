"""The Kafka client's edge for a worker: the input consumer and the one transactional producer.

Client errors leave this file as one of four things, by what the worker does next: `TransactionAborted` (go back to
the last commit and on), `ProducerLost` (take a new incarnation), `BrokerUnavailable` (try later), or nothing, when
the same call was repeated until it succeeded.
"""

import contextlib
import functools
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Concatenate, Final, ParamSpec, Protocol, cast

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from streamlet.changelog.kafka import CLIENT_LOG, COMMON, ClientConfig, consumer_config, has_events, split_runs
from streamlet.changelog.replay import Partition
from streamlet.errors import ConfigError, FencedError, RetryError
from streamlet.ids import Incarnation
from streamlet.record import Headers
from streamlet.runtime.incoming import Incoming
from streamlet.runtime.outbox import Output

log = logging.getLogger("streamlet.kafka")

P = ParamSpec("P")

_TRANSACTION_S: Final = 10
PRODUCER: Final[dict[str, str | int | float | bool]] = {
    "partitioner": "murmur2_random",  # where Java's clients put a key
    "transaction.timeout.ms": _TRANSACTION_S * 1000,  # bounds how long a dead worker hides others' records
    "retry.backoff.ms": 5,  # back-to-back transactions jump from 6 to 100 ms at the default
    "retry.backoff.max.ms": 200,
    "linger.ms": 5,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 262_144,
    "batch.num.messages": 100_000,
    "batch.size": 1_000_000,
}
# topic, value, key, partition, callback, its other name, timestamp, headers: by position, since keywords double the cost
Produce = Callable[[str, bytes | None, bytes | None, int, object, None, int, Headers | None], None]
_CALL_S: Final = 5.0  # one blocking client call; what can be retried is called again
_FENCED: Final = frozenset(
    (
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.UNKNOWN_PRODUCER_ID,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    )
)


class TransactionAborted(RetryError):
    """The transaction was given up and rolled back: everything since the last commit is to be done again."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"The transaction was aborted ({self.why}). Its input is processed again from the last commit."


class ProducerLost(FencedError):
    """The incarnation cannot write any more: it was fenced, or the outcome of its commit is unknown."""

    def __init__(self, incarnation: Incarnation, why: str) -> None:
        super().__init__(incarnation, why)
        self.incarnation, self.why = incarnation, why

    def __str__(self) -> str:
        return f"The worker {self.incarnation} can no longer write ({self.why}). Its tasks go on under a new id, from the last commit."


def cause_of(error: KafkaException) -> KafkaError:
    """The client's own error inside its exception."""
    return cast("KafkaError", error.args[0])  # confluent_kafka always puts its KafkaError there


class BrokerWatch:
    """Notes when all brokers are out of reach, and says so once; its writer is the clients' error callback."""

    def __init__(self) -> None:
        self.down_since: float | None = None

    def on_error(self, error: KafkaError) -> None:
        """Called by a client on its own thread of control, inside poll or consume."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.on_silence(error.str())

    def on_silence(self, why: str) -> None:
        """A call got no answer in time."""
        if self.down_since is None:
            self.down_since = time.monotonic()
            log.warning("no broker answers; trying on", extra={"reason": why})

    def on_answer(self) -> None:
        """A broker answered."""
        if self.down_since is not None:
            log.info("brokers are back", extra={"away_s": round(time.monotonic() - self.down_since, 1)})
            self.down_since = None


class Fetched(Incoming, Protocol):
    """A record, or an event about a partition: the client's Message as the worker sees it."""

    def topic(self) -> str | None: ...
    def partition(self) -> int | None: ...
    def error(self) -> KafkaError | None: ...


class InputConsumer:
    """Reads the source partitions of a worker's tasks, assigned by hand. Its only user is the worker's loop."""

    def __init__(self, client: ClientConfig, group: str, watch: BrokerWatch) -> None:
        config = consumer_config(client, group)
        self._consumer = Consumer({**config, "error_cb": watch.on_error})
        self._brokers = str(client.get("bootstrap.servers"))
        self._assigned: set[Partition] = set()
        self._held: set[Partition] = set()
        self._metadata: object | None = None

    def keep_warm(self, partitions: Sequence[Partition]) -> None:
        """Hold connections to the leaders of these partitions open, reading none: the first use of a cold one costs half a second."""
        held = [TopicPartition(p.topic, p.number, OFFSET_END) for p in partitions]
        self._consumer.incremental_assign(held)
        self._consumer.pause(held)

    def add(self, positions: Mapping[Partition, int]) -> None:
        """Begin to read partitions at these offsets."""
        if positions:
            self._consumer.incremental_assign([TopicPartition(p.topic, p.number, offset) for p, offset in positions.items()])
            self._assigned |= positions.keys()

    def remove(self, partitions: Iterable[Partition]) -> None:
        """Stop reading partitions; what was fetched of them is dropped."""
        gone = self._assigned & set(partitions)
        if gone:
            self._consumer.incremental_unassign([TopicPartition(p.topic, p.number) for p in gone])
            self._assigned -= gone
            self._held -= gone

    def hold(self, partitions: Set[Partition]) -> None:
        """Fetch no more of exactly these partitions; said anew each time, so that none can be forgotten."""
        wanted = self._assigned & partitions
        for partitions_to, call in ((wanted - self._held, self._consumer.pause), (self._held - wanted, self._consumer.resume)):
            if partitions_to:
                call([TopicPartition(p.topic, p.number) for p in partitions_to])
        self._held = wanted

    def take(self, most: int, timeout_s: float) -> list[Fetched]:
        """Records and events that have come: with a timeout of 0 only what is there already."""
        return cast("list[Fetched]", self._consumer.consume(most, timeout_s))  # the client's Message is one

    def known_ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Where partitions end, as the last fetch told: asks no broker."""
        found: dict[Partition, int] = {}
        for partition in partitions:
            if partition in self._assigned:
                _, end = self._consumer.get_watermark_offsets(TopicPartition(partition.topic, partition.number), cached=True)
                if end >= 0:
                    found[partition] = end
        return found

    def group_metadata(self) -> object:
        """What a transaction needs to commit offsets for this group; asked once, since nobody joins and it never changes."""
        if self._metadata is None:
            self._metadata = self._consumer.consumer_group_metadata()
        return self._metadata

    def close(self) -> None:
        """Leave the brokers."""
        self._consumer.close()


def split_fetched(messages: list[Fetched], *, one_topic: bool) -> list[tuple[Partition, list[Fetched]]]:
    """Records in the runs of one partition that they come in."""
    return cast("list[tuple[Partition, list[Fetched]]]", split_runs(cast("list[Message]", messages), one_topic=one_topic))


def has_fetched_events(messages: list[Fetched]) -> bool:
    """Whether anything but records is among them."""
    return has_events(cast("list[Message]", messages))


def is_end(error: KafkaError) -> bool:
    """Whether an error event only says that the partition's end was reached."""
    return error.code() == KafkaError._PARTITION_EOF


def is_out_of_range(error: KafkaError) -> bool:
    """Whether an error event says that the position is not in the log."""
    return error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


def _explained(queue: "Callable[Concatenate[TransactionalProducer, P], None]") -> "Callable[Concatenate[TransactionalProducer, P], None]":
    """Around a method that queues records: when the client refuses one, say what the worker has to do.

    It does so as soon as it has heard, on its own thread, that the producer was fenced or the transaction has failed.
    """

    @functools.wraps(queue)
    def explained(self: "TransactionalProducer", /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            queue(self, *args, **kwargs)
        except KafkaException as error:
            cause = cause_of(error)
            if cause.fatal() or cause.code() in _FENCED | {KafkaError._FATAL}:
                raise ProducerLost(self.incarnation, f"write a record: {cause.str()}") from error
            if cause.code() == KafkaError._STATE or cause.txn_requires_abort():
                self.abort()
                raise TransactionAborted(f"write a record: {cause.str()}") from error
            raise Unwritable(cause.str()) from error

    return explained


class Unwritable(ConfigError):
    """The client does not take an output or a change of state: most often it is too large."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return (
            f"A record cannot be written: {self.why}. Nothing was committed since. Make outputs and state values smaller, or raise "
            "message.max.bytes in [kafka] of streamlet.toml and max.message.bytes of the topic."
        )


class TransactionalProducer:
    """The one producer of a worker; its transactional id is the incarnation, initialised once."""

    def __init__(
        self,
        client: ClientConfig,
        incarnation: Incarnation,
        watch: BrokerWatch,
        deadline_s: float = 60.0,
        hurry: Callable[[], bool] = lambda: False,
    ) -> None:
        """`hurry` says when brokers that do not answer are not to be waited for any more."""
        self.incarnation, self.patience_s = incarnation, deadline_s
        self._hurry = hurry
        self._watch = watch
        self._brokers = str(client.get("bootstrap.servers"))
        self._producer = Producer(
            {**COMMON, **PRODUCER, **client, "transactional.id": incarnation, "error_cb": watch.on_error}, logger=CLIENT_LOG
        )
        # the client's own hint for headers leaves out sequences, which it takes
        self._produce = cast(
            "Callable[[str, bytes | None, bytes | None, int, object, None, int, Headers | None], None]", self._producer.produce
        )
        self._retry("begin to write", lambda: self._producer.init_transactions(_CALL_S), deadline_s)

    def begin(self) -> None:
        """Open a transaction."""
        self._retry("begin a transaction", self._producer.begin_transaction, _CALL_S)

    @_explained
    def send(self, outputs: Sequence[Output]) -> None:
        """Queue output records; the client chooses the partition by key, as Java's does."""
        produce = self._produce
        for topic, key, value, timestamp, headers in outputs:
            try:
                produce(topic, value, key, -1, None, None, timestamp, headers)
            except BufferError:
                self._make_room()
                produce(topic, value, key, -1, None, None, timestamp, headers)

    @_explained
    def send_to(self, topic: str, partition: int, changes: Sequence[tuple[bytes, bytes | None]], on_end: Callable[[int], None]) -> None:
        """Queue records for one partition; `on_end` hears the next offset behind the last one, once it is acknowledged."""
        if not changes:
            return
        produce = self._producer.produce
        for key, value in changes[:-1]:
            try:
                produce(topic, value, key, partition)
            except BufferError:
                self._make_room()
                produce(topic, value, key, partition)

        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is None and offset is not None:
                on_end(offset + 1)

        key, value = changes[-1]
        try:
            produce(topic, value, key, partition, delivered)
        except BufferError:
            self._make_room()
            produce(topic, value, key, partition, delivered)

    @_explained
    def send_stamped(self, topic: str, partition: int, records: Sequence[Output], on_end: Callable[[int], None]) -> None:
        """Like `send_to`, with each record's own timestamp and headers: for repartition topics."""
        produce = self._produce
        last = len(records) - 1

        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is None and offset is not None:
                on_end(offset + 1)

        for index, (_, key, value, timestamp, headers) in enumerate(records):
            callback = delivered if index == last else None
            try:
                produce(topic, value, key, partition, callback, None, timestamp, headers)
            except BufferError:
                self._make_room()
                produce(topic, value, key, partition, callback, None, timestamp, headers)

    def flush(self) -> None:
        """Wait until everything queued is acknowledged, so that offsets are known.

        After a broker's crash the client may hold records back until the transaction is aborted, and says so nowhere. What
        is not acknowledged while a transaction may last is therefore aborted: the broker would not commit it any more.
        """
        end = time.monotonic() + min(_TRANSACTION_S, self.patience_s)
        while left := self._producer.flush(min(_CALL_S, self.patience_s)):
            self._watch.on_silence(f"{left} records are not acknowledged")
            if time.monotonic() >= end or self._hurry():
                self.abort()
                raise TransactionAborted(f"{left} records were not acknowledged")

    def send_offsets(self, positions: Mapping[Partition, int], group_metadata: object) -> None:
        """Put the input positions into the transaction."""
        offsets = [TopicPartition(p.topic, p.number, offset) for p, offset in positions.items()]
        self._retry("send offsets", lambda: self._producer.send_offsets_to_transaction(offsets, group_metadata, _CALL_S), 60.0)

    def commit(self) -> None:
        """Commit; returns only when the broker has decided."""
        self._retry("commit", lambda: self._producer.commit_transaction(_CALL_S), 60.0)
        self._watch.on_answer()

    def abort(self) -> None:
        """Give the open transaction up."""
        self._retry("abort", lambda: self._producer.abort_transaction(_CALL_S), 60.0)

    def close(self) -> None:
        """Drop the client without waiting: what is not committed is not wanted."""
        with contextlib.suppress(KafkaException):  # a fenced client refuses even this
            self._producer.purge()
            self._producer.flush(0.1)

    def _make_room(self) -> None:
        """The queue is full: wait until some of it has left."""
        end = time.monotonic() + 60.0
        before = len(self._producer)
        while len(self._producer) > before * 3 // 4 and time.monotonic() < end:
            self._producer.poll(0.01)

    def _retry(self, what: str, call: Callable[[], object], deadline_s: float) -> None:
        """Repeat a call while the client says that it may succeed; else say what the worker has to do."""
        deadline_s = min(deadline_s, self.patience_s)
        end = time.monotonic() + deadline_s
        while True:
            try:
                call()
            except KafkaException as error:
                cause = cause_of(error)
                if cause.code() in _FENCED or cause.fatal():
                    raise ProducerLost(self.incarnation, f"{what}: {cause.str()}") from error
                if cause.txn_requires_abort():
                    if what == "abort":
                        raise ProducerLost(self.incarnation, f"{what}: {cause.str()}") from error
                    self.abort()
                    raise TransactionAborted(f"{what}: {cause.str()}") from error
                if cause.retriable() and time.monotonic() < end and not self._hurry():
                    self._watch.on_silence(f"{what}: {cause.str()}")
                    continue
                raise ProducerLost(self.incarnation, f"{what} did not finish in time: {cause.str()}") from error
            else:
                return


class PlainOutlet:
    """Outputs outside the transaction: visible at once, and twice where a commit is done again. For at-least-once apps."""

    def __init__(self, client: ClientConfig, watch: BrokerWatch) -> None:
        settings = {name: value for name, value in PRODUCER.items() if name != "transaction.timeout.ms"}
        told = {"enable.idempotence": True, "delivery.report.only.error": True}  # a callback per record would cost more than the record
        callbacks = {"on_delivery": self._delivered, "error_cb": watch.on_error}
        self._producer = Producer({**COMMON, **settings, **told, **client, **callbacks}, logger=CLIENT_LOG)
        self._watch = watch
        self._failed: KafkaError | None = None
        self._produce = cast("Produce", self._producer.produce)

    def send(self, outputs: Sequence[Output]) -> None:
        """Queue output records."""
        produce = self._produce
        for topic, key, value, timestamp, headers in outputs:
            while True:
                try:
                    produce(topic, value, key, -1, None, None, timestamp, headers)
                except BufferError:
                    self._producer.poll(0.05)
                else:
                    break

    def flush(self) -> None:
        """Return when every output is acknowledged; if one could not be, the commit must not happen."""
        while left := self._producer.flush(_CALL_S):
            self._watch.on_silence(f"{left} records are not acknowledged")
        failed, self._failed = self._failed, None
        if failed is not None:
            raise OutputRefused(failed.str())

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failed = error


class OutputRefused(RetryError):
    """A broker did not take an output record."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    def __str__(self) -> str:
        return f"An output record was not taken: {self.why}. The commit is given up and its input processed again."
