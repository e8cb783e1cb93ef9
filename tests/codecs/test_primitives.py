"""Scalars on the wire, held against bytes that Kafka's Java serializers write (written out, not computed)."""

import enum
import math
from typing import NewType
from uuid import UUID

import pytest

from streamlet.codecs import DecodeError, EncodeError, codec_for, explain_encode, float32, int16, int32

JAVA_VECTORS = [
    (str, "Zürich", b"Z\xc3\xbcrich"),
    (str, "", b""),
    (bytes, b"\x00\xff", b"\x00\xff"),
    (int, 0, b"\x00\x00\x00\x00\x00\x00\x00\x00"),
    (int, 1, b"\x00\x00\x00\x00\x00\x00\x00\x01"),
    (int, -1, b"\xff\xff\xff\xff\xff\xff\xff\xff"),
    (int, 1_234_567_890_123, b"\x00\x00\x01\x1f\x71\xfb\x04\xcb"),
    (int, 2**63 - 1, b"\x7f\xff\xff\xff\xff\xff\xff\xff"),
    (int, -(2**63), b"\x80\x00\x00\x00\x00\x00\x00\x00"),
    (float, 1.0, b"\x3f\xf0\x00\x00\x00\x00\x00\x00"),
    (float, -2.5, b"\xc0\x04\x00\x00\x00\x00\x00\x00"),
    (float, 0.1, b"\x3f\xb9\x99\x99\x99\x99\x99\x9a"),
    (float, math.inf, b"\x7f\xf0\x00\x00\x00\x00\x00\x00"),
    (bool, True, b"\x01"),
    (bool, False, b"\x00"),
    (UUID, UUID("123e4567-e89b-12d3-a456-426614174000"), b"123e4567-e89b-12d3-a456-426614174000"),
]


@pytest.mark.parametrize(("hint", "value", "wire"), JAVA_VECTORS)
def test_scalars_are_written_and_read_as_java_does(hint, value, wire):
    codec = codec_for(hint)

    assert codec.encode(value) == wire
    assert codec.decode(wire) == value
    assert type(codec.decode(wire)) is hint


@pytest.mark.parametrize(
    ("codec", "value", "wire"),
    [
        (int32, -2, b"\xff\xff\xff\xfe"),
        (int32, 2**31 - 1, b"\x7f\xff\xff\xff"),
        (int16, 258, b"\x01\x02"),
        (float32, 1.5, b"\x3f\xc0\x00\x00"),
    ],
)
def test_narrow_numbers_are_written_and_read_as_java_does(codec, value, wire):
    assert codec_for(int, codec) is codec
    assert codec.encode(value) == wire
    assert codec.decode(wire) == value


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("hint", "value", "wire"),
    [
        (str, Colour.RED, b"red"),
        (int, Level.HIGH, b"\x00\x00\x00\x00\x00\x00\x00\x03"),
        (float, 3, b"\x40\x08\x00\x00\x00\x00\x00\x00"),
        (bytes, bytearray(b"ab"), b"ab"),
        (bytes, memoryview(b"ab"), b"ab"),
    ],
)
def test_values_that_type_checkers_allow_are_written(hint, value, wire):
    data = codec_for(hint).encode(value)

    assert data == wire
    assert type(data) is bytes


@pytest.mark.parametrize(
    ("hint", "value", "reason"),
    [
        (str, 5, "it is not a str"),
        (str, b"x", "it is not a str"),
        (str, None, "it is not a str"),
        (bytes, "x", "it is not bytes"),
        (bytes, 5, "it is not bytes"),
        (bytes, [1, 2], "it is not bytes"),
        (int, True, "it is not an int"),
        (int, 1.0, "it is not an int"),
        (int, "1", "it is not an int"),
        (int, None, "it is not an int"),
        (int, 2**63, "it does not fit in 64 bits"),
        (int, -(2**63) - 1, "it does not fit in 64 bits"),
        (float, True, "it is not a float"),
        (float, "1", "it is not a float"),
        (float, 2**53 + 1, "a float cannot hold it exactly"),
        (float, 10**400, "it is too large"),
        (bool, 1, "it is neither True nor False"),
        (bool, None, "it is neither True nor False"),
        (UUID, "123e4567-e89b-12d3-a456-426614174000", "it is not a UUID"),
    ],
)
def test_a_wrong_value_is_refused_and_named(hint, value, reason):
    codec = codec_for(hint)

    with pytest.raises((EncodeError, TypeError)) as failure:
        codec.encode(value)

    told = explain_encode(codec, value, failure.value)
    assert isinstance(told, EncodeError)
    assert (told.declared, told.reason) == (hint.__name__, reason)
    assert told.got.startswith(type(value).__name__)


@pytest.mark.parametrize(("codec", "value"), [(int32, 2**31), (int16, -(2**15) - 1), (float32, 1e300)])
def test_what_does_not_fit_a_narrow_number_is_refused(codec, value):
    with pytest.raises(EncodeError):
        codec.encode(value)


@pytest.mark.parametrize(
    ("hint", "data"),
    [
        (int, b""),
        (int, b"\x00" * 7),
        (int, b"\x00" * 9),
        (float, b"1.5"),
        (bool, b"\x02"),
        (bool, b""),
        (str, b"\xff"),
        (UUID, b"123e4567e89b12d3a456426614174000"),
        (UUID, b"z23e4567-e89b-12d3-a456-426614174000"),
        (UUID, b"\xff" * 36),
    ],
)
def test_wrong_bytes_are_refused(hint, data):
    with pytest.raises(Exception, match=r"."):
        codec_for(hint).decode(data)


def test_a_wrong_bool_says_what_a_bool_is():
    with pytest.raises(DecodeError) as failure:
        codec_for(bool).decode(b"\x07")

    assert failure.value.reason == r"a bool is the byte 0 or 1, not bytes b'\x07'"


def test_names_for_types_and_null_change_nothing_on_the_wire():
    order_id = NewType("order_id", int)

    assert codec_for(order_id) is codec_for(int)
    assert codec_for(int | None) is codec_for(int)
