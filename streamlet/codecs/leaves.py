"""Finds a bad leaf (a NaN, a datetime without zone) in a value by looking only where its type can have one.

Worked out once per type: a Struct with one float among ten fields costs one look at that field, not a walk over all.
"""

import datetime as dt
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import inspect

from streamlet.codecs.hints import is_mapping, items_of
from streamlet.codecs.structure import parts_of

Search = Callable[[object], bool]

_OPEN: Final = (inspect.AnyType, inspect.CustomType)  # anything may be inside: the value itself must be walked
_ITEMS: Final = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType, inspect.CollectionType)
_FIELDS: Final = (inspect.StructType, inspect.DataclassType, inspect.NamedTupleType)


def leaf_search(shape: inspect.Type, kinds: tuple[type[inspect.Type], ...], is_bad: Search) -> Search | None:
    """A function that tells whether a value holds a bad leaf of these kinds; None where its type has no place for one."""
    if not any(isinstance(part, (*kinds, *_OPEN)) for part in parts_of(shape)):
        return None
    return _Searches(kinds, is_bad).search(shape)


class _Searches:
    def __init__(self, kinds: tuple[type[inspect.Type], ...], is_bad: Search) -> None:
        self.kinds, self.is_bad = kinds, is_bad
        self.begun: dict[type, list[Search]] = {}  # per class: empty while it is being worked out, for recursive types

    def search(self, shape: inspect.Type) -> Search | None:
        if isinstance(shape, self.kinds):
            return self.is_bad
        if isinstance(shape, _OPEN):
            return self._walk
        if isinstance(shape, inspect.Metadata):
            return self.search(shape.type)
        if isinstance(shape, inspect.UnionType):
            return _any_of(self.search(member) for member in shape.types)
        if isinstance(shape, inspect.DictType):
            return _in_dict(self.search(shape.key_type), self.search(shape.value_type))
        if isinstance(shape, _ITEMS):
            return _in_items(self.search(shape.item_type))
        if isinstance(shape, inspect.TupleType):
            return _in_items(_any_of(self.search(item) for item in shape.item_types))
        if isinstance(shape, inspect.TypedDictType):
            return self._of_class(shape.cls, shape.fields, _in_keys)
        if isinstance(shape, _FIELDS):
            return self._of_class(shape.cls, shape.fields, _in_fields)
        return None

    def _of_class(
        self, cls: type, fields: tuple[inspect.Field, ...], make: "Callable[[type, list[tuple[str, Search]]], Search]"
    ) -> Search | None:
        if cls in self.begun:
            found = self.begun[cls]
            return lambda value: bool(found) and found[0](value)
        found = self.begun[cls] = []
        searches = [(one.name, search) for one in fields if (search := self.search(one.type)) is not None]
        found.extend([make(cls, searches)] if searches else [])
        return found[0] if found else None

    def _walk(self, value: object) -> bool:
        stack: list[object] = [msgspec.to_builtins(value, builtin_types=(dt.datetime, dt.time, bytes))]
        while stack:
            item = stack.pop()
            if self.is_bad(item):
                return True
            stack.extend(items_of(item))
        return False


def _any_of(searches: Iterable[Search | None]) -> Search | None:
    some = [search for search in searches if search is not None]
    if len(some) <= 1:
        return some[0] if some else None
    return lambda value: any(search(value) for search in some)


def _in_items(search: Search | None) -> Search | None:
    if search is None:
        return None
    return lambda value: any(search(item) for item in items_of(value))


def _in_dict(key: Search | None, item: Search | None) -> Search | None:
    some = _any_of((key, item))
    if some is None:
        return None
    return lambda value: is_mapping(value) and (any(map(some, value)) or any(map(some, value.values())))


def _in_fields(cls: type, searches: list[tuple[str, Search]]) -> Search:
    def search_fields(value: object) -> bool:
        if isinstance(value, cls):
            for name, search in searches:
                if search(getattr(value, name)):
                    return True
        return False

    return search_fields


def _in_keys(_: type, searches: list[tuple[str, Search]]) -> Search:
    return lambda value: is_mapping(value) and any(search(value.get(name)) for name, search in searches)
