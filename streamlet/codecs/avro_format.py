"""Avro by fastavro: `app.topic("orders", value=Order, codec=avro(registry=HttpRegistry("http://…")))`.

With a registry, records are in Confluent's wire format: a zero byte, the schema's id in four bytes, the value. Without one
they are in Avro's single-object encoding: C3 01, the schema's fingerprint in eight bytes, the value; a reader knows its own
schema and those in `earlier`. Plain Avro without a header is not offered: it is misread in silence as soon as a schema changes.

Each record is read with the schema it was written with, resolved to the declared type: fields may be added with a default,
removed, or widened. When writing, every field is checked against its declared type (fastavro alone would cut 1.5 to 1).

Invariant: no bytes of a record can crash the process or make it allocate out of proportion (see `avro_bounds`).
"""

import datetime as dt
import json
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Final, Protocol, cast

import fastavro
import msgspec
from fastavro.schema import SchemaParseException, fingerprint, to_parsing_canonical_form
from fastavro.types import Schema as FastavroSchema

from streamlet.codecs.admission import admission
from streamlet.codecs.avro_bounds import bounds_check
from streamlet.codecs.avro_schema import derive_schema
from streamlet.codecs.codec import BoundCodec, nothing_to_prepare
from streamlet.codecs.errors import DecodeError, EncodeError, UnsupportedType, shown
from streamlet.codecs.hints import name_of
from streamlet.codecs.leaves import leaf_search
from streamlet.codecs.models import has_models
from streamlet.codecs.registry import BadSchema, Registry, UnknownSchemaId
from streamlet.codecs.structure import shape_of
from streamlet.codecs.structured import guarded

_CONFLUENT: Final = struct.Struct(">bI")
_SINGLE_OBJECT: Final = b"\xc3\x01"
_TIMES: Final = (msgspec.inspect.DateTimeType, msgspec.inspect.TimeType)
_SCHEMAS_KEPT: Final = 1_000


class _Read(Protocol):
    def __call__(self, fo: BytesIO, writer_schema: FastavroSchema, reader_schema: FastavroSchema | None) -> object: ...


class _Write(Protocol):
    def __call__(self, fo: BytesIO, schema: FastavroSchema, record: object, *, strict_allow_default: bool) -> None: ...


# fastavro's stubs leave the type of the stream open
_read = cast("_Read", fastavro.schemaless_reader)  # pyright: ignore[reportUnknownMemberType]
_write = cast("_Write", fastavro.schemaless_writer)  # pyright: ignore[reportUnknownMemberType]

SchemaSource = str | Path | dict[str, object] | list[object]
ReadValue = Callable[[bytes, int], object]


def avro(
    schema: SchemaSource | None = None,
    *,
    registry: Registry | None = None,
    subject: str | None = None,
    register: bool = True,
    earlier: Iterable[SchemaSource] = (),
) -> "Avro":
    """The Avro format for a topic: schema from the type hints unless given; subject `<topic>-value` unless given."""
    where = subject or "avro(...)"
    texts = tuple(_text_of(source, where) for source in earlier)
    return Avro(None if schema is None else _text_of(schema, where), registry, subject, register, texts)


@dataclass(frozen=True, slots=True)
class Avro:
    """What `avro(...)` made; becomes a codec once its type is known."""

    schema: str | None
    registry: Registry | None
    subject: str | None
    register: bool
    earlier: tuple[str, ...]

    def for_type(self, hint: object, subject: str) -> BoundCodec[object]:
        """An Avro codec for the hint. Nothing is asked of the registry yet; `prepare` does, or the first record."""
        declared = name_of(hint)
        if has_models(hint):
            raise UnsupportedType(
                f"{declared} in Avro", "a pydantic model has no Avro form", 'Use a Struct or a dataclass, or codec="json"'
            )
        text = self.schema or json.dumps(derive_schema(hint))
        own = _Parsed.of(text, self.subject or subject)
        value = _Value(hint, declared, own, is_given=self.schema is not None)
        if self.registry is None:
            wire = _single_object(value, own, [_Parsed.of(one, self.subject or subject) for one in self.earlier])
        else:
            wire = _confluent(value, own, self.registry, self.subject or subject, register=self.register)
        encode = guarded(wire.encode, wire.decode, admission(hint), declared)
        return BoundCodec(encode, wire.decode, f"avro {wire.form} {declared} {own.fingerprint}", declared, wire.prepare)


@dataclass(frozen=True, slots=True)
class _Wire:
    form: str
    encode: Callable[[object], bytes]
    decode: Callable[[bytes], object]
    prepare: Callable[[], None]


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A schema as fastavro wants it, with what is known about it."""

    text: str
    schema: FastavroSchema
    canonical: str
    fingerprint: str  # CRC-64-AVRO, as hex digits
    check: Callable[[bytes, int], None] | None

    @classmethod
    def of(cls, text: str, subject: str) -> "_Parsed":
        named: dict[str, dict[str, object]] = {}
        try:
            raw = json.loads(text)
            schema = fastavro.parse_schema(raw, named_schemas=named)
            canonical = to_parsing_canonical_form(schema)
            return cls(text, schema, canonical, fingerprint(canonical, "CRC-64-AVRO"), bounds_check(schema, named))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SchemaParseException) as error:
            raise BadSchema(subject, f"{type(error).__name__}: {error}".rstrip(".")) from error


class _Value:
    """Between a value of the declared type and bare Avro, without any header."""

    def __init__(self, hint: object, declared: str, own: _Parsed, *, is_given: bool) -> None:
        self.hint, self.declared, self.own, self.is_given = hint, declared, own, is_given
        logical = own.text if is_given else ""
        # fastavro wants dates as objects where the schema has a logical type, and texts where it says string.
        has_dates = not is_given or any(f'"{kind}' in logical for kind in ("timestamp-", "local-timestamp-", "date", "time-"))
        native: tuple[type, ...] = (bytes, bytearray, dt.datetime, dt.date, dt.time) if has_dates else (bytes, bytearray)
        self.native = (*native, Decimal) if '"decimal"' in logical else native
        knows_zones = '"local-timestamp-' not in own.text and ('"timestamp-' in own.text or '"time-' in own.text)
        self.has_doubtful_time = leaf_search(shape_of(hint), _TIMES, _is_doubtful_time) if knows_zones else None

    def write(self, header: bytes, value: object) -> bytes:
        plain = msgspec.to_builtins(value, builtin_types=self.native, str_keys=True)
        try:
            msgspec.convert(plain, self.hint, builtin_types=self.native, str_keys=True)  # a text is no datetime here
        except msgspec.ValidationError as error:
            raise EncodeError(self.declared, shown(value), str(error)) from error
        if self.has_doubtful_time is not None and self.has_doubtful_time(value):
            raise EncodeError(self.declared, shown(value), "a datetime needs a time zone (tzinfo=), and a time of day must have none")
        if self.is_given:
            fastavro.validate(plain, self.own.schema, raise_errors=True)
        out = BytesIO()
        out.write(header)
        _write(out, self.own.schema, plain, strict_allow_default=self.is_given)
        data = out.getvalue()
        if self.own.check is not None:  # what we could not read again must not be written
            self.own.check(data, len(header))
        return data

    def reader_for(self, writer: _Parsed) -> ReadValue:
        """A function that reads what was written with another schema (or our own) into the declared type."""
        read, convert = _read, msgspec.convert
        hint, declared, check = self.hint, self.declared, writer.check
        written, wanted = writer.schema, None if writer.canonical == self.own.canonical else self.own.schema
        if wanted is None:
            written = self.own.schema  # the canonical form leaves out logical types: ours say what the declared type needs

        def read_value(data: bytes, start: int) -> object:
            if check is not None:
                check(data, start)
            source = BytesIO(data)
            source.seek(start)
            plain = read(source, written, wanted)
            if source.tell() != len(data):
                raise DecodeError(declared, f"{len(data) - source.tell()} bytes are left after the value")
            return convert(plain, hint, str_keys=True)

        return read_value


def _confluent(value: _Value, own: _Parsed, registry: Registry, subject: str, *, register: bool) -> _Wire:
    header: list[bytes] = []  # empty until the registry has told our id
    readers: dict[int, ReadValue] = {}

    def prepare() -> None:
        if not header:
            schema_id = registry.register(subject, own.text) if register else registry.find(subject, own.text)
            header.append(_CONFLUENT.pack(0, schema_id))
            readers[schema_id] = value.reader_for(own)

    def encode(item: object) -> bytes:
        if not header:
            prepare()
        return value.write(header[0], item)

    def decode(data: bytes) -> object:
        if len(data) < 5 or data[0] != 0:
            raise DecodeError(value.declared, "it does not begin with a zero byte and a schema id, as Confluent's format does")
        schema_id = _CONFLUENT.unpack_from(data)[1]
        read = readers.get(schema_id) or reader_of(schema_id)
        return read(data, 5)

    def reader_of(schema_id: int) -> ReadValue:
        try:
            read = value.reader_for(_Parsed.of(registry.by_id(schema_id), f"id {schema_id}"))
        except (UnknownSchemaId, BadSchema) as error:
            raise DecodeError(value.declared, str(error).rstrip(".")) from error
        if len(readers) >= _SCHEMAS_KEPT:
            del readers[next(iter(readers))]
        readers[schema_id] = read
        return read

    return _Wire("confluent", encode, decode, prepare)


def _single_object(value: _Value, own: _Parsed, earlier: list[_Parsed]) -> _Wire:
    def header_of(parsed: _Parsed) -> bytes:
        return _SINGLE_OBJECT + bytes.fromhex(parsed.fingerprint)

    readers = {header_of(parsed): value.reader_for(parsed) for parsed in (*earlier, own)}
    header = header_of(own)

    def encode(item: object) -> bytes:
        return value.write(header, item)

    def decode(data: bytes) -> object:
        read = readers.get(data[:10])
        if read is not None:
            return read(data, 10)
        if not data.startswith(_SINGLE_OBJECT):
            raise DecodeError(value.declared, "it does not begin with C3 01, as Avro's single-object encoding does")
        raise DecodeError(
            value.declared, f"it was written with a schema ({data[2:10].hex()}) that is neither the declared one nor in earlier="
        )

    return _Wire("single-object", encode, decode, nothing_to_prepare)


def _text_of(source: SchemaSource, subject: str) -> str:
    try:
        text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source if isinstance(source, str) else json.dumps(source)
        if isinstance(source, str) and not text.lstrip().startswith(("{", "[", '"')):
            text = json.dumps(text)  # "long"
    except (OSError, TypeError, ValueError) as error:
        raise BadSchema(subject, str(error)) from error
    return _Parsed.of(text, subject).text


def _is_doubtful_time(leaf: object) -> bool:
    """A datetime without a zone would be taken as the machine's local time; a time with one would lose it."""
    if isinstance(leaf, dt.datetime):
        return leaf.tzinfo is None
    return isinstance(leaf, dt.time) and leaf.tzinfo is not None
