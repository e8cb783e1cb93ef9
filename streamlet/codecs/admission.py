"""Which values may be written where a type is declared. msgspec's encoders take whatever they know: without this a dict
would pass for a Struct, and a consumer would find out.

What is checked, per record: the class of the value itself (one set lookup), the required keys of a TypedDict, the length
of a fixed tuple, membership of a Literal. What is inside a Struct, list or dict is not looked at; `verified` does that in
tests. A value of a subclass, and an int where a float is declared, is written and read back before it is let through.
"""

import collections.abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args, get_origin, is_typeddict

from streamlet.codecs.hints import is_class, is_tuple, is_union, unwrapped

Test = Callable[[object], bool]

_ABSTRACT: Final[dict[object, tuple[type, ...]]] = {
    collections.abc.Collection: (list, tuple, set, frozenset),
    collections.abc.Sequence: (list, tuple),
    collections.abc.MutableSequence: (list,),
    collections.abc.Set: (set, frozenset),
    collections.abc.MutableSet: (set,),
    collections.abc.Mapping: (dict,),
    collections.abc.MutableMapping: (dict,),
}


@dataclass(frozen=True, slots=True)
class Admission:
    """Three rings: classes let in at once, tests that let in, and classes whose values must prove themselves."""

    exact: frozenset[type]
    tests: tuple[Test, ...]
    kin: tuple[type, ...]
    anything: bool

    def is_sound(self, value: object) -> bool:
        """Whether the value may be written without more ado."""
        return self.anything or type(value) in self.exact or any(test(value) for test in self.tests)

    def is_kin(self, value: object) -> bool:
        """Whether the value may be written if it reads back: a subclass, or an int for a float. Never a bool for a number."""
        return isinstance(value, self.kin) and not isinstance(value, bool)


def admission(hint: object) -> Admission:
    """Work out once, at declaration, what a type lets in."""
    exact: set[type] = set()
    tests: list[Test] = []
    anything = False
    for member in _members(hint):
        origin = get_origin(member) or member
        if member is object or member is Any:
            anything = True
        elif origin is Literal:
            tests.append(_one_of(get_args(member)))
        elif is_typeddict(origin):
            tests.append(_has_keys(frozenset(getattr(origin, "__required_keys__", ()))))
        elif origin is tuple and get_args(member) and get_args(member)[-1] is not Ellipsis:
            tests.append(_tuple_of(len(get_args(member))))
        elif origin in _ABSTRACT:
            exact.update(_ABSTRACT[origin])
        elif is_class(origin):
            exact.add(origin)
    kin = (*exact, int) if float in exact else tuple(exact)
    return Admission(frozenset(exact), tuple(tests), kin, anything)


def _members(hint: object) -> list[object]:
    bare = unwrapped(hint)
    return [inner for member in get_args(bare) for inner in _members(member)] if is_union(bare) else [bare]


def _one_of(allowed: tuple[object, ...]) -> Test:
    by_class = frozenset((type(choice), choice) for choice in allowed)  # 1 == True, so the class is part of the choice

    def test(value: object) -> bool:
        return isinstance(value, str | int | bool | None) and (type(value), value) in by_class

    return test


def _has_keys(required: frozenset[str]) -> Test:
    def test(value: object) -> bool:
        return type(value) is dict and value.keys() >= required

    return test


def _tuple_of(length: int) -> Test:
    def test(value: object) -> bool:
        return is_tuple(value) and type(value) is tuple and len(value) == length

    return test
