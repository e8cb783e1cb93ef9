"""What a type hint means once names are taken off it: NewType, `type` aliases, Annotated and the null of Kafka."""

import types
from collections.abc import Iterable, Iterator
from typing import Annotated, Final, NewType, TypeGuard, Union, cast, get_args, get_origin

import msgspec

from streamlet.codecs.errors import UnsupportedType

_BARE: Final[tuple[object, ...]] = (str, bytes, int, float, bool)


def unwrapped(hint: object) -> object:
    """The type behind NewType, alias, Annotated and `| None`, at the outermost level only."""
    if isinstance(hint, NewType):
        return unwrapped(hint.__supertype__)
    if is_alias(hint):
        return unwrapped(getattr(hint, "__value__", None))
    if get_origin(hint) is Annotated:
        return _without_annotation(hint)
    if is_union(hint):
        members = get_args(hint)
        present = tuple(member for member in members if member is not type(None))
        if len(present) < len(members):
            return unwrapped(Union[present])  # noqa: UP007  # members are known only at run time
    if isinstance(hint, str):
        raise UnsupportedType(repr(hint), "it is a text, not a type", "Give the class itself")
    if hint is None or hint is type(None):
        raise UnsupportedType("None", "it can hold no value", "Name the type of the value; null is always allowed on the wire")
    return hint


def is_alias(hint: object) -> bool:
    """Whether this is a `type X = ...` of Python 3.12, or its backport."""
    return type(hint).__name__ == "TypeAliasType"


def is_union(hint: object) -> bool:
    """Whether this is `A | B` or `Union[A, B]`."""
    return get_origin(hint) is Union or isinstance(hint, types.UnionType)


def is_tuple(value: object) -> TypeGuard[tuple[object, ...]]:
    """As `isinstance`, which leaves the items untyped."""
    return isinstance(value, tuple)


def is_list(value: object) -> TypeGuard[list[object]]:
    """As `isinstance`, which leaves the items untyped."""
    return isinstance(value, list)


def is_mapping(value: object) -> TypeGuard[dict[str, object]]:
    """Whether this is a JSON object."""
    return isinstance(value, dict)


def is_class(value: object) -> TypeGuard[type[object]]:
    """As `isinstance`, which leaves a generic class untyped."""
    return isinstance(value, type)


def items_of(value: object) -> Iterator[object]:
    """What is directly inside a plain container; nothing for anything else. `isinstance` alone leaves the items untyped."""
    if isinstance(value, dict):
        yield from cast("dict[object, object]", value).values()
    elif isinstance(value, list | tuple | set | frozenset):
        yield from cast("Iterable[object]", value)


def name_of(hint: object) -> str:
    """The hint as people write it, without module names: they depend on how a file was started."""
    if hint is type(None) or hint is None:
        return "None"
    if is_alias(hint) or isinstance(hint, NewType):
        return str(getattr(hint, "__name__", hint))
    origin, arguments = get_origin(hint), get_args(hint)
    if is_union(hint):
        return " | ".join(name_of(member) for member in arguments)
    if origin is Annotated:
        return name_of(arguments[0])
    if origin is not None:
        base = getattr(origin, "__name__", None) or getattr(hint, "_name", None) or str(origin)
        return f"{base}[{', '.join('...' if a is Ellipsis else name_of(a) for a in arguments)}]"
    if isinstance(hint, type):
        return hint.__qualname__.rpartition("<locals>.")[2]
    return repr(hint).removeprefix("typing.")


def _without_annotation(hint: object) -> object:
    inner, *notes = get_args(hint)
    if any(isinstance(note, msgspec.Meta) for note in notes) and any(unwrapped(inner) is bare for bare in _BARE):
        raise UnsupportedType(
            name_of(inner),
            "constraints (msgspec.Meta) on a bare value are not enforced by its binary codec",
            "Put the value in a Struct, where they are, or drop the constraint",
        )
    return unwrapped(inner)
