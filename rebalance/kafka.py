"""The Kafka client's edge for ownership: reading the control topic, leading by a fencing id, fencing others."""

import contextlib
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from streamlet.changelog.kafka import CLIENT_LOG, COMMON, BrokerUnavailable, ClientConfig, LogOffsets, consumer_config, reason_of
from streamlet.changelog.replay import Partition
from streamlet.errors import FencedError, RetryError
from streamlet.ids import Incarnation
from streamlet.rebalance.members import MemberWord, decode_word, encode_word, member_key
from streamlet.rebalance.records import ControlRecord, Wish, encode, wish_key
from streamlet.rebalance.view import View, replay

ClientError = KafkaException  # for those who only have to go on


def control_topic(app: str) -> str:
    """Name of the app's control topic."""
    return f"{app}-control"


def members_topic(app: str) -> str:
    """Name of the topic on which members speak."""
    return f"{app}-members"


class LeaderFenced(FencedError):
    """Another process took the leader's id."""

    def __init__(self, app: str) -> None:
        super().__init__(app)
        self.app = app

    def __str__(self) -> str:
        return f"Another member leads '{self.app}' now. Nothing is lost: its plan is followed."


class ControlStuck(RetryError):
    """The control topic could not be read to its end."""

    def __init__(self, app: str, offset: int, target: int, waited_s: float) -> None:
        super().__init__(app, offset, target, waited_s)
        self.app, self.offset, self.target, self.waited_s = app, offset, target, waited_s

    def __str__(self) -> str:
        return (
            f"The control topic of '{self.app}' could be read to offset {self.offset} only, not to its end {self.target}, for {self.waited_s:.0f} s. "
            "An undecided transaction of a process that vanished holds it back; the broker ends it within about 20 s. Start again then."
        )


class ControlReader:
    """Follows the control topic from its beginning and keeps the view. Its only user is one loop."""

    def __init__(self, client: ClientConfig, app: str) -> None:
        self._app = app
        self._partition = Partition(control_topic(app), 0)
        self._consumer = Consumer(consumer_config(client, app))
        self._consumer.assign([TopicPartition(self._partition.topic, 0, 0)])
        self._offset = 0
        self._ends = LogOffsets(client)
        self.view = View()

    def read_to_end(self, deadline_s: float = 30.0) -> View:
        """Replay everything committed up to the high watermark of now, or raise: never go on with less."""
        target = self._ends.ends([self._partition], deadline_s)[self._partition]
        end = time.monotonic() + deadline_s
        while self._offset < target:
            if time.monotonic() > end:
                raise ControlStuck(self._app, self._offset, target, deadline_s)
            self.follow(0.02)
        return self.view

    def reads_to_end(self, within_s: float) -> bool:
        """Like `read_to_end`, but False where it does not get there in time."""
        with contextlib.suppress(ControlStuck):
            self.read_to_end(within_s)
            return True
        return False

    def follow(self, timeout_s: float) -> bool:
        """Replay what has come; True if anything did."""
        records: list[tuple[bytes, bytes | None]] = []
        for message in self._consumer.consume(500, timeout_s):
            error, offset = message.error(), message.offset()
            if error is None:
                key = message.key()
                assert key is not None, "a control record has a key"
                assert offset is not None, "a delivered record has an offset"
                records.append((key, message.value()))
                self._offset = offset + 1
            elif error.code() == KafkaError._PARTITION_EOF and offset is not None:
                self._offset = max(self._offset, offset)
        replay(self.view, records)
        return bool(records)

    def close(self) -> None:
        """Leave the brokers."""
        self._consumer.close()


def fence(client: ClientConfig, incarnation: Incarnation, deadline_s: float = 30.0) -> None:
    """Make the broker refuse `incarnation`; returns only when its open transaction is settled everywhere.

    Each try is a new throw-away producer with a short, growing timeout: one long call waits out the client's own
    back-off and takes five times as long.
    """
    timeout_s, end = 0.06, time.monotonic() + deadline_s
    while True:
        producer = Producer({**COMMON, **client, "transactional.id": incarnation, "retry.backoff.ms": 5}, logger=CLIENT_LOG)
        try:
            producer.init_transactions(timeout_s)
        except KafkaException as error:
            if time.monotonic() > end:
                raise BrokerUnavailable(str(client.get("bootstrap.servers")), f"fence {incarnation}", reason_of(error)) from error
            timeout_s *= 1.5
        else:
            return


def fence_all(client: ClientConfig, incarnations: Collection[Incarnation], deadline_s: float = 30.0) -> None:
    """Fence several side by side; returns when all are."""
    with ThreadPoolExecutor(max_workers=max(1, min(16, len(incarnations))), thread_name_prefix="streamlet-fence") as pool:
        for fencing in [pool.submit(fence, client, incarnation, deadline_s) for incarnation in sorted(incarnations)]:
            fencing.result()


class Leader:
    """Authority over the plan: whoever initialised `<app>-leader` last may write it."""

    def __init__(self, client: ClientConfig, app: str, deadline_s: float = 30.0) -> None:
        self._client, self._app = client, app
        config = {**COMMON, **client, "transactional.id": f"{app}-leader", "transaction.timeout.ms": 10_000, "retry.backoff.ms": 5}
        self._producer = Producer(config, logger=CLIENT_LOG)
        self._raise_if_fenced(lambda: self._producer.init_transactions(deadline_s))

    def publish(self, *records: tuple[bytes, ControlRecord | None]) -> None:
        """Write control records in one transaction."""
        self._raise_if_fenced(self._producer.begin_transaction)
        for key, record in records:
            self._producer.produce(control_topic(self._app), encode(record) if record is not None else None, key, 0)
        self._raise_if_fenced(lambda: self._producer.commit_transaction(30.0))

    def _raise_if_fenced(self, call: Callable[[], object]) -> None:
        try:
            call()
        except KafkaException as error:
            cause = cast("KafkaError", error.args[0])  # confluent_kafka puts its KafkaError there
            if cause.fatal() or cause.code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED):
                raise LeaderFenced(self._app) from error
            raise BrokerUnavailable(str(self._client.get("bootstrap.servers")), "lead the app", reason_of(error)) from error


class GroupMember:
    """A member of the app's consumer group, which shares one partition: whoever has it shall lead. Its only user is one thread.

    The group's heartbeat runs in the client; members and committed offsets are what Kafka's own tools show of an app.
    """

    def __init__(self, client: ClientConfig, app: str, member: str) -> None:
        config = {
            **COMMON,
            **client,
            "group.id": app,
            "client.id": member,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 1000,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
        }
        self.elected = False
        self._consumer = Consumer(config, logger=CLIENT_LOG)
        self._consumer.subscribe([control_topic(app)], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)

    def poll(self) -> None:
        """Let the client speak of the group; the records themselves are read elsewhere."""
        self._consumer.poll(0)

    def close(self) -> None:
        """Leave the group at once."""
        self._consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign(partitions)
        if partitions:
            consumer.pause(partitions)
            self.elected = True

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        with contextlib.suppress(KafkaException):  # a partition that was lost need not be given back
            consumer.incremental_unassign(partitions)
        self.elected = False


class MembersTopic:
    """Hears words on `<app>-members`, uncommitted, from now on or from a moment ago. Its only user is one thread."""

    def __init__(self, client: ClientConfig, app: str, *, since_s: float | None = None) -> None:
        self._topic = members_topic(app)
        self._consumer = Consumer({**consumer_config(client, app), "isolation.level": "read_uncommitted"})
        offset = OFFSET_END
        if since_s is not None:
            moment = TopicPartition(self._topic, 0, int((time.time() - since_s) * 1000))
            with contextlib.suppress(KafkaException):  # then from now on
                offset = self._consumer.offsets_for_times([moment], 2.0)[0].offset
        self._consumer.assign([TopicPartition(self._topic, 0, offset)])

    def hear(self, timeout_s: float) -> list[MemberWord]:
        """What was said since; waits at most so long for the first word."""
        messages = self._consumer.consume(500, timeout_s)
        said = [(message.key(), message.value()) for message in messages if message.error() is None]
        words = [decode_word(key, value) for key, value in said if key is not None and value is not None]
        return [word for word in words if word is not None]

    def close(self) -> None:
        """Leave the brokers."""
        self._consumer.close()


class MembersVoice:
    """Says words on `<app>-members`, by a plain producer of its own: a transaction would hold others back."""

    def __init__(self, client: ClientConfig, app: str) -> None:
        self._topic = members_topic(app)
        self._producer = Producer({**COMMON, **client, "linger.ms": 0, "message.timeout.ms": 5000}, logger=CLIENT_LOG)

    def say(self, word: MemberWord) -> None:
        """Queue a word; one that does not arrive is followed by the next."""
        with contextlib.suppress(BufferError, KafkaException):  # what is said next says it again
            self._producer.produce(self._topic, encode_word(word), member_key(word), 0)
        self._producer.poll(0)

    def flush(self, within_s: float) -> None:
        """Wait until what was said has arrived, but not for long."""
        self._producer.flush(within_s)


def write_wish(client: ClientConfig, app: str, wish: Wish, deadline_s: float = 10.0) -> None:
    """Put a person's wish on the control topic, by a plain producer: it must not hold anybody back."""
    _write_plainly(client, app, wish_key(wish), encode(wish), deadline_s)


def take_back_wish(client: ClientConfig, app: str, wish: Wish, deadline_s: float = 10.0) -> None:
    """Remove a wish that nobody answered."""
    _write_plainly(client, app, wish_key(wish), None, deadline_s)


def _write_plainly(client: ClientConfig, app: str, key: bytes, value: bytes | None, deadline_s: float) -> None:
    producer = Producer({**COMMON, **client, "acks": "all"})
    producer.produce(control_topic(app), value, key, 0)
    if producer.flush(deadline_s):
        raise BrokerUnavailable(str(client.get("bootstrap.servers")), "write a wish", "the record was not acknowledged in time")
