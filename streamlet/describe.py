"""A topology as text for people, Mermaid for pages, JSON for programs. Pure: equal topologies give equal text."""

import json
from collections.abc import Iterator
from typing import Literal

from streamlet.handler import AnyHandler, AnyTopic
from streamlet.hints import shown
from streamlet.internal_topics import Largest, Like
from streamlet.output import OutputKind
from streamlet.policy import DeadLetter, Fail, Policy, Skip
from streamlet.topology import InternalTopic, Node, SubTopology, Topology

Format = Literal["text", "mermaid", "json"]


def describe(topology: Topology, format: Format = "text") -> str:  # noqa: A002  (as the command line's option)
    """The topology in one of its three forms."""
    if format == "json":
        return as_json(topology)
    return as_mermaid(topology) if format == "mermaid" else as_text(topology)


def as_text(topology: Topology) -> str:
    """One block per kind of task: what it reads, runs and keeps."""
    lines = [f"app {topology.app}"]
    for sub in topology.subs:
        lines += ["", f"tasks {sub.name}/<partition>"]
        for source in sub.sources:
            lines.append(f"  reads {_topic(source.topic)}")
            for root in source.roots:
                lines += _text_of(sub, root, 2, _on_error(sub.nodes[root].handler.wiring.errors))
        lines += [f"  keeps {spec.name}: {spec.describe()}" for spec in sub.stores]
    lines += ["", "internal topics"]
    lines += [f"  {topic.name} ({_partitions(topic)}, {topic.config['cleanup.policy']})" for topic in topology.internal]
    if topology.dead_letters:
        lines += ["", "dead letters go to", *(f"  {name}" for name in topology.dead_letters)]
    lines += [f"warning: {warning}" for warning in topology.warnings]
    return "\n".join(lines) + "\n"


def _text_of(sub: SubTopology, index: int, depth: int, on_error: str = "") -> Iterator[str]:
    """A handler and what is fused below it; the policy stands at the top, where it decides for all."""
    node = sub.nodes[index]
    yield f"{'  ' * depth}{_call(node.handler)}{on_error}"
    for word, topics in (("to", node.to), ("also to", node.also), ("through", (node.repartition,) if node.repartition else ())):
        for topic in topics:
            yield f"{'  ' * (depth + 1)}{word} {_topic(topic)}"
    for follower in node.followers:
        yield from _text_of(sub, follower, depth + 1)


def _topic(topic: AnyTopic) -> str:
    key = shown(topic.key_type) if topic.has_key else "opaque bytes"
    return f"{topic.name} ({key} → {shown(topic.value_type)})"


def _call(handler: AnyHandler) -> str:
    signature, batching = handler.signature, handler.wiring.batching
    stores = "".join(f", {use.name}" for use in signature.stores)
    batch = f" in batches of {batching.size}" if batching else ""
    return f"{handler.name}({shown(signature.value_type)}{stores}){_gives(handler)}{batch}"


def _gives(handler: AnyHandler) -> str:
    output = handler.signature.output
    if output.kind is OutputKind.NOTHING:
        return ""
    one = shown(output.value_type)
    if output.kind is OutputKind.RECORD:
        one = f"{shown(output.key_type)} → {one}"
    return f" gives {'many ' if output.many else ''}{one}"


def _on_error(policy: Policy) -> str:
    match policy:
        case Fail():
            return ""
        case Skip():
            return ", errors: skip"
        case DeadLetter(topic=topic):
            return f", errors: dead letter {topic}"


def _partitions(topic: InternalTopic) -> str:
    match topic.partitions:
        case Like(sub=sub):
            return f"partitions as {sub}"
        case Largest():
            return "partitions as the largest"
        case count:
            return f"{count} partition{'' if count == 1 else 's'}"


def as_mermaid(topology: Topology) -> str:
    """A flowchart: topics are stadiums, handlers boxes, stores cylinders; one frame per kind of task."""
    chart = _Chart()
    for number, sub in enumerate(topology.subs):
        chart.lines.append(f'  subgraph sub{number}["{_escaped(sub.name)}"]')
        for node in sub.nodes:
            chart.lines.append(f'    {chart.id("handler", node.handler.name)}["{_escaped(node.handler.name)}"]')
        for spec in sub.stores:
            chart.lines.append(f'    {chart.id("store", spec.name)}[("{_escaped(spec.name)}")]')
        chart.lines.append("  end")
    for sub in topology.subs:
        for source in sub.sources:
            for root in source.roots:
                chart.arrow(chart.topic(source.topic.name), chart.id("handler", sub.nodes[root].handler.name))
        for node in sub.nodes:
            _arrows_of(chart, sub, node)
    return "\n".join(["flowchart LR", *chart.lines]) + "\n"


class _Chart:
    """Lines of a flowchart. Names become short ids, since Mermaid reads words such as `end` as its own."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._ids: dict[tuple[str, str], str] = {}

    def id(self, kind: str, name: str) -> str:
        return self._ids.setdefault((kind, name), f"{kind[0]}{len(self._ids)}")

    def topic(self, name: str) -> str:
        known = ("topic", name) in self._ids
        short = self.id("topic", name)
        if not known:
            self.lines.append(f'  {short}(["{_escaped(name)}"])')
        return short

    def arrow(self, start: str, end: str, line: str = "-->") -> None:
        self.lines.append(f"  {start} {line} {end}")


def _arrows_of(chart: _Chart, sub: SubTopology, node: Node) -> None:
    me = chart.id("handler", node.handler.name)
    for topic in (*node.to, *((node.repartition,) if node.repartition else ())):
        chart.arrow(me, chart.topic(topic.name))
    for topic in node.also:
        chart.arrow(me, chart.topic(topic.name), "-.->")
    for follower in node.followers:
        chart.arrow(me, chart.id("handler", sub.nodes[follower].handler.name))
    for use in node.handler.signature.stores:
        for spec in use.specs:
            chart.arrow(me, chart.id("store", spec.name), "---")


def _escaped(name: str) -> str:
    return name.replace("&", "#amp;").replace('"', "#quot;")


def as_json(topology: Topology) -> str:
    """One JSON document with everything a program may ask about."""
    document = {
        "app": topology.app,
        "sub_topologies": [_sub_json(sub) for sub in topology.subs],
        "internal_topics": [
            {"name": topic.name, "kind": topic.kind.value, "partitions": _partitions_json(topic), "config": dict(topic.config)}
            for topic in topology.internal
        ],
        "dead_letters": list(topology.dead_letters),
        "resources": [resource.name for resource in topology.resources],
        "warnings": list(topology.warnings),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _sub_json(sub: SubTopology) -> dict[str, object]:
    return {
        "name": sub.name,
        "sources": [
            {
                "topic": source.topic.name,
                "key": source.topic.key_codec.describe() if source.topic.has_key else None,
                "value": source.topic.value_codec.describe(),
                "internal": source.repartitions is not None,
                "handlers": [sub.nodes[root].handler.name for root in source.roots],
            }
            for source in sub.sources
        ],
        "handlers": [
            {
                "name": node.handler.name,
                "to": [topic.name for topic in node.to],
                "also": [topic.name for topic in node.also],
                "followers": [sub.nodes[follower].handler.name for follower in node.followers],
                "repartition": node.repartition.name if node.repartition else None,
                "stores": [spec.name for use in node.handler.signature.stores for spec in use.specs],
            }
            for node in sub.nodes
        ],
        "stores": [{"name": spec.name, "type": spec.describe()} for spec in sub.stores],
    }


def _partitions_json(topic: InternalTopic) -> int | str:
    match topic.partitions:
        case Like(sub=sub):
            return f"as {sub}"
        case Largest():
            return "as the largest"
        case count:
            return count
