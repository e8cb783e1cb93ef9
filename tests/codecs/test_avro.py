"""Avro: schemas from hints, both wire formats, evolution per record, and what is refused."""

import datetime as dt
import enum
import json
import uuid
from decimal import Decimal
from io import BytesIO
from typing import Literal, NamedTuple, NotRequired, TypedDict

import fastavro
import msgspec
import pydantic
import pytest

from streamlet.codecs import DecodeError, EncodeError, UnsupportedType, codec_for
from streamlet.codecs.avro_bounds import MAX_DEPTH, UnboundedData
from streamlet.codecs.avro_format import avro
from streamlet.codecs.avro_schema import derive_schema
from streamlet.codecs.file_registry import FileRegistry
from streamlet.codecs.registry import BadSchema, SchemaNotFiled


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.Enum):
    SMALL = 1
    LARGE = 2


class Line(msgspec.Struct):
    sku: str
    count: int = 1


class Paid(msgspec.Struct, tag="paid"):
    cents: int


class Free(msgspec.Struct, tag="free"):
    why: str


class Node(msgspec.Struct):
    value: int
    next: "Node | None" = None


class Order(msgspec.Struct, rename="camel", kw_only=True):
    order_id: str
    made: dt.datetime
    day: dt.date
    hour: dt.time
    colour: Colour
    size: Size
    token: uuid.UUID
    price: Decimal
    took: dt.timedelta
    raw: bytes
    lines: list[Line]
    by_sku: dict[str, Line]
    weights: dict[int, float]
    tags: set[str]
    place: tuple[int, str]
    payment: Paid | Free | None
    mode: Literal["fast", "slow", None]
    note: str | None = None
    rank: int | str | None = "none"
    second: Colour = Colour.BLUE
    extra: list[str] = msgspec.field(default_factory=list)


ORDER = Order(
    order_id="o1",
    made=dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC),
    day=dt.date(2026, 1, 2),
    hour=dt.time(1, 2, 3, 4),
    colour=Colour.RED,
    size=Size.LARGE,
    token=uuid.UUID(int=7),
    price=Decimal("1.50"),
    took=dt.timedelta(seconds=90),
    raw=b"\xff\x00",
    lines=[Line("a"), Line("b", 2)],
    by_sku={"a": Line("a")},
    weights={3: 1.5},
    tags={"x"},
    place=(1, "x"),
    payment=Free("friend"),
    mode="fast",
)


@pytest.fixture
def registry(tmp_path):
    return FileRegistry(tmp_path / "schemas.json")


def test_a_schema_follows_from_the_hints():
    class Item(msgspec.Struct):
        id: str
        at: dt.datetime
        colour: Colour
        lines: list[Line]
        note: str | None = None
        rank: int | None = 3

    assert derive_schema(Item) == {
        "type": "record",
        "name": "Item",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "colour", "type": {"type": "enum", "name": "Colour", "symbols": ["red", "blue"]}},
            {
                "name": "lines",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "Line",
                        "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": "long", "default": 1}],
                    },
                },
            },
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "rank", "type": ["long", "null"], "default": 3},
        ],
    }


def test_every_kind_of_field_comes_back_in_both_wire_formats(registry):
    for choice in (avro(), avro(registry=registry)):
        codec = codec_for(Order, choice, topic="orders")

        assert codec.decode(codec.encode(ORDER)) == ORDER


@pytest.mark.parametrize(
    ("hint", "value"),
    [(int, 5), (str, "x"), (bytes, b"\xff"), (list[int], [1]), (int | str, "x"), (Colour, Colour.RED), (Node, Node(1, Node(2)))],
)
def test_other_values_come_back(hint, value):
    codec = codec_for(hint, "avro")

    assert codec.decode(codec.encode(value)) == value


def test_without_a_registry_a_record_is_a_single_object():
    # CRC-64-AVRO of "long" is 0xd054e14493f41db7, little-endian on the wire; 64 is written as the varint 80 01.
    assert codec_for(int, "avro").encode(64) == b"\xc3\x01\xb7\x1d\xf4\x93\x44\xe1\x54\xd0\x80\x01"


def test_with_a_registry_a_record_has_confluents_header(registry):
    registry.register("other-value", '"string"')
    codec = codec_for(int, avro(registry=registry), topic="numbers")

    assert codec.encode(64) == b"\x00\x00\x00\x00\x02\x80\x01"
    assert registry.latest("numbers-value") == (2, '"long"')


def test_prepare_files_the_schema_before_the_first_record(registry):
    codec = codec_for(int, avro(registry=registry), topic="numbers", part="key")

    codec.prepare()

    assert registry.find("numbers-key", '"long"') == 1


def test_declaring_asks_nothing_of_the_registry(registry):
    codec_for(int, avro(registry=registry), topic="numbers")

    assert not registry.path.exists()


def test_an_unfiled_schema_is_refused_when_registering_is_off(registry):
    codec = codec_for(int, avro(registry=registry, register=False, subject="numbers"))

    with pytest.raises(SchemaNotFiled) as failure:
        codec.prepare()

    assert failure.value.subject == "numbers"


class Growing:
    """Three versions of one record, as three releases of an app would declare them."""

    first = msgspec.defstruct("Item", [("id", str), ("gone", int), ("size", int)])
    second = msgspec.defstruct("Item", [("id", str), ("size", float), ("note", str | None, None)])
    third = msgspec.defstruct(
        "Item", [("id", str), ("note", str | None, None), ("tags", list[str], msgspec.field(default_factory=list)), ("size", float, 0.0)]
    )


def test_each_record_is_read_with_the_schema_it_was_written_with(registry):
    versions = [codec_for(cls, avro(registry=registry), topic="items") for cls in (Growing.first, Growing.second, Growing.third)]
    written = [
        versions[0].encode(Growing.first("a", 1, 2)),
        versions[1].encode(Growing.second("b", 2.5, "n")),
        versions[2].encode(Growing.third("c")),
    ]

    newest = [versions[2].decode(data) for data in written]
    oldest_by_second = versions[1].decode(written[2])

    assert newest == [Growing.third("a", None, [], 2.0), Growing.third("b", "n", [], 2.5), Growing.third("c")]
    assert oldest_by_second == Growing.second("c", 0.0, None)


def test_earlier_schemas_take_the_place_of_a_registry():
    old = codec_for(Growing.first, "avro").encode(Growing.first("a", 1, 2))
    earlier = derive_schema(Growing.first)

    assert codec_for(Growing.second, avro(earlier=[earlier])).decode(old) == Growing.second("a", 2.0, None)
    with pytest.raises(DecodeError) as failure:
        codec_for(Growing.second, "avro").decode(old)

    assert "neither the declared one nor in earlier=" in failure.value.reason


def test_a_record_that_another_client_wrote_is_read(registry):
    schema = {
        "type": "record",
        "name": "Line",
        "namespace": "com.shop",
        "fields": [{"name": "count", "type": "int"}, {"name": "sku", "type": "string"}],
    }
    schema_id = registry.register("lines-value", json.dumps(schema))
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"sku": "s", "count": 7})
    codec = codec_for(Line, avro(registry=registry), topic="lines")

    assert codec.decode(b"\x00" + schema_id.to_bytes(4) + out.getvalue()) == Line("s", 7)


class Priced(msgspec.Struct):
    count: int
    price: Decimal


PRICED = {
    "type": "record",
    "name": "Priced",
    "fields": [
        {"name": "count", "type": "int"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
    ],
}


@pytest.mark.parametrize("form", ["dict", "text", "file"])
def test_a_schema_may_be_given(form, tmp_path):
    (tmp_path / "priced.avsc").write_text(json.dumps(PRICED))
    source = {"dict": PRICED, "text": json.dumps(PRICED), "file": tmp_path / "priced.avsc"}[form]
    codec = codec_for(Priced, avro(source))

    assert codec.decode(codec.encode(Priced(1, Decimal("1.25")))) == Priced(1, Decimal("1.25"))


@pytest.mark.parametrize("value", [Priced(2**40, Decimal(1)), Priced(1, Decimal("1.234")), Priced(1, Decimal(10**9))])
def test_what_does_not_fit_a_given_schema_is_refused(value):
    with pytest.raises((ValueError, fastavro.validation.ValidationError)):
        codec_for(Priced, avro(PRICED)).encode(value)


@pytest.mark.parametrize("source", ['{"type": "nothing"}', "{", "nothing", {"type": "record", "fields": []}])
def test_what_is_no_schema_is_refused_at_declaration(source):
    with pytest.raises(BadSchema):
        avro(source)


def test_a_missing_schema_file_is_refused_at_declaration(tmp_path):
    with pytest.raises(BadSchema, match="No such file"):
        avro(tmp_path / "none.avsc")


class Checked(msgspec.Struct):
    whole: int = 1
    real: float = 1.0
    flag: bool = True
    text: str = ""
    many: list[int] = []
    at: dt.datetime = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    "value",
    [
        {"whole": 1},
        Line("a"),
        None,
        Checked(whole=1.5),
        Checked(whole=True),
        Checked(whole="1"),
        Checked(real="1"),
        Checked(real=True),
        Checked(flag=1),
        Checked(text=b"x"),
        Checked(many=["a"]),
        Checked(many=None),
        Checked(at="2026-01-01T00:00:00Z"),
        Checked(at=dt.datetime(2026, 1, 1)),  # noqa: DTZ001
    ],
)
def test_no_wrong_value_is_written_however_deep(value):
    with pytest.raises(EncodeError):
        codec_for(Checked, "avro").encode(value)


def test_an_int_beyond_64_bits_is_refused():
    with pytest.raises(OverflowError):
        codec_for(Checked, "avro").encode(Checked(whole=2**63))


class Pair(NamedTuple):
    a: int
    b: int


class Loose(TypedDict):
    a: NotRequired[int]


class Flat(msgspec.Struct, array_like=True):
    a: int


class Numbered(msgspec.Struct, tag=3):
    a: int


class Naive(msgspec.Struct):
    at: "NaiveTime"


class Model(pydantic.BaseModel):
    a: int


NaiveTime = __import__("typing").Annotated[dt.datetime, msgspec.Meta(tz=False)]
OtherLine = msgspec.defstruct("Line", [("x", int)])


@pytest.mark.parametrize(
    "hint",
    [
        Pair,
        Loose,
        Flat,
        Numbered,
        Naive,
        Model,
        object,
        list[object],
        dict[tuple[int, int], int],
        tuple[Line, OtherLine],
        tuple[list[int], list[str]],
    ],
)
def test_types_that_avro_cannot_say_are_refused_at_declaration(hint):
    with pytest.raises(UnsupportedType):
        codec_for(hint, "avro")


@pytest.mark.parametrize(
    "data",
    [b"", b"\x00", b"\x01\x00\x00\x00\x01\x02", b"\x00\x00\x00\x00\x63\x02", b"\x00\x00\x00\x00\x01", b"\x00\x00\x00\x00\x01\x02\x02"],
)
def test_bytes_that_are_not_confluents_format_are_refused(registry, data):
    codec = codec_for(int, avro(registry=registry), topic="numbers")
    codec.prepare()

    with pytest.raises((DecodeError, EOFError)):
        codec.decode(data)


def _nested(depth: int) -> Node:
    node = Node(0)
    for value in range(depth):
        node = Node(value, node)
    return node


def test_recursive_records_are_read_and_written_up_to_the_same_depth():
    codec = codec_for(Node, "avro")
    deep = _nested(MAX_DEPTH // 2 - 1)

    assert codec.decode(codec.encode(deep)) == deep
    with pytest.raises(UnboundedData):
        codec.encode(_nested(MAX_DEPTH // 2 + 1))


def test_endless_nesting_is_refused_before_it_reaches_c_code():
    codec = codec_for(Node, "avro")
    header = codec.encode(Node(1))[:10]

    with pytest.raises(UnboundedData):
        codec.decode(header + b"\x02" * 5_000_000)


@pytest.mark.parametrize(
    "items", ["null", {"type": "record", "name": "Empty", "fields": []}, {"type": "fixed", "name": "None_", "size": 0}]
)
def test_an_array_of_nothing_cannot_claim_to_be_endless(items):
    codec = codec_for(object, avro({"type": "array", "items": items}))
    header = codec.encode([])[:10]
    endless = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00"  # a block of 2^62 - 1 items

    with pytest.raises(UnboundedData):
        codec.decode(header + endless)


def test_a_short_array_of_nothing_is_read():
    codec = codec_for(list[None], avro({"type": "array", "items": "null"}))

    assert codec.decode(codec.encode([None, None])) == [None, None]


def test_the_description_names_form_type_and_fingerprint(registry):
    assert codec_for(int, "avro").describe() == "avro single-object int b71df49344e154d0"
    assert codec_for(int, avro(registry=registry)).describe() == "avro confluent int b71df49344e154d0"


def test_a_record_that_holds_itself_without_end_is_refused():
    schema = {"type": "record", "name": "Loop", "fields": [{"name": "again", "type": "Loop"}]}
    codec = codec_for(object, avro("long", earlier=[schema]))
    header = b"\xc3\x01" + bytes.fromhex(fastavro.schema.fingerprint(fastavro.schema.to_parsing_canonical_form(schema), "CRC-64-AVRO"))

    with pytest.raises(UnboundedData):
        codec.decode(header)
