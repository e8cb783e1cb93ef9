"""Every shape of handler that can be declared is called as it was written."""

from collections.abc import Generator, Iterable, Iterator
from uuid import UUID

import msgspec
import pytest

from streamlet import App, ByKey, ConfigError, Context, Group, Log, Map, PerTask, Record, Set, TestDriver, Value


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
    return app.topic("out", key=str, value=str)


def test_parameters_may_stand_in_any_order_and_by_name_only(app, numbers, out):
    @app.resource
    def prefix() -> Iterator[str]:
        yield ">"

    @app.process(numbers, to=out)
    def first(n: int, total: Value[int], key: str, ctx: Context, p: str = prefix) -> str:
        return f"{p}{key} {n} {total.add(n)} {ctx.offset}"

    @app.process(numbers, to=out)
    def second(n: int, *, key: str, ctx: Context, total: Value[int], p: str = prefix) -> str:
        return f"{p}{key} {n} {total.add(n)} {ctx.offset}"

    @app.process(numbers, to=out)
    def third(record: Record[str, int], ctx: Context, *, total: Value[int]) -> str:
        return f"{record.key} {record.value} {total.add(record.value)} {record.timestamp} {ctx.topic}"

    with TestDriver(app) as driver:
        driver.send(numbers, 2, key="a", timestamp=7)

        assert values(driver, out) == [">a 2 2 0", ">a 2 2 0", "a 2 2 7 numbers"]


def test_the_return_hint_decides_whether_a_result_is_one_or_many(app, numbers):
    lists, ones = app.topic("lists", key=str, value=list[int]), app.topic("ones", key=str, value=int)

    @app.process(numbers, to=lists)
    def one(n: int) -> list[int]:
        return [n] * n

    @app.process(numbers, to=ones)
    def iterable(n: int) -> Iterable[int]:
        return [n] * n

    @app.process(numbers, to=ones)
    def generator(n: int) -> Generator[int | None]:
        yield from (n * 10, None, n * 100)

    @app.process(numbers, to=ones)
    def maybe(n: int) -> int | None:
        return None if n == 2 else -1

    with TestDriver(app) as driver:
        driver.send(numbers, 2, key="a")

        assert values(driver, lists) == [[2, 2]]
        assert values(driver, ones) == [2, 2, 20, 200]


def test_followers_and_to_both_get_the_output_in_declaration_order(app, numbers, out):
    @app.process(numbers, to=out)
    def above(n: int) -> str:
        return f"above {n}"

    @app.process(above, to=out)
    def left(text: str, total: Value[int]) -> str:
        return f"left of {text} {total.add(1)}"

    @app.process(above, to=out)
    def right(text: str, key: str) -> str:
        return f"right of {text} at {key}"

    @app.process(left, to=out)
    def leaf(text: str) -> str:
        return f"leaf of {text}"

    with TestDriver(app) as driver:
        driver.send(numbers, 1, key="a")

        assert values(driver, out) == ["above 1", "left of above 1 1", "leaf of left of above 1 1", "right of above 1 at a"]


def test_several_followers_share_one_repartition_topic(app, numbers, out):
    @app.process(numbers)
    def rename(n: int) -> Record[str, int]:
        return Record(f"k{n}", n)

    @app.process(rename, to=out)
    def add(n: int, total: Value[int]) -> str:
        return f"total {total.add(n)}"

    @app.process(rename, to=out)
    def count(n: int, seen: Value[int]) -> str:
        return f"seen {seen.add(1)}"

    @app.process(rename, to=out)
    def plain(n: int, key: str) -> str:
        return f"plain {key}"

    with TestDriver(app, partitions=2) as driver:
        driver.send(numbers, 5, key="a")
        driver.send(numbers, 5, key="b")

        assert sorted(values(driver, out)) == ["plain k5", "plain k5", "seen 1", "seen 2", "total 10", "total 5"]


def test_a_batch_behind_a_handler_gets_its_outputs(app, numbers, out):
    @app.process(numbers)
    def double(n: int) -> int:
        return 2 * n

    @app.batch(double, to=out, size=2)
    def gather(batch: list[Record[str, int]], total: PerTask[Value[int]], by: ByKey[str, Value[int]]) -> Iterator[Record[str, str]]:
        for record in batch:
            yield Record(record.key, f"{len(batch)} {total.add(record.value)} {by[record.key].add(record.value)}")

    with TestDriver(app, autocommit=False) as driver:
        for n in (1, 2, 3):
            driver.send(numbers, n, key="a" if n < 3 else "b")
        driver.commit()

        assert [text.split()[1:] for text in values(driver, out)] == [["2", "2"], ["6", "6"], ["12", "6"]]


def test_a_handler_behind_a_batch_keeps_state_by_the_records_key(app, numbers, out):
    @app.batch(numbers)
    def gather(batch: list[Record[str, int]]) -> Iterator[Record[str, int]]:
        for record in batch:
            yield Record(record.key.upper(), record.value)

    @app.process(gather, to=out)
    def count(n: int, key: str, total: Value[int]) -> str:
        return f"{key} {total.add(n)}"

    with TestDriver(app, partitions=3, autocommit=False) as driver:
        for n, key in enumerate("abab"):
            driver.send(numbers, n, key=key)
        driver.commit()

        assert sorted(values(driver, out)) == ["A 0", "A 2", "B 1", "B 4"]


class Place(msgspec.Struct, frozen=True):
    x: int
    y: int


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (str, ["", "a", "é"]),
        (bytes, [b"", b"\x00", b"\xff"]),
        (int, [-1, 0, 2**40]),
        (UUID, [UUID(int=1), UUID(int=2), UUID(int=3)]),
        (Place, [Place(1, 2), Place(2, 1), Place(-1, 0)]),
        (tuple[str, int], [("a", 1), ("a", 2), ("b", 1)]),
    ],
    ids=["str", "bytes", "int", "UUID", "Struct", "tuple"],
)
def test_state_is_kept_by_keys_of_every_type_and_found_again_after_a_crash(app, kind, keys):
    numbers, out = app.topic("numbers", key=kind, value=int), app.topic("out", key=kind, value=int)

    @app.process(numbers, to=out)
    def count(n: int, total: Value[int]) -> int:
        return total.add(n)

    with TestDriver(app, partitions=2) as driver:
        for n, key in enumerate(keys):
            driver.send(numbers, n, key=key)
        driver.crash()
        for key in keys:
            driver.send(numbers, 10, key=key)

        assert {record.key: record.value for record in driver.read(out)} == dict(zip(keys, (10, 11, 12), strict=True))
        assert [driver.store_of(count, "total", key=key).get() for key in keys] == [10, 11, 12]


class Everything(Group):
    value: Value[Place]
    fields: Map[int, str]
    nested: Map[str, Map[str, int]]
    log: Log[Place]
    seen: Set[UUID]


def test_a_group_per_task_and_one_per_key_are_apart(app, numbers, out):
    @app.process(numbers, to=out)
    def use(n: int, mine: Everything, ours: PerTask[Everything]) -> str:
        for group in (mine, ours):
            group.value.set(Place(n, n))
            group.fields[n] = str(n)
            group.nested["a"]["b"] = n
            group.log.append(Place(n, 0))
            group.seen.add(UUID(int=n))
        return f"{len(mine.log)} {len(ours.log)} {list(mine.fields)} {list(ours.fields)}"

    with TestDriver(app) as driver:
        driver.send(numbers, 1, key="a")
        driver.send(numbers, 2, key="b")
        driver.crash()
        driver.send(numbers, 3, key="a")

        assert values(driver, out) == ["1 1 [1] [1]", "1 2 [2] [1, 2]", "2 3 [1, 3] [1, 2, 3]"]


def test_a_handler_stays_callable_as_it_was_written(app, numbers, out):
    @app.process(numbers, to=out)
    def count(n: int, total: Value[int]) -> str:
        return str(total.add(n))

    assert count(1, Value(2)) == "3"


def test_state_used_outside_its_record_is_refused(app, numbers):
    kept = []

    @app.process(numbers)
    def leak(n: int, total: Value[int]) -> None:
        kept.append(total)

    with TestDriver(app) as driver:
        driver.send(numbers, 1, key="a")
        with pytest.raises(ConfigError):
            kept[0].get()
        driver.crash()
        with pytest.raises(ConfigError):
            kept[0].get()
