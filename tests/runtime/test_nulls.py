"""Null values reach only who asked for them; a null key at key-level state follows the error policy."""

import pytest

from streamlet import App, HandlerError, PerTask, Record, TestDriver, Value, dead_letter, skip


def values(driver, topic):
    return [record.value for record in driver.read(topic)]


def counts(driver):
    [task] = driver._worker.tasks.values()
    return task.counts


def test_null_values_reach_only_handlers_whose_hint_admits_them():
    app = App("app")
    numbers, out = app.topic("numbers", key=str, value=int), app.topic("out", key=str, value=str)

    @app.process(numbers, to=out)
    def wants(n: int | None, key: str) -> str:
        return f"{key}={n}"

    @app.process(numbers, to=out)
    def plain(n: int) -> str:
        return f"plain {n}"

    @app.batch(numbers, to=out)
    def many(batch: list[Record[str, int]]) -> Record[str, str] | None:
        return None

    with TestDriver(app) as driver:
        driver.send(numbers, None, key="a")
        driver.send(numbers, 1, key="a")

        assert values(driver, out) == ["a=None", "a=1", "plain 1"]
        assert counts(driver).nulls == 2


def test_a_tombstone_goes_out_and_passes_a_fused_follower_by():
    app = App("app")
    numbers, out = app.topic("numbers", key=str, value=int), app.topic("out", key=str, value=int)
    seen = []

    @app.process(numbers, to=out)
    def drop(record: Record[str, int]) -> Record[str, int]:
        return Record(record.key, None)

    @app.process(drop)
    def follow(n: int) -> None:
        seen.append(n)

    with TestDriver(app) as driver:
        driver.send(numbers, 1, key="a")

        assert [(record.key, record.value) for record in driver.read(out)] == [("a", None)]
        assert seen == []


def test_a_tombstone_through_a_repartition_topic_is_skipped_too():
    app = App("app")
    numbers, out = app.topic("numbers", key=str, value=int), app.topic("out", key=str, value=int)

    @app.process(numbers)
    def rename(n: int) -> Record[str, int]:
        return Record("x", None if n == 0 else n)

    @app.process(rename, to=out)
    def count(n: int, total: Value[int]) -> int:
        return total.add(n)

    with TestDriver(app) as driver:
        driver.send(numbers, 0, key="a")
        driver.send(numbers, 2, key="a")

        assert values(driver, out) == [2]


@pytest.mark.parametrize("kind", [str, int])
def test_a_null_key_at_key_level_state_follows_the_policy_and_spares_the_others(kind):
    app = App("app")
    numbers, out = app.topic("numbers", key=kind, value=int), app.topic("out", key=kind, value=str)

    @app.process(numbers, to=out, errors=skip)
    def by_key(n: int, total: Value[int]) -> str:
        return f"by key {total.add(n)}"

    @app.process(numbers, to=out)
    def by_task(n: int, total: PerTask[Value[int]]) -> str:
        return f"by task {total.add(n)}"

    @app.process(numbers, to=out)
    def stateless(n: int, key: kind | None) -> str:
        return f"stateless {n} {key}"

    with TestDriver(app) as driver:
        driver.send(numbers, 1)
        driver.send(numbers, 2, key=kind(5))

        assert values(driver, out) == ["by task 1", "stateless 1 None", "by key 2", "by task 3", f"stateless 2 {kind(5)}"]
        assert counts(driver).skipped == 1


def test_a_null_key_that_fails_one_handler_leaves_no_dead_letter_of_another():
    app = App("app")
    numbers = app.topic("numbers", key=str, value=int)

    @app.process(numbers, errors=dead_letter("dead"))
    def lenient(n: int, total: Value[int]) -> None:
        total.add(n)

    @app.process(numbers)
    def strict(n: int, total: Value[int]) -> None:
        total.add(n)

    with TestDriver(app) as driver:
        with pytest.raises(HandlerError) as caught:
            driver.send(numbers, 1)

        assert caught.value.handler == "strict"
        assert driver.read("dead") == []


def test_a_key_that_state_cannot_encode_follows_the_topics_policy():
    app = App("app")
    numbers = app.topic("numbers", key=int, key_codec="json", value=int, errors=dead_letter("dead"))
    out = app.topic("out", key=int, key_codec="json", value=int)

    @app.process(numbers, to=out)
    def count(n: int, total: Value[int]) -> int:
        return total.add(n)

    with TestDriver(app) as driver:
        driver.send_raw(numbers, (1).to_bytes(8, "big"), key=str(2**80).encode())
        driver.send(numbers, 1, key=7)

        assert [letter.key for letter in driver.read("dead")] == [str(2**80).encode()]
        assert values(driver, out) == [1]


def test_a_text_key_that_is_no_text_follows_the_topics_policy_although_no_handler_asks_for_it():
    app = App("app")
    numbers = app.topic("numbers", key=str, value=int, errors=dead_letter("dead"))
    out = app.topic("out", key=str, value=int)

    @app.process(numbers, to=out)
    def count(n: int, total: Value[int]) -> int:
        return total.add(n)

    one = (1).to_bytes(8, "big")
    keys = [b"plain", "Žofie".encode(), b"\xc5", b"\xbd", b"\xff\xfe", b"", b"a\0b", b"\xed\xa0\x80", "Žofie".encode()]  # Ž is c5 bd
    with TestDriver(app, autocommit=False) as driver:
        for key in keys:
            driver.send_raw(numbers, one, key=key)
        driver.crash()  # now they come in one batch
        driver.commit()

        assert [letter.key for letter in driver.read("dead")] == [b"\xc5", b"\xbd", b"\xff\xfe", b"\xed\xa0\x80"]
        assert [(record.key, record.value) for record in driver.read(out)] == [
            ("plain", 1),
            ("Žofie", 1),
            ("", 1),
            ("a\0b", 1),
            ("Žofie", 2),
        ]


def test_a_key_that_cannot_be_read_is_not_taken_for_the_value():
    app = App("app")
    numbers = app.topic("numbers", key=str, value=int)

    @app.process(numbers)
    def count(n: int, total: Value[int]) -> None:
        total.add(n)

    with TestDriver(app) as driver, pytest.raises(HandlerError) as caught:
        driver.send_raw(numbers, (1).to_bytes(8, "big"), key=b"\xff")

    assert "as str" in str(caught.value)


def test_a_key_of_bytes_may_be_anything():
    app = App("app")
    numbers, out = app.topic("numbers", key=bytes, value=int), app.topic("out", key=bytes, value=int)

    @app.process(numbers, to=out)
    def count(n: int, total: Value[int]) -> int:
        return total.add(n)

    with TestDriver(app) as driver:
        driver.send(numbers, 1, key=b"\xff\xfe")

        assert values(driver, out) == [1]
