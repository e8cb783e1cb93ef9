"""The graph of sources, handlers and stores: a value, built before anything runs and the same on every worker.

A handler runs in the task of the record it follows. Only where the key may have changed and state follows is the graph
cut: the output goes through a repartition topic, so that each key meets its state. A batch is gathered from a topic, so
one that follows a handler reads it through such a topic too. Handlers that share a store share a task; so do those that
read one topic.

Invariant: every handler is in exactly one sub-topology, and so is every store.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from streamlet.app import App, codec_of
from streamlet.declaration import DeclarationError
from streamlet.groups import Groups
from streamlet.handler import AnyHandler, AnyTopic, Batching, Handler
from streamlet.hints import shown
from streamlet.internal_topics import InternalTopic, Largest, Like, TopicKind, changelog_name, control_topics, repartition_name
from streamlet.output import OutputKind
from streamlet.policy import DeadLetter, fail, written
from streamlet.resource import Resource
from streamlet.state.spec import StoreSpec
from streamlet.subject import identifier
from streamlet.topic import Topic

__all__ = ["InternalTopic", "Largest", "Like", "Node", "Source", "SubTopology", "TopicKind", "Topology", "build"]


@dataclass(frozen=True, slots=True)
class Source:
    """An input of a sub-topology; `roots` are the nodes that read it, in declaration order.

    `repartitions` is the handler whose output this internal topic carries, None for a topic of the user's.
    """

    topic: AnyTopic
    roots: tuple[int, ...]
    repartitions: AnyHandler | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A handler in its place. `followers` are nodes of the same sub-topology called with its outputs, in declaration order.

    `repartition` is the topic its output goes to as well, for the followers that need their key in place.
    """

    handler: AnyHandler
    to: tuple[AnyTopic, ...]
    also: tuple[AnyTopic, ...]
    followers: tuple[int, ...]
    repartition: AnyTopic | None

    @property
    def batching(self) -> Batching | None:
        """How records are gathered, for a batch handler."""
        return self.handler.wiring.batching


@dataclass(frozen=True, slots=True)
class SubTopology:
    """What one task runs. Its tasks are `<name>/<partition>`."""

    name: str
    sources: tuple[Source, ...]
    nodes: tuple[Node, ...]
    stores: tuple[StoreSpec, ...]


@dataclass(frozen=True, slots=True)
class Topology:
    """Everything an app declares, ready to run. `warnings` are sentences worth a look, never reasons to stop."""

    app: str
    subs: tuple[SubTopology, ...]
    topics: tuple[AnyTopic, ...]
    internal: tuple[InternalTopic, ...]
    resources: tuple[Resource, ...]
    dead_letters: tuple[str, ...]
    warnings: tuple[str, ...]

    def sub(self, name: str) -> SubTopology:
        """The sub-topology of this name."""
        return next(sub for sub in self.subs if sub.name == name)


def build(app: App) -> Topology:
    """Cut an app's graph into what its tasks run, or refuse it with the corrected line."""
    handlers = tuple(app.declared.handlers.values())
    if not handlers:
        raise DeclarationError(f"app '{app.name}'", "it has no handlers, so there is nothing to run", "@app.process(lines)")
    graph = _Graph(app, handlers)
    for handler in handlers:
        _check_outlet(handler, graph)
    subs = tuple(graph.cut())
    _check_names(subs)
    overruled = _check_policies(subs)
    internal = (*_store_topics(app, subs), *_repartition_topics(subs), *control_topics(app.name))
    _check_internal_names(app, internal)
    return Topology(
        app=app.name,
        subs=subs,
        topics=tuple(app.declared.topics.values()),
        internal=internal,
        resources=tuple(app.declared.resources.values()),
        dead_letters=_dead_letters(subs),
        warnings=(*_warnings(app, handlers), *overruled),
    )


class _Graph:
    """The questions about an app's handlers that cutting it needs answered."""

    def __init__(self, app: App, handlers: tuple[AnyHandler, ...]) -> None:
        self.app, self.handlers = app, handlers
        self.followers: dict[str, list[AnyHandler]] = {handler.name: [] for handler in handlers}
        for handler in handlers:
            for source in handler.wiring.sources:
                if isinstance(source, Handler):
                    self.followers[source.name].append(handler)
        # A handler needs its key in place if it has state, or if one below it has and the key stays as it is.
        self.needs_place: dict[str, bool] = {}
        for handler in reversed(handlers):
            fused = [follower for follower in self.followers[handler.name] if follower.wiring.batching is None]
            below = any(self.needs_place[follower.name] for follower in fused)
            self.needs_place[handler.name] = bool(handler.signature.stores) or (below and not handler.changes_key)

    def through_topic(self, source: AnyHandler, follower: AnyHandler) -> bool:
        """Whether a follower reads its source through a repartition topic."""
        return follower.wiring.batching is not None or (source.changes_key and self.needs_place[follower.name])

    def repartitioned(self, handler: AnyHandler) -> bool:
        """Whether a handler's output goes to a repartition topic."""
        return any(self.through_topic(handler, follower) for follower in self.followers[handler.name])

    def inputs(self, handler: AnyHandler) -> Iterable[tuple[str, str]]:
        """What a handler must stand together with: its topics, repartition topics, fused sources and stores."""
        for source in handler.wiring.sources:
            if isinstance(source, Topic):
                yield "topic", source.name
            else:
                yield ("repartition" if self.through_topic(source, handler) else "handler"), source.name
        for use in handler.signature.stores:
            yield "store", use.name

    def cut(self) -> Iterable[SubTopology]:
        """The sub-topologies: by the first topic of the user's they read, then by repartitioned handler."""
        groups: Groups[tuple[str, str]] = Groups()
        for handler in self.handlers:
            for other in self.inputs(handler):
                groups.join(("handler", handler.name), other)
        topics = [("topic", name) for name in self.app.declared.topics if groups.knows(("topic", name))]
        repartitions = [("repartition", handler.name) for handler in self.handlers if self.repartitioned(handler)]
        seen: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for place in (*topics, *repartitions):
            seen.setdefault(groups.root(place), []).append(place)
        carriers = self._carriers(seen.values())
        for root, places in seen.items():
            members = tuple(handler for handler in self.handlers if groups.root(("handler", handler.name)) == root)
            yield self._sub(places, members, carriers)

    def _carriers(self, subs: Iterable[list[tuple[str, str]]]) -> Mapping[str, AnyTopic]:
        """The repartition topics, by handler. Beside a user's topic they write keys as it does, so that equal keys meet."""
        carriers: dict[str, AnyTopic] = {}
        for places in subs:
            beside = next((self.app.declared.topics[name] for kind, name in places if kind == "topic"), None)
            for kind, name in places:
                if kind == "repartition":
                    carriers[name] = _carrier(self.app, self.app.declared.handlers[name], beside)
        return carriers

    def _sub(self, places: list[tuple[str, str]], members: tuple[AnyHandler, ...], carriers: Mapping[str, AnyTopic]) -> SubTopology:
        index = {handler.name: position for position, handler in enumerate(members)}
        nodes = tuple(
            Node(
                handler=handler,
                to=handler.wiring.to,
                also=handler.wiring.also,
                followers=tuple(
                    index[follower.name] for follower in self.followers[handler.name] if not self.through_topic(handler, follower)
                ),
                repartition=carriers.get(handler.name),
            )
            for handler in members
        )
        sources = tuple(self._source(place, members, carriers) for place in places)
        stores = {spec.name: spec for handler in members for use in handler.signature.stores for spec in use.specs}
        sub = SubTopology(places[0][1], sources, nodes, tuple(stores.values()))
        _check_key_codecs(sub)
        return sub

    def _source(self, place: tuple[str, str], members: tuple[AnyHandler, ...], carriers: Mapping[str, AnyTopic]) -> Source:
        roots = tuple(position for position, handler in enumerate(members) if place in self.inputs(handler))
        kind, name = place
        if kind == "topic":
            return Source(self.app.declared.topics[name], roots)
        return Source(carriers[name], roots, self.app.declared.handlers[name])


def _carrier(app: App, handler: AnyHandler, beside: AnyTopic | None) -> AnyTopic:
    output, name = handler.signature.output, repartition_name(app.name, handler.name)
    subject = f"handler '{handler.name}', whose output goes through a repartition topic"
    key_codec = (
        beside.key_codec if beside is not None and beside.has_key else codec_of(subject, output.key_type, None, topic=name, part="key")
    )
    return Topic(
        name=name,
        key_type=output.key_type,
        value_type=output.value_type,
        has_key=output.has_key,
        key_codec=key_codec,
        value_codec=codec_of(subject, output.value_type, None, topic=name, part="value"),
        errors=fail,
        partitions=handler.wiring.repartition,
    )


def _check_outlet(handler: AnyHandler, graph: _Graph) -> None:
    output = handler.signature.output
    if output.kind is not OutputKind.NOTHING and not handler.wiring.to and not graph.followers[handler.name]:
        raise DeclarationError(
            f"handler '{handler.name}'",
            f"it gives {shown(output.value_type)}, but nobody takes it: it has no to= and no follower",
            f"@app.process(…, to=results)  # or def {handler.function.__name__}(…) -> None:",
            None,
            handler.place,
        )


def _check_key_codecs(sub: SubTopology) -> None:
    """Equal keys meet in one task only if all its inputs write them as equal bytes."""
    keyed = [source.topic for source in sub.sources if source.topic.has_key]
    for topic in keyed[1:]:
        first, other = keyed[0].key_codec.describe(), topic.key_codec.describe()
        if sub.stores and first != other:
            raise DeclarationError(
                f"topic '{topic.name}'",
                f"its keys are written as {other}, those of '{keyed[0].name}' as {first}, so equal keys would land in different partitions "
                f"although handlers share the state of {_names(sub)}",
                f'{identifier(topic.name)} = app.topic("{topic.name}", …, key_codec=…)  # as "{keyed[0].name}"',
            )


def _names(sub: SubTopology) -> str:
    return ", ".join(f"'{spec.name}'" for spec in sub.stores)


def _check_names(subs: tuple[SubTopology, ...]) -> None:
    taken: set[str] = set()
    for sub in subs:
        if sub.name in taken:
            problem = f"a topic and a repartitioned handler both give tasks of the name '{sub.name}'"
            raise DeclarationError(f"handler '{sub.name}'", problem, f'@app.process(…, name="{sub.name}-handler")')
        taken.add(sub.name)
    stores: set[str] = set()
    for spec in (spec for sub in subs for spec in sub.stores):
        if spec.name in stores:
            raise DeclarationError(f"store '{spec.name}'", "two stores have this name", 'Annotated[Value[int], state(name="…")]  # another')
        stores.add(spec.name)


def _check_policies(subs: tuple[SubTopology, ...]) -> list[str]:
    """A failure takes with it all that is fused, so the handler at the source decides: another policy below it would never be heard.

    Returns warnings for handlers whose own policy holds for some of their inputs only.
    """
    warnings: list[str] = []
    for sub in subs:
        for index, node in enumerate(sub.nodes):
            handler, own = node.handler, node.handler.wiring.errors
            deciding = [sub.nodes[root].handler for root in _roots_above(sub, index)]
            other = next((root for root in deciding if root.wiring.errors != own), None)
            if other is None or not handler.wiring.errors_given:
                continue
            why = f"'{other.name}' hands it records in the same task, and a record that fails takes all with it: errors= of '{other.name}' decides"
            if any(index in source.roots for source in sub.sources):
                warnings.append(f"errors= of '{handler.name}' does not hold for every input: {why}")
                continue
            decorator = "@app.process" if other.wiring.batching is None else "@app.batch"
            fix = f"{decorator}(…, errors={written(own)})  # on '{other.name}', and '{handler.name}' without errors="
            raise DeclarationError(f"handler '{handler.name}'", f"its errors= has no effect: {why}", fix, None, handler.place)
    return warnings


def _roots_above(sub: SubTopology, index: int) -> list[int]:
    """The handlers attached to a source that a node is fused below; not the node itself."""
    attached = {root for source in sub.sources for root in source.roots}
    above = [position for position, node in enumerate(sub.nodes) if index in node.followers]
    further = [root for position in above for root in _roots_above(sub, position)]
    return [*dict.fromkeys([*(position for position in above if position in attached), *further])]


def _check_internal_names(app: App, internal: tuple[InternalTopic, ...]) -> None:
    for topic in internal:
        if len(topic.name) > 249:
            problem = f"the topic '{topic.name}' would have {len(topic.name)} letters, and Kafka takes 249"
            raise DeclarationError(f"app '{app.name}'", problem, "a shorter name for the app, the handler or the store")


def _store_topics(app: App, subs: tuple[SubTopology, ...]) -> Iterable[InternalTopic]:
    for sub in subs:
        for spec in sub.stores:
            yield InternalTopic(changelog_name(app.name, spec.name), TopicKind.CHANGELOG, Like(sub.name), spec.name)


def _repartition_topics(subs: tuple[SubTopology, ...]) -> Iterable[InternalTopic]:
    for sub in subs:
        for source in sub.sources:
            if source.repartitions is not None:
                yield InternalTopic(source.topic.name, TopicKind.REPARTITION, Like(sub.name))


def _dead_letters(subs: tuple[SubTopology, ...]) -> tuple[str, ...]:
    policies = [source.topic.errors for sub in subs for source in sub.sources]
    policies += [sub.nodes[root].handler.wiring.errors for sub in subs for source in sub.sources for root in source.roots]
    return tuple(dict.fromkeys(policy.topic for policy in policies if isinstance(policy, DeadLetter)))


def _warnings(app: App, handlers: tuple[AnyHandler, ...]) -> Iterable[str]:
    wired = [thing for handler in handlers for thing in (*handler.wiring.sources, *handler.wiring.to, *handler.wiring.also)]
    topics = {thing.name for thing in wired if isinstance(thing, Topic)}
    for name in app.declared.topics:
        if name not in topics:
            yield f"topic '{name}' is declared and never used"
    used = {use.name for handler in handlers for use in handler.signature.stores}
    for name in app.declared.stores:
        if name not in used:
            yield f"store '{name}' is declared and never used"
    resources = {param.resource.name for handler in handlers for param in handler.signature.params if param.resource is not None}
    for name in app.declared.resources:
        if name not in resources:
            yield f"resource '{name}' is declared and never used"
