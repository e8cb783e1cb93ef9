"""Balances per account, with holds, alerts and dead letters: several states under one name, shared by two handlers.

streamlet run examples/payments.py --dev
"""

from collections.abc import Iterator

import msgspec

from streamlet import App, Context, Group, Map, Sent, Value, dead_letter

LARGE_CENTS = 1_000_000


class Payment(msgspec.Struct, frozen=True):
    """Money that leaves an account; it is held until it is settled."""

    id: str
    cents: int


class Settlement(msgspec.Struct, frozen=True):
    """The other bank's word that a payment has arrived."""

    payment_id: str


class Account(Group):
    """What is known of one account."""

    balance: Value[int]
    holds: Map[str, int]


app = App("payments")
payments = app.topic("payments", key=str, value=Payment)
settlements = app.topic("settlements", key=str, value=Settlement)
balances = app.topic("balances", key=str, value=int)
alerts = app.topic("alerts", key=str, value=str)
account = app.store("account", Account)


@app.process(payments, to=balances, also=[alerts], errors=dead_letter("payments-dead", retries=2))
def pay(p: Payment, key: str, ctx: Context, acc: Account = account) -> Iterator[int | Sent]:
    """Take the money off the balance and hold it; a large payment raises an alert."""
    if p.cents <= 0:
        raise ValueError(f"payment {p.id} moves nothing")
    if p.cents > LARGE_CENTS:
        yield alerts.record(key, f"large payment {p.id}", timestamp=ctx.timestamp)
    acc.holds[p.id] = p.cents
    yield acc.balance.add(-p.cents)


@app.process(settlements)
def settle(s: Settlement, acc: Account = account) -> None:
    """A settled payment is held no more."""
    acc.holds.pop(s.payment_id, 0)


if __name__ == "__main__":
    app.run()
