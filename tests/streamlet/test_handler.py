"""Declared functions stay functions; placeholders are only placeholders."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamlet import App, Commit, Context, Group, Map, Record, Sent, Value, seconds
from streamlet.config import Origin
from streamlet.resource import UsedOutsideTask


class Account(Group):
    balance: Value[int]


def test_a_handler_is_called_as_it_was_written() -> None:
    app = App("app")
    clicks = app.topic("clicks", key=str, value=int)

    @app.process(clicks)
    def count(n: int, total: Value[int]) -> None:
        """Adds up."""
        total.add(n)

    total = Value(2)
    count(1, total)
    count(n=1, total=total)
    assert total.get() == 4
    assert (count.__name__, count.__doc__, repr(count)) == ("count", "Adds up.", "<handler 'count'>")


def test_a_handler_is_not_shipped() -> None:
    app = App("app")

    @app.process(app.topic("clicks", key=str, value=int))
    def count(n: int) -> None: ...

    with pytest.raises(TypeError, match="import the module"):
        pickle.dumps(count)


def test_a_shared_store_is_a_placeholder_until_a_task_runs() -> None:
    app = App("app")
    account = app.store("account", Account)
    names = app.store("names", Map[str, int])

    for use in (lambda: account.balance, lambda: names["a"], lambda: len(names), lambda: bool(names), lambda: "a" in names):
        with pytest.raises(UsedOutsideTask) as caught:
            use()
        assert caught.value.kind == "store"
        assert "Take it as a parameter" in str(caught.value)


def test_a_resource_is_a_placeholder_until_a_worker_opens_it() -> None:
    app = App("app")

    @app.resource
    def model() -> Iterator[dict[str, int]]:
        yield {}

    with pytest.raises(UsedOutsideTask) as caught:
        model.items()
    assert (caught.value.kind, caught.value.name) == ("resource", "model")


def test_topic_record_makes_what_goes_there_only() -> None:
    app = App("app")
    alerts = app.topic("alerts", key=str, value=str)

    assert alerts.record("a", "b", timestamp=5, headers=[("h", b"1")]) == Sent("alerts", "a", "b", 5, [("h", b"1")])
    assert alerts.record("a", None) == Sent("alerts", "a", None)


def test_records_are_values() -> None:
    assert Record("a", 1) == Record("a", 1)
    assert Record("a", 1) != Record("a", 1, timestamp=5)
    with pytest.raises(AttributeError):
        Record("a", 1).key = "b"  # type: ignore[misc]


def test_a_context_can_be_made_by_hand() -> None:
    context = Context(topic="lines", timestamp=5)
    assert (context.topic, context.partition, context.timestamp, context.headers) == ("lines", 0, 5, ())


def test_what_the_code_says_about_settings_is_one_layer() -> None:
    layer = App("app", brokers="kafka:9092", state_dir=Path("/state"), commit=Commit(interval=seconds(1))).settings

    assert layer.values["brokers"] == "kafka:9092"
    assert layer.values["commit_interval_ms"] == 1_000
    assert layer.origin("brokers") == Origin("App(...)")
    assert "commit_interval_ms" not in App("app").settings.values
