"""Type hints as values."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NewType, Protocol, TypedDict, TypeVar

import pytest
from typing_extensions import TypeAliasType

from streamlet.hints import admits_none, is_assignable, members, plain, shown, union, without_none

T = TypeVar("T")
Cents = NewType("Cents", int)
Number = TypeAliasType("Number", int | float)
Many = TypeAliasType("Many", list[T], type_params=(T,))


class Note(TypedDict):
    text: str


class Animal:
    pass


class Dog(Animal):
    pass


class Sized(Protocol):
    def __len__(self) -> int: ...


FITS = [
    (int, int),
    (int, object),
    (int, Any),
    (int, int | str),
    (int | str, str | int | None),
    (bool, int),
    (int, float),
    (Dog, Animal),
    (list[Dog], list[Animal]),
    (list[int], Sequence[int]),
    (dict[str, int], Mapping[str, int]),
    (Literal["a"], str),
    (Literal["a"], Literal["a", "b"]),
    (Cents, int),
    (Note, Note),
    (Note, dict[str, object]),
    (str, Sized),
    (int, Number),
    (Number, int | float),
    (Many[int], list[int]),
    (Annotated[int, "x"], int),
    (tuple[int, ...], tuple[int, ...]),
    (Any, int),
]
DOES_NOT_FIT = [
    (int, str),
    (int | str, int),
    (int | None, int),
    (float, int),
    (Animal, Dog),
    (list[int], list[str]),
    (str, Literal["a"]),
    (Literal["a", "c"], Literal["a", "b"]),
    (int, Cents),
    (dict[str, str], Note),
    (Note, int),
    (Number, int),
    (bytes, str),
]


@pytest.mark.parametrize(("given", "wanted"), FITS)
def test_values_of_one_type_are_values_of_a_wider_one(given: object, wanted: object) -> None:
    assert is_assignable(given, wanted)


@pytest.mark.parametrize(("given", "wanted"), DOES_NOT_FIT)
def test_values_of_one_type_are_not_values_of_a_narrower_one(given: object, wanted: object) -> None:
    assert not is_assignable(given, wanted)


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (int, "int"),
        (None, "None"),
        (int | None, "int | None"),
        (dict[str, list[int]], "dict[str, list[int]]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (Literal["a", 1], "Literal['a', 1]"),
        (Cents, "Cents"),
        (Annotated[int, "x"], "int"),
        (Any, "Any"),
        (Note, "Note"),
    ],
)
def test_hints_are_shown_as_people_write_them(hint: object, text: str) -> None:
    assert shown(hint) == text


def test_unions_are_taken_apart_and_put_together() -> None:
    assert members(int | str | None) == (int, str, type(None))
    assert members(Number) == (int, float)
    assert union([int, str, int]) == int | str
    assert without_none(int | None) is int
    assert without_none(None) is type(None)
    assert plain(Many[int]) == list[int]
    assert admits_none(int | None)
    assert admits_none(object)
    assert not admits_none(int)
