"""Groups, shared stores, error policies and outputs to several topics."""

from collections.abc import Generator, Iterator
from typing import Literal, NewType, TypedDict, assert_type

import msgspec

from streamlet import App, Context, Group, Map, Record, Sent, Topic, Value, dead_letter, minutes, seconds, skip

Cents = NewType("Cents", int)


class Payment(msgspec.Struct, frozen=True):
    id: str
    cents: int


class Note(TypedDict):
    text: str


class Account(Group):
    balance: Value[int]
    holds: Map[str, int]


app = App("payments", errors=skip)
payments = app.topic("payments", key=str, value=Payment, errors=dead_letter("payments-undecodable"))
balances = app.topic("balances", key=str, value=int)
alerts = app.topic("alerts", key=str, value=str)
account = app.store("account", Account)
assert_type(account, Account)

either = app.topic("either", key=str, value=int | str)
money = app.topic("money", key=Cents, value=Cents)
sides = app.topic("sides", key=str, value=Literal["left", "right"])
notes = app.topic("notes", key=str, value=Note, codec="msgpack", timestamp=lambda note: len(note["text"]))
assert_type(either, Topic[str, int | str])
assert_type(money, Topic[Cents, Cents])
assert_type(sides, Topic[str, Literal["left", "right"]])
assert_type(notes, Topic[str, Note])


@app.process(payments, to=balances, also=[alerts], errors=dead_letter("payments-dead", retries=2, backoff=seconds(1)))
def pay(p: Payment, key: str, ctx: Context, acc: Account = account) -> Iterator[int | Sent]:
    if p.cents > 1_000_000:
        yield alerts.record(key, "large payment", timestamp=ctx.timestamp + minutes(1))
    acc.holds[p.id] = p.cents
    yield acc.balance.add(-p.cents)


@app.process(pay)
def follows_values_beside_sent(balance: int, acc: Account = account) -> None:
    acc.balance.set(balance)


@app.process(payments, also=[alerts])
def only_sends(p: Payment, key: str) -> Sent | None:
    return alerts.record(key, p.id) if p.cents < 0 else None


@app.process(payments, to=balances)
def rekeyed(p: Payment) -> Record[str, int]:
    return Record(p.id, p.cents, headers=[("source", b"payments")])


@app.process(payments, to=balances)
def forgets(p: Payment) -> Record[str, int | None]:
    return Record(p.id, None if p.cents == 0 else p.cents)


@app.process(payments, to=balances)
def generates(p: Payment) -> Generator[Record[str, int], None, None]:
    yield Record(p.id, p.cents)


@app.process(balances, alerts)
def reads_two(either_one: int | str) -> None:
    del either_one


@app.process(payments, to=(balances, balances), keeps_key=True)
def with_headers(record: Record[str, Payment]) -> Record[str, int]:
    return Record(record.key, record.value.cents, headers=record.headers)


assert_type(list(pay(Payment("1", 5), "k", Context(), Account())), list[int | Sent])
assert_type(rekeyed(Payment("1", 5)), Record[str, int])


@app.process(forgets)
def follows_what_may_be_forgotten(cents: int) -> None:
    del cents
