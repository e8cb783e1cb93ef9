"""What a handler gives, read from its return hint.

The hint decides, not the value: whether a result is one value or many, and whether its key may have changed, must be
known before the first record runs, because topics are made from it.
"""

import inspect
from collections.abc import Generator, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, get_args, get_origin

from streamlet.hints import NONE, members, plain, shown, union
from streamlet.record import Record, Sent
from streamlet.subject import Input, Subject


class OutputKind(Enum):
    """What a call gives: nothing (but perhaps `Sent`), values under the input's key, or records."""

    NOTHING = "nothing"
    VALUE = "value"
    RECORD = "record"


@dataclass(frozen=True, slots=True)
class Output:
    """The return hint. `many`: iterate the result. `admits_none`: a bare `None` stands for no output at all."""

    kind: OutputKind
    many: bool
    key_type: object
    value_type: object
    has_key: bool
    admits_none: bool
    admits_sent: bool


_MANY: Final[tuple[object, ...]] = (Iterator, Iterable, Generator)
_COLLECTIONS: Final[tuple[object, ...]] = (list, tuple, set, frozenset, dict, Sequence, AbstractSet)


def read_output(subject: Subject, given: Input, *, batch: bool) -> Output:
    """Take the return hint apart, or refuse it with the corrected line."""
    if "return" not in subject.hints:
        raise subject.refuse("it has no return hint, and the hint decides what becomes of the result", subject.returning("None"))
    hint = plain(subject.hints["return"])
    if hint is Any:
        raise subject.refuse("its return hint is Any, which does not say what becomes of the result", subject.returning("int"))
    many = get_origin(hint) in _MANY
    if any(hint is one for one in _MANY):
        raise subject.refuse(f"{shown(hint)} does not say of what", subject.returning(f"{shown(hint)}[int]"))
    if inspect.isgeneratorfunction(subject.function) and not many:
        raise subject.refuse(f"it yields, but its hint says one {shown(hint)}", subject.returning(f"Iterator[{shown(hint)}]"))
    return _take_apart(subject, given, get_args(hint)[0] if many else hint, many=many, batch=batch)


def _take_apart(subject: Subject, given: Input, hint: object, *, many: bool, batch: bool) -> Output:
    parts = members(hint)
    records = [part for part in parts if get_origin(part) is Record]
    values = [part for part in parts if part is not NONE and part is not Sent and part not in records]
    _refuse_odd_members(subject, values, many)
    if records and values:
        raise subject.refuse(
            f"its hint mixes bare values ({shown(union(values))}) and Records; one handler gives either",
            subject.returning(_wrapped(f"Record[{shown(given.key_type)}, {shown(union(values))}]", many)),
        )
    if batch and values:
        raise subject.refuse(
            f"a batch has no single key that a bare {shown(union(values))} could go out under",
            subject.returning(f"Iterator[Record[{shown(given.key_type)}, {shown(union(values))}]]"),
        )
    none, sent = NONE in parts, Sent in parts
    if records:
        key_type, value_type = (union(get_args(record)[side] for record in records) for side in (0, 1))
        return Output(OutputKind.RECORD, many, key_type, value_type, True, none, sent)
    if values:
        return Output(OutputKind.VALUE, many, given.key_type, union(values), given.has_key, none, sent)
    return Output(OutputKind.NOTHING, many, NONE, NONE, False, none, sent)


def _refuse_odd_members(subject: Subject, values: list[object], many: bool) -> None:
    for value in values:
        origin = get_origin(value)
        if value is Record:
            raise subject.refuse("Record needs its two types", subject.returning(_wrapped("Record[str, int]", many)))
        if origin in _MANY:
            raise subject.refuse(
                f"{shown(value)} cannot be one of several forms", subject.returning(f"Iterator[{shown(get_args(value)[0])}]")
            )
        if origin in _COLLECTIONS:
            inner = [part for argument in get_args(value) if argument is not Ellipsis for part in members(argument)]
            odd = next((part for part in inner if get_origin(part) is Record or part is Record or part is Sent), None)
            if odd is not None:
                raise subject.refuse(
                    f"{shown(value)} would be ONE value holding {shown(odd)}; several outputs are an Iterator",
                    subject.returning(f"Iterator[{shown(odd)}]") + "  # and yield them",
                )


def _wrapped(text: str, many: bool) -> str:
    return f"Iterator[{text}]" if many else text
