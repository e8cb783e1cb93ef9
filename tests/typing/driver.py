"""A test driver: the topic's types decide what may be sent and what is read."""

from typing import Any, assert_type

from streamlet import App, Context, Group, Record, TestDriver, Value, minutes

app = App("driven")
lines = app.topic("lines", value=str)
counts = app.topic("counts", key=str, value=int)


class Account(Group):
    balance: Value[int]


account = app.store("account", Account)


@app.process(counts)
def keep(n: int, ctx: Context, acc: Account = account) -> None:
    acc.balance.add(n)


def drive() -> None:
    with TestDriver(app, partitions=2, start=5, autocommit=False, resources={"model": object()}) as driver:
        assert_type(driver, TestDriver)
        driver.send(lines, "to be", timestamp=7, headers=[("trace", b"1")])
        driver.send(counts, 1, key="a")
        driver.send(counts, None, key="a")
        driver.send(counts, "one", key="a")  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
        driver.send(counts, 1, key=5)  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
        driver.send_raw(counts, b"\x00", key=b"a")
        driver.advance(minutes(5))
        driver.advance(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        driver.advance_stream(to=9)
        driver.commit()
        driver.crash()
        driver.resume(skip=True)
        assert_type(driver.read(counts), list[Record[str, int]])
        assert_type(driver.read(lines), list[Record[bytes, str]])
        assert_type(driver.read("dead"), list[Record[bytes, bytes]])
        assert_type(driver.store(account, key="a"), Account)
        assert_type(driver.store_of(keep, "acc", key="a"), Any)
