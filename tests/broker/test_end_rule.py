"""When a replay has reached the end: every way in which a changelog can end, on a real broker with the production reader.

The offsets count markers: ten records and a commit end at 11.
"""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from streamlet.changelog.kafka import LogOffsets
from streamlet.changelog.replay import Partition
from streamlet.ids import Incarnation
from streamlet.local import KafkaOptions, LocalKafka
from streamlet.rebalance.kafka import fence
from tests.bed.changelogs import RunningReplay, TransactionalWriter, numbered, replay_all, settled_end
from tests.bed.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.timeout(120)]


@pytest.fixture
def log(kafka: LocalKafka, unique: str) -> Partition:
    kafka.create_topic(unique, config={"cleanup.policy": "compact,delete"})  # without `delete` no record can be deleted by hand
    return Partition(unique, 0)


@pytest.fixture
def writer(kafka: LocalKafka, log: Partition) -> TransactionalWriter:
    return TransactionalWriter(kafka, f"{log.topic}-writer", log.topic)


def truncate(kafka: LocalKafka, log: Partition, offset: int) -> None:
    admin = AdminClient(kafka.client_config)
    for future in admin.delete_records([TopicPartition(log.topic, log.number, offset)]).values():
        future.result(20)


def test_a_commit_marker_is_the_last_thing_in_the_log(kafka: LocalKafka, log: Partition, writer: TransactionalWriter) -> None:
    writer.commit(numbered(10))
    settled_end(kafka, log, 11)

    found = replay_all(kafka, log)

    assert (found.replay.offset, len(found.records), found.ends[-1]) == (11, 10, 11)


def test_an_aborted_tail_is_passed_and_not_delivered(kafka: LocalKafka, log: Partition, writer: TransactionalWriter) -> None:
    writer.commit(numbered(10))
    writer.abort(numbered(50, "aborted"))
    settled_end(kafka, log, 62)

    found = replay_all(kafka, log)

    assert (found.replay.offset, len(found.records)) == (62, 10)
    assert found.state == dict(numbered(10))


def test_a_log_of_aborted_records_alone_ends_behind_them(kafka: LocalKafka, log: Partition, writer: TransactionalWriter) -> None:
    writer.abort(numbered(50))
    settled_end(kafka, log, 51)

    found = replay_all(kafka, log)

    assert (found.replay.offset, found.records) == (51, [])


def test_many_aborted_transactions_at_the_tail_are_passed(kafka: LocalKafka, log: Partition, writer: TransactionalWriter) -> None:
    writer.commit(numbered(5))
    for _ in range(30):
        writer.abort(numbered(7, "aborted"))
    settled_end(kafka, log, 6 + 30 * 8)

    found = replay_all(kafka, log)

    assert (found.replay.offset, len(found.records)) == (246, 5)


def test_an_open_transaction_holds_the_end_back_until_its_writer_is_fenced(
    kafka: LocalKafka, log: Partition, writer: TransactionalWriter
) -> None:
    writer.commit(numbered(10))
    settled_end(kafka, log, 11)
    vanished = TransactionalWriter(kafka, f"{log.topic}-vanished", log.topic)
    vanished.open(numbered(7, "undecided"))
    writer.commit(numbered(5, "later"))
    settled_end(kafka, log, 11 + 7 + 6)
    running = RunningReplay(kafka, log)

    eventually(lambda: running.step() or running.found.ends, 20, "the first end")
    assert running.found.ends[-1] == 11, "the stable end lies before the open transaction"
    assert not running.found.replay.done
    fence(kafka.client_config, Incarnation(vanished.id))
    found = running.finish()

    assert found.replay.offset == 25
    assert found.state == {**dict(numbered(10)), **dict(numbered(5, "later"))}


@pytest.mark.parametrize("outcome", ["commit", "abort"])
def test_a_transaction_resolved_while_a_replay_waits_brings_a_second_end(
    kafka: LocalKafka, log: Partition, writer: TransactionalWriter, outcome: str
) -> None:
    writer.commit(numbered(10))
    writer.open(numbered(7, "waited"))
    settled_end(kafka, log, 18)
    running = RunningReplay(kafka, log)

    eventually(lambda: running.step() or running.found.ends, 20, "the first end")
    assert (running.found.ends, running.found.replay.done) == ([11], False)
    if outcome == "commit":
        writer.commit()
    else:
        writer.abort()
    found = running.finish()

    assert found.replay.offset == 19
    assert len(found.records) == (17 if outcome == "commit" else 10)


def test_the_target_holds_a_commit_that_has_returned_whose_markers_are_not_written_yet(
    kafka: LocalKafka, log: Partition, writer: TransactionalWriter
) -> None:
    written = 0
    for turn in range(30):
        writer.commit(numbered(3, f"t{turn}-"))
        written += 3
        found = replay_all(kafka, log) if turn % 10 == 9 else None
        assert found is None or len(found.records) == written


def test_an_empty_changelog_ends_at_once(kafka: LocalKafka, log: Partition) -> None:
    found = replay_all(kafka, log)

    assert (found.replay.offset, found.records, found.ends) == (0, [], [0])


def test_a_copy_that_lacks_nothing_ends_at_once(kafka: LocalKafka, log: Partition, writer: TransactionalWriter) -> None:
    writer.commit(numbered(10))
    settled_end(kafka, log, 11)

    found = replay_all(kafka, log, start=11)

    assert (found.replay.offset, found.records, found.ends) == (11, [], [11])


def test_a_start_beyond_the_end_is_told_and_never_reread_silently(kafka: LocalKafka, log: Partition, writer: TransactionalWriter) -> None:
    writer.commit(numbered(10))
    settled_end(kafka, log, 11)

    found = replay_all(kafka, log, start=40)

    assert (found.out_of_range, found.records, found.replay.done) == (True, [], False)


def test_a_start_before_a_truncated_log_is_told_and_never_skipped_silently(
    kafka: LocalKafka, log: Partition, writer: TransactionalWriter
) -> None:
    writer.commit(numbered(54))
    settled_end(kafka, log, 55)
    truncate(kafka, log, 30)

    from_zero, from_start = replay_all(kafka, log, start=0), replay_all(kafka, log)

    assert (from_zero.out_of_range, from_zero.records, from_zero.replay.done) == (True, [], False)
    assert (from_start.replay.offset, len(from_start.records)) == (55, 24)


def test_a_log_truncated_to_its_end_ends_there(kafka: LocalKafka, log: Partition, writer: TransactionalWriter) -> None:
    writer.commit(numbered(54))
    settled_end(kafka, log, 55)
    truncate(kafka, log, 55)

    found = replay_all(kafka, log)

    assert (found.replay.offset, found.records) == (55, [])


@pytest.fixture(scope="module")
def cleaning() -> Iterator[LocalKafka]:
    with LocalKafka.start(KafkaOptions(prompt_cleaner=True)) as started:
        yield started


def test_a_compacted_log_ends_where_its_cleaned_records_were(cleaning: LocalKafka, unique: str) -> None:
    log = Partition(unique, 0)
    cleaning.create_topic(
        unique,
        config={"cleanup.policy": "compact", "segment.ms": "50", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0"},
    )
    writer = TransactionalWriter(cleaning, f"{unique}-writer", unique)
    for turn in range(40):
        writer.commit([(b"kept", b"%d" % turn), (b"other", b"%d" % turn)])
    writer.commit([(b"deleted", b"once")])
    writer.commit([(b"deleted", None)])
    writer.abort(numbered(20, "aborted"))

    def cleaned() -> bool:
        writer.commit([(b"tick", b"x")])  # an active segment is never cleaned
        return len(raw_offsets(cleaning, log)) < 20

    eventually(cleaned, 60, "the cleaner")
    end = LogOffsets(cleaning.client_config).ends([log])[log]
    found = replay_all(cleaning, log)

    assert found.replay.offset >= end
    assert found.state == {b"kept": b"39", b"other": b"39", b"tick": b"x"}
    assert len(found.records) < end // 4, "most offsets hold nothing any more"


def raw_offsets(kafka: LocalKafka, log: Partition) -> list[int]:
    """Offsets of everything that is still in the log, aborted or not."""
    consumer = Consumer(
        {
            **kafka.client_config,
            "group.id": "raw",
            "isolation.level": "read_uncommitted",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(log.topic, log.number, 0)])
    found: list[int] = []
    try:

        def at_end() -> bool:
            messages = consumer.consume(5000, 0.1)
            found.extend(message.offset() for message in messages if message.error() is None)
            return any(message.error() is not None for message in messages)

        eventually(at_end, 20, "the end of the log")
    finally:
        consumer.close()
    return found
