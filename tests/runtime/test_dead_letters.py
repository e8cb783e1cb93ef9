"""Dead letters: the original bytes, the reason beside them, inside the same commit; and retries before them."""

import pytest

from streamlet import App, HandlerError, TestDriver, Value, dead_letter, seconds, skip


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError


@pytest.fixture
def app():
    return App("app")


def test_a_dead_letter_is_the_record_as_it_came_with_the_reason_in_headers(app):
    numbers = app.topic("numbers", key=str, value=int)

    @app.process(numbers, errors=dead_letter("dead"))
    def refuse(n: int) -> None:
        raise ValueError("too much")

    with TestDriver(app, partitions=2) as driver:
        driver.send(numbers, 5, key="b", timestamp=42, headers=[("trace", b"x")])

        [letter] = driver.read("dead")
        assert (letter.key, letter.value, letter.timestamp) == (b"b", (5).to_bytes(8, "big"), 42)
        assert letter.headers[0] == ("trace", b"x")
        assert dict(letter.headers[1:]) == {
            "streamlet-topic": b"numbers",
            "streamlet-partition": str(driver._broker.place("numbers", b"b").number).encode(),
            "streamlet-offset": b"0",
            "streamlet-handler": b"refuse",
            "streamlet-error": b"ValueError",
            "streamlet-reason": b"too much",
        }


def test_bytes_that_do_not_decode_follow_the_topics_policy(app):
    dead = app.topic("numbers", key=str, value=int, errors=dead_letter("dead"))
    skipped = app.topic("skipped", key=str, value=int, errors=skip)
    failing = app.topic("failing", key=str, value=int)
    out = app.topic("out", key=str, value=int)

    @app.process(dead, skipped, failing, to=out)
    def same(n: int, key: str) -> int:
        return n

    with TestDriver(app) as driver:
        for topic in (dead, skipped):
            driver.send_raw(topic, b"short", key=b"a")
            driver.send_raw(topic, (7).to_bytes(8, "big"), key=b"\xff")  # no UTF-8
            driver.send(topic, 1, key="a")
        with pytest.raises(HandlerError) as caught:
            driver.send_raw(failing, b"short", key=b"a")

        assert [(letter.key, letter.value) for letter in driver.read("dead")] == [(b"a", b"short"), (b"\xff", (7).to_bytes(8, "big"))]
        assert [record.value for record in driver.read(out)] == [1, 1]
        assert (caught.value.topic, caught.value.offset) == ("failing", 0)


def test_retries_begin_from_clean_state_and_wait_by_the_drivers_clock(app):
    numbers, out = app.topic("numbers", key=str, value=int), app.topic("out", key=str, value=int)
    tries = []

    @app.process(numbers, to=out, errors=dead_letter("dead", retries=2, backoff=seconds(30)))
    def flaky(n: int, total: Value[int]) -> int:
        tries.append(total.get(0))
        total.add(n)
        if len(tries) < 3:
            raise ConnectionError
        return total.get(0)

    with TestDriver(app) as driver:
        driver.send(numbers, 5, key="a")

        assert tries == [0, 0, 0]
        assert [record.value for record in driver.read(out)] == [5]
        assert driver.read("dead") == []
        assert driver.now == 60_000


def test_exceptions_outside_on_are_not_retried_and_fail(app):
    numbers = app.topic("numbers", key=str, value=int)
    tries = []

    @app.process(numbers, errors=dead_letter("dead", retries=2, on=KeyError))
    def refuse(n: int) -> None:
        tries.append(n)
        raise KeyError(n) if n == 1 else ValueError(n)

    with TestDriver(app) as driver:
        driver.send(numbers, 1, key="a")
        with pytest.raises(HandlerError):
            driver.send(numbers, 2, key="a")

        assert tries == [1, 1, 1, 2]
        assert len(driver.read("dead")) == 1


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("\ud800"), b"\\ud800"),
        (ValueError("x" * 2_000_000), b"x" * 4000),
        (Unspeakable(), b"(no message: RuntimeError)"),
    ],
    ids=["surrogate", "long", "unspeakable"],
)
def test_any_exception_makes_a_sound_header(app, error, reason):
    numbers = app.topic("numbers", key=str, value=int)

    @app.process(numbers, errors=dead_letter("dead"))
    def refuse(n: int) -> None:
        raise error

    with TestDriver(app) as driver:
        driver.send(numbers, 1, key="a")

        assert dict(driver.read("dead")[0].headers)["streamlet-reason"] == reason


def test_a_dead_letter_vanishes_with_a_crash_and_comes_again(app):
    numbers = app.topic("numbers", key=str, value=int)

    @app.process(numbers, errors=dead_letter("dead"))
    def refuse(n: int) -> None:
        raise ValueError

    with TestDriver(app, autocommit=False) as driver:
        driver.send(numbers, 1, key="a")
        driver.crash()
        assert driver.read("dead") == []
        driver.commit()

        assert len(driver.read("dead")) == 1
