"""Stored values: their bytes, what is kept as object, how types evolve."""

import dataclasses
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pytest

from streamlet.state.errors import BadStoredValue, BadValueType, WrongValue
from streamlet.state.values import ABSENT, value_codec


class Frozen(msgspec.Struct, frozen=True):
    a: int
    b: str = ""


class Holder(msgspec.Struct, frozen=True):
    items: list[int]


class Open(msgspec.Struct):
    a: int


class Tree(msgspec.Struct, frozen=True):
    left: "Tree | None" = None


@dataclasses.dataclass(frozen=True)
class FrozenData:
    a: int


@dataclasses.dataclass
class OpenData:
    a: int


class Pair(NamedTuple):
    a: int
    b: str


class Doc(TypedDict):
    a: int


class Color(Enum):
    RED = "red"


class Foreign:
    pass


@pytest.mark.parametrize(("hint", "value", "stored"), [
    (int, 7, b"\x01\x07"), (str, "a", b"\x01\xa1a"), (bytes, b"a", b"\x01\xc4\x01a"), (bool, True, b"\x01\xc3"), (float, 1.5, b"\x01\xcb?\xf8" + bytes(6)),
    (int | None, None, b"\x01\xc0"), (list[int], [1], b"\x01\x91\x01"), (dict[str, int], {"a": 1}, b"\x01\x81\xa1a\x01"),
    (Frozen, Frozen(1, "x"), b"\x01\x82\xa1a\x01\xa1b\xa1x"), (tuple[int, str], (1, "a"), b"\x01\x92\x01\xa1a"), (Color, Color.RED, b"\x01\xa3red"),
])  # fmt: skip
def test_the_stored_form_never_changes(hint: object, value: object, stored: bytes) -> None:
    codec = value_codec(hint)

    assert codec.encode(value) == stored
    assert codec.decode(stored) == value
    assert codec.pack([codec.hold("s", value), ABSENT]) == [stored, None]
    assert codec.give(codec.thaw("s", stored)) == value


@pytest.mark.parametrize("hint", [
    int, str, bytes, bool, float, int | None, tuple[int, ...], tuple[str, Frozen], Frozen, FrozenData, Pair, UUID, Decimal, datetime, Color, Tree, frozenset[int],
])  # fmt: skip
def test_what_nobody_can_change_is_kept_as_an_object(hint: object) -> None:
    assert value_codec(hint).frozen


@pytest.mark.parametrize("hint", [
    list[int], dict[str, int], set[int], Open, Holder, OpenData, Doc, tuple[list[int], int], int | list[int], Any, bytearray, tuple[Open, ...], frozenset[Holder],
])  # fmt: skip
def test_what_somebody_could_change_is_kept_as_bytes(hint: object) -> None:
    assert not value_codec(hint).frozen


def test_a_type_that_cannot_be_stored_is_refused_with_the_way_out() -> None:
    for hint in (Foreign, list[Foreign], dict[str, Foreign | None]):
        with pytest.raises(BadValueType, match="codec="):
            value_codec(hint)


class Upper:
    def encode(self, value: object, /) -> bytes:
        assert isinstance(value, str)
        return value.upper().encode()

    def decode(self, data: bytes, /) -> object:
        return data.decode().lower()


def test_an_own_codec_stores_behind_the_version_byte() -> None:
    codec = value_codec(Foreign, Upper())

    assert codec.encode("abc") == b"\x01ABC"
    assert codec.decode(b"\x01ABC") == "abc"
    with pytest.raises(WrongValue) as refused:
        codec.hold("names", 5)
    assert refused.value.store == "names"


def test_a_value_with_another_version_is_not_guessed_at() -> None:
    for hint in (int, list[int]):
        codec = value_codec(hint)
        for data in (b"\x02\x07", b""):
            with pytest.raises(BadStoredValue) as refused:
                codec.thaw("s", data)
            assert refused.value.store == "s"


class V1(msgspec.Struct, frozen=True):
    name: str
    gone: int
    cents: int


class V2(msgspec.Struct, frozen=True):
    name: str
    amount: int = msgspec.field(name="cents")  # renamed by alias
    note: str = "none"  # added with a default; `gone` removed


class V3(msgspec.Struct, frozen=True):
    name: str
    required: int


def test_values_evolve_by_default_removal_and_alias_and_back() -> None:
    old, new = value_codec(V1), value_codec(V2)

    assert new.decode(old.encode(V1("a", 1, 5))) == V2("a", 5, "none")
    assert value_codec(V2).decode(new.encode(V2("a", 5, "x"))) == V2("a", 5, "x")
    with pytest.raises(BadStoredValue, match="need a default"):
        value_codec(V3).decode(old.encode(V1("a", 1, 5)))


def test_nan_can_be_stored() -> None:
    for hint, value in ((float, float("nan")), (tuple[float, int], (float("nan"), 1)), (list[float], [float("nan"), float("inf")])):
        codec = value_codec(hint)
        assert codec.pack([codec.hold("s", value)]) == [codec.encode(value)]
