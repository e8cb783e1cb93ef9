"""How an app's graph is cut into tasks."""

from collections.abc import Iterator

import pytest

from streamlet import App, Commit, DeclarationError, PerTask, Record, Sent, Set, Topic, Value, dead_letter, fail, skip
from streamlet.describe import as_text
from streamlet.handler import Batching
from streamlet.partitioning import NotCopartitioned, UnknownPartitions, check_copartitioning, internal_partitions, plan_partitions, tasks
from streamlet.policy import Policy
from streamlet.topology import SubTopology, TopicKind, Topology, build


def sources(sub: SubTopology) -> list[tuple[str, tuple[int, ...]]]:
    return [(source.topic.name, source.roots) for source in sub.sources]


def handlers(sub: SubTopology) -> list[str]:
    return [node.handler.name for node in sub.nodes]


def word_count() -> Topology:
    app = App("word-count")
    lines = app.topic("lines", value=str)
    counts = app.topic("counts", key=str, value=int)

    @app.process(lines)
    def split(line: str) -> Iterator[Record[str, int]]:
        for word in line.split():
            yield Record(word, 1)

    @app.process(split, to=counts)
    def count(n: int, total: Value[int]) -> int:
        return total.add(n)

    return build(app)


def test_state_after_a_key_change_stands_behind_a_repartition_topic() -> None:
    topology = word_count()

    first, second = topology.subs
    assert (first.name, sources(first), handlers(first)) == ("lines", [("lines", (0,))], ["split"])
    assert (second.name, sources(second), handlers(second)) == ("split", [("word-count-split-repartition", (0,))], ["count"])
    assert first.nodes[0].followers == ()
    assert first.nodes[0].repartition is second.sources[0].topic
    assert [spec.name for spec in second.stores] == ["count-total"]
    assert [topic.name for topic in second.nodes[0].to] == ["counts"]


def test_every_internal_topic_is_named_sized_and_set_up() -> None:
    topology = word_count()

    sizes = plan_partitions(topology, {"lines": 4})
    assert sizes == {"lines": 4, "split": 4}
    assert internal_partitions(topology, sizes) == {
        "word-count-count-total-changelog": 4,
        "word-count-split-repartition": 4,
        "word-count-control": 1,
        "word-count-members": 1,
        "word-count-commits": 4,
    }
    config = {topic.kind: topic.config for topic in topology.internal}
    assert config[TopicKind.CHANGELOG]["cleanup.policy"] == "compact"
    assert config[TopicKind.CHANGELOG]["min.compaction.lag.ms"] == "900000"
    assert config[TopicKind.REPARTITION]["cleanup.policy"] == "delete"
    assert config[TopicKind.REPARTITION]["retention.ms"] == "-1"
    assert config[TopicKind.CONTROL]["segment.bytes"] == "16777216"
    assert config[TopicKind.CONTROL]["min.cleanable.dirty.ratio"] == "0.01"
    assert config[TopicKind.MEMBERS]["retention.ms"] == "3600000"
    assert config[TopicKind.COMMITS]["cleanup.policy"] == "compact"


def test_tasks_are_named_by_topic_or_repartitioned_handler_and_partition() -> None:
    topology = word_count()

    assert [str(task) for task in tasks(topology, plan_partitions(topology, {"lines": 2}))] == ["lines/0", "lines/1", "split/0", "split/1"]


def test_stateless_followers_stay_fused_after_a_key_change() -> None:
    app = App("app")
    lines = app.topic("lines", value=str)
    out = app.topic("out", key=str, value=int)

    @app.process(lines)
    def split(line: str) -> Record[str, int]:
        return Record(line, 1)

    @app.process(split, to=out)
    def double(n: int) -> int:
        return n * 2

    @app.process(split)
    def count(n: int, total: Value[int]) -> None:
        total.add(n)

    first, second = build(app).subs
    assert handlers(first) == ["split", "double"]
    assert first.nodes[0].followers == (1,)
    assert first.nodes[0].repartition is not None
    assert handlers(second) == ["count"]


def test_one_repartition_topic_serves_all_stateful_followers_even_behind_stateless_ones() -> None:
    app = App("app")
    lines = app.topic("lines", value=str)

    @app.process(lines)
    def split(line: str) -> Record[str, int]:
        return Record(line, 1)

    @app.process(split)
    def double(n: int) -> int:
        return n * 2

    @app.process(double)
    def doubled(n: int, total: Value[int]) -> None:
        total.add(n)

    @app.process(split)
    def single(n: int, total: Value[int]) -> None:
        total.add(n)

    topology = build(app)
    _, second = topology.subs
    assert sources(second) == [("app-split-repartition", (0, 2))]
    assert handlers(second) == ["double", "doubled", "single"]
    assert second.nodes[0].followers == (1,)
    assert [topic.name for topic in topology.internal if topic.kind is TopicKind.REPARTITION] == ["app-split-repartition"]


def test_a_record_that_keeps_its_key_makes_no_repartition_topic() -> None:
    app = App("app")
    lines = app.topic("lines", key=str, value=str)

    @app.process(lines, keeps_key=True)
    def mark(line: Record[str, str]) -> Record[str, int]:
        return Record(line.key, len(line.value), headers=[("seen", b"1")])

    @app.process(mark)
    def count(n: int, total: Value[int]) -> None:
        total.add(n)

    (only,) = build(app).subs
    assert handlers(only) == ["mark", "count"]
    assert only.nodes[0].repartition is None


def test_state_of_the_key_at_hand_needs_no_repartition_topic() -> None:
    app = App("app")
    clicks = app.topic("clicks", key=str, value=int)

    @app.process(clicks)
    def positive(n: int) -> int | None:
        return n if n > 0 else None

    @app.process(positive)
    def count(n: int, total: Value[int], seen: PerTask[Set[int]]) -> None:
        total.add(n)
        seen.add(n)

    (only,) = build(app).subs
    assert (only.name, handlers(only)) == ("clicks", ["positive", "count"])
    assert [spec.name for spec in only.stores] == ["count-total", "count-seen"]


def test_sharing_a_store_joins_sub_topologies_and_their_first_topic_names_the_tasks() -> None:
    app = App("app")
    orders = app.topic("orders", key=str, value=int)
    payments = app.topic("payments", key=str, value=int)
    balance = app.store("balance", Value[int])

    @app.process(payments)
    def pay(n: int, total: Value[int] = balance) -> None:
        total.add(n)

    @app.process(orders)
    def order(n: int, total: Value[int] = balance) -> None:
        total.add(-n)

    topology = build(app)
    (only,) = topology.subs
    assert only.name == "orders"
    assert sources(only) == [("orders", (1,)), ("payments", (0,))]
    assert [spec.name for spec in only.stores] == ["balance"]
    assert [topic.name for topic in topology.internal if topic.kind is TopicKind.CHANGELOG] == ["app-balance-changelog"]


def test_joined_topics_must_have_the_same_number_of_partitions() -> None:
    app = App("app")
    orders = app.topic("orders", key=str, value=int)
    payments = app.topic("payments", key=str, value=int)

    @app.process(orders, payments)
    def both(n: int, total: Value[int]) -> None:
        total.add(n)

    topology = build(app)
    check_copartitioning(topology, {"orders": 4, "payments": 4})
    with pytest.raises(NotCopartitioned) as caught:
        check_copartitioning(topology, {"orders": 4, "payments": 6})

    assert caught.value.counts == {"orders": 4, "payments": 6}
    assert caught.value.handlers == ("both",)
    assert 'app.topic("orders", …, partitions=6)' in str(caught.value)


def test_a_repartition_topic_takes_the_size_of_the_topic_beside_it() -> None:
    app = App("app")
    lines = app.topic("lines", value=str)
    names = app.topic("names", key=str, value=str)
    known = app.store("known", Value[str])

    @app.process(lines)
    def split(line: str) -> Record[str, int]:
        return Record(line, 1)

    @app.process(names)
    def remember(name: str, held: Value[str] = known) -> None:
        held.set(name)

    @app.process(split)
    def look(n: int, held: Value[str] = known) -> None:
        held.get()

    topology = build(app)
    assert plan_partitions(topology, {"lines": 4, "names": 12}) == {"lines": 4, "names": 12}
    assert internal_partitions(topology, {"lines": 4, "names": 12})["app-split-repartition"] == 12


def test_repartition_says_how_large_its_topic_is_and_an_existing_one_keeps_its_size() -> None:
    app = App("app")
    lines = app.topic("lines", value=str)

    @app.process(lines, repartition=16)
    def split(line: str) -> Record[str, int]:
        return Record(line, 1)

    @app.process(split)
    def count(n: int, total: Value[int]) -> None:
        total.add(n)

    topology = build(app)
    assert plan_partitions(topology, {"lines": 4})["split"] == 16
    assert plan_partitions(topology, {"lines": 4}, {"app-split-repartition": 8})["split"] == 8


def test_a_chain_of_key_changes_is_cut_at_each_one() -> None:
    app = App("app")
    lines = app.topic("lines", value=str)

    @app.process(lines)
    def first(line: str) -> Record[str, int]:
        return Record(line, 1)

    @app.process(first)
    def second(n: int, total: Value[int]) -> Record[int, int]:
        return Record(n, total.add(n))

    @app.process(second)
    def third(n: int, total: Value[int]) -> None:
        total.add(n)

    topology = build(app)
    assert [sub.name for sub in topology.subs] == ["lines", "first", "second"]
    assert plan_partitions(topology, {"lines": 3}) == {"lines": 3, "first": 3, "second": 3}


def test_a_batch_behind_a_handler_is_gathered_from_a_repartition_topic() -> None:
    app = App("app")
    lines = app.topic("lines", value=str)
    seen: list[int] = []

    @app.process(lines)
    def length(line: str) -> int:
        return len(line)

    @app.batch(length, size=10)
    def gather(batch: list[int], largest: PerTask[Value[int]]) -> None:
        seen.extend(batch)

    first, second = build(app).subs
    assert first.nodes[0].followers == ()
    assert (sources(second), handlers(second)) == ([("app-length-repartition", (0,))], ["gather"])
    assert second.nodes[0].batching == Batching(size=10, within_ms=0)
    assert not second.sources[0].topic.has_key


def test_a_missing_topic_is_refused_at_start_with_the_command_that_makes_it() -> None:
    with pytest.raises(UnknownPartitions) as caught:
        check_copartitioning(word_count(), {})

    assert caught.value.subject == "topic 'lines'"
    assert "streamlet topics create FILE" in caught.value.fix


def test_handlers_on_one_topic_are_in_one_task_in_declaration_order() -> None:
    app = App("app")
    lines = app.topic("lines", value=str)
    out = app.topic("out", value=str)

    @app.process(lines, to=out)
    def upper(line: str) -> str:
        return line.upper()

    @app.process(lines, to=out)
    def lower(line: str) -> str:
        return line.lower()

    (only,) = build(app).subs
    assert sources(only) == [("lines", (0, 1))]


def test_dead_letter_topics_and_unused_declarations_are_told() -> None:
    app = App("app", commit=Commit())
    lines = app.topic("lines", value=str, errors=dead_letter("lines-dead"))
    app.topic("spare", value=str)
    app.store("idle", Value[int])

    @app.process(lines, errors=dead_letter("handler-dead", retries=2))
    def ignore(line: str) -> None:
        del line

    topology = build(app)
    assert topology.dead_letters == ("lines-dead", "handler-dead")
    assert topology.warnings == ("topic 'spare' is declared and never used", "store 'idle' is declared and never used")


def fused(errors_above: Policy | None, errors_below: Policy | None, app_errors: Policy = fail) -> Topology:
    """A handler without state of its own follows another, so both run in one task."""
    app = App("app", errors=app_errors)
    lines = app.topic("lines", value=str, errors=fail)

    @app.process(lines, errors=errors_above)
    def above(line: str) -> str:
        return line

    @app.process(above, errors=errors_below)
    def below(line: str) -> None:
        del line

    return build(app)


def test_a_policy_that_the_handler_above_overrules_is_refused_with_the_line_that_works() -> None:
    with pytest.raises(DeclarationError) as caught:
        fused(None, dead_letter("dead", retries=2))

    assert caught.value.subject == "handler 'below'"
    assert caught.value.fix == "@app.process(…, errors=dead_letter(\"dead\", retries=2))  # on 'above', and 'below' without errors="
    with pytest.raises(DeclarationError):
        fused(skip, fail)


def test_a_follower_may_repeat_the_policy_that_decides_or_leave_it_to_the_app() -> None:
    assert fused(skip, skip).warnings == ()
    assert fused(skip, None, dead_letter("dead")).dead_letters == ()
    assert "errors: skip" in as_text(fused(skip, None))


def test_behind_a_repartition_topic_a_handler_has_its_own_policy() -> None:
    app = App("app")
    lines = app.topic("lines", value=str)

    @app.process(lines)
    def split(line: str) -> Record[str, int]:
        return Record(line, 1)

    @app.process(split, errors=skip)
    def count(n: int, total: Value[int]) -> None:
        total.add(n)

    assert build(app).warnings == ()


def test_a_policy_that_holds_for_some_inputs_only_is_worth_a_warning() -> None:
    app = App("app")
    lines, more = app.topic("lines", key=str, value=str), app.topic("more", key=str, value=str)

    @app.process(lines)
    def above(line: str) -> str:
        return line

    @app.process(above, more, errors=skip)
    def below(line: str) -> None:
        del line

    (warning,) = build(app).warnings
    assert warning.startswith("errors= of 'below' does not hold for every input: 'above' hands it records in the same task")


def test_an_output_that_nobody_takes_is_refused() -> None:
    app = App("app")
    lines = app.topic("lines", value=str)

    @app.process(lines)
    def upper(line: str) -> str:
        return line.upper()

    with pytest.raises(DeclarationError) as caught:
        build(app)
    assert caught.value.subject == "handler 'upper'"
    assert caught.value.fix == "@app.process(…, to=results)  # or def upper(…) -> None:"


def test_an_app_without_handlers_is_refused() -> None:
    with pytest.raises(DeclarationError) as caught:
        build(App("empty"))
    assert caught.value.subject == "app 'empty'"


def test_a_task_name_that_a_topic_and_a_handler_both_give_is_refused() -> None:
    app = App("app")
    split_topic = app.topic("split", value=str)

    @app.process(split_topic)
    def split(line: str) -> Record[str, int]:
        return Record(line, 1)

    @app.process(split)
    def count(n: int, total: Value[int]) -> None:
        total.add(n)

    with pytest.raises(DeclarationError) as caught:
        build(app)
    assert caught.value.fix == '@app.process(…, name="split-handler")'


def test_topics_that_share_state_must_write_their_keys_alike() -> None:
    app = App("app")
    plain: Topic[int, int] = app.topic("plain", key=int, value=int)
    text: Topic[int, int] = app.topic("text", key=int, value=int, key_codec="json")

    @app.process(plain, text)
    def both(n: int, total: Value[int]) -> None:
        total.add(n)

    with pytest.raises(DeclarationError) as caught:
        build(app)
    assert caught.value.subject == "topic 'text'"
    assert "key_codec=" in caught.value.fix


def test_also_topics_are_on_the_node() -> None:
    app = App("app")
    lines = app.topic("lines", key=str, value=str)
    alerts = app.topic("alerts", key=str, value=str)

    @app.process(lines, also=[alerts])
    def watch(line: str, key: str) -> Sent | None:
        return alerts.record(key, line) if "!" in line else None

    (only,) = build(app).subs
    assert only.nodes[0].also == (alerts,)
