"""Making a handler of a function: every check that needs nothing but the code above it.

Runs once per handler, inside the decorator, so that a mistake is shown at the line where it was made.
"""

from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from streamlet.handler import AnyHandler, AnyTopic, Handler, Wiring
from streamlet.hints import is_assignable, plain, shown, union, without_none
from streamlet.output import Output, OutputKind
from streamlet.signature import parse
from streamlet.stores import SharedStore, check_sharing
from streamlet.subject import Input, Subject, identifier

P = ParamSpec("P")
R = TypeVar("R")


def declare(
    function: Callable[P, R],
    subject: Subject,
    wiring: Wiring,
    *,
    app: str,
    stores: Mapping[str, SharedStore],
    earlier: Mapping[str, AnyHandler],
) -> Handler[P, R, Any]:
    """Check a function against its sources and targets and the `earlier` handlers, and make it a handler."""
    signature = parse(subject, input_of(subject, wiring.sources), stores=stores, batch=wiring.batching is not None)
    _check_targets(subject, signature.output, wiring)
    _check_sent(subject, signature.output, wiring)
    _check_key_options(subject, signature.output, wiring, signature.key_type)
    check_sharing(subject, signature.stores, {name: handler.signature.stores for name, handler in earlier.items()})
    return Handler(function, name=subject.name, app=app, signature=signature, wiring=wiring)


def input_of(subject: Subject, sources: tuple[AnyTopic | AnyHandler, ...]) -> Input:
    """What the sources give together: one key type, the union of their values."""
    inputs = [_one_input(subject, source) for source in sources]
    first = inputs[0]
    for source, other in zip(sources[1:], inputs[1:], strict=True):
        if plain(other.key_type) != plain(first.key_type) or other.has_key != first.has_key:
            raise subject.refuse(
                f"its sources have different keys: '{sources[0].name}' {_key(first)}, '{source.name}' {_key(other)}",
                f"@app.process({source.name})  # in a handler of its own, returning Record[{shown(first.key_type)}, …]",
            )
    told = first.told if len(inputs) == 1 else "its sources give"
    return Input(first.key_type, union(one.value_type for one in inputs), first.has_key, told, first.key_fix)


def _key(given: Input) -> str:
    return shown(given.key_type) if given.has_key else "opaque bytes"


def _one_input(subject: Subject, source: AnyTopic | AnyHandler) -> Input:
    if isinstance(source, Handler):
        output = source.signature.output
        if output.kind is OutputKind.NOTHING:
            raise subject.refuse(
                f"it follows '{source.name}', which gives nothing to its followers",
                f"def {source.function.__name__}(…) -> int:  # or follow what '{source.name}' follows",
            )
        told = f"'{source.name}' {'yields' if output.many else 'returns'}"
        record = f"Record[str, {shown(output.value_type)}]"
        key_fix = f"def {source.function.__name__}(…) -> {f'Iterator[{record}]' if output.many else record}:  # give its output a key"
        return Input(output.key_type, output.value_type, output.has_key, told, key_fix)
    key_fix = f'{identifier(source.name)} = app.topic("{source.name}", key=str, value={shown(source.value_type)})'
    return Input(source.key_type, source.value_type, source.has_key, f"topic '{source.name}' holds", key_fix)


def _returning(subject: Subject, output: Output, text: str) -> str:
    return subject.returning(f"Iterator[{text}]" if output.many else text)


def _check_targets(subject: Subject, output: Output, wiring: Wiring) -> None:
    for topic in wiring.to:
        key, value = shown(topic.key_type), shown(topic.value_type)
        if output.kind is OutputKind.NOTHING:
            raise subject.refuse(f"to='{topic.name}' would get nothing: the return hint gives no value", _returning(subject, output, value))
        gives = without_none(output.value_type)
        if not is_assignable(gives, topic.value_type):
            wanted = f"Record[{shown(output.key_type)}, {value}]" if output.kind is OutputKind.RECORD else value
            fix = f"{_returning(subject, output, wanted)}  # topic '{topic.name}' holds {value}, not {shown(gives)}"
            raise subject.refuse(f"it gives {shown(gives)}, but to='{topic.name}' holds {value}", fix)
        if not is_assignable(without_none(output.key_type), topic.key_type):
            gives_key = shown(output.key_type) if output.has_key else "opaque bytes"
            if topic.has_key:
                fix = f"{_returning(subject, output, f'Record[{key}, {shown(gives)}]')}  # topic '{topic.name}' has key {key}"
            else:
                fix = f'{topic.name} = app.topic("{topic.name}", key={gives_key}, value={value})'
            raise subject.refuse(f"its key is {gives_key}, but to='{topic.name}' has key {key if topic.has_key else 'opaque bytes'}", fix)


def _check_sent(subject: Subject, output: Output, wiring: Wiring) -> None:
    if wiring.also and not output.admits_sent:
        names = ", ".join(topic.name for topic in wiring.also)
        kind = "Record[…]" if output.kind is OutputKind.RECORD else shown(output.value_type)
        text = "Sent | None" if output.kind is OutputKind.NOTHING else f"{kind} | Sent"
        raise subject.refuse(f"also=[{names}] is declared, but the return hint admits no Sent", _returning(subject, output, text))
    if output.admits_sent and not wiring.also:
        raise subject.refuse("its return hint admits Sent, but no topic is declared for it", "@app.process(…, also=[alerts])")


def _check_key_options(subject: Subject, output: Output, wiring: Wiring, key_type: object) -> None:
    is_record = output.kind is OutputKind.RECORD
    if wiring.keeps_key and not is_record:
        raise subject.refuse(
            "keeps_key=True says that a Record keeps its key, but the hint gives no Record", "@app.process(…)  # without keeps_key="
        )
    if wiring.keeps_key and plain(without_none(output.key_type)) != plain(without_none(key_type)):
        fix = _returning(subject, output, f"Record[{shown(key_type)}, {shown(output.value_type)}]")
        raise subject.refuse(f"keeps_key=True, but the key {shown(key_type)} comes out as {shown(output.key_type)}", fix)
    if wiring.repartition is not None and (not is_record or wiring.keeps_key):
        raise subject.refuse("repartition= has no effect: the key cannot change here", "@app.process(…)  # without repartition=")
