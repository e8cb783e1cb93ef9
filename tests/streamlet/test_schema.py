"""Which changes of a type can still read what was stored."""

from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple, TypedDict

import msgspec
import pytest

from streamlet.schema import differences, schema_of, told


class Point(msgspec.Struct):
    x: int


class PointWithDefault(msgspec.Struct):
    x: int
    y: int = 0


class PointWithout(msgspec.Struct):
    x: int
    y: int


class TextPoint(msgspec.Struct):
    x: str


class Renamed(msgspec.Struct):
    other: int = msgspec.field(name="x")


class Row(msgspec.Struct, array_like=True):
    a: int
    b: int = 0


class RowAppended(msgspec.Struct, array_like=True):
    a: int
    b: int = 0
    c: int = 0


class RowShuffled(msgspec.Struct, array_like=True):
    b: int
    a: int = 0


class Tagged(msgspec.Struct, tag="t"):
    x: int


class Tree(msgspec.Struct):
    value: int
    children: "list[Tree]" = []


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class MoreColors(Enum):
    RED = "red"
    BLUE = "blue"
    GREEN = "green"


@dataclass
class Data:
    x: int


class Typed(TypedDict):
    x: int


class Named(NamedTuple):
    x: int


HARMLESS = [
    (int, int),
    (Point, PointWithDefault),
    (PointWithDefault, Point),
    (Point, Renamed),
    (Point, Data),
    (Data, Typed),
    (int, int | None),
    (int | str, int | str | None),
    (Point, PointWithDefault | None),
    (list[Point], list[PointWithDefault]),
    (dict[str, Point], dict[str, PointWithDefault]),
    (list[int], set[int]),
    (Row, RowAppended),
    (Color, MoreColors),
    (Literal["a"], Literal["a", "b"]),
    (Tree, Tree),
]
HARMFUL = [
    (int, str, "the value was int and is str"),
    (int | str, int, "the value was int | str and is int"),
    (int | str, int | None, "the value could be str, and can only be int | none now"),
    (Point, PointWithout, "Point.y is new and has no default, so older values cannot be read"),
    (Point, TextPoint, "Point.x was int and is str"),
    (Point, Tagged, "Point is written in another form (array_like or tag)"),
    (list[Point], list[TextPoint], "[].x was int and is str"),
    (Row, RowShuffled, "Row is array_like, where fields may only be appended: it had a, b and has b, a"),
    (MoreColors, Color, "the value could be green, and cannot any more"),
    (tuple[int, int], tuple[int, int, int], "the value was tuple[int, int] and is tuple[int, int, int]"),
    (Named, Point, "Named is written in another form (array_like or tag)"),
]


@pytest.mark.parametrize(("old", "new"), HARMLESS)
def test_harmless_changes_make_no_difference(old: object, new: object) -> None:
    assert list(differences(schema_of(old), schema_of(new))) == []


@pytest.mark.parametrize(("old", "new", "reason"), HARMFUL)
def test_harmful_changes_name_the_place(old: object, new: object, reason: str) -> None:
    assert list(differences(schema_of(old), schema_of(new))) == [reason]


def test_a_schema_survives_json() -> None:
    for hint in (int, PointWithDefault, list[Row], dict[str, Color], Tree, Point | None):
        schema = schema_of(hint)
        assert msgspec.json.decode(msgspec.json.encode(schema)) == schema


def test_a_type_that_msgspec_does_not_know_is_named() -> None:
    class Own:
        pass

    assert told(schema_of(Own)) == "Own"
