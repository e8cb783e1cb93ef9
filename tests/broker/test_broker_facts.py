"""What the protocol of ownership takes for granted, asked of a real broker: one test for each fact and for the rule that leans on it.

A failure here means that a rule lost its ground, whatever the tests of the rule itself say.
"""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from streamlet.ids import Incarnation
from streamlet.local import KafkaOptions, LocalKafka, properties
from streamlet.rebalance.kafka import fence
from tests.bed.proxy import Proxy
from tests.bed.transactions import NO_OFFSET, QUICK, Ends, Undecided, Witness, code_of, initialised, refusal, send_offset
from tests.bed.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.timeout(120)]

RACES = 20


@pytest.fixture
def witness(kafka: LocalKafka) -> Iterator[Witness]:
    with Witness(kafka) as bystander:
        yield bystander


# What an open transaction does to others


def test_an_open_transaction_hides_what_others_commit_behind_it(kafka: LocalKafka, witness: Witness, unique: str) -> None:
    """The leader reads control up to the high watermark (F1): up to the stable end it would take an old plan for the newest."""
    kafka.create_topic(unique)
    worker, leader = initialised(kafka, f"{unique}-worker"), initialised(kafka, f"{unique}-leader")
    worker.begin_transaction()
    worker.produce(unique, b"release", b"own")
    assert worker.flush(20) == 0

    leader.begin_transaction()
    leader.produce(unique, b"second", b"plan")
    leader.commit_transaction(20)

    eventually(lambda: witness.ends(unique, 0) == Ends(high=3, stable=0), 10, "two records and the leader's marker")
    assert witness.records(unique, 0) == []
    worker.abort_transaction(20)
    eventually(lambda: witness.ends(unique, 0) == Ends(high=4, stable=4), 10, "the worker's marker")
    assert witness.records(unique, 0) == [(b"plan", b"second")]


def test_a_committed_reader_is_told_the_stable_end_and_passes_the_last_marker(kafka: LocalKafka, witness: Witness, unique: str) -> None:
    """ "To the end" asks an admin client and waits for the position (F12): the reader's own watermark is the stable end."""
    kafka.create_topic(unique)
    first, second = initialised(kafka, f"{unique}-first"), initialised(kafka, f"{unique}-second")
    first.begin_transaction()
    first.produce(unique, b"one")
    first.commit_transaction(20)
    first.begin_transaction()
    first.produce(unique, b"undecided")
    assert first.flush(20) == 0
    second.begin_transaction()
    second.produce(unique, b"two")
    second.commit_transaction(20)
    eventually(lambda: witness.ends(unique, 0) == Ends(high=5, stable=2), 10, "three records and two markers")
    reader, partition, told = witness.consumer(unique), TopicPartition(unique, 0), list[int | None]()

    def is_told(end: int) -> bool:
        told.extend(message.offset() for message in reader.consume(100, 0.05) if code_of(message) == KafkaError._PARTITION_EOF)
        return end in told

    try:
        reader.assign([TopicPartition(unique, 0, 0)])
        eventually(lambda: is_told(2), 10, "the end at the open transaction")
        assert set(told) == {2}
        assert reader.get_watermark_offsets(partition, timeout=10) == (0, 2)
        assert reader.position([partition])[0].offset == 2

        first.commit_transaction(20)
        eventually(lambda: is_told(6), 10, "the end behind the last marker")
        assert reader.position([partition])[0].offset == 6
        assert reader.get_watermark_offsets(partition, timeout=10) == (0, 6)
    finally:
        reader.close()


def test_committed_offsets_are_not_told_while_a_transaction_may_change_them(kafka: LocalKafka, witness: Witness, unique: str) -> None:
    """A new owner asks for stable offsets and asks again until it is answered (F5): the old offset would process records twice."""
    kafka.create_topic(unique, partitions=2)
    owner = initialised(kafka, f"{unique}-owner")
    for partition in (0, 1):
        owner.begin_transaction()
        send_offset(kafka, owner, unique, TopicPartition(unique, partition, 5))
        owner.commit_transaction(20)
    assert witness.offset(unique, unique, 0) == 5

    owner.begin_transaction()
    send_offset(kafka, owner, unique, TopicPartition(unique, 0, 9))

    assert witness.offset(unique, unique, 0, within_s=1) is None
    assert witness.offset(unique, unique, 0, stable=False) == 5
    assert witness.offset(unique, unique, 1, within_s=1) == 5, "a partition of which nothing is pending is answered"
    owner.commit_transaction(20)
    assert witness.offset(unique, unique, 0) == 9


def test_of_two_pending_offsets_the_one_written_later_stays_whichever_commits_first(
    kafka: LocalKafka, witness: Witness, unique: str
) -> None:
    """A successor commits only after its predecessor is fenced or has let go (F6): the broker does not order two owners' offsets by commit."""
    kafka.create_topic(unique)
    early, late = initialised(kafka, f"{unique}-early"), initialised(kafka, f"{unique}-late")
    early.begin_transaction()
    send_offset(kafka, early, unique, TopicPartition(unique, 0, 5))
    late.begin_transaction()
    send_offset(kafka, late, unique, TopicPartition(unique, 0, 7))

    late.commit_transaction(20)
    early.commit_transaction(20)

    assert witness.offset(unique, unique, 0) == 7


def test_offsets_without_a_generation_are_taken_while_the_group_has_members(kafka: LocalKafka, witness: Witness, unique: str) -> None:
    """Workers commit for the group without being its members: the supervisor is the member, and its place is not disturbed."""
    kafka.create_topic(f"{unique}-control")
    kafka.create_topic(unique)
    group = {"group.id": unique, "enable.auto.commit": False, "session.timeout.ms": 6000}
    supervisor = Consumer({**kafka.client_config, **group, "partition.assignment.strategy": "cooperative-sticky"})
    admin = AdminClient(kafka.client_config)
    lost: list[TopicPartition] = []

    def members() -> list[str]:
        supervisor.poll(0)
        described = admin.describe_consumer_groups([unique])[unique].result(10)
        is_stable = described.state == ConsumerGroupState.STABLE and supervisor.assignment()
        return [member.member_id for member in described.members] if is_stable else []

    try:
        assert witness.offset(unique, unique, 0) == NO_OFFSET  # and the group has a coordinator now, also on a new broker
        supervisor.subscribe([f"{unique}-control"], on_revoke=lambda _, gone: lost.extend(gone), on_lost=lambda _, gone: lost.extend(gone))
        before = eventually(members, 20, "the supervisor's place in a stable group")
        worker = initialised(kafka, f"{unique}-worker")
        worker.begin_transaction()
        send_offset(kafka, worker, unique, TopicPartition(unique, 0, 42))
        worker.commit_transaction(20)

        assert witness.offset(unique, unique, 0) == 42
        assert (members(), lost) == (before, [])
    finally:
        supervisor.close()


# What fencing does


def plain_call(kafka: LocalKafka, transactional_id: str) -> None:
    initialised(kafka, transactional_id)


def short_tries(kafka: LocalKafka, transactional_id: str) -> None:
    fence(kafka.client_config, Incarnation(transactional_id))


@pytest.mark.parametrize("take_id", [plain_call, short_tries])
def test_taking_an_id_returns_when_its_open_transaction_is_aborted_everywhere(
    kafka: LocalKafka, witness: Witness, unique: str, take_id: Callable[[LocalKafka, str], None]
) -> None:
    """The leader plans once a fence has returned (F2): what the lost owner left undecided is decided by then, also the offsets."""
    kafka.create_topic(unique, partitions=4)
    owner = Undecided(kafka, initialised(kafka, unique), (unique, range(4)), unique)
    assert owner.unsettled(witness) == [0, 1, 2, 3]

    take_id(kafka, unique)

    assert owner.unsettled(witness) == []
    assert witness.offset(unique, unique, 0, within_s=1) == NO_OFFSET
    assert owner.traces(witness) == [False] * 5


def test_the_commit_of_a_fenced_producer_fails_for_good(kafka: LocalKafka, witness: Witness, unique: str) -> None:
    """A fenced worker drops its tasks (F3): the error is fatal, not one after which it could abort and go on."""
    kafka.create_topic(unique)
    owner = Undecided(kafka, initialised(kafka, unique), (unique, [0]), unique)
    initialised(kafka, unique)

    error = owner.commit()

    assert error is not None
    assert (error.code(), error.fatal(), error.txn_requires_abort()) == (KafkaError._FENCED, True, False)
    assert refusal(lambda: owner.producer.abort_transaction(20)) is not None
    assert refusal(owner.producer.begin_transaction) is not None
    assert owner.traces(witness) == [False, False]


def test_a_fenced_producer_cannot_write_to_a_partition_new_to_its_transaction(kafka: LocalKafka, witness: Witness, unique: str) -> None:
    """Nothing hangs behind a fence (F4): a late record on another partition would hold its readers back for ever."""
    kafka.create_topic(unique, partitions=2)
    owner = Undecided(kafka, initialised(kafka, unique), (unique, [0]), unique)
    initialised(kafka, unique)

    refused = produce_in_vain(owner.producer, unique, 1)

    assert refused
    assert witness.ends(unique, 1) == Ends(high=0, stable=0)


def test_a_record_on_the_wire_when_its_producer_is_fenced_is_refused(kafka: LocalKafka, witness: Witness, unique: str) -> None:
    """Nothing hangs behind a fence (F4), also if the broker has let the producer add the partition before."""
    kafka.create_topic(unique)
    with Proxy([kafka.bootstrap]) as proxy:
        sent = SentRequests()

        def is_on_the_wire() -> bool:
            slow.poll(0.01)
            return sent.count("Produce") > 0

        slow = Producer(
            {**QUICK, "bootstrap.servers": proxy.bootstrap, "transactional.id": unique, "statistics.interval.ms": 20, "stats_cb": sent}
        )
        slow.init_transactions(30)
        slow.begin_transaction()
        proxy.delay(0.5)
        slow.produce(unique, b"late", partition=0)
        eventually(is_on_the_wire, 20, "the record to be on the wire")
        proxy.drop()
        assert witness.high_ends(unique, [0]) == [0], "the record has not arrived"

        fence(kafka.client_config, Incarnation(unique))
        proxy.heal()
        error = refusal(lambda: slow.commit_transaction(20))

    assert error is not None
    assert error.fatal()
    ends = witness.ends(unique, 0)  # a fence that was tried again may have left its marker twice
    assert ends.high == ends.stable, "nothing is undecided"
    assert witness.records(unique, 0, committed_only=False) == []


def test_an_old_id_that_is_initialised_again_has_its_authority_back(kafka: LocalKafka, witness: Witness, unique: str) -> None:
    """An incarnation initialises its id once (F9): a second time would undo the fence, and its old plan with it."""
    kafka.create_topic(unique)
    initialised(kafka, unique)
    leader = initialised(kafka, unique)

    zombie = Undecided(kafka, initialised(kafka, unique), (unique, [0]), unique)
    error = zombie.commit()

    assert error is None
    eventually(lambda: zombie.unsettled(witness) == [], 10, "its markers")
    assert zombie.traces(witness) == [True, True]
    leader.begin_transaction()
    assert produce_in_vain(leader, unique, 0), "and the one who fenced it is fenced now"


class SentRequests:
    """Counts the requests that a client has put on the wire, from its statistics."""

    def __init__(self) -> None:
        self._brokers: dict[str, dict[str, dict[str, int]]] = {}

    def __call__(self, statistics: str) -> None:
        self._brokers = json.loads(statistics)["brokers"]

    def count(self, request: str) -> int:
        return sum(broker["req"].get(request, 0) for broker in self._brokers.values())


def produce_in_vain(producer: Producer, topic: str, number: int) -> bool:
    """Send a record and commit; True if that is refused for good."""
    producer.produce(topic, b"late", partition=number)
    error = refusal(lambda: producer.commit_transaction(20))
    return error is not None and error.fatal()


# How a commit ends


def test_a_commit_that_has_returned_lies_before_the_high_watermark_and_no_reader_sees_half_of_a_partition(
    kafka: LocalKafka, witness: Witness, unique: str
) -> None:
    """A restore reads to the high watermark (F7): markers may be written after the call has returned, the records may not."""
    kafka.create_topic(unique, partitions=4)
    producer = initialised(kafka, unique)
    reader, values, positions = witness.consumer(unique), [list[int]() for _ in range(4)], [0, 0, 0, 0]
    reader.assign([TopicPartition(unique, number, 0) for number in range(4)])
    lagging = 0

    def has_read_to(targets: list[int]) -> bool:
        for message in reader.consume(1000, 0.01):
            number, offset = message.partition(), message.offset()
            assert number is not None
            assert offset is not None
            if message.error() is None:
                values[number].append(int(message.value() or b""))
            positions[number] = max(positions[number], offset + (message.error() is None))
        return all(position >= target for position, target in zip(positions, targets, strict=True))

    try:
        for turn in range(RACES):
            producer.begin_transaction()
            for number in range(4):
                producer.produce(unique, b"%d" % turn, partition=number)
                producer.produce(unique, b"%d" % turn, partition=number)
            producer.commit_transaction(20)
            stable = witness.stable_ends(unique, range(4))
            targets = witness.high_ends(unique, range(4))
            lagging += stable != targets

            eventually(lambda targets=targets: has_read_to(targets), 20, f"the ends after commit {turn}")  # type: ignore[misc]
            assert values == [[number for number in range(turn + 1) for _ in range(2)]] * 4
    finally:
        reader.close()
    print(f"{lagging} of {RACES} commits returned before their markers were written")


def test_a_commit_racing_with_a_fence_is_all_or_nothing_and_decided_when_the_fence_returns(
    kafka: LocalKafka, witness: Witness, unique: str
) -> None:
    """The leader reads once more after its last fence and then plans (F8): nothing that it read can change any more."""
    kafka.create_topic(unique, partitions=2 * RACES)
    fates: list[bool] = []
    with ThreadPoolExecutor(1) as elsewhere:
        for race in range(RACES):
            transactional_id = f"{unique}-{race}"
            owner = Undecided(kafka, initialised(kafka, transactional_id), (unique, [2 * race, 2 * race + 1]), unique)

            fencing = elsewhere.submit(fence, kafka.client_config, Incarnation(transactional_id))
            error = owner.commit()
            fencing.result(30)

            assert owner.unsettled(witness) == []
            traces = owner.traces(witness)
            assert len(set(traces)) == 1, f"race {race} was torn: {traces}"
            assert all(traces) or error is not None, f"race {race} was reported as committed and is not"
            fates.append(all(traces))
    print(f"{sum(fates)} of {RACES} commits came before the fence")


@pytest.mark.parametrize("fenced", [False, True])
def test_a_commit_whose_answer_is_lost_stays_committed(kafka: LocalKafka, witness: Witness, unique: str, fenced: bool) -> None:
    """An error of a commit says nothing about its outcome: the owner drops its cache and the truth is read back from the log."""
    kafka.create_topic(unique, partitions=2)
    with Proxy([kafka.bootstrap]) as proxy, ThreadPoolExecutor(1) as elsewhere:
        producer = Producer({**QUICK, "bootstrap.servers": proxy.bootstrap, "transactional.id": unique})
        producer.init_transactions(30)
        owner = Undecided(kafka, producer, (unique, [0, 1]), unique)

        proxy.delay(1.0)
        committing = elsewhere.submit(owner.commit, 2.5)
        eventually(lambda: owner.unsettled(witness) == [], 20, "the commit to be decided")
        proxy.cut()
        error = committing.result(20)

        assert error is not None, "the answer was lost"
        assert (error.retriable(), error.fatal()) == (True, False)
        if fenced:
            fence(kafka.client_config, Incarnation(unique))
        assert owner.traces(witness) == [True, True, True]
        proxy.heal()
        again = owner.commit()

    assert again is None if not fenced else again is not None and again.fatal()
    assert owner.traces(witness) == [True, True, True]


# What the broker does in its own time


@pytest.fixture(scope="module")
def impatient() -> Iterator[LocalKafka]:
    """A broker that does soon what others do after minutes or days."""
    soon = {
        "offsets.retention.minutes": 1,  # the smallest there is
        "offsets.retention.check.interval.ms": 1000,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in soon.items():
            patch.setitem(properties._DEVELOPMENT, name, value)
        with LocalKafka.start(KafkaOptions(prompt_cleaner=True)) as started:
            yield started


@pytest.fixture
def watcher(impatient: LocalKafka) -> Iterator[Witness]:
    with Witness(impatient) as bystander:
        yield bystander


def test_a_transaction_that_times_out_is_aborted_and_fences_its_producer(impatient: LocalKafka, watcher: Witness, unique: str) -> None:
    """No transaction is open while user code runs, and its timeout bounds how long a vanished worker holds readers back."""
    impatient.create_topic(unique)
    slow = initialised(impatient, unique, **{"transaction.timeout.ms": 2000})
    slow.begin_transaction()
    slow.produce(unique, b"written")
    assert slow.flush(20) == 0
    assert watcher.ends(unique, 0) == Ends(high=1, stable=0)

    eventually(lambda: watcher.ends(unique, 0) == Ends(high=2, stable=2), 20, "the broker's abort")
    error = refusal(lambda: slow.commit_transaction(20))

    assert error is not None
    assert (error.code(), error.fatal(), error.txn_requires_abort()) == (KafkaError._FENCED, True, False)
    assert watcher.records(unique, 0) == []


def test_compaction_drops_an_aborted_record_and_keeps_the_committed_one_before_it(
    impatient: LocalKafka, watcher: Witness, unique: str
) -> None:
    """State is rebuilt from compacted topics (F10): an abort must not take the last committed value of a key with it."""
    impatient.create_topic(unique, config={"cleanup.policy": "compact", "segment.ms": "50", "min.cleanable.dirty.ratio": "0.01"})
    producer = initialised(impatient, unique)
    producer.begin_transaction()
    producer.produce(unique, b"committed", b"key")
    producer.commit_transaction(20)
    producer.begin_transaction()
    producer.produce(unique, b"aborted", b"key")
    assert producer.flush(20) == 0
    producer.abort_transaction(20)
    assert (b"key", b"aborted") in watcher.records(unique, 0, committed_only=False)

    def is_cleaned() -> bool:
        producer.begin_transaction()
        producer.produce(unique, b"", b"tick")  # an active segment is never cleaned
        producer.commit_transaction(20)
        return (b"key", b"aborted") not in watcher.records(unique, 0, committed_only=False)

    eventually(is_cleaned, 60, "the cleaner")
    assert [value for key, value in watcher.records(unique, 0) if key == b"key"] == [b"committed"]


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_of_topics_that_a_living_group_does_not_subscribe_to_expire(
    impatient: LocalKafka, watcher: Witness, unique: str, protocol: str
) -> None:
    """Every source partition is committed again at least once a day (F11): members subscribe to the control topic alone."""
    admin = AdminClient(impatient.client_config)
    impatient.create_topic(f"{unique}-control")
    impatient.create_topic(unique, partitions=2)
    member = Consumer({**impatient.client_config, "group.id": unique, "group.protocol": protocol, "enable.auto.commit": False})
    worker = initialised(impatient, unique)

    def commit(number: int, offset: int) -> None:
        worker.begin_transaction()
        send_offset(impatient, worker, unique, TopicPartition(unique, number, offset))
        worker.commit_transaction(20)

    def state() -> ConsumerGroupState:
        member.poll(0)
        return admin.describe_consumer_groups([unique])[unique].result(10).state

    def is_expired() -> bool:
        commit(1, 43)
        assert state() == ConsumerGroupState.STABLE
        return watcher.offset(unique, unique, 0) == NO_OFFSET

    try:
        assert watcher.offset(unique, unique, 0) == NO_OFFSET  # and the group has a coordinator now, also on a new broker
        member.subscribe([f"{unique}-control"])
        eventually(lambda: state() == ConsumerGroupState.STABLE and member.assignment(), 30, "a stable group")
        commit(0, 42)
        assert watcher.offset(unique, unique, 0) == 42

        eventually(is_expired, 150, "the idle partition's offset to expire")
        assert watcher.offset(unique, unique, 1) == 43, "what is committed again stays"
    finally:
        member.close()
