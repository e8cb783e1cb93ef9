"""The test driver itself: commits, crashes, views of state, resources, and what it refuses."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import streamlet
from streamlet import (
    App,
    ByKey,
    DeclarationError,
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
    minutes,
    skip,
)
from streamlet.changelog.commits import decode_commit
from streamlet.changelog.replay import Partition
from streamlet.testing.worker import NeverQuiet, UnsetMutation


@pytest.fixture
def app():
    return App("app")


@pytest.fixture
def numbers(app):
    return app.topic("numbers", key=str, value=int)


@pytest.fixture
def totals(app):
    return app.topic("totals", key=str, value=int)


@pytest.fixture
def count(app, numbers, totals):
    @app.process(numbers, to=totals)
    def count(n: int, total: Value[int]) -> int:
        return total.add(n)

    return count


def values(driver, topic):
    return [record.value for record in driver.read(topic)]


def test_the_driver_is_public_and_loads_no_client():
    source = "import sys, streamlet; streamlet.TestDriver; print(*sorted({'confluent_kafka', 'rocksdict', 'typer'} & sys.modules.keys()))"
    result = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])

    assert result.stdout.split() == []
    assert streamlet.TestDriver is TestDriver


def test_pytest_does_not_take_the_driver_for_a_test():
    assert TestDriver.__test__ is False


def test_autocommit_makes_every_send_final(app, numbers, totals, count):
    with TestDriver(app) as driver:
        driver.send(numbers, 1, key="a")
        driver.send(numbers, 2, key="a")
        driver.crash()

        assert values(driver, totals) == [1, 3]
        assert values(driver, totals) == [], "read drains"
        assert driver.store_of(count, "total", key="a").get() == 3


def test_without_autocommit_outputs_wait_for_the_commit_while_state_shows_at_once(app, numbers, totals, count):
    with TestDriver(app, autocommit=False) as driver:
        driver.send(numbers, 1, key="a")

        assert driver.store_of(count, "total", key="a").get() == 1
        assert values(driver, totals) == []
        driver.commit()
        assert values(driver, totals) == [1]


def test_a_crash_loses_what_was_not_committed_and_its_input_comes_again(app, numbers, totals):
    calls = []

    @app.process(numbers, to=totals)
    def count(n: int, total: Value[int]) -> int:
        calls.append(n)
        return total.add(n)

    with TestDriver(app, autocommit=False) as driver:
        driver.send(numbers, 1, key="a")
        driver.commit()
        driver.send(numbers, 2, key="a")
        driver.crash()
        driver.commit()

        assert calls == [1, 2, 2]
        assert values(driver, totals) == [1, 3]


class Account(Group):
    balance: Value[int]
    holds: Map[str, Map[int, list[int]]]
    log: Log[str]
    seen: Set[int]


def test_a_crash_rebuilds_every_kind_of_state_from_its_changelog(app, numbers):
    account = app.store("account", Account)

    @app.process(numbers)
    def pay(n: int, acc: Account = account) -> None:
        acc.balance.add(n)
        acc.holds["x"][n] = [n]
        acc.log.append(str(n))
        acc.log.keep_last(2)
        acc.seen.add(n)
        if n == 3:
            del acc.holds["x"][1]
            acc.seen.discard(1)

    @app.process(numbers)
    def all_of_them(n: int, per_task: PerTask[Set[int]]) -> None:
        per_task.add(n)

    with TestDriver(app, partitions=2) as driver:
        for n in (1, 2, 3):
            driver.send(numbers, n, key="a")
        driver.crash()

        found = driver.store(account, key="a")
        assert found.balance.get() == 6
        assert {n: found.holds["x"][n] for n in (2, 3)} == {2: [2], 3: [3]}
        assert 1 not in found.holds["x"]
        assert (list(found.log), set(found.seen)) == (["2", "3"], {2, 3})
        home = driver._broker.place("numbers", b"a").number
        assert set(driver.store_of(all_of_them, "per_task", partition=home)) == {1, 2, 3}
        assert set(driver.store_of(all_of_them, "per_task", partition=1 - home)) == set()


def test_repartitioned_records_that_were_committed_survive_a_crash_before_they_are_processed(app, numbers, totals):
    @app.process(numbers)
    def move(n: int) -> Record[str, int]:
        return Record("x", n)

    @app.process(move, to=totals)
    def count(n: int, total: Value[int]) -> int:
        return total.add(n)

    with TestDriver(app, autocommit=False, partitions=3) as driver:
        driver.send(numbers, 1, key="a")
        driver._worker.commit()  # one commit only: the record is in the repartition topic and no further
        driver.crash()
        driver.commit()

        assert values(driver, totals) == [1]


def test_time_stands_still_unless_it_is_moved(app, numbers, totals, count):
    with TestDriver(app, start=1_000) as driver:
        driver.send(numbers, 1, key="a")
        driver.advance(minutes(1))
        driver.send(numbers, 1, key="a")

        assert [record.timestamp for record in driver.read(totals)] == [1_000, 61_000]


def test_a_bare_number_is_no_duration(app, count):
    with TestDriver(app) as driver, pytest.raises(DeclarationError):
        driver.advance(5)


def test_records_without_a_key_go_round(app):
    lines = app.topic("lines", value=str)

    @app.process(lines)
    def keep(line: str, seen: PerTask[Log[str]]) -> None:
        seen.append(line)

    with TestDriver(app, partitions=2) as driver:
        for line in "abc":
            driver.send(lines, line)

        assert [list(driver.store_of(keep, "seen", partition=p)) for p in (0, 1)] == [["a", "c"], ["b"]]


def test_a_topic_that_says_its_partitions_has_them(app, totals):
    numbers = app.topic("numbers", key=str, value=int, partitions=3)

    @app.process(numbers)
    def keep(n: int, seen: PerTask[Set[int]]) -> None:
        seen.add(n)

    with TestDriver(app) as driver:
        assert len(driver._worker.tasks) == 3


def test_a_mutation_that_was_not_set_fails_the_test(app, numbers):
    @app.process(numbers)
    def forget(n: int, items: Value[list[int]]) -> None:
        if not items.exists():
            items.set([])
        items.get([]).append(n)

    with TestDriver(app) as driver, pytest.raises(UnsetMutation) as caught:
        driver.send(numbers, 1, key="a")
    assert (caught.value.store, caught.value.key) == ("forget-items", b"a")


def test_a_mutation_that_was_not_set_in_a_batch_fails_the_test(app, numbers):
    @app.batch(numbers)
    def forget(batch: list[int], items: PerTask[Map[str, list[int]]]) -> None:
        items["a"] = [1]
        items["a"].append(2)

    with TestDriver(app) as driver, pytest.raises(UnsetMutation):
        driver.send(numbers, 1, key="a")


def test_values_that_are_set_after_each_change_are_no_mutation(app, numbers):
    @app.process(numbers)
    def keep(n: int, items: Value[list[int]]) -> None:
        for i in range(n):
            found = items.get([])
            found.append(i)
            items.set(found)

    with TestDriver(app, autocommit=False) as driver:
        driver.send(numbers, 3, key="a")
        driver.send(numbers, 2, key="a")
        driver.crash()  # both in one batch
        driver.commit()

        assert driver.store_of(keep, "items", key="a").get() == [0, 1, 2, 0, 1]


def test_what_a_failed_record_did_to_a_value_is_no_mutation(app, numbers):
    @app.process(numbers, errors=skip)
    def keep(n: int, items: Value[list[int]]) -> None:
        found = items.get([])
        found.append(n)
        if n == 2:
            raise ValueError
        items.set(found)
        if n == 3:
            raise ValueError

    with TestDriver(app) as driver:
        for n in (1, 2, 3, 4):
            driver.send(numbers, n, key="a")

        assert driver.store_of(keep, "items", key="a").get() == [1, 4]


def test_what_a_test_does_to_the_value_it_looked_at_is_its_own(app, numbers):
    @app.process(numbers)
    def keep(n: int, items: Value[list[int]]) -> None:
        items.set([*items.get([]), n])

    with TestDriver(app) as driver:
        driver.send(numbers, 1, key="a")
        driver.store_of(keep, "items", key="a").get().append(99)
        driver.send(numbers, 2, key="a")

        assert driver.store_of(keep, "items", key="a").get() == [1, 2]


def test_resources_are_opened_once_closed_at_the_end_and_anew_after_a_crash(app, numbers, totals):
    life = []

    @app.resource
    def model() -> Iterator[list[int]]:
        life.append("open")
        yield [10]
        life.append("close")

    @app.process(numbers, to=totals)
    def use(n: int, m: list[int] = model) -> int:
        return n * m[0]

    with TestDriver(app) as driver:
        driver.send(numbers, 2, key="a")
        driver.crash()
        driver.send(numbers, 3, key="a")
        assert values(driver, totals) == [20, 30]
        assert life == ["open", "close", "open"]
    assert life == ["open", "close", "open", "close"]


def test_a_resource_is_closed_when_the_test_fails(app, numbers):
    life = []

    @app.resource
    def model() -> Iterator[int]:
        yield 1
        life.append("close")

    @app.process(numbers)
    def use(n: int, m: int = model) -> None: ...

    with pytest.raises(ZeroDivisionError), TestDriver(app):
        raise ZeroDivisionError
    assert life == ["close"]


def test_a_resource_can_be_replaced(app, numbers, totals):
    @app.resource
    def model() -> Iterator[list[int]]:
        raise AssertionError("not in a test")
        yield [0]

    @app.process(numbers, to=totals)
    def use(n: int, m: list[int] = model) -> int:
        return n * m[0]

    with TestDriver(app, resources={"model": [7]}) as driver:
        driver.send(numbers, 2, key="a")

        assert values(driver, totals) == [14]


def test_fail_raises_from_send_with_the_cause_and_again_behind_it(app, numbers, totals):
    broken = [True]

    @app.process(numbers, to=totals)
    def check(n: int, total: Value[int]) -> int:
        if n == 2 and broken[0]:
            raise KeyError("missing")
        return total.add(n)

    with TestDriver(app) as driver:
        driver.send(numbers, 1, key="a")
        for _ in range(2):
            with pytest.raises(HandlerError) as caught:
                driver.send(numbers, 2, key="a")
            assert isinstance(caught.value.__cause__, KeyError)
            assert caught.value.offset == 1
        with pytest.raises(HandlerError):
            driver.crash()
        broken[0] = False
        driver.resume()

        assert values(driver, totals) == [1, 3, 5]


def test_a_topic_nobody_reads_is_refused(app, numbers, totals, count):
    with TestDriver(app) as driver, pytest.raises(DeclarationError) as caught:
        driver.send(totals, 1, key="a")
    assert "numbers" in caught.value.fix


def test_views_of_state_say_what_they_need(app, numbers):
    shared = app.store("shared", Value[int])

    @app.process(numbers)
    def use(n: int, s: Value[int] = shared) -> None: ...

    @app.batch(numbers)
    def many(batch: list[int], per_task: PerTask[Value[int]], by_key: ByKey[str, Value[int]]) -> None:
        per_task.add(len(batch))
        by_key["a"].add(len(batch))

    with TestDriver(app, partitions=2) as driver:
        driver.send(numbers, 1, key="a")

        assert driver.store_of(many, "by_key", key="a").get() == 1
        with pytest.raises(DeclarationError, match="key="):
            driver.store(shared)
        with pytest.raises(DeclarationError, match="partition="):
            driver.store_of(many, "per_task")
        with pytest.raises(DeclarationError, match="partition="):
            driver.store_of(many, "per_task", key="a")
        with pytest.raises(DeclarationError, match="per_task"):
            driver.store_of(many, "wrong", key="a")
        with pytest.raises(DeclarationError, match="store_of"):
            driver.store(Value(1), key="a")


def test_an_app_that_feeds_itself_for_ever_is_stopped(app, numbers, monkeypatch):
    monkeypatch.setattr("streamlet.testing.worker._MOST_ROUNDS", 50)

    @app.process(numbers, to=numbers)
    def again(n: int) -> int:
        return n + 1

    with TestDriver(app) as driver, pytest.raises(NeverQuiet):
        driver.send(numbers, 1, key="a")


def test_commit_records_name_positions_that_belong_together(app, numbers, totals):
    @app.process(numbers)
    def move(n: int) -> Record[str, int]:
        return Record("x", n)

    @app.process(move, to=totals)
    def count(n: int, total: Value[int]) -> int:
        return total.add(n)

    with TestDriver(app) as driver:
        driver.send(numbers, 1, key="a")

        records = {}
        for kept in driver._broker.from_offset(Partition("app-commits", 0), 0):
            records[kept.key()] = decode_commit(kept.value())
        assert records[b"numbers/0"].source == {"numbers": 1}
        assert records[b"numbers/0"].repartition == {"app-move-repartition": {0: 1}}
        assert records[b"move/0"].source == {"app-move-repartition": 1}
        # the value and the stream time, then the commit's marker, which the next offset leaves out
        assert records[b"move/0"].changelog == {"count-total": 2}


def test_a_batch_that_waits_is_called_at_the_commit(app, numbers, totals):
    @app.batch(numbers, to=totals, within=minutes(5), errors=dead_letter("dead"))
    def many(batch: list[Record[str, int]]) -> Iterator[Record[str, int]]:
        yield Record("n", len(batch))

    with TestDriver(app) as driver:
        driver.send(numbers, 1, key="a")
        driver.send(numbers, 1, key="a")
        driver.advance(milliseconds(1))
        assert values(driver, totals) == []
        driver.commit()

        assert values(driver, totals) == [2]
