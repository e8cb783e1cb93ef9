"""Several sources of one task, and what a handler is told about its record."""

from collections.abc import Iterator

import msgspec
import pytest

from streamlet import App, Context, HandlerError, PerTask, Record, RetryError, TestDriver, Value, milliseconds, seconds, skip
from streamlet.ids import TaskId


def values(driver, topic):
    return [record.value for record in driver.read(topic)]


@pytest.fixture
def app():
    return App("app")


def test_several_sources_are_merged_by_timestamp(app):
    left, right = app.topic("left", key=str, value=str), app.topic("right", key=str, value=str)
    out = app.topic("out", key=str, value=str)

    @app.process(left, right, to=out)
    def same(text: str) -> str:
        return text

    with TestDriver(app, autocommit=False) as driver:
        for at in (1, 4, 5, 9):
            driver.send(left, f"left {at}", key="a", timestamp=at)
        for at in (2, 3, 6):
            driver.send(right, f"right {at}", key="a", timestamp=at)
        driver.crash()  # now all are there at once
        driver.commit()

        assert values(driver, out) == ["left 1", "right 2", "right 3", "left 4", "left 5", "right 6", "left 9"]


class Seen(msgspec.Struct, frozen=True):
    """A record that says itself when it happened."""

    at: int
    text: str


def test_several_sources_are_merged_by_the_time_their_records_declare(app):
    declared = app.topic("declared", key=str, value=Seen, timestamp=lambda seen: seen.at, errors=skip)
    plain, out = app.topic("plain", key=str, value=str), app.topic("out", key=str, value=str)

    @app.process(declared, plain, to=out)
    def same(value: Seen | str | None) -> str | None:
        return value.text if isinstance(value, Seen) else value

    with TestDriver(app, autocommit=False) as driver:
        for at in (1, 4, 6, 8):  # written in one moment, long after they happened
            driver.send(declared, Seen(at, f"declared {at}"), key="a", timestamp=1000)
        driver.send_raw(declared, b"no time to be found here", key=b"a", timestamp=7)
        driver.send(declared, None, key="a", timestamp=9)
        driver.send(declared, Seen(11, "declared 11"), key="a", timestamp=1)
        for at in (2, 3, 5, 10):
            driver.send(plain, f"plain {at}", key="a", timestamp=at)
        driver.crash()  # now all are there at once
        driver.commit()

        expected = ["declared 1", "plain 2", "plain 3", "declared 4", "plain 5", "declared 6", "declared 8", "plain 10", "declared 11"]
        assert values(driver, out) == expected


def test_a_source_whose_next_time_cannot_be_decoded_yet_holds_the_others_back(app):
    away = [True]

    class FromAfar:
        def encode(self, value: int) -> bytes:
            return str(value).encode()

        def decode(self, data: bytes) -> int:
            if away[0]:
                raise RetryError("the registry is away")
            return int(data)

    declared = app.topic("declared", key=str, value=int, codec=FromAfar(), timestamp=lambda at: at)
    plain, out = app.topic("plain", key=str, value=int), app.topic("out", key=str, value=int)

    @app.process(declared, plain, to=out)
    def same(n: int) -> int:
        return n

    with TestDriver(app, autocommit=False) as driver:
        driver.send(declared, 1, key="a", timestamp=1000)
        driver.send(declared, 3, key="a", timestamp=1000)
        driver.send(plain, 2, key="a", timestamp=2)
        driver.commit()
        assert values(driver, out) == []
        away[0] = False
        driver.advance(seconds(2))
        driver.commit()

        assert values(driver, out) == [1, 2, 3]


def test_handlers_that_share_a_store_see_each_others_writes_in_declaration_order(app):
    orders, payments = app.topic("orders", key=str, value=int), app.topic("payments", key=str, value=int)
    out = app.topic("out", key=str, value=int)
    balance = app.store("balance", Value[int])

    @app.process(orders, to=out)
    def order(n: int, b: Value[int] = balance) -> int:
        return b.add(-n)

    @app.process(payments, to=out)
    def pay(n: int, b: Value[int] = balance) -> int:
        return b.add(n)

    with TestDriver(app, partitions=2) as driver:
        driver.send(payments, 10, key="a")
        driver.send(orders, 3, key="a")

        assert values(driver, out) == [10, 7]
        assert driver.store(balance, key="a").get() == 7


def test_context_tells_where_the_record_came_from(app):
    numbers = app.topic("numbers", key=str, value=int)
    seen = []

    @app.process(numbers)
    def look(n: int, ctx: Context) -> None:
        seen.append((ctx.task, ctx.topic, ctx.partition, ctx.offset, ctx.timestamp, ctx.key, tuple(ctx.headers), ctx.stream_time))

    with TestDriver(app) as driver:
        driver.send(numbers, 1, key="a", timestamp=50, headers=[("h", b"1")])
        driver.send(numbers, 2, key="b", timestamp=40)

    assert seen == [
        (TaskId("numbers", 0), "numbers", 0, 0, 50, "a", (("h", b"1"),), 50),
        (TaskId("numbers", 0), "numbers", 0, 1, 40, "b", (), 50),
    ]


def test_stream_time_survives_a_crash_and_can_be_moved_by_the_test(app):
    numbers = app.topic("numbers", key=str, value=int)
    seen = []

    @app.process(numbers)
    def look(n: int, ctx: Context, total: Value[int]) -> None:
        seen.append(ctx.stream_time)
        total.add(n)

    with TestDriver(app) as driver:
        driver.send(numbers, 1, key="a", timestamp=500)
        driver.crash()
        driver.send(numbers, 1, key="a", timestamp=10)
        driver.advance_stream(to=900)
        driver.send(numbers, 1, key="a", timestamp=20)

    assert seen == [500, 500, 900]


def test_event_time_comes_from_the_value_where_the_topic_says_so(app):
    numbers, out = app.topic("numbers", key=str, value=int, timestamp=lambda n: n * 1000), app.topic("out", key=str, value=int)

    @app.process(numbers, to=out)
    def same(n: int) -> int:
        return n

    with TestDriver(app) as driver:
        driver.send(numbers, 3, key="a", timestamp=1)

        assert driver.read(out) == [Record("a", 3, 3000, ())]


def test_a_slow_handler_stops_at_the_deadline_and_commits_what_it_did(app):
    numbers, out = app.topic("numbers", key=str, value=int), app.topic("out", key=str, value=int)
    drivers, committed = [], []

    @app.process(numbers)
    def many(n: int) -> Iterator[Record[str, int]]:
        for i in range(n):
            yield Record("x", i)

    @app.process(many, to=out)
    def slow(n: int, total: Value[int]) -> int:
        committed.append(len(drivers[0].read(out)))
        drivers[0]._clock.pause(0.06)  # two of them are more than the commit interval of 100 ms
        return total.add(n)

    with TestDriver(app) as driver:
        drivers.append(driver)
        driver.send(numbers, 5, key="a")

        assert committed == [0, 0, 2, 0, 2]
        assert driver.now == 300


def test_a_handler_that_misses_something_waits_and_nothing_passes_it(app):
    numbers, out = app.topic("numbers", key=str, value=int), app.topic("out", key=str, value=int)
    away = [True]

    @app.process(numbers, to=out)
    def ask(n: int, total: Value[int]) -> int:
        total.add(n)
        if away[0]:
            raise RetryError("the service is away")
        return total.get(0)

    with TestDriver(app) as driver:
        driver.send(numbers, 1, key="a")
        driver.send(numbers, 2, key="a")
        driver.advance(milliseconds(999))
        assert values(driver, out) == []
        away[0] = False
        driver.advance(seconds(1))

        assert values(driver, out) == [1, 3]


def test_other_tasks_go_on_beside_a_parked_one(app):
    numbers, out = app.topic("numbers", key=str, value=int), app.topic("out", key=str, value=int)

    @app.process(numbers, to=out)
    def check(n: int, total: PerTask[Value[int]]) -> int:
        if n < 0:
            raise ValueError
        return total.add(n)

    with TestDriver(app, partitions=2) as driver:
        here, there = (
            "a",
            next(k for k in "bcdefgh" if driver._broker.place("numbers", k.encode()) != driver._broker.place("numbers", b"a")),
        )
        with pytest.raises(HandlerError):
            driver.send(numbers, -1, key=here)
        driver.send(numbers, 5, key=there)

        assert values(driver, out) == [5]


def test_skip_at_resume_passes_a_record_behind_a_transactions_marker(app):
    """Offsets have gaps behind every transaction, so the record that failed may stand further on than the position."""
    numbers, out = app.topic("numbers", key=str, value=int), app.topic("out", key=str, value=int)

    @app.process(numbers)
    def move(n: int) -> Iterator[Record[str, int]]:
        yield Record("x", n)

    @app.process(move, to=out)
    def count(n: int, total: Value[int]) -> int:
        if n == 2:
            raise ValueError
        return total.add(n)

    with TestDriver(app) as driver:
        driver.send(numbers, 1, key="a")
        with pytest.raises(HandlerError) as caught:
            driver.send(numbers, 2, key="a")
        assert caught.value.offset == 2, "offset 1 is the first commit's marker"
        driver.resume(skip=True)
        driver.send(numbers, 3, key="a")

        assert values(driver, out) == [1, 4]
