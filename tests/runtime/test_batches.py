"""Batch handlers: what they are called with, how a culprit is found, and what happens around it."""

from collections.abc import Iterator

import pytest

from streamlet import (
    App,
    ByKey,
    HandlerError,
    PerTask,
    Record,
    RetryError,
    Set,
    TestDriver,
    Value,
    dead_letter,
    milliseconds,
    seconds,
    skip,
)


def values(driver, topic):
    return [record.value for record in driver.read(topic)]


@pytest.fixture
def app():
    return App("app")


@pytest.fixture
def events(app):
    return app.topic("events", key=str, value=int)


@pytest.fixture
def out(app):
    return app.topic("out", key=str, value=int)


def test_a_batch_has_at_most_its_size_and_ends_with_the_commit(app, events, out):
    sizes = []

    @app.batch(events, to=out, size=3)
    def add(batch: list[Record[str, int]]) -> Iterator[Record[str, int]]:
        sizes.append(len(batch))
        yield Record(batch[0].key, sum(record.value for record in batch))

    with TestDriver(app, autocommit=False) as driver:
        for n in range(1, 8):
            driver.send(events, n, key="a", timestamp=n)
        driver.commit()

        assert sizes == [3, 3, 1]
        assert [(record.value, record.timestamp) for record in driver.read(out)] == [(6, 3), (15, 6), (7, 7)]


def test_a_batch_waits_within_and_no_longer_than_the_commit_interval(app, events):
    seen = []

    @app.batch(events, within=milliseconds(50))
    def take(batch: list[int]) -> None:
        seen.append(list(batch))

    with TestDriver(app) as driver:
        driver.send(events, 1, key="a")
        driver.send(events, 2, key="a")
        assert seen == []
        driver.advance(milliseconds(50))

        assert seen == [[1, 2]]


def test_the_commit_interval_ends_a_longer_wait(app, events):
    seen = []

    @app.batch(events, within=seconds(5))
    def take(batch: list[int]) -> None:
        seen.append(list(batch))

    with TestDriver(app) as driver:
        driver.send(events, 1, key="a")
        driver.advance(milliseconds(99))
        assert seen == []
        driver.advance(milliseconds(1))

        assert seen == [[1]]


def test_only_the_culprit_meets_the_policy(app, events, out):
    @app.batch(events, to=out, size=10, errors=dead_letter("dead"))
    def check(batch: list[Record[str, int]], seen: PerTask[Set[int]], totals: ByKey[str, Value[int]]) -> Iterator[Record[str, int]]:
        for record in batch:
            seen.add(record.value)
            yield Record(record.key, totals[record.key].add(record.value))
            if record.value == 3:
                raise ValueError

    with TestDriver(app, autocommit=False) as driver:
        for n in (1, 2, 3, 4):
            driver.send(events, n, key="a" if n % 2 else "b")
        driver.commit()

        assert [(record.key, record.value) for record in driver.read(out)] == [("a", 1), ("b", 2), ("b", 6)]
        assert set(driver.store_of(check, "seen")) == {1, 2, 4}
        assert driver.store_of(check, "totals", key="a").get() == 1
        assert [(letter.key, letter.value) for letter in driver.read("dead")] == [(b"a", (3).to_bytes(8, "big"))]


def test_the_culprit_is_retried_as_often_as_the_policy_says(app, events):
    calls = []

    @app.batch(events, errors=dead_letter("dead", retries=2, backoff=seconds(1)))
    def refuse(batch: list[int]) -> None:
        calls.append(list(batch))
        if 2 in batch:
            raise ValueError

    with TestDriver(app, autocommit=False) as driver:
        driver.send(events, 1, key="a")
        driver.send(events, 2, key="a")
        driver.commit()

        assert calls == [[1, 2], [1], [2], [2], [2]]
        assert len(driver.read("dead")) == 1
        assert driver.now == 2000


def test_a_batch_of_one_is_not_called_twice_to_find_its_culprit(app, events):
    calls = []

    @app.batch(events, errors=skip)
    def refuse(batch: list[int]) -> None:
        calls.append(list(batch))
        raise ValueError

    with TestDriver(app) as driver:
        driver.send(events, 1, key="a")

        assert calls == [[1]]


def test_fail_stops_before_the_culprit_with_everything_before_it_committed(app, events, out):
    unlucky = {3}

    @app.batch(events, to=out, size=10)
    def check(batch: list[Record[str, int]], total: PerTask[Value[int]]) -> Iterator[Record[str, int]]:
        for record in batch:
            if record.value in unlucky:
                raise ValueError(record.value)
            yield Record(record.key, total.add(record.value))

    with TestDriver(app, autocommit=False) as driver:
        for n in (1, 2, 3, 4):
            driver.send(events, n, key="a")
        with pytest.raises(HandlerError) as caught:
            driver.commit()
        assert (caught.value.handler, caught.value.offset) == ("check", 2)
        assert values(driver, out) == [1, 3]

        driver.resume()
        with pytest.raises(HandlerError):
            driver.commit()
        assert values(driver, out) == []

        unlucky.clear()
        driver.resume()
        driver.commit()
        assert values(driver, out) == [6, 10]


def test_resume_with_skip_goes_on_behind_the_culprit(app, events, out):
    @app.batch(events, to=out)
    def check(batch: list[Record[str, int]]) -> Iterator[Record[str, int]]:
        for record in batch:
            if record.value == 2:
                raise ValueError
            yield record

    with TestDriver(app) as driver:
        driver.send(events, 1, key="a")
        with pytest.raises(HandlerError):
            driver.send(events, 2, key="a")
        with pytest.raises(HandlerError):
            driver.send(events, 3, key="a")  # behind a parked record
        driver.resume(skip=True)

        assert values(driver, out) == [1, 3]


def test_a_skipped_record_stays_skipped_when_a_later_batch_goes_back(app, events, out):
    @app.process(events, to=out)
    def check(n: int) -> int:
        if n == 1:
            raise ValueError
        return n

    @app.batch(events)
    def fragile(batch: list[int]) -> None:
        if 3 in batch:
            raise ValueError

    with TestDriver(app, autocommit=False) as driver:
        with pytest.raises(HandlerError):
            driver.send(events, 1, key="a")
        driver.resume(skip=True)
        driver.send(events, 2, key="a")
        driver.send(events, 3, key="a")
        with pytest.raises(HandlerError) as caught:
            driver.commit()

        assert (caught.value.handler, caught.value.offset) == ("fragile", 2)
        assert values(driver, out) == [2]


def test_what_a_batch_handler_holds_is_done_when_a_sibling_parks_the_task(app, events, out):
    @app.batch(events, to=out, within=seconds(5))
    def gather(batch: list[Record[str, int]]) -> Iterator[Record[str, int]]:
        yield from batch

    @app.process(events)
    def check(n: int) -> None:
        if n == 3:
            raise ValueError

    with TestDriver(app, autocommit=False) as driver:
        driver.send(events, 1, key="a")
        driver.send(events, 2, key="a")
        with pytest.raises(HandlerError):
            driver.send(events, 3, key="a")
        driver.commit()

        assert values(driver, out) == [1, 2]


def test_a_batch_that_misses_something_waits_and_loses_nothing(app, events, out):
    away = [True]

    @app.batch(events, to=out, errors=skip)
    def ask(batch: list[Record[str, int]], total: PerTask[Value[int]]) -> Iterator[Record[str, int]]:
        for record in batch:
            total.add(record.value)
            if away[0]:
                raise RetryError("the service is away")
            yield Record(record.key, total.get(0))

    with TestDriver(app) as driver:
        driver.send(events, 1, key="a")
        driver.send(events, 2, key="a")
        assert values(driver, out) == []
        away.clear()
        away.append(False)
        driver.advance(seconds(1))

        assert values(driver, out) == [1, 3]


def test_two_batch_handlers_of_one_source_each_get_every_record(app, events, out):
    @app.batch(events, to=out, size=2)
    def twos(batch: list[Record[str, int]]) -> Iterator[Record[str, int]]:
        yield Record("two", len(batch))

    @app.batch(events, to=out, size=3)
    def threes(batch: list[Record[str, int]]) -> Iterator[Record[str, int]]:
        yield Record("three", len(batch))

    with TestDriver(app, autocommit=False) as driver:
        for n in range(5):
            driver.send(events, n, key="a")
        driver.commit()

        found = [(record.key, record.value) for record in driver.read(out)]
        assert [value for key, value in found if key == "two"] == [2, 2, 1]
        assert [value for key, value in found if key == "three"] == [3, 2]
