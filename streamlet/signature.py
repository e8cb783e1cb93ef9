"""What a handler's signature says, parsed once when it is declared.

The runtime never looks at the function's hints again: this value holds everything it needs to call it.

Invariant: a `Signature` exists only for a function that can be called as it says; everything else raised.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import get_args, get_origin

from streamlet.context import Context
from streamlet.declaration import not_yet
from streamlet.hints import admits_none, is_assignable, plain, shown, without_none
from streamlet.output import Output, read_output
from streamlet.record import Record
from streamlet.resource import Resource
from streamlet.state.declaration import is_state
from streamlet.stores import SharedStore, StoreUse, read_store
from streamlet.subject import Input, Subject


class First(Enum):
    """What the first parameter takes: the value alone, or the whole record. In a batch: a list of them."""

    VALUE = "value"
    RECORD = "record"


class ParamKind(Enum):
    """Where the runtime finds the argument for a further parameter."""

    KEY = "key"
    CONTEXT = "context"
    STATE = "state"
    RESOURCE = "resource"


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter after the first. `keyword` means it can only be passed by name."""

    name: str
    kind: ParamKind
    hint: object
    keyword: bool = False
    store: StoreUse | None = None
    resource: Resource | None = None


@dataclass(frozen=True, slots=True)
class Signature:
    """How to call a handler and what to do with its result. `admits_null`: it wants records whose value is null."""

    first: First
    first_name: str
    batch: bool
    key_type: object
    value_type: object
    admits_null: bool
    params: tuple[Param, ...]
    output: Output

    @property
    def stores(self) -> tuple[StoreUse, ...]:
        """The stores this handler reads and writes."""
        return tuple(param.store for param in self.params if param.store is not None)


def parse(subject: Subject, given: Input, *, stores: Mapping[str, SharedStore], batch: bool) -> Signature:
    """Read a handler's signature against what its sources give, or refuse it with the corrected line."""
    _refuse_async(subject)
    _refuse_stars(subject)
    first, key_type, value_type = _read_first(subject, given, batch)
    return Signature(
        first=first,
        first_name=subject.parameters[0].name,
        batch=batch,
        key_type=key_type,
        value_type=value_type,
        admits_null=admits_none(value_type),
        params=tuple(_read_param(subject, index, given, stores, batch) for index in range(1, len(subject.parameters))),
        output=read_output(subject, given, batch=batch),
    )


def _refuse_async(subject: Subject) -> None:
    function = subject.function
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        what = "`async def` (it will be @app.enrich; @app.process and @app.batch call plain functions)"
        raise not_yet(f"handler '{subject.name}'", what, f"def {function.__name__}(…)  # without async")


def _refuse_stars(subject: Subject) -> None:
    for index, parameter in enumerate(subject.parameters):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            star = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
            problem = f"{star}{parameter.name} does not say what it takes, and every parameter of a handler must"
            raise subject.refuse(problem, f"{subject.line(index, '')}  # without {star}{parameter.name}", parameter.name)


def _read_first(subject: Subject, given: Input, batch: bool) -> tuple[First, object, object]:
    record = f"Record[{shown(given.key_type)}, {shown(given.value_type)}]"
    whole = f"list[{record}]" if batch else shown(given.value_type)
    because = f"  # {given.told} {shown(given.value_type)}"
    if not subject.parameters:
        line = f"def {subject.function.__name__}({'batch' if batch else 'value'}: {whole})"
        raise subject.refuse("it takes no parameter, and the first one receives the value or the Record", line + because)
    parameter = subject.parameters[0]
    name, hint = parameter.name, subject.hints.get(parameter.name)
    fix = subject.line(0, f"{name}: {whole}") + because
    if parameter.kind is parameter.KEYWORD_ONLY:
        raise subject.refuse("the first parameter receives the value and is passed by position", fix, name)
    if hint is None:
        raise subject.refuse("it has no type hint", fix, name)
    if is_state(hint) or plain(hint) is Context:
        raise subject.refuse(f"the first parameter receives the value or the Record, not {shown(hint)}", fix, name)
    if batch:
        if get_origin(plain(hint)) is not list:
            raise subject.refuse(f"a batch handler takes a list, not {shown(hint)}", fix, name)
        hint = get_args(plain(hint))[0]
    if plain(hint) is Record:
        raise subject.refuse(
            "Record needs its two types", subject.line(0, f"{name}: {f'list[{record}]' if batch else record}") + because, name
        )
    if get_origin(plain(hint)) is not Record:
        _check_value(subject, given, hint, fix)
        return First.VALUE, given.key_type, hint
    key_type, value_type = get_args(plain(hint))
    fix = subject.line(0, f"{name}: {f'list[{record}]' if batch else record}") + because
    _check_key(subject, given, key_type, fix, name)
    _check_value(subject, given, value_type, fix)
    return First.RECORD, key_type, value_type


def _check_value(subject: Subject, given: Input, hint: object, fix: str) -> None:
    if not is_assignable(without_none(given.value_type), hint):  # null values reach only handlers that admit them
        problem = f"its type is {shown(hint)}, but {given.told} {shown(given.value_type)}"
        raise subject.refuse(problem, f"{fix}, not {shown(hint)}", subject.parameters[0].name)


def _check_key(subject: Subject, given: Input, hint: object, fix: str, parameter: str) -> None:
    if not is_assignable(given.key_type, hint):
        advice = "" if given.has_key else ", opaque as long as the topic is declared without key="
        raise subject.refuse(f"its key type is {shown(hint)}, but the key here is {shown(given.key_type)}{advice}", fix, parameter)


def _read_param(subject: Subject, index: int, given: Input, stores: Mapping[str, SharedStore], batch: bool) -> Param:
    parameter = subject.parameters[index]
    name, keyword = parameter.name, parameter.kind is parameter.KEYWORD_ONLY
    hint = subject.hints.get(name)
    if is_state(hint):
        return Param(name, ParamKind.STATE, hint, keyword, store=read_store(subject, index, given, stores, batch=batch))
    if plain(hint) is Context:
        _refuse_in_batch(subject, given, name, "Context describes one record, and a batch has many", batch)
        return Param(name, ParamKind.CONTEXT, hint, keyword)
    if isinstance(parameter.default, Resource):
        return Param(name, ParamKind.RESOURCE, hint, keyword, resource=_checked_resource(subject, index, parameter.default))
    if name == "key":
        _refuse_in_batch(subject, given, name, "a batch has no single key", batch)
        fix = subject.line(index, f"key: {shown(given.key_type)}")
        if hint is None:
            raise subject.refuse("it has no type hint", fix, name)
        _check_key(subject, given, hint, fix, name)
        return Param(name, ParamKind.KEY, hint, keyword)
    found = "a parameter without a hint" if hint is None else shown(hint)
    raise subject.refuse(
        f"after the value come `key`, a Context, state types, and resources as defaults, but this is {found}",
        f"{subject.line(index, f'{name}: Value[int]')}  # or Map, Log, Set, Group, Context; or `{name}: … = a_resource`; or leave it out",
        name,
    )


def _refuse_in_batch(subject: Subject, given: Input, parameter: str, problem: str, batch: bool) -> None:
    if batch:
        text = f"{subject.parameters[0].name}: list[Record[{shown(given.key_type)}, {shown(given.value_type)}]]"
        raise subject.refuse(problem, f"{subject.line(0, text)}  # key, timestamp and headers are on each Record", parameter)


def _checked_resource(subject: Subject, index: int, resource: Resource) -> Resource:
    name = subject.parameters[index].name
    hint = subject.hints.get(name)
    if hint is not None and not is_assignable(resource.type, hint):
        fix = subject.line(index, f"{name}: {shown(resource.type)} = {resource.name}")
        raise subject.refuse(f"its type is {shown(hint)}, but resource '{resource.name}' yields {shown(resource.type)}", fix, name)
    return resource
