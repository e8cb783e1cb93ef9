"""Scalars byte for byte as Kafka's own Java serializers write them, so that any other client reads them.

| Python | bytes | Java |
|---|---|---|
| str | UTF-8 | StringSerializer |
| bytes | as they are | ByteArraySerializer |
| int | 8, big-endian, two's complement | LongSerializer |
| float | 8, IEEE 754, big-endian | DoubleSerializer |
| bool | 1: 0x00 or 0x01 | BooleanSerializer |
| UUID | its 36 characters | UUIDSerializer |
| `int32`, `int16`, `float32` | 4, 2, 4 | IntegerSerializer, ShortSerializer, FloatSerializer |

What is refused when writing: a bool where a number is declared (it would be read back as 0 or 1), a float where an int is
declared, an int that does not fit, an int that a float cannot hold exactly. What is accepted: subclasses (a StrEnum is a
str), an int where a float is declared (type checkers allow it), bytearray and memoryview where bytes are declared (copied).
"""

import struct
from typing import Final, cast
from uuid import UUID

import msgspec

from streamlet.codecs.codec import BoundCodec
from streamlet.codecs.errors import DecodeError, EncodeError, shown


def encode_bytes(value: object) -> bytes:
    """Bytes as they are."""
    if type(value) is bytes:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(cast("bytes", value))  # a memoryview of whatever items
    raise EncodeError("bytes", shown(value), "it is not bytes")


def decode_bytes(data: bytes) -> bytes:
    """Bytes as they are."""
    return data


def encode_bool(value: object) -> bytes:
    """One byte, as Java's BooleanSerializer."""
    if value is True:
        return b"\x01"
    if value is False:
        return b"\x00"
    raise EncodeError("bool", shown(value), "it is neither True nor False")


def decode_bool(data: bytes) -> bool:
    """One byte, strictly 0 or 1."""
    if data == b"\x01":
        return True
    if data == b"\x00":
        return False
    raise DecodeError("bool", f"a bool is the byte 0 or 1, not {shown(data)}")


def encode_uuid(value: object) -> bytes:
    """The 36 characters of its canonical form."""
    if isinstance(value, UUID):
        return str(value).encode()
    raise EncodeError("UUID", shown(value), "it is not a UUID")


def decode_uuid(data: bytes) -> UUID:
    """The 36 characters of its canonical form."""
    if len(data) != 36:
        raise DecodeError("UUID", f"a UUID has 36 characters, not {len(data)}")
    return msgspec.convert(data.decode(), UUID)


def _integer(declared: str, layout: str) -> BoundCodec[int]:
    packed = struct.Struct(layout)
    pack, unpack, bits = packed.pack, packed.unpack, packed.size * 8

    def encode(value: object) -> bytes:
        if type(value) is int or (isinstance(value, int) and not isinstance(value, bool)):
            try:
                return pack(value)
            except struct.error:
                raise EncodeError(declared, shown(value), f"it does not fit in {bits} bits") from None
        raise EncodeError(declared, shown(value), "it is not an int")

    def decode(data: bytes) -> int:
        number: int
        (number,) = unpack(data)
        return number

    return BoundCodec(encode, decode, f"{declared} {packed.size} bytes big-endian", declared)


def _floating(declared: str, layout: str) -> BoundCodec[float]:
    packed = struct.Struct(layout)
    pack, unpack = packed.pack, packed.unpack

    def encode(value: object) -> bytes:
        try:
            if type(value) is float or isinstance(value, float):
                return pack(value)
            if isinstance(value, int) and not isinstance(value, bool) and float(value) == value:
                return pack(value)
        except (OverflowError, struct.error):
            raise EncodeError(declared, shown(value), "it is too large") from None
        reason = "a float cannot hold it exactly" if type(value) is int else "it is not a float"
        raise EncodeError(declared, shown(value), reason)

    def decode(data: bytes) -> float:
        number: float
        (number,) = unpack(data)
        return number

    return BoundCodec(encode, decode, f"{declared} {packed.size} bytes IEEE big-endian", declared)


# str.encode refuses whatever is no str and bytes.decode whatever is no UTF-8, at half the price of a Python function.
STR: Final[BoundCodec[str]] = BoundCodec(str.encode, bytes.decode, "str utf-8", "str")
BYTES: Final[BoundCodec[bytes]] = BoundCodec(encode_bytes, decode_bytes, "bytes raw", "bytes")
INT: Final = _integer("int", ">q")
FLOAT: Final = _floating("float", ">d")
BOOL: Final[BoundCodec[bool]] = BoundCodec(encode_bool, decode_bool, "bool 1 byte", "bool")
UUID_TEXT: Final[BoundCodec[UUID]] = BoundCodec(encode_uuid, decode_uuid, "UUID text", "UUID")

int32: Final = _integer("int32", ">i")
int16: Final = _integer("int16", ">h")
float32: Final = _floating("float32", ">f")

# The key proves the type, so one table may hold them all.
BY_TYPE: Final[dict[object, object]] = {str: STR, bytes: BYTES, int: INT, float: FLOAT, bool: BOOL, UUID: UUID_TEXT}
