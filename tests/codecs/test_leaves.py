"""The search for bad leaves finds them wherever the type has room for one, and looks nowhere else."""

import math
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, TypedDict

import msgspec
import pytest
from msgspec import inspect

from streamlet.codecs.leaves import leaf_search


class Item(msgspec.Struct):
    name: str
    size: float = 1.0
    inner: "Item | None" = None


@dataclass
class Point:
    x: float


class Pair(NamedTuple):
    a: int
    b: float


class Keyed(TypedDict):
    a: float


def is_nan(leaf: object) -> bool:
    return isinstance(leaf, float) and math.isnan(leaf)


def search(hint: object):
    return leaf_search(inspect.type_info(hint), (inspect.FloatType,), is_nan)


BAD = [
    (float, math.nan),
    (float | None, math.nan),
    (Annotated[float, msgspec.Meta(description="x")], math.nan),
    (Item, Item("a", math.nan)),
    (Item, Item("a", 1.0, Item("b", 1.0, Item("c", math.nan)))),
    (Point, Point(math.nan)),
    (Pair, Pair(1, math.nan)),
    (Keyed, {"a": math.nan}),
    (list[Item], [Item("a"), Item("b", math.nan)]),
    (tuple[int, float], (1, math.nan)),
    (tuple[float, ...], (1.0, math.nan)),
    (frozenset[float], frozenset({math.nan})),
    (dict[str, list[float]], {"a": [1.0, math.nan]}),
    (dict[float, int], {math.nan: 1}),
    (Item | list[float], [math.nan]),
    (Any, {"a": [{"b": math.nan}]}),
    (object, [Item("a", math.nan)]),
]


@pytest.mark.parametrize(("hint", "value"), BAD)
def test_a_bad_leaf_is_found_wherever_it_hides(hint, value):
    assert search(hint)(value)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (float, 1.0),
        (Item, Item("a", 1.0, Item("b"))),
        (Keyed, {}),
        (dict[str, list[float]], {"a": []}),
        (Any, [None, "nan"]),
        (Item | list[float], None),
    ],
)
def test_a_sound_value_is_let_through(hint, value):
    assert not search(hint)(value)


@pytest.mark.parametrize("hint", [int, list[str], dict[str, bytes]])
def test_a_type_without_room_for_the_leaf_costs_nothing(hint):
    assert search(hint) is None
