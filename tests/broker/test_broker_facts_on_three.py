"""The facts under the protocol of ownership once more, while the broker they depend on is killed and another takes its place.

Each test loses one broker, chosen by its role, and brings it back before it ends. That takes time: two of them run
always, the others with the long tests.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from enum import Enum
from threading import Event

import pytest
from confluent_kafka import ElectionType, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from streamlet.ids import Incarnation
from streamlet.local import LocalKafka
from streamlet.rebalance.kafka import fence
from tests.bed.proxy import Proxy
from tests.bed.transactions import QUICK, Undecided, Witness, initialised, send_offset
from tests.bed.waiting import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

TRANSACTIONS, OFFSETS = "__transaction_state", "__consumer_offsets"
FAILOVER_S = 60.0


class Role(Enum):
    """What the killed broker was to a transaction."""

    TRANSACTION_COORDINATOR = "transaction coordinator"
    PARTITION_LEADER = "partition leader"
    GROUP_COORDINATOR = "group coordinator"


def always(role: Role) -> object:
    return pytest.param(role, id=role.value)


def long(role: Role) -> object:
    return pytest.param(role, id=role.value, marks=pytest.mark.full)


class Scene:
    """A topic on which the broker with one role has no other: names and partitions that belong to it, or to others."""

    def __init__(self, cluster: LocalKafka, unique: str, role: Role) -> None:
        self.cluster, self.topic, self._prefix = cluster, unique, unique
        self._admin = AdminClient(cluster.client_config)
        cluster.create_topic(unique, partitions=24)
        self._settle_internal_topics()
        self._role = role
        internal = OFFSETS if role is Role.GROUP_COORDINATOR else TRANSACTIONS
        self.victim = self._leaders(unique)[0] if role is Role.PARTITION_LEADER else self._leaders(internal)[0]
        led = self._leaders(unique)
        wanted = role is Role.PARTITION_LEADER
        self.partitions = [number for number, leader in led.items() if (leader == self.victim) is wanted]

    def transactional_id(self, number: int) -> str:
        """An id whose coordinator is the victim if that is its role, else another broker."""
        return self._name(TRANSACTIONS, f"id-{number}", self._role is Role.TRANSACTION_COORDINATOR)

    def group(self, number: int) -> str:
        """A group whose coordinator is the victim if that is its role, else another broker."""
        return self._name(OFFSETS, f"group-{number}", self._role is Role.GROUP_COORDINATOR)

    def undecided(self, count: int) -> dict[str, Undecided]:
        """Open transactions by their ids, each on two partitions of its own."""
        pairs = [self.partitions[2 * number : 2 * number + 2] for number in range(count)]
        ids = [self.transactional_id(number) for number in range(count)]
        return {
            each: Undecided(self.cluster, initialised(self.cluster, each), (self.topic, pair), self.group(number))
            for number, (each, pair) in enumerate(zip(ids, pairs, strict=True))
        }

    @contextmanager
    def victim_killed(self) -> Iterator[None]:
        """SIGKILL now; start it again and wait until it is in sync at the end."""
        self.cluster.kill(self.victim)
        try:
            yield
        finally:
            self.cluster.restart(self.victim)

    def _name(self, internal: str, prefix: str, by_victim: bool) -> str:
        leaders = self._leaders(internal)
        names = (f"{self._prefix}-{prefix}-{number}" for number in range(1000))
        return next(name for name in names if (leaders[abs(java_hash(name)) % len(leaders)] == self.victim) is by_victim)

    def _leaders(self, topic: str) -> dict[int, int]:
        found = self._admin.list_topics(topic, timeout=20).topics[topic].partitions
        return {number: partition.leader for number, partition in sorted(found.items())}

    def _settle_internal_topics(self) -> None:
        """Have them made, and led by the brokers that should lead them: a test before this one may have moved all to one."""
        warm_up = initialised(self.cluster, f"{self._prefix}-warm-up")
        warm_up.begin_transaction()
        send_offset(self.cluster, warm_up, f"{self._prefix}-warm-up", TopicPartition(self.topic, 0, 0))
        warm_up.abort_transaction(30)

        def are_spread() -> bool:
            self._admin.elect_leaders(ElectionType.PREFERRED, None).result(20)
            found = [self._admin.list_topics(topic, timeout=20).topics[topic].partitions for topic in (TRANSACTIONS, OFFSETS)]
            return all(partition.leader == partition.replicas[0] for partitions in found for partition in partitions.values())

        eventually(are_spread, 30, "every partition to be led by its first replica")


def java_hash(text: str) -> int:
    """`String.hashCode`, by which a coordinator is chosen."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


@pytest.fixture
def witness(cluster: LocalKafka) -> Iterator[Witness]:
    with Witness(cluster) as bystander:
        yield bystander


@pytest.mark.full
@pytest.mark.parametrize("role", list(Role), ids=lambda role: role.value)
def test_a_fence_returns_only_when_all_is_aborted_though_a_broker_is_lost_meanwhile(
    cluster: LocalKafka, witness: Witness, unique: str, role: Role
) -> None:
    """The leader plans once a fence has returned (F2): also if the broker that decides, or one that must be told, is gone."""
    scene = Scene(cluster, unique, role)
    owners = scene.undecided(3)

    def fenced(transactional_id: str) -> list[int]:
        fence(cluster.client_config, Incarnation(transactional_id), FAILOVER_S)
        return owners[transactional_id].unsettled(witness)

    with ThreadPoolExecutor(3) as elsewhere:
        fencing = [elsewhere.submit(fenced, each) for each in owners]
        with scene.victim_killed():
            unsettled = [each.result(FAILOVER_S) for each in fencing]

    assert unsettled == [[], [], []]
    assert [owner.traces(witness) for owner in owners.values()] == [[False] * 3] * 3


@pytest.mark.parametrize("role", [long(Role.TRANSACTION_COORDINATOR), always(Role.PARTITION_LEADER), long(Role.GROUP_COORDINATOR)])
def test_a_commit_racing_with_a_fence_is_never_torn_though_a_broker_is_lost_meanwhile(
    cluster: LocalKafka, witness: Witness, unique: str, role: Role
) -> None:
    """The leader reads once more after its last fence and then plans (F8): nothing that it read can change any more."""
    scene = Scene(cluster, unique, role)
    owners = scene.undecided(4)

    def fenced(transactional_id: str) -> list[int]:
        fence(cluster.client_config, Incarnation(transactional_id), FAILOVER_S)
        return owners[transactional_id].unsettled(witness)

    with ThreadPoolExecutor(8) as elsewhere:
        committing = [elsewhere.submit(owner.commit, FAILOVER_S) for owner in owners.values()]
        fencing = [elsewhere.submit(fenced, each) for each in owners]
        with scene.victim_killed():
            unsettled = [each.result(FAILOVER_S) for each in fencing]
            errors = [each.result(FAILOVER_S) for each in committing]

    assert unsettled == [[], [], [], []]
    traces = [owner.traces(witness) for owner in owners.values()]
    assert all(len(set(each)) == 1 for each in traces), f"torn: {traces}"
    assert all(all(each) for each, error in zip(traces, errors, strict=True) if error is None), "reported as committed, and is not"


@pytest.mark.parametrize("role", [long(Role.TRANSACTION_COORDINATOR), long(Role.GROUP_COORDINATOR)])
def test_a_pending_offset_stays_untold_though_a_broker_is_lost_meanwhile(
    cluster: LocalKafka, witness: Witness, unique: str, role: Role
) -> None:
    """A new owner asks for stable offsets until it is answered (F5): a new coordinator must know of the pending one."""
    scene = Scene(cluster, unique, role)
    group, topic = scene.group(0), scene.topic
    owner = initialised(cluster, scene.transactional_id(0))
    owner.begin_transaction()
    send_offset(cluster, owner, group, TopicPartition(topic, 0, 5))
    owner.commit_transaction(30)
    assert witness.offset(group, topic, 0) == 5
    owner.begin_transaction()
    send_offset(cluster, owner, group, TopicPartition(topic, 0, 9))
    told: list[int] = []

    def answer(*, stable: bool) -> int | None:
        try:
            return witness.offset(group, topic, 0, stable=stable, within_s=1)
        except KafkaException:  # there is no coordinator now
            return None

    def is_answered_by_the_new_coordinator() -> bool:
        told.extend(offset for offset in [answer(stable=True)] if offset is not None)
        return answer(stable=False) is not None

    with scene.victim_killed():
        eventually(is_answered_by_the_new_coordinator, FAILOVER_S, "an answer of any kind")
        assert (told, answer(stable=False), answer(stable=True)) == ([], 5, None)
        owner.commit_transaction(FAILOVER_S)
        assert witness.offset(group, topic, 0) == 9


@pytest.mark.full
def test_the_end_of_a_partition_never_lies_before_an_acknowledged_record_though_its_leader_is_lost(
    cluster: LocalKafka, witness: Witness, unique: str
) -> None:
    """A restore and a new leader read to the end they are told: an end before an acknowledged record would be lost state."""
    scene = Scene(cluster, unique, Role.PARTITION_LEADER)
    topic, number = scene.topic, scene.partitions[0]
    producer = Producer({**QUICK, **cluster.client_config, "acks": "all", "enable.idempotence": True, "message.timeout.ms": 60_000})
    acknowledged, stop = [0], Event()

    def note(error: object, message: Message) -> None:
        assert error is None
        acknowledged[0] = (message.offset() or 0) + 1

    def write() -> None:
        while not stop.is_set():
            producer.produce(topic, b"x", partition=number, on_delivery=note)
            producer.poll(0.001)
        assert producer.flush(FAILOVER_S) == 0

    def asked() -> tuple[int, int]:
        before = acknowledged[0]
        return before, witness.high_ends(topic, [number])[0]

    answers: list[tuple[int, int]] = []
    with ThreadPoolExecutor(1) as elsewhere:
        writing = elsewhere.submit(write)
        try:
            eventually(lambda: acknowledged[0] > 100, 20, "a hundred records")
            with scene.victim_killed():
                at_kill = acknowledged[0]
                deadline = time.monotonic() + FAILOVER_S
                while acknowledged[0] < at_kill + 500 and time.monotonic() < deadline:
                    answers.append(asked())
            answers.append(asked())
        finally:
            stop.set()
            writing.result(FAILOVER_S)

    assert acknowledged[0] >= at_kill + 500, "the new leader takes records"
    assert [each for each in answers if each[1] < each[0]] == []


@pytest.mark.full
def test_a_commit_whose_answer_is_lost_with_its_coordinator_is_committed_once(cluster: LocalKafka, witness: Witness, unique: str) -> None:
    """A worker calls a commit again while the client says it may: the new coordinator knows what the old one decided."""
    scene = Scene(cluster, unique, Role.TRANSACTION_COORDINATOR)
    transactional_id = scene.transactional_id(0)
    with Proxy(cluster.bootstrap.split(",")) as proxy, ThreadPoolExecutor(1) as elsewhere:
        producer = Producer({**QUICK, "bootstrap.servers": proxy.bootstrap, "transactional.id": transactional_id})
        producer.init_transactions(30)
        owner = Undecided(cluster, producer, (scene.topic, scene.partitions[:2]), scene.group(0))

        proxy.delay(1.0)
        committing = elsewhere.submit(owner.commit, FAILOVER_S)
        eventually(lambda: owner.unsettled(witness) == [], 20, "the commit to be decided")
        proxy.cut()
        with scene.victim_killed():
            proxy.heal()
            error = committing.result(FAILOVER_S)

    assert error is None
    assert owner.traces(witness) == [True, True, True]
    assert [witness.records(scene.topic, number) for number in scene.partitions[:2]] == [[(None, b"written")]] * 2, "once"
