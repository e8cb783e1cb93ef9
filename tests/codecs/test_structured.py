"""Structured values as JSON and msgpack: what is let in, what is refused, how types may grow."""

import datetime as dt
import enum
import math
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, TypedDict

import msgspec
import pytest
from typing_extensions import TypeAliasType

from streamlet.codecs import EncodeError, UnsupportedType, codec_for, verified


class Order(msgspec.Struct):
    id: str
    cents: int
    weight: float = 1.0
    parent: "Order | None" = None


class Bulk(Order):
    count: int = 1


class Other(msgspec.Struct):
    id: str


class Click(msgspec.Struct, tag="click"):
    x: int


class Key(msgspec.Struct, tag="key"):
    code: str


class LoudClick(Click, tag="loud"):
    pass


@dataclass
class Payment:
    id: str
    parts: list[int]


class Seen(TypedDict):
    id: str
    note: NotRequired[str]


class Point(NamedTuple):
    x: int
    y: int


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


UTC = dt.UTC
Alias = TypeAliasType("Alias", Order)
OrderName = NewType("OrderName", Order)

VALUES = [
    (Order, Order("a", 5), b'{"id":"a","cents":5,"weight":1.0,"parent":null}'),
    (Order | None, Order("a", 5), b'{"id":"a","cents":5,"weight":1.0,"parent":null}'),
    (Alias, Order("a", 5), b'{"id":"a","cents":5,"weight":1.0,"parent":null}'),
    (OrderName, Order("a", 5), b'{"id":"a","cents":5,"weight":1.0,"parent":null}'),
    (Annotated[Order, "note"], Order("a", 5), b'{"id":"a","cents":5,"weight":1.0,"parent":null}'),
    (Click | Key, Key("x"), b'{"type":"key","code":"x"}'),
    (Payment, Payment("p", [1, 2]), b'{"id":"p","parts":[1,2]}'),
    (Seen, {"id": "s"}, b'{"id":"s"}'),
    (Point, Point(1, 2), b"[1,2]"),
    (Colour, Colour.RED, b'"red"'),
    (list[int], [1, 2], b"[1,2]"),
    (dict[str, list[Order]], {}, b"{}"),
    (tuple[int, str], (1, "a"), b'[1,"a"]'),
    (tuple[int, ...], (1, 2, 3), b"[1,2,3]"),
    (frozenset[int], frozenset({1}), b"[1]"),
    (int | str, "x", b'"x"'),
    (Literal["on", 1], 1, b"1"),
    (dt.datetime, dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), b'"2026-01-02T03:04:05Z"'),
    (dt.date, dt.date(2026, 1, 2), b'"2026-01-02"'),
    (dt.timedelta, dt.timedelta(seconds=90), b'"PT90S"'),
    (Decimal, Decimal("1.50"), b'"1.50"'),
    (list[uuid.UUID], [uuid.UUID(int=1)], b'["00000000-0000-0000-0000-000000000001"]'),
    (object, {"a": [1, None]}, b'{"a":[1,null]}'),
    (Any, [1.5, "x"], b'[1.5,"x"]'),
]


@pytest.mark.parametrize(("hint", "value", "wire"), VALUES)
def test_structured_values_are_json_by_default(hint, value, wire):
    codec = codec_for(hint)

    assert codec.encode(value) == wire
    assert codec.decode(wire) == value


@pytest.mark.parametrize(("hint", "value"), [(hint, value) for hint, value, _ in VALUES])
def test_structured_values_come_back_from_msgpack(hint, value):
    codec = codec_for(hint, "msgpack")

    assert codec.decode(codec.encode(value)) == value
    assert codec.describe().startswith("msgpack ")


WRONG = [
    (Order, {"id": "a", "cents": 5}),
    (Order, Other("a")),
    (Order, None),
    (Order, "a"),
    (Click | Key, Order("a", 5)),
    (Click, LoudClick(1)),
    (Payment, {"id": "p", "parts": []}),
    (Seen, {}),
    (Seen, Order("a", 5)),
    (Point, (1, 2)),
    (Colour, "red"),
    (list[int], (1, 2)),
    (list[int], "12"),
    (dict[str, int], [("a", 1)]),
    (tuple[int, str], (1,)),
    (tuple[int, str], [1, "a"]),
    (int | str, True),
    (int | str, 1.5),
    (float | str, True),
    (Literal["on", 1], True),
    (Literal["on", 1], "off"),
    (Literal["on", 1], ["on"]),
    (dt.datetime, "2026-01-02T03:04:05Z"),
]


@pytest.mark.parametrize("choice", ["json", "msgpack"])
@pytest.mark.parametrize(("hint", "value"), WRONG)
def test_a_value_of_another_class_is_refused(hint, value, choice):
    with pytest.raises(EncodeError) as failure:
        codec_for(hint, choice).encode(value)

    assert failure.value.got.startswith(type(value).__name__)


def test_a_subclass_is_written_if_it_reads_back_as_the_declared_class():
    codec = codec_for(Order)

    assert codec.decode(codec.encode(Bulk("a", 5, count=9))) == Order("a", 5)


def test_an_int_may_stand_for_a_float():
    assert codec_for(float | str).encode(3) == b"3"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("hint", "wrap"),
    [
        (Order, lambda x: Order("a", 1, x)),
        (list[float], lambda x: [x]),
        (object, lambda x: {"a": (x,)}),
        (dict[str, float | None], lambda x: {"a": x}),
    ],
)
def test_json_refuses_numbers_it_cannot_write(hint, wrap, number):
    with pytest.raises(EncodeError) as failure:
        codec_for(hint).encode(wrap(number))

    assert "NaN" in failure.value.reason


def test_a_null_beside_floats_is_still_written():
    assert codec_for(dict[str, float | None]).encode({"null": None, "b": 1.5}) == b'{"null":null,"b":1.5}'


def test_fields_may_be_added_with_a_default_and_removed():
    codec = codec_for(Order)

    assert codec.decode(b'{"id":"a","cents":5,"gone":[1]}') == Order("a", 5, 1.0, None)


def test_a_verified_codec_finds_wrong_fields_that_the_plain_one_does_not_look_at():
    wrong = Order("a", "five")  # type: ignore[arg-type]
    plain = codec_for(Order)

    assert plain.encode(wrong) == b'{"id":"a","cents":"five","weight":1.0,"parent":null}'
    with pytest.raises(EncodeError) as failure:
        verified(plain).encode(wrong)

    assert "Expected `int`, got `str`" in failure.value.reason
    assert verified(plain).encode(Order("a", 5)) == plain.encode(Order("a", 5))


class Opaque:
    pass


@pytest.mark.parametrize(
    "hint", [Opaque, list[Opaque], complex, "Order", None, Order | Payment, Click | Order, Annotated[int, msgspec.Meta(gt=0)]]
)
def test_types_that_cannot_be_read_back_are_refused_at_declaration(hint):
    with pytest.raises(UnsupportedType):
        codec_for(hint)


def test_the_refusal_names_the_class_inside_and_the_way_out():
    with pytest.raises(UnsupportedType) as failure:
        codec_for(dict[str, Opaque])

    assert failure.value.declared == "dict[str, Opaque]"
    assert "Make Opaque a Struct or a dataclass" in str(failure.value)


def _order(**fields: Any) -> type:
    return msgspec.defstruct("Order", list(fields.items()))


def test_the_description_is_stable_and_changes_with_the_shape():
    first = codec_for(_order(id=str, cents=int)).describe()

    assert first == codec_for(_order(id=str, cents=int)).describe()
    assert first == "json Order 417ca0c504b0"
    assert first != codec_for(_order(id=str, cents=float)).describe()
    assert first != codec_for(_order(id=str, amount=int)).describe()


def test_a_recursive_type_can_be_described():
    assert codec_for(Order).describe().startswith("json Order ")
