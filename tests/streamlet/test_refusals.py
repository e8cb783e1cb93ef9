"""Everything wrong is said at the decorator, with handler, parameter and the corrected line."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Annotated, Any

import msgspec
import pytest

from streamlet import (
    App,
    ByKey,
    Context,
    DeclarationError,
    Group,
    Log,
    Map,
    PerTask,
    Record,
    Sent,
    Set,
    Value,
    dead_letter,
    fail,
    milliseconds,
    skip,
    state,
)
from streamlet.declaration import NotYet
from streamlet.ids import BadName


class Bed:
    """An app with a few topics to go wrong on."""

    def __init__(self) -> None:
        self.app = App("app")
        self.lines = self.app.topic("lines", value=str)
        self.clicks = self.app.topic("clicks", key=str, value=int)
        self.counts = self.app.topic("counts", key=str, value=int)
        self.named = self.app.topic("named", key=int, value=str)

    def refused(self, step: Any, function: Callable[..., object]) -> DeclarationError:
        with pytest.raises(DeclarationError) as caught:
            step(function)
        return caught.value


@pytest.fixture
def bed() -> Bed:
    return Bed()


def says(error: DeclarationError, subject: str, parameter: str | None, fix: str) -> None:
    assert (error.subject, error.parameter, error.fix) == (subject, parameter, fix)
    assert error.fix in str(error)
    assert subject in str(error)


class TestTheFirstParameter:
    def test_narrower_than_its_topic(self, bed: Bed) -> None:
        def count(n: bytes, key: bytes) -> None: ...

        error = bed.refused(bed.app.process(bed.lines), count)
        says(error, "handler 'count'", "n", "def count(n: str, …)  # topic 'lines' holds str, not bytes")
        assert error.place is not None
        assert "test_refusals.py:" in error.place

    def test_narrower_than_its_source(self, bed: Bed) -> None:
        @bed.app.process(bed.lines)
        def split(line: str) -> Iterator[Record[str, int]]:
            yield Record(line, 1)

        def count(n: bytes) -> None: ...

        says(bed.refused(bed.app.process(split), count), "handler 'count'", "n", "def count(n: int)  # 'split' yields int, not bytes")

    def test_without_a_hint(self, bed: Bed) -> None:
        def count(n, total: Value[int]) -> None: ...  # type: ignore[no-untyped-def]

        says(bed.refused(bed.app.process(bed.clicks), count), "handler 'count'", "n", "def count(n: int, …)  # topic 'clicks' holds int")

    def test_missing(self, bed: Bed) -> None:
        def count() -> None: ...

        says(bed.refused(bed.app.process(bed.clicks), count), "handler 'count'", None, "def count(value: int)  # topic 'clicks' holds int")

    def test_by_name_only(self, bed: Bed) -> None:
        def count(*, n: int) -> None: ...

        says(bed.refused(bed.app.process(bed.clicks), count), "handler 'count'", "n", "def count(n: int)  # topic 'clicks' holds int")

    def test_taken_by_state(self, bed: Bed) -> None:
        def count(total: Value[int]) -> None: ...

        error = bed.refused(bed.app.process(bed.clicks), count)
        says(error, "handler 'count'", "total", "def count(total: int)  # topic 'clicks' holds int")

    def test_a_record_without_types(self, bed: Bed) -> None:
        def count(r: Record) -> None: ...  # type: ignore[type-arg]

        error = bed.refused(bed.app.process(bed.clicks), count)
        says(error, "handler 'count'", "r", "def count(r: Record[str, int])  # topic 'clicks' holds int")

    def test_a_record_with_another_key(self, bed: Bed) -> None:
        def count(r: Record[int, int]) -> None: ...

        error = bed.refused(bed.app.process(bed.clicks), count)
        says(error, "handler 'count'", "r", "def count(r: Record[str, int])  # topic 'clicks' holds int")
        assert "its key type is int, but the key here is str" in error.problem

    def test_a_record_with_another_value(self, bed: Bed) -> None:
        def count(r: Record[str, str]) -> None: ...

        error = bed.refused(bed.app.process(bed.clicks), count)
        says(error, "handler 'count'", "r", "def count(r: Record[str, int])  # topic 'clicks' holds int, not str")

    def test_one_of_two_values(self, bed: Bed) -> None:
        words = bed.app.topic("words", key=str, value=str)

        def both(n: int) -> None: ...

        error = bed.refused(bed.app.process(bed.clicks, words), both)
        says(error, "handler 'both'", "n", "def both(n: int | str)  # its sources give int | str, not int")

    def test_in_a_batch_without_a_list(self, bed: Bed) -> None:
        def count(n: int) -> None: ...

        error = bed.refused(bed.app.batch(bed.clicks), count)
        says(error, "handler 'count'", "n", "def count(n: list[Record[str, int]])  # topic 'clicks' holds int")


class TestFurtherParameters:
    def test_something_unknown(self, bed: Bed) -> None:
        def count(n: int, other: int) -> None: ...

        error = bed.refused(bed.app.process(bed.clicks), count)
        assert (error.subject, error.parameter) == ("handler 'count'", "other")
        assert error.fix.startswith("def count(…, other: Value[int])")

    def test_something_without_a_hint(self, bed: Bed) -> None:
        def count(n: int, other) -> None: ...  # type: ignore[no-untyped-def]

        error = bed.refused(bed.app.process(bed.clicks), count)
        assert error.parameter == "other"
        assert "a parameter without a hint" in error.problem

    def test_stars(self, bed: Bed) -> None:
        def args(n: int, *rest: int) -> None: ...

        def kwargs(n: int, **rest: int) -> None: ...

        says(bed.refused(bed.app.process(bed.clicks), args), "handler 'args'", "rest", "def args(…)  # without *rest")
        says(bed.refused(bed.app.process(bed.clicks), kwargs), "handler 'kwargs'", "rest", "def kwargs(…)  # without **rest")

    def test_key_of_another_type(self, bed: Bed) -> None:
        def count(n: int, key: int) -> None: ...

        says(bed.refused(bed.app.process(bed.clicks), count), "handler 'count'", "key", "def count(…, key: str)")

    def test_key_without_a_hint(self, bed: Bed) -> None:
        def count(n: int, key) -> None: ...  # type: ignore[no-untyped-def]

        says(bed.refused(bed.app.process(bed.clicks), count), "handler 'count'", "key", "def count(…, key: str)")

    def test_key_where_it_is_opaque(self, bed: Bed) -> None:
        def count(line: str, key: str) -> None: ...

        error = bed.refused(bed.app.process(bed.lines), count)
        says(error, "handler 'count'", "key", "def count(…, key: bytes)")
        assert "declared without key=" in error.problem

    def test_key_and_context_in_a_batch(self, bed: Bed) -> None:
        def keyed(batch: list[int], key: str) -> None: ...

        def placed(batch: list[int], ctx: Context) -> None: ...

        line = "(batch: list[Record[str, int]], …)  # key, timestamp and headers are on each Record"
        says(bed.refused(bed.app.batch(bed.clicks), keyed), "handler 'keyed'", "key", f"def keyed{line}")
        says(bed.refused(bed.app.batch(bed.clicks), placed), "handler 'placed'", "ctx", f"def placed{line}")

    def test_a_resource_of_another_type(self, bed: Bed) -> None:
        @bed.app.resource
        def model() -> Iterator[float]:
            yield 1.0

        def count(n: int, m: str = model) -> None: ...  # type: ignore[assignment]

        says(bed.refused(bed.app.process(bed.clicks), count), "handler 'count'", "m", "def count(…, m: float = model)")


class TestState:
    def test_by_key_where_there_is_no_key(self, bed: Bed) -> None:
        def count(line: str, total: Value[int]) -> None: ...

        error = bed.refused(bed.app.process(bed.lines), count)
        says(error, "handler 'count'", "total", 'lines = app.topic("lines", key=str, value=str)')
        assert "add key=" in error.problem

    def test_by_key_after_a_handler_without_a_key(self, bed: Bed) -> None:
        @bed.app.process(bed.lines)
        def length(line: str) -> int:
            return len(line)

        def count(n: int, total: Value[int]) -> None: ...

        error = bed.refused(bed.app.process(length), count)
        says(error, "handler 'count'", "total", "def length(…) -> Record[str, int]:  # give its output a key")

    def test_by_key_in_a_batch(self, bed: Bed) -> None:
        def count(batch: list[int], total: Value[int]) -> None: ...

        error = bed.refused(bed.app.batch(bed.clicks), count)
        says(error, "handler 'count'", "total", "def count(…, total: ByKey[str, Value[int]])  # or PerTask[Value[int]]")

    def test_with_a_default_nobody_uses(self, bed: Bed) -> None:
        def count(n: int, total: Value[int] = Value(0)) -> None: ...  # noqa: B008

        says(bed.refused(bed.app.process(bed.clicks), count), "handler 'count'", "total", "def count(…, total: Value[int])")

    def test_of_a_task_with_a_default_nobody_uses(self, bed: Bed) -> None:
        def count(n: int, seen: PerTask[Set[int]] = Set({1})) -> None: ...  # noqa: B008

        says(bed.refused(bed.app.process(bed.clicks), count), "handler 'count'", "seen", "def count(…, seen: PerTask[Set[int]])")

    def test_with_options_twice(self, bed: Bed) -> None:
        def count(n: int, total: Annotated[Value[int], state(name="a")] = state(name="b")) -> None: ...

        error = bed.refused(bed.app.process(bed.clicks), count)
        says(error, "handler 'count'", "total", "def count(…, total: Value[int] = state(…))")

    def test_without_its_type(self, bed: Bed) -> None:
        def count(n: int, total: Value) -> None: ...  # type: ignore[type-arg]

        error = bed.refused(bed.app.process(bed.clicks), count)
        assert (error.subject, error.parameter) == ("handler 'count'", "total")
        assert "Value[" in error.problem

    def test_with_a_field_that_has_no_order(self, bed: Bed) -> None:
        def count(n: int, total: Map[float, int]) -> None: ...

        error = bed.refused(bed.app.process(bed.clicks), count)
        assert (error.subject, error.parameter) == ("handler 'count'", "total")
        assert "float" in error.problem

    def test_by_a_key_that_has_no_order(self, bed: Bed) -> None:
        readings = bed.app.topic("readings", key=float, value=int)

        def count(n: int, total: Value[int]) -> None: ...

        error = bed.refused(bed.app.process(readings), count)
        assert (error.subject, error.parameter) == ("handler 'count'", "total")
        assert "float" in error.problem

    def test_that_expires(self, bed: Bed) -> None:
        with pytest.raises(DeclarationError) as caught:
            bed.app.store("seen", Value[int], ttl=milliseconds(5))
        assert caught.value.subject == "store 'seen'"
        assert "not there yet" in caught.value.problem

    def test_of_two_handlers_by_accident(self, bed: Bed) -> None:
        @bed.app.process(bed.clicks)
        def first(n: int, total: Annotated[Value[int], state(name="total")]) -> None: ...

        def second(n: int, total: Annotated[Value[int], state(name="total")]) -> None: ...

        error = bed.refused(bed.app.process(bed.clicks), second)
        says(error, "handler 'second'", None, 'store = app.store("total", …)  # and give it as the default in both handlers')

    def test_of_one_handler_under_one_name(self, bed: Bed) -> None:
        total = bed.app.store("total", Value[int])

        def count(n: int, a: Value[int] = total, b: Value[int] = total) -> None: ...

        assert "two of its parameters mean the store 'total'" in bed.refused(bed.app.process(bed.clicks), count).problem

    def test_shared_by_another_key(self, bed: Bed) -> None:
        total = bed.app.store("total", Value[int])

        @bed.app.process(bed.clicks)
        def first(n: int, held: Value[int] = total) -> None: ...

        def second(name: str, held: Value[int] = total) -> None: ...

        error = bed.refused(bed.app.process(bed.named), second)
        says(error, "handler 'second'", None, 'app.store("total-by-int", …)  # a store for each key type')
        assert "by key int with handler 'first', which has key str" in error.problem

    def test_shared_as_another_type(self, bed: Bed) -> None:
        total = bed.app.store("total", Value[int])

        def count(n: int, held: Value[str] = total) -> None: ...  # type: ignore[assignment]

        error = bed.refused(bed.app.process(bed.clicks), count)
        says(error, "handler 'count'", "held", "def count(…, held: Value[int] = total)")

    def test_shared_over_all_keys_by_its_name(self, bed: Bed) -> None:
        total = bed.app.store("total", Value[int])

        @bed.app.process(bed.clicks)
        def one(n: int, held: Value[int] = total) -> None: ...

        @bed.app.batch(bed.clicks)
        def all_of_them(batch: list[int], held: ByKey[str, Value[int]] = state(name="total")) -> None: ...

        assert one.signature.stores[0].specs == all_of_them.signature.stores[0].specs
        assert all_of_them.signature.stores[0].shared

    def test_a_store_that_is_no_state(self, bed: Bed) -> None:
        with pytest.raises(DeclarationError) as caught:
            bed.app.store("texts", str)  # type: ignore[type-var]
        says(caught.value, "store 'texts'", None, 'app.store("texts", Value[int])  # or Map, Log, Set, a Group')


class TestTheReturnHint:
    def test_missing(self, bed: Bed) -> None:
        def count(n: int): ...  # type: ignore[no-untyped-def]

        says(bed.refused(bed.app.process(bed.clicks), count), "handler 'count'", None, "def count(…) -> None:")

    def test_any(self, bed: Bed) -> None:
        def count(n: int) -> Any: ...

        assert "Any" in bed.refused(bed.app.process(bed.clicks), count).problem

    def test_a_list_of_records(self, bed: Bed) -> None:
        def split(n: int) -> list[Record[str, int]]: ...

        error = bed.refused(bed.app.process(bed.clicks), split)
        says(error, "handler 'split'", None, "def split(…) -> Iterator[Record[str, int]]:  # and yield them")

    def test_values_and_records_mixed(self, bed: Bed) -> None:
        def split(n: int) -> Iterator[int | Record[str, int]]: ...

        error = bed.refused(bed.app.process(bed.clicks), split)
        says(error, "handler 'split'", None, "def split(…) -> Iterator[Record[str, int]]:")

    def test_an_iterator_of_nothing_in_particular(self, bed: Bed) -> None:
        def split(n: int) -> Iterator: ...  # type: ignore[type-arg]

        says(bed.refused(bed.app.process(bed.clicks), split), "handler 'split'", None, "def split(…) -> Iterator[int]:")

    def test_an_iterator_or_not(self, bed: Bed) -> None:
        def split(n: int) -> Iterator[int] | None: ...

        says(bed.refused(bed.app.process(bed.clicks), split), "handler 'split'", None, "def split(…) -> Iterator[int]:")

    def test_one_value_of_a_generator(self, bed: Bed) -> None:
        def split(n: int) -> int:  # type: ignore[misc]
            yield n

        says(bed.refused(bed.app.process(bed.clicks), split), "handler 'split'", None, "def split(…) -> Iterator[int]:")

    def test_bare_values_of_a_batch(self, bed: Bed) -> None:
        def sums(batch: list[int]) -> Iterator[int]: ...

        error = bed.refused(bed.app.batch(bed.clicks), sums)
        says(error, "handler 'sums'", None, "def sums(…) -> Iterator[Record[str, int]]:")

    def test_a_record_without_types(self, bed: Bed) -> None:
        def split(n: int) -> Record: ...  # type: ignore[type-arg]

        says(bed.refused(bed.app.process(bed.clicks), split), "handler 'split'", None, "def split(…) -> Record[str, int]:")


class TestTargets:
    def test_of_another_value(self, bed: Bed) -> None:
        def text(n: int) -> str: ...

        error = bed.refused(bed.app.process(bed.clicks, to=bed.counts), text)
        says(error, "handler 'text'", None, "def text(…) -> int:  # topic 'counts' holds int, not str")

    def test_of_another_key(self, bed: Bed) -> None:
        def text(n: int) -> str: ...

        error = bed.refused(bed.app.process(bed.clicks, to=bed.named), text)
        says(error, "handler 'text'", None, "def text(…) -> Record[int, str]:  # topic 'named' has key int")

    def test_without_a_key(self, bed: Bed) -> None:
        def text(n: int) -> str: ...

        error = bed.refused(bed.app.process(bed.clicks, to=bed.lines), text)
        says(error, "handler 'text'", None, 'lines = app.topic("lines", key=str, value=str)')

    def test_that_get_nothing(self, bed: Bed) -> None:
        def ignore(n: int) -> None: ...

        says(bed.refused(bed.app.process(bed.clicks, to=bed.counts), ignore), "handler 'ignore'", None, "def ignore(…) -> int:")

    def test_declared_for_sent_that_never_comes(self, bed: Bed) -> None:
        def count(n: int) -> Iterator[int]: ...

        error = bed.refused(bed.app.process(bed.clicks, to=bed.counts, also=[bed.named]), count)
        says(error, "handler 'count'", None, "def count(…) -> Iterator[int | Sent]:")

    def test_missing_for_sent(self, bed: Bed) -> None:
        def count(n: int) -> Sent | None: ...

        says(bed.refused(bed.app.process(bed.clicks), count), "handler 'count'", None, "@app.process(…, also=[alerts])")

    def test_keeps_key_without_a_record(self, bed: Bed) -> None:
        def count(n: int) -> int: ...

        error = bed.refused(bed.app.process(bed.clicks, to=bed.counts, keeps_key=True), count)
        says(error, "handler 'count'", None, "@app.process(…)  # without keeps_key=")

    def test_keeps_key_with_another_key(self, bed: Bed) -> None:
        def count(n: int) -> Record[int, int]: ...

        error = bed.refused(bed.app.process(bed.clicks, to=bed.counts, keeps_key=True), count)
        assert error.subject == "handler 'count'"

        def rekeyed(n: int) -> Record[int, str]: ...

        error = bed.refused(bed.app.process(bed.clicks, to=bed.named, keeps_key=True), rekeyed)
        says(error, "handler 'rekeyed'", None, "def rekeyed(…) -> Record[str, str]:")

    def test_repartition_where_the_key_stays(self, bed: Bed) -> None:
        def count(n: int) -> int: ...

        error = bed.refused(bed.app.process(bed.clicks, to=bed.counts, repartition=4), count)
        says(error, "handler 'count'", None, "@app.process(…)  # without repartition=")


class TestSources:
    def test_none(self, bed: Bed) -> None:
        with pytest.raises(DeclarationError) as caught:
            bed.app.process()  # type: ignore[call-overload]
        says(caught.value, "@app.process", None, "@app.process(lines)  # lines = app.topic(…)")

    def test_no_brackets(self, bed: Bed) -> None:
        def count(n: int) -> None: ...

        with pytest.raises(DeclarationError) as caught:
            bed.app.process(count)  # type: ignore[call-overload]
        says(caught.value, "@app.process", None, "@app.process(lines)")

    def test_a_name(self, bed: Bed) -> None:
        with pytest.raises(DeclarationError) as caught:
            bed.app.process("some-lines")  # type: ignore[call-overload]
        says(caught.value, "@app.process", None, 'some_lines = app.topic("some-lines", key=…, value=…)')

    def test_of_another_app(self, bed: Bed) -> None:
        with pytest.raises(DeclarationError) as caught:
            App("other").process(bed.lines)
        assert "<topic 'lines'> belongs to another App" in caught.value.problem

    def test_something_else(self, bed: Bed) -> None:
        with pytest.raises(DeclarationError) as caught:
            bed.app.process(5)  # type: ignore[call-overload]
        assert "5 is neither a topic nor a handler" in caught.value.problem

    def test_of_different_keys(self, bed: Bed) -> None:
        def both(x: int | str) -> None: ...

        error = bed.refused(bed.app.process(bed.clicks, bed.named), both)  # type: ignore[misc]
        assert error.subject == "handler 'both'"
        assert "'clicks' str, 'named' int" in error.problem
        assert error.fix == "@app.process(named)  # in a handler of its own, returning Record[str, …]"

    def test_a_handler_that_gives_nothing(self, bed: Bed) -> None:
        @bed.app.process(bed.clicks)
        def ignore(n: int) -> None: ...

        def after(n: int) -> None: ...

        error = bed.refused(bed.app.process(ignore), after)
        assert error.fix == "def ignore(…) -> int:  # or follow what 'ignore' follows"

    def test_a_handler_as_a_target(self, bed: Bed) -> None:
        @bed.app.process(bed.clicks)
        def first(n: int) -> int:
            return n

        with pytest.raises(DeclarationError) as caught:
            bed.app.process(bed.clicks, to=first)  # type: ignore[call-overload]
        says(caught.value, "@app.process", None, "@app.process(first)  # on the handler that shall follow")


class TestNames:
    def test_stacked_decorators(self, bed: Bed) -> None:
        @bed.app.process(bed.clicks)
        def count(n: int) -> None: ...

        error = bed.refused(bed.app.process(bed.counts), count)
        says(error, "handler 'count'", None, "@app.process(first, second)  # one decorator, several sources")

    def test_a_handler_twice(self, bed: Bed) -> None:
        @bed.app.process(bed.clicks, name="count")
        def first(n: int) -> None: ...

        def count(n: int) -> None: ...

        says(bed.refused(bed.app.process(bed.clicks), count), "handler 'count'", None, '@app.process(…, name="count-2")')

    def test_a_topic_twice(self, bed: Bed) -> None:
        with pytest.raises(DeclarationError) as caught:
            bed.app.topic("lines")
        says(caught.value, "topic 'lines'", None, "lines = app.topic(…)  # once, and use the variable")

    def test_a_store_twice(self, bed: Bed) -> None:
        bed.app.store("total", Value[int])
        with pytest.raises(DeclarationError) as caught:
            bed.app.store("total", Value[int])
        assert caught.value.subject == "store 'total'"

    @pytest.mark.parametrize("name", ["app-x-changelog", "app-control", "app-split-repartition", "app-members", "app-commits"])
    def test_of_internal_topics(self, bed: Bed, name: str) -> None:
        with pytest.raises(DeclarationError) as caught:
            bed.app.topic(name)
        assert caught.value.subject == f"topic '{name}'"

    def test_of_another_apps_changelog_can_be_read(self, bed: Bed) -> None:
        assert bed.app.topic("other-x-changelog").name == "other-x-changelog"

    @pytest.mark.parametrize("name", ["leader", "x-leader", "x-changelog", "x-control"])
    def test_that_are_reserved(self, name: str) -> None:
        with pytest.raises(DeclarationError) as caught:
            App(name)
        assert caught.value.subject == f"app '{name}'"

    def test_that_kafka_does_not_take(self, bed: Bed) -> None:
        with pytest.raises(BadName):
            bed.app.topic("a b")
        with pytest.raises(BadName):
            App("ü")

    def test_a_lambda(self, bed: Bed) -> None:
        assert "lambda" in bed.refused(bed.app.process(bed.clicks), lambda n: None).problem

    def test_no_function(self, bed: Bed) -> None:
        assert "is not a function" in bed.refused(bed.app.process(bed.clicks), print).problem


class TestHints:
    def test_defined_later(self, bed: Bed) -> None:
        def count(n: "Later") -> None: ...  # type: ignore[name-defined]  # noqa: F821

        error = bed.refused(bed.app.process(bed.clicks), count)
        assert error.subject == "handler 'count'"
        for cause in ("defined later", "TYPE_CHECKING", "local to a function"):
            assert cause in error.problem
        assert "Later" in error.problem

    def test_local_classes_are_found(self, bed: Bed) -> None:
        class Click(msgspec.Struct, frozen=True):
            at: int

        clicked = bed.app.topic("clicked", key=str, value=Click)

        @bed.app.process(clicked)
        def count(click: "Click") -> None: ...

        assert count.signature.value_type is Click


class TestOptions:
    @pytest.mark.parametrize("policy", ["skip", dead_letter, None.__class__])
    def test_no_policy(self, policy: Any) -> None:
        with pytest.raises(DeclarationError) as caught:
            App("app", errors=policy)
        assert caught.value.fix == 'errors=fail  # or skip, or dead_letter("topic", retries=2)'

    def test_dead_letters_to_a_topic_object(self, bed: Bed) -> None:
        with pytest.raises(DeclarationError) as caught:
            dead_letter(bed.lines)  # type: ignore[arg-type]
        assert caught.value.fix == 'dead_letter("lines")'

    def test_dead_letters_with_a_bare_number(self) -> None:
        with pytest.raises(DeclarationError) as caught:
            dead_letter("dead", backoff=5)  # type: ignore[arg-type]
        assert caught.value.fix == "seconds(5)  # or milliseconds, minutes, hours, days, or a timedelta"

    def test_dead_letters_that_never_retry_enough(self) -> None:
        with pytest.raises(DeclarationError) as caught:
            dead_letter("dead", retries=-1)
        assert caught.value.fix == 'dead_letter("dead", retries=0)'

    def test_dead_letters_on_something_that_is_no_exception(self) -> None:
        with pytest.raises(DeclarationError) as caught:
            dead_letter("dead", on=5)  # type: ignore[arg-type]
        assert caught.value.fix == 'dead_letter("dead", on=ValueError)'

    def test_a_guarantee_nobody_gives(self) -> None:
        with pytest.raises(DeclarationError) as caught:
            App("app", guarantee="at-most-once")  # type: ignore[arg-type]
        assert caught.value.fix == 'guarantee="exactly-once"'

    def test_an_empty_batch(self, bed: Bed) -> None:
        with pytest.raises(DeclarationError) as caught:
            bed.app.batch(bed.clicks, size=0)
        assert caught.value.fix == "@app.batch(…, size=500)"

    def test_no_partitions(self, bed: Bed) -> None:
        with pytest.raises(DeclarationError) as caught:
            bed.app.topic("none", partitions=0)
        assert caught.value.fix == 'app.topic("none", partitions=1)'
        with pytest.raises(DeclarationError) as caught:
            bed.app.process(bed.lines, repartition=0)
        assert caught.value.fix == "@app.process(…, repartition=8)"

    def test_a_start_nobody_knows(self, bed: Bed) -> None:
        with pytest.raises(DeclarationError) as caught:
            bed.app.topic("none", start="middle")  # type: ignore[call-overload]
        assert caught.value.fix == 'app.topic("none", start="latest")  # or "earliest"'

    def test_a_value_without_a_codec(self, bed: Bed) -> None:
        with pytest.raises(DeclarationError) as caught:
            bed.app.topic("streams", value=Iterable[int])
        assert caught.value.subject == "topic 'streams'"
        assert 'app.topic("streams", value=…, codec=…)' in caught.value.fix

    def test_a_codec_that_is_none(self, bed: Bed) -> None:
        with pytest.raises(DeclarationError) as caught:
            bed.app.topic("streams", value=str, codec="yaml")
        assert "yaml" in caught.value.problem


class TestResources:
    def test_with_parameters(self, bed: Bed) -> None:
        def model(path: str) -> Iterator[float]:
            yield 1.0

        error = bed.refused(bed.app.resource, model)
        says(error, "resource 'model'", None, "def model() -> Iterator[Model]:")

    def test_that_return(self, bed: Bed) -> None:
        def model() -> float:
            return 1.0

        says(bed.refused(bed.app.resource, model), "resource 'model'", None, "def model() -> Iterator[Model]:")

    def test_without_a_hint(self, bed: Bed) -> None:
        def model():  # type: ignore[no-untyped-def]
            yield 1.0

        says(bed.refused(bed.app.resource, model), "resource 'model'", None, "def model() -> Iterator[Model]:")


class TestWhatComesLater:
    def test_async_handlers(self, bed: Bed) -> None:
        async def look(n: int) -> int:
            return n

        async def many(n: int) -> AsyncIterator[int]:
            yield n

        for function in (look, many):
            error = bed.refused(bed.app.process(bed.clicks, to=bed.counts), function)
            assert isinstance(error, NotYet)
            assert "enrich" in str(error)
            assert error.fix == f"def {function.__name__}(…)  # without async"

    @pytest.mark.parametrize("name", ["stream", "table", "global_table", "enrich", "include"])
    def test_methods_of_the_app(self, bed: Bed, name: str) -> None:
        with pytest.raises(NotYet, match="planned and not in this release"):
            getattr(bed.app, name)("x")

    def test_timers(self, bed: Bed) -> None:
        @bed.app.process(bed.clicks)
        def count(n: int) -> None: ...

        for call in (count.timer, count.every, Context().schedule, Context().cancel):
            with pytest.raises(NotYet, match="planned and not in this release"):
                call(count)


def test_a_follower_that_admits_no_null_may_follow_tombstones(bed: Bed) -> None:
    @bed.app.process(bed.clicks)
    def forget(n: int) -> Record[str, int | None]:
        return Record("a", None)

    @bed.app.process(forget)
    def count(n: int) -> None: ...

    assert not count.signature.admits_null


def test_what_is_right_is_let_through(bed: Bed) -> None:
    class Account(Group):
        balance: Value[int]
        names: Log[str]

    account = bed.app.store("account", Account)

    @bed.app.process(bed.clicks, to=bed.counts, errors=skip)
    def pay(n: int | None, ctx: Context, key: str, *, seen: PerTask[Set[int]], acc: Account = account) -> int | None:
        return n

    signature = pay.signature
    assert signature.admits_null
    assert [(param.name, param.kind.value, param.keyword) for param in signature.params] == [
        ("ctx", "context", False),
        ("key", "key", False),
        ("seen", "state", True),
        ("acc", "state", True),
    ]
    assert [spec.name for use in signature.stores for spec in use.specs] == ["pay-seen", "account-balance", "account-names"]
    assert pay.wiring.errors is skip
    assert bed.clicks.errors is fail
