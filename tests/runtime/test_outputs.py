"""Where outputs go, under which key, with which time and headers."""

from collections.abc import Iterator

import pytest

from streamlet import App, Context, HandlerError, Record, Sent, TestDriver, Value


def values(driver, topic):
    return [record.value for record in driver.read(topic)]


@pytest.fixture
def app():
    return App("app")


@pytest.fixture
def numbers(app):
    return app.topic("numbers", key=str, value=int)


@pytest.fixture
def out(app):
    return app.topic("out", key=str, value=int)


def test_outputs_carry_the_inputs_time_and_no_headers(app, numbers, out):
    @app.process(numbers, to=out)
    def same(n: int) -> int:
        return n

    with TestDriver(app) as driver:
        driver.send(numbers, 1, key="a", timestamp=42, headers=[("h", b"1")])

        assert driver.read(out) == [Record("a", 1, 42, ())]


def test_a_record_says_its_key_time_and_headers_itself(app, numbers, out):
    @app.process(numbers, to=out)
    def move(record: Record[str, int]) -> Iterator[Record[str, int]]:
        yield Record("b", record.value)
        yield Record("c", record.value, timestamp=7, headers=record.headers)

    with TestDriver(app) as driver:
        driver.send(numbers, 1, key="a", timestamp=42, headers=[("h", b"1")])

        assert driver.read(out) == [Record("b", 1, 42, ()), Record("c", 1, 7, (("h", b"1"),))]


def test_every_topic_in_to_gets_all_and_keys_are_written_as_each_topic_has_them(app):
    numbers = app.topic("numbers", key=int, value=int)
    first, second = app.topic("first", key=int, value=int), app.topic("second", key=int, key_codec="json", value=int)

    @app.process(numbers, to=(first, second))
    def same(n: int) -> int:
        return n

    with TestDriver(app) as driver:
        driver.send(numbers, 1, key=5)

        assert [record.key for record in driver.read("first")] == [(5).to_bytes(8, "big")]
        assert [record.key for record in driver.read("second")] == [b"5"]


def test_sent_goes_to_its_topic_only(app, numbers, out):
    alerts = app.topic("alerts", key=str, value=str)
    followed = []

    @app.process(numbers, to=out, also=[alerts])
    def check(n: int, key: str) -> Iterator[int | Sent]:
        if n > 10:
            yield alerts.record(key, "large", timestamp=9, headers=[("h", b"1")])
        yield n

    @app.process(check)
    def follow(n: int) -> None:
        followed.append(n)

    with TestDriver(app) as driver:
        driver.send(numbers, 11, key="a", timestamp=3)

        assert driver.read(alerts) == [Record("a", "large", 9, (("h", b"1"),))]
        assert driver.read(out) == [Record("a", 11, 3, ())]
        assert followed == [11]


def test_sent_to_an_undeclared_topic_fails(app, numbers, out):
    @app.process(numbers, also=[app.topic("declared", key=str, value=int)])
    def check(n: int, key: str) -> Sent | None:
        return out.record(key, n)

    with TestDriver(app) as driver, pytest.raises(HandlerError) as caught:
        driver.send(numbers, 1, key="a")
    assert "declared" in caught.value.reason


def test_what_the_hint_does_not_name_is_refused_where_only_sent_may_come(app, numbers):
    @app.process(numbers, also=[app.topic("alerts", key=str, value=int)])
    def check(n: int) -> Iterator[Sent]:
        yield n

    with TestDriver(app) as driver, pytest.raises(HandlerError) as caught:
        driver.send(numbers, 1, key="a")
    assert "int" in caught.value.reason


def test_keeps_key_fuses_a_stateful_follower_and_is_checked_per_record(app, numbers, out):
    @app.process(numbers, keeps_key=True)
    def later(record: Record[str, int]) -> Record[str, int]:
        return Record("other" if record.value < 0 else record.key, record.value, timestamp=record.timestamp + 1)

    @app.process(later, to=out)
    def count(n: int, ctx: Context, total: Value[int]) -> int:
        assert ctx.timestamp == 43
        return total.add(n)

    with TestDriver(app, partitions=3) as driver:
        driver.send(numbers, 5, key="a", timestamp=42)

        assert driver.read(out) == [Record("a", 5, 43, ())]
        with pytest.raises(HandlerError):
            driver.send(numbers, -1, key="a", timestamp=42)


def test_a_repartitioned_key_meets_its_state_whatever_partition_it_came_by(app, out):
    lines = app.topic("lines", value=str)

    @app.process(lines)
    def split(line: str) -> Iterator[Record[str, int]]:
        for word in line.split():
            yield Record(word, 1, headers=[("w", word.encode())])

    @app.process(split, to=out)
    def count(record: Record[str, int], total: Value[int]) -> int:
        assert dict(record.headers) == {"w": record.key.encode()}
        return total.add(record.value)

    with TestDriver(app, partitions=4) as driver:
        for line in ("a b c", "b c d", "c d e"):
            driver.send(lines, line, timestamp=5)

        found = {}
        for record in driver.read(out):
            found.setdefault(record.key, []).append(record.value)
        assert found == {"a": [1], "b": [1, 2], "c": [1, 2, 3], "d": [1, 2], "e": [1]}
        assert driver.store_of(count, "total", key="c").get() == 3


def test_an_output_that_is_also_a_source_is_read_by_the_same_app(app, numbers, out):
    last = app.topic("last", key=str, value=int)

    @app.process(numbers, to=out)
    def double(n: int) -> int:
        return 2 * n

    @app.process(out, to=last)
    def count(n: int, total: Value[int]) -> int:
        return total.add(n)

    with TestDriver(app, partitions=2) as driver:
        driver.send(numbers, 1, key="a")
        driver.send(numbers, 2, key="a")

        assert (values(driver, out), values(driver, last)) == ([2, 4], [2, 6])


def test_a_value_that_cannot_be_encoded_follows_the_handlers_policy(app, numbers, out):
    @app.process(numbers, to=out)
    def wrong(n: int) -> int:
        return "text" if n else 0

    with TestDriver(app) as driver:
        driver.send(numbers, 0, key="a")
        with pytest.raises(HandlerError) as caught:
            driver.send(numbers, 1, key="a")

        assert values(driver, out) == [0]
        assert "text" in caught.value.reason
