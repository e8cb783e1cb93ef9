"""What a failed record takes with it: an input record at one handler of its source, with all that is fused below."""

from collections.abc import Iterator

import pytest

from streamlet import App, Context, HandlerError, Log, Map, Record, TestDriver, Value, dead_letter, skip


def values(driver, topic):
    return [record.value for record in driver.read(topic)]


def test_a_skipped_record_leaves_no_state_and_no_output():
    app = App("app")
    numbers, doubled = app.topic("numbers", key=str, value=int), app.topic("doubled", key=str, value=int)

    @app.process(numbers, to=doubled, errors=skip)
    def double(n: int, total: Value[int], seen: Log[int], by: Map[str, int]) -> Iterator[int]:
        total.add(n)
        seen.append(n)
        by["last"] = n
        yield n
        if n < 0:
            raise ValueError(n)
        yield 2 * n

    with TestDriver(app) as driver:
        for n in (1, -5, 2):
            driver.send(numbers, n, key="a")

        assert values(driver, doubled) == [1, 2, 2, 4]
        assert driver.store_of(double, "total", key="a").get() == 3
        assert list(driver.store_of(double, "seen", key="a")) == [1, 2]
        assert dict(driver.store_of(double, "by", key="a").items()) == {"last": 2}


def test_siblings_of_a_failed_handler_keep_what_they_did():
    app = App("app")
    numbers, out = app.topic("numbers", key=str, value=int), app.topic("out", key=str, value=str)
    total = app.store("total", Value[int])

    @app.process(numbers, to=out)
    def first(n: int, t: Value[int] = total) -> str:
        return f"first {t.add(n)}"

    @app.process(numbers, to=out, errors=skip)
    def second(n: int, t: Value[int] = total) -> Iterator[str]:
        yield f"second {t.add(100)}"
        raise ValueError

    @app.process(numbers, to=out)
    def third(n: int, t: Value[int] = total) -> str:
        return f"third {t.add(n)}"

    with TestDriver(app) as driver:
        driver.send(numbers, 1, key="a")

        assert values(driver, out) == ["first 1", "third 2"]
        assert driver.store(total, key="a").get() == 2


def test_a_failure_below_takes_the_handler_above_with_it():
    app = App("app")
    numbers, out, mid = app.topic("numbers", key=str, value=int), app.topic("out", key=str, value=int), app.topic("mid", key=str, value=int)

    @app.process(numbers, to=mid, errors=skip)
    def above(n: int, total: Value[int]) -> int:
        return total.add(n)

    @app.process(above, to=out)
    def below(n: int) -> int:
        if n > 1:
            raise ValueError(n)
        return n

    with TestDriver(app) as driver:
        driver.send(numbers, 1, key="a")
        driver.send(numbers, 1, key="a")

        assert (values(driver, mid), values(driver, out)) == ([1], [1])
        assert driver.store_of(above, "total", key="a").get() == 1


def test_neighbours_in_the_same_commit_stay():
    app = App("app")
    numbers, out = app.topic("numbers", key=str, value=int), app.topic("out", key=str, value=int)

    @app.process(numbers, to=out, errors=skip)
    def count(n: int, total: Value[int]) -> int:
        total.add(n)
        if n == 2:
            raise ValueError
        return total.get(0)

    with TestDriver(app, autocommit=False) as driver:
        for n in (1, 2, 3):
            driver.send(numbers, n, key="a")
        driver.crash()  # now the three come in one batch
        driver.commit()

        assert values(driver, out) == [1, 4]


def test_fail_undoes_siblings_too_since_the_record_was_not_processed():
    app = App("app")
    numbers, out = app.topic("numbers", key=str, value=int), app.topic("out", key=str, value=int)

    @app.process(numbers, to=out, errors=dead_letter("dead"))
    def first(n: int, total: Value[int]) -> int:
        if n < 0:
            raise ValueError
        return total.add(n)

    @app.process(numbers)
    def second(n: int) -> None:
        if n in (-1, 13):
            raise RuntimeError("unlucky")

    with TestDriver(app) as driver:
        driver.send(numbers, 1, key="a")
        for n in (13, -1):
            with pytest.raises(HandlerError) as caught:
                driver.send(numbers, n, key="a")
            assert (caught.value.handler, caught.value.topic, caught.value.partition) == ("second", "numbers", 0)
            assert isinstance(caught.value.__cause__, RuntimeError)
            assert values(driver, out) == ([1] if n == 13 else [])
            assert driver.read("dead") == []
            driver.resume(skip=True) if n == 13 else None

        assert driver.store_of(first, "total", key="a").get() == 1


def test_a_follower_that_fails_does_not_leave_its_record_in_the_siblings_context():
    app = App("app")
    numbers, out = app.topic("numbers", key=str, value=int), app.topic("out", key=str, value=str)

    @app.process(numbers, errors=dead_letter("dead", retries=1))
    def rename(record: Record[str, int], ctx: Context) -> Record[str, int]:
        assert (ctx.key, ctx.timestamp, tuple(ctx.headers)) == ("a", 7, (("h", b"1"),))
        return Record("renamed", record.value, timestamp=99, headers=[("h", b"2")])

    @app.process(rename)
    def break_down(n: int) -> None:
        raise ValueError

    @app.process(numbers, to=out)
    def show(n: int, ctx: Context) -> str:
        return f"{ctx.key} {ctx.timestamp} {ctx.headers}"

    with TestDriver(app) as driver:
        driver.send(numbers, 1, key="a", timestamp=7, headers=[("h", b"1")])

        assert values(driver, out) == ["a 7 (('h', b'1'),)"]
        assert [dict(letter.headers)["streamlet-error"] for letter in driver.read("dead")] == [b"ValueError"]


def test_a_value_that_state_cannot_hold_is_the_records_fault():
    app = App("app")
    numbers, out = app.topic("numbers", key=str, value=str), app.topic("out", key=str, value=int)

    @app.process(numbers, to=out, errors=skip)
    def count(n: str, total: Value[int]) -> int:
        return total.add(int(n))

    with TestDriver(app) as driver:
        driver.send(numbers, str(2**70), key="a")
        driver.send(numbers, "5", key="a")

        assert values(driver, out) == [5]
