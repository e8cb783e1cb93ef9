"""From declared handlers to plain calls: each handler becomes one function that runs it and everything fused below.

All decisions that do not depend on the record (which parameters, which codecs, whether the key changed) are taken
here, once per task, so that the loop over records only calls.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from streamlet.codecs import BoundCodec, explain_encode
from streamlet.context import Context
from streamlet.errors import StreamletError
from streamlet.output import OutputKind
from streamlet.record import Record, Sent
from streamlet.runtime.batching import BatchCall
from streamlet.runtime.outbox import Outbox
from streamlet.signature import First, Param, ParamKind
from streamlet.topology import Node, SubTopology

# value, decoded key (None where no step asks for it), the key's bytes, timestamp
Step = Callable[[object, object, bytes | None, int], None]
Call = Callable[[object, object, int], object]
AnyCodec = BoundCodec[object]


class WrongOutput(StreamletError):
    """A handler returned something that its declaration does not allow."""

    def __init__(self, handler: str, expected: str, got: str) -> None:
        super().__init__(handler, expected, got)
        self.handler, self.expected, self.got = handler, expected, got

    def __str__(self) -> str:
        return f"'{self.handler}' should give {self.expected}, but gave {self.got}. Change what it returns, or its declaration."


@dataclass(frozen=True, slots=True)
class Bindings:
    """What a task hands to its handlers."""

    outbox: Outbox
    context: Context
    states: Mapping[tuple[str, str], object]  # (handler, parameter) → state handle
    resources: Mapping[str, object]  # resource name → value


def compile_step(sub: SubTopology, index: int, key_codec: AnyCodec | None, bindings: Bindings) -> Step:
    """The function that runs node `index` for one record, with everything fused below it.

    `key_codec` made the key's bytes; it is None below a handler that may have changed the key.
    """
    node = sub.nodes[index]
    output, name = node.handler.signature.output, node.handler.name
    call = _bind_call(node, bindings)
    emit = _compile_emit(sub, node, key_codec, bindings)

    def run_for_effect(value: object, key: object, _key_bytes: bytes | None, timestamp: int) -> None:
        result = call(value, key, timestamp)
        if result is not None:
            raise WrongOutput(name, "nothing", type(result).__name__)

    def run_one(value: object, key: object, key_bytes: bytes | None, timestamp: int) -> None:
        result = call(value, key, timestamp)
        if result is not None:
            emit(result, key, key_bytes, timestamp)

    def run_many(value: object, key: object, key_bytes: bytes | None, timestamp: int) -> None:
        results = call(value, key, timestamp)
        if not isinstance(results, Iterable):
            raise WrongOutput(name, "an iterator", type(results).__name__)
        for result in cast("Iterable[object]", results):
            if result is not None:
                emit(result, key, key_bytes, timestamp)

    if output.many:
        return run_many
    direct = _compile_direct(node, key_codec, bindings)
    if direct is not None:
        return direct
    return run_for_effect if output.kind is OutputKind.NOTHING and not output.admits_sent else run_one


def _compile_direct(node: Node, key_codec: AnyCodec | None, bindings: Bindings) -> Step | None:
    """The commonest shape in one call instead of three: a value and one state in, a value out to one topic under the same key."""
    signature, output = node.handler.signature, node.handler.signature.output
    if output.kind is not OutputKind.VALUE or output.admits_sent or len(node.to) != 1 or node.followers or node.repartition is not None:
        return None
    if (
        signature.first is not First.VALUE
        or len(signature.params) > 1
        or any(p.keyword or p.kind is ParamKind.KEY for p in signature.params)
    ):
        return None
    if _key_bytes_encoder(node.to[0].key_codec, key_codec) is not None:
        return None
    function, append, codec = node.handler.function, bindings.outbox.records.append, node.to[0].value_codec
    topic, encode = node.to[0].name, codec.encode
    arguments = [_argument(node.handler.name, param, bindings) for param in signature.params]

    def run_stateless(value: object, _key: object, key_bytes: bytes | None, timestamp: int) -> None:
        result = function(value)
        if result is not None:
            try:
                append((topic, key_bytes, encode(result), timestamp, None))
            except Exception as error:  # whatever a codec raises, said clearly
                raise explain_encode(codec, result, error) from error

    if not arguments:
        return run_stateless
    only = arguments[0]

    def run_with_one(value: object, _key: object, key_bytes: bytes | None, timestamp: int) -> None:
        result = function(value, only)
        if result is not None:
            try:
                append((topic, key_bytes, encode(result), timestamp, None))
            except Exception as error:  # whatever a codec raises, said clearly
                raise explain_encode(codec, result, error) from error

    return run_with_one


def compile_batch(sub: SubTopology, index: int, bindings: Bindings) -> BatchCall:
    """The function that runs batch handler `index` for many records; its outputs carry the newest input's time."""
    node = sub.nodes[index]
    name, first = node.handler.name, node.handler.signature.first
    call = _bind_call(node, bindings)
    emit = _compile_emit(sub, node, None, bindings)

    def run(records: list[Record[object, object]]) -> None:
        timestamp = max(record.timestamp or 0 for record in records)
        results = call(records if first is First.RECORD else [record.value for record in records], None, timestamp)
        if results is None:
            return
        if not isinstance(results, Iterable):
            raise WrongOutput(name, "an iterator", type(results).__name__)
        for result in cast("Iterable[object]", results):
            if result is not None:
                emit(result, None, None, timestamp)

    return run


def _bind_call(node: Node, bindings: Bindings) -> Call:
    """Put the parameters that never change in their places; only value, key and timestamp are left."""
    function, signature, name = node.handler.function, node.handler.signature, node.handler.name
    fixed = [_argument(name, param, bindings) for param in signature.params if not param.keyword]
    keywords = {param.name: _argument(name, param, bindings) for param in signature.params if param.keyword}
    key_at = next((i for i, p in enumerate(signature.params) if p.kind is ParamKind.KEY and not p.keyword), None)
    key_named = any(param.kind is ParamKind.KEY and param.keyword for param in signature.params)
    context = bindings.context

    if signature.first is First.RECORD and not signature.batch:
        inner = _bind_rest(function, fixed, keywords, key_at, key_named)
        return lambda value, key, timestamp: inner(Record(key, value, timestamp, context.headers), key, timestamp)
    return _bind_rest(function, fixed, keywords, key_at, key_named)


def _bind_rest(
    function: Callable[..., object], fixed: list[object], keywords: dict[str, object], key_at: int | None, key_named: bool
) -> Call:
    if key_named:
        return lambda value, key, _timestamp: function(value, *fixed, **{**keywords, "key": key})
    if key_at is not None:
        before, after = tuple(fixed[:key_at]), tuple(fixed[key_at + 1 :])
        return lambda value, key, _timestamp: function(value, *before, key, *after, **keywords)
    if keywords:
        return lambda value, _key, _timestamp: function(value, *fixed, **keywords)
    if not fixed:
        return lambda value, _key, _timestamp: function(value)
    if len(fixed) == 1:
        only = fixed[0]  # the commonest shape; saves unpacking a list per record
        return lambda value, _key, _timestamp: function(value, only)
    arguments = tuple(fixed)
    return lambda value, _key, _timestamp: function(value, *arguments)


def _argument(handler: str, param: Param, bindings: Bindings) -> object:
    if param.kind is ParamKind.STATE:
        return bindings.states[handler, param.name]
    if param.kind is ParamKind.CONTEXT:
        return bindings.context
    if param.kind is ParamKind.RESOURCE:
        assert param.resource is not None, "a resource parameter names its resource"
        return bindings.resources[param.resource.name]
    return None  # the key: filled in per record


def _compile_emit(sub: SubTopology, node: Node, key_codec: AnyCodec | None, bindings: Bindings) -> Step:
    """What happens to one result: encoded for every topic it goes to, then given to the handlers fused behind."""
    output = node.handler.signature.output
    if output.kind is OutputKind.NOTHING:
        send = _refuse_all(node)
    elif output.kind is OutputKind.RECORD:
        send = _compile_record(sub, node, bindings)
    else:
        send = _compile_value(sub, node, key_codec, bindings)
    if not output.admits_sent:
        return send
    send_sent = _compile_sent(node, bindings)

    def send_either(result: object, key: object, key_bytes: bytes | None, timestamp: int) -> None:
        if isinstance(result, Sent):
            send_sent(result, timestamp)
        else:
            send(result, key, key_bytes, timestamp)

    return send_either


def _refuse_all(node: Node) -> Step:
    """For a handler that gives nothing, or nothing but records for declared topics."""
    expected = "records made by topic.record(…)" if node.handler.signature.output.admits_sent else "nothing"

    def refuse(result: object, _key: object, _key_bytes: bytes | None, _timestamp: int) -> None:
        raise WrongOutput(node.handler.name, expected, type(result).__name__)

    return refuse


def _compile_value(sub: SubTopology, node: Node, key_codec: AnyCodec | None, bindings: Bindings) -> Step:
    """A bare value keeps the key: its bytes are passed on where the topic would encode them the same way."""
    append = bindings.outbox.records.append
    targets = [(topic.name, _key_bytes_encoder(topic.key_codec, key_codec), encoder(topic.value_codec)) for topic in node.to]
    followers = [compile_step(sub, index, key_codec, bindings) for index in node.followers]
    moved = _moved(node)

    def send(result: object, key: object, key_bytes: bytes | None, timestamp: int) -> None:
        for name, encode_key, encode in targets:
            append((name, key_bytes if encode_key is None else encode_key(key), encode(result), timestamp, None))
        if moved is not None:
            topic, encode_key, encode = moved
            bindings.outbox.moved.append((topic, encode_key(key), encode(result), timestamp, None))
        for step in followers:
            step(result, key, key_bytes, timestamp)

    return send


Encode = Callable[[object], bytes | None]


def encoder(codec: AnyCodec) -> Encode:
    """The codec's `encode` as outputs need it: null stays null, and what it cannot write is said clearly."""
    encode = codec.encode

    def encode_or_explain(value: object) -> bytes | None:
        if value is None:
            return None
        try:
            return encode(value)
        except Exception as error:  # whatever a codec raises
            raise explain_encode(codec, value, error) from error

    return encode_or_explain


def _moved(node: Node) -> tuple[str, Encode, Encode] | None:
    """The repartition topic of a handler, if its output goes through one."""
    topic = node.repartition
    return None if topic is None else (topic.name, encoder(topic.key_codec), encoder(topic.value_codec))


def _key_bytes_encoder(wanted: AnyCodec, have: AnyCodec | None) -> Encode | None:
    """None where the key's own bytes serve."""
    return None if have is not None and have.describe() == wanted.describe() else encoder(wanted)


def _compile_record(sub: SubTopology, node: Node, bindings: Bindings) -> Step:
    """A Record says its key itself; unless it says more, it carries its input's timestamp and no headers."""
    append, context, name = bindings.outbox.records.append, bindings.context, node.handler.name
    targets = [(topic.name, encoder(topic.key_codec), encoder(topic.value_codec)) for topic in node.to]
    followers = [(compile_step(sub, index, None, bindings), sub.nodes[index].handler.signature.admits_null) for index in node.followers]
    moved = _moved(node)
    keeps_key = node.handler.wiring.keeps_key

    def send(result: object, key: object, _key_bytes: bytes | None, timestamp: int) -> None:
        if not isinstance(result, Record):
            raise WrongOutput(name, "a Record", type(result).__name__)
        result = cast("Record[object, object]", result)
        if keeps_key and result.key != key:
            raise WrongOutput(name, f"the key it was given ({key!r}), as keeps_key=True promises", repr(result.key))
        at = timestamp if result.timestamp is None else result.timestamp
        headers = list(result.headers) if result.headers else None
        for topic, encode_key, encode in targets:
            append((topic, encode_key(result.key), encode(result.value), at, headers))
        if moved is not None:
            topic, encode_key, encode = moved
            bindings.outbox.moved.append((topic, encode_key(result.key), encode(result.value), at, headers))
        if followers:
            seen = context.key, context.timestamp, context.headers
            context.key, context.timestamp, context.headers = result.key, at, tuple(result.headers)
            for step, admits_null in followers:
                if result.value is not None or admits_null:
                    step(result.value, result.key, None, at)
            context.key, context.timestamp, context.headers = seen

    return send


def _compile_sent(node: Node, bindings: Bindings) -> Callable[[Sent, int], None]:
    """A record for one of the topics in `also=`."""
    append, name = bindings.outbox.records.append, node.handler.name
    targets = {topic.name: (encoder(topic.key_codec), encoder(topic.value_codec)) for topic in (*node.also, *node.to)}

    def send(sent: Sent, timestamp: int) -> None:
        target = targets.get(sent.topic)
        if target is None:
            raise WrongOutput(name, f"records for its declared topics ({', '.join(sorted(targets))})", f"one for '{sent.topic}'")
        encode_key, encode = target
        at = timestamp if sent.timestamp is None else sent.timestamp
        append((sent.topic, encode_key(sent.key), encode(sent.value), at, list(sent.headers) or None))

    return send
