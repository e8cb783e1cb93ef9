"""Any app: the graph is cut so that every key meets its state, and nothing is lost or doubled."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from streamlet import App, Record, Value
from streamlet.partitioning import internal_partitions, plan_partitions
from streamlet.topology import Topology, build


@st.composite
def apps(draw: st.DrawFn) -> App:
    """Up to eight handlers over three topics: with or without state of their own or shared, changing the key or not."""
    app = App("app")
    topics: list[Any] = [app.topic(f"t{number}", key=str, value=int) for number in range(3)]
    out = app.topic("out", key=str, value=int)
    shared = app.store("shared", Value[int])
    sources: list[Any] = list(topics)
    for number in range(draw(st.integers(1, 8))):
        source = draw(st.lists(st.sampled_from(sources), min_size=1, max_size=2, unique=True))
        sources.append(declare(app, f"h{number}", source, out, shared, draw(st.sampled_from(list(SHAPES)))))
    return app


def declare(app: App, name: str, source: list[Any], out: Any, shared: Any, shape: str) -> Any:
    state, rekeys = SHAPES[shape]
    hints: dict[str, object] = {"value": int, "return": Record[str, int] if rekeys else int}

    def plain(value: int) -> Any: ...

    def own(value: int, total: Value[int]) -> Any: ...

    def common(value: int, total: Value[int] = shared) -> Any: ...

    function = {"": plain, "own": own, "shared": common}[state]
    function.__annotations__.update(hints)
    return app.process(*source, to=out, name=name)(function)


SHAPES = {f"{state}{rekeys}": (state, rekeys) for state in ("", "own", "shared") for rekeys in (False, True)}


@given(apps())
@settings(max_examples=100, deadline=None)
def test_every_handler_is_in_one_sub_topology_and_reads_all_its_sources(app: App) -> None:
    topology = build(app)

    placed = [node.handler.name for sub in topology.subs for node in sub.nodes]
    assert sorted(placed) == sorted(app.declared.handlers)
    for handler in app.declared.handlers.values():
        assert sorted(feeds(topology, handler.name)) == sorted(source.name for source in handler.wiring.sources)


@given(apps())
@settings(max_examples=100, deadline=None)
def test_no_state_is_reached_by_a_key_that_changed_on_the_way(app: App) -> None:
    for sub in build(app).subs:
        pending = [(root, False) for source in sub.sources for root in source.roots]
        while pending:
            index, changed = pending.pop()
            node = sub.nodes[index]
            assert not (changed and node.handler.signature.stores), f"{node.handler.name} keeps state by a key that is elsewhere"
            pending += [(follower, changed or node.handler.changes_key) for follower in node.followers]


@given(apps())
@settings(max_examples=100, deadline=None)
def test_every_store_and_topic_belongs_to_one_sub_topology(app: App) -> None:
    topology = build(app)

    for names in (
        [spec.name for sub in topology.subs for spec in sub.stores],
        [source.topic.name for sub in topology.subs for source in sub.sources],
        [topic.name for topic in topology.internal],
        [sub.name for sub in topology.subs],
    ):
        assert len(names) == len(set(names))
    sizes = plan_partitions(topology, {f"t{number}": 3 for number in range(3)})
    assert set(sizes.values()) == {3}
    assert set(internal_partitions(topology, sizes).values()) <= {1, 3}


def feeds(topology: Topology, name: str) -> list[str]:
    """The sources whose records reach a handler, by topic, repartition topic or call."""
    found: list[str] = []
    for sub in topology.subs:
        reading = [source for source in sub.sources if any(sub.nodes[root].handler.name == name for root in source.roots)]
        found += [source.repartitions.name if source.repartitions else source.topic.name for source in reading]
        found += [node.handler.name for node in sub.nodes if any(sub.nodes[index].handler.name == name for index in node.followers)]
    return found
