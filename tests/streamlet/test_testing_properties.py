"""Any program of sends, commits, crashes, failures, resumes and time steps gives the state and output of a plain model.

The app has every shape that can go wrong: siblings that share a store, retries, dead letters, skips, a handler that parks
its task, batches with culprits, a repartition topic, nulls, records without a key, bytes that do not decode. The model
knows none of that machinery: it walks through each partition's records once, in order, with plain dicts.
"""

import contextlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from streamlet import (
    App,
    ByKey,
    Group,
    HandlerError,
    Log,
    Map,
    PerTask,
    Record,
    Set,
    TestDriver,
    Value,
    dead_letter,
    milliseconds,
    seconds,
    skip,
)
from streamlet.murmur2 import partition_for

KEYS = ["a", "b", "c", "d"]
KINDS = ["good", "good", "good", "dead", "flaky", "skip", "fail", "bad-batch", "fail-batch"]
OPS = st.tuples(st.sampled_from(KINDS), st.integers(-2, 3), st.sampled_from([*KEYS, None]), st.sampled_from(["ops", "ops", "more"]))


class Op(msgspec.Struct, frozen=True):
    id: int
    kind: str
    n: int


class Account(Group):
    balance: Value[int]
    marks: Map[str, list[int]]
    log: Log[int]
    seen: Set[int]


@dataclass
class World:
    """What lies outside the app: which records have been mended, and how often a flaky one was tried."""

    mended: set[int] = field(default_factory=set)
    tries: Counter = field(default_factory=Counter)


class Unlucky(Exception):
    pass


def make_app(world: World) -> tuple[App, dict]:
    app = App("model")
    ops = app.topic("ops", key=str, value=Op, errors=dead_letter("garbled"))
    more = app.topic("more", key=str, value=Op, errors=skip)
    out, audits = app.topic("out", key=str, value=int), app.topic("audits", key=str, value=int)
    tallies, bulks = app.topic("tallies", key=str, value=int), app.topic("bulks", key=str, value=int)
    account = app.store("account", Account)

    @app.process(ops, more, to=out, errors=dead_letter("dead", retries=1, backoff=milliseconds(1)))
    def ledger(op: Op, acc: Account = account) -> Iterator[int]:
        acc.balance.add(op.n)
        marks = acc.marks.get(op.kind, [])
        marks.append(op.n)
        yield acc.balance.get(0)
        if op.kind == "flaky":
            world.tries[op.id] += 1
            if world.tries[op.id] % 2:
                raise Unlucky
        acc.marks[op.kind] = marks
        acc.log.append(op.n)
        acc.log.keep_last(3)
        if op.kind == "dead":
            raise Unlucky
        if not acc.seen.add(op.n):
            acc.seen.discard(op.n)
        if op.n == 0:
            acc.balance.delete()
        yield -op.n

    @app.process(ops, to=audits, errors=skip)
    def audit(op: Op | None, seen: PerTask[Value[int]]) -> int:
        count = seen.add(1)
        if op is not None and op.kind == "skip":
            raise Unlucky
        return count

    @app.process(ops)
    def spread(op: Op) -> Iterator[Record[str, int]]:
        yield Record(f"k{op.n % 3}", op.n)
        yield Record("all", 1)

    @app.process(spread, to=tallies)
    def tally(n: int, total: Value[int]) -> int:
        return total.add(n)

    @app.batch(ops, size=5)
    def weigh(batch: list[Op], weight: PerTask[Value[int]]) -> None:
        weight.add(len(batch))

    @app.batch(ops, to=bulks, size=3, within=milliseconds(20), errors=dead_letter("dead-batch", on=Unlucky))
    def bulk(
        batch: list[Record[str, Op]], by: ByKey[str, Value[int]], total: PerTask[Value[int]], acc: ByKey[str, Account] = account
    ) -> Iterator[Record[str, int]]:
        for record in batch:
            if record.key is None:
                continue
            yield Record(record.key, by[record.key].add(record.value.n))
            total.add(1)
            if record.value.kind == "bad-batch":
                raise Unlucky
            if record.value.kind == "fail-batch" and record.value.id not in world.mended:
                raise KeyError(record.value.id)

    @app.process(ops, more)
    def strict(op: Op) -> None:
        if op.kind == "fail" and op.id not in world.mended:
            raise Unlucky

    topics = {topic.name: topic for topic in (ops, more, out, audits, tallies, bulks)}
    return app, {**topics, "account": account, "audit": audit, "tally": tally, "bulk": bulk, "weigh": weigh}


@dataclass
class Given:
    """A record as the test sent it; `op` is None for a null value, garbage for bytes that are no Op."""

    topic: str
    key: str | None
    op: Op | None
    garbage: bytes | None = None


def fresh_account() -> dict:
    return {"balance": None, "marks": {}, "log": [], "seen": set()}


class Expected:
    """What must have come out once everything that can be processed was processed and committed."""

    def __init__(self) -> None:
        self.lists: dict[tuple[str, str | None], list[int]] = defaultdict(list)  # (topic, key) → values in order
        self.loose: dict[str, list[int]] = {"audits": [], "tallied": []}  # whose order is the partitions' affair
        self.letters: Counter = Counter()
        self.accounts: dict[str, dict] = defaultdict(fresh_account)
        self.tally: Counter = Counter()
        self.by: Counter = Counter()
        self.per_task: dict[str, Counter] = {"audit": Counter(), "bulk": Counter(), "weigh": Counter()}
        self.blocked: dict[int, int] = {}  # partition → index of the record it stands at

    def walk(self, partition: int, given: list[Given], skipped: set[int], mended: set[int]) -> None:
        for index, record in enumerate(given):
            if index in skipped:
                continue
            if not self.take(partition, record, mended):
                self.blocked[partition] = index
                return

    def take(self, partition: int, record: Given, mended: set[int]) -> bool:
        op, key, is_op = record.op, record.key, record.topic == "ops"
        if record.garbage is not None:
            if is_op:
                self.letters["garbled", record.garbage] += 1
            return True
        blocking = ["fail", *(["fail-batch"] if is_op and key is not None else [])]
        if op is not None and op.kind in blocking and op.id not in mended:
            return False
        if op is not None:
            self.take_ledger(key, op)
        if is_op:
            if op is None or op.kind != "skip":
                self.per_task["audit"][partition] += 1
                self.loose["audits"].append(self.per_task["audit"][partition])
            if op is not None:
                self.take_rest(partition, key, op)
        return True

    def take_ledger(self, key: str | None, op: Op) -> None:
        if key is None or op.kind == "dead":
            self.letters["dead", op.id] += 1
            return
        account = self.accounts[key]
        account["balance"] = (account["balance"] or 0) + op.n
        account["marks"].setdefault(op.kind, []).append(op.n)
        self.lists["out", key] += [account["balance"], -op.n]
        account["log"] = [*account["log"], op.n][-3:]
        account["seen"] ^= {op.n}
        if op.n == 0:
            account["balance"] = None

    def take_rest(self, partition: int, key: str | None, op: Op) -> None:
        for target, n in ((f"k{op.n % 3}", op.n), ("all", 1)):
            self.tally[target] += n
            self.lists["tallied", target].append(n)
        self.per_task["weigh"][partition] += 1
        if key is None:
            return
        if op.kind == "bad-batch":
            self.letters["dead-batch", op.id] += 1
            return
        self.by[key] += op.n
        self.per_task["bulk"][partition] += 1
        self.lists["bulks", key].append(self.by[key])


class AnyProgram(RuleBasedStateMachine):
    @initialize(partitions=st.sampled_from([1, 2, 3]), autocommit=st.booleans())
    def start(self, partitions: int, autocommit: bool) -> None:
        self.world, self.partitions = World(), partitions
        app, self.names = make_app(self.world)
        self.driver = TestDriver(app, partitions=partitions, autocommit=autocommit)
        self.autocommit = autocommit
        self.given: dict[int, list[Given]] = defaultdict(list)
        self.skipped: dict[int, set[int]] = defaultdict(set)
        self.turns: Counter = Counter()
        self.clock = itertools.count(1)
        self.read = Expected()

    def teardown(self) -> None:
        if hasattr(self, "driver"):
            self.driver.close()

    # What a program may do

    @rule(ops=st.lists(OPS, min_size=1, max_size=8))
    def send(self, ops: list[tuple[str, int, str | None, str]]) -> None:
        for kind, n, key, topic in ops:
            self.give(Given(topic, key, Op(next(self.clock), kind, n)))

    @rule(key=st.sampled_from([*KEYS, None]))
    def send_null(self, key: str | None) -> None:
        self.give(Given("ops", key, None))

    @rule(key=st.sampled_from(KEYS), garbage=st.sampled_from([b"", b"{", b"\xff", b'{"id":1}']), topic=st.sampled_from(["ops", "more"]))
    def send_garbage(self, key: str, garbage: bytes, topic: str) -> None:
        self.give(Given(topic, key, None, garbage))

    @rule()
    def commit(self) -> None:
        with self.may_park():
            self.driver.commit()
        self.compare()

    @precondition(lambda self: not self.autocommit)
    @rule()
    def commit_without_following_up(self) -> None:
        """A worker may die between two sub-topologies: what one committed, the other has not read."""
        self.driver._worker.commit()

    @rule()
    def crash(self) -> None:
        with self.may_park():
            self.driver.crash()

    @rule(long=st.booleans())
    def time_passes(self, long: bool) -> None:
        with self.may_park():
            self.driver.advance(seconds(2) if long else milliseconds(15))

    @rule(mend=st.booleans())
    def resume(self, mend: bool) -> None:
        self.commit()
        blocked = self.expected().blocked
        for partition, index in blocked.items():
            if mend:
                op = self.given[partition][index].op
                assert op is not None
                self.world.mended.add(op.id)
            else:
                self.skipped[partition].add(index)
        with self.may_park():
            self.driver.resume(skip=not mend)
        self.commit()

    # How it is done and judged

    def give(self, record: Given) -> None:
        key = None if record.key is None else record.key.encode()
        value = record.garbage if record.garbage is not None else None if record.op is None else msgspec.json.encode(record.op)
        if key is None:
            partition = self.turns[record.topic] % self.partitions
            self.turns[record.topic] += 1
        else:
            partition = partition_for(key, self.partitions)
        self.given[partition].append(record)
        with self.may_park():
            self.driver.send_raw(self.names[record.topic], value, key=key, timestamp=next(self.clock))

    @contextlib.contextmanager
    def may_park(self) -> Iterator[None]:
        """A failure may be raised only where the model has a record that nobody can pass."""
        raised: HandlerError | None = None
        try:
            yield
        except HandlerError as error:
            raised = error
        if raised is not None:
            assert isinstance(raised.__cause__, Unlucky | KeyError), raised
            assert raised.partition in self.expected().blocked, raised

    def expected(self) -> Expected:
        expected = Expected()
        for partition, given in sorted(self.given.items()):
            expected.walk(partition, given, self.skipped[partition], self.world.mended)
        return expected

    def compare(self) -> None:
        expected, seen = self.expected(), self.read
        for topic in ("out", "bulks"):
            for record in self.driver.read(self.names[topic]):
                seen.lists[topic, record.key].append(record.value)
        for record in self.driver.read(self.names["tallies"]):
            seen.lists["tallied", record.key].append(record.value - seen.tally[record.key])
            seen.tally[record.key] = record.value
        seen.loose["audits"] += [record.value for record in self.driver.read(self.names["audits"])]
        for name in ("dead", "dead-batch"):
            seen.letters.update((name, msgspec.json.decode(record.value, type=Op).id) for record in self.driver.read(name))
        seen.letters.update(("garbled", record.value) for record in self.driver.read("garbled"))

        def ordered(found: Expected) -> dict:
            return {place: sorted(values) if place[0] == "tallied" else values for place, values in found.lists.items() if values}

        assert ordered(seen) == ordered(expected)
        assert sorted(seen.loose["audits"]) == sorted(expected.loose["audits"])
        assert seen.letters == expected.letters
        self.compare_state(expected)

    def compare_state(self, expected: Expected) -> None:
        for key in KEYS:
            account, model = self.driver.store(self.names["account"], key=key), expected.accounts[key]
            found = {
                "balance": account.balance.get(),
                "marks": dict(account.marks.items()),
                "log": list(account.log),
                "seen": set(account.seen),
            }
            assert found == model
            assert self.driver.store_of(self.names["bulk"], "by", key=key).get(0) == expected.by[key]
        for target in ("k0", "k1", "k2", "all"):
            assert self.driver.store_of(self.names["tally"], "total", key=target).get(0) == expected.tally[target]
        for partition in range(self.partitions):
            for name, parameter in (("audit", "seen"), ("bulk", "total"), ("weigh", "weight")):
                found = self.driver.store_of(self.names[name], parameter, partition=partition).get(0)
                assert found == expected.per_task[name][partition], name


AnyProgram.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.target, Phase.shrink],
)
TestAnyProgram = AnyProgram.TestCase
