"""Keys as bytes whose order is the order of the keys, so that range scans and time-ordered layouts work on raw bytes.

`part` escapes one piece of a longer key so that pieces can be chained: 0x00 becomes 0x00 0xFF and 0x00 0x00 ends it.
Invariant: for keys a < b of one type, encode(a) < encode(b); decode(encode(a)) == a.
Invariant: the encoding of a str or bytes key is the Kafka key itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Final, Literal, NewType, cast, get_args, get_origin, get_type_hints
from uuid import UUID

import msgspec

from streamlet.state.errors import BadKey, BadKeyType, BadStoredKey

END: Final = b"\x00\x00"
AFTER_END: Final = b"\x00\x01"  # sorts behind every key that goes on after END, and before any other
_BIAS: Final = 1 << 63


def part(raw: bytes) -> bytes:
    """One piece of a chained key: `E(raw)` in the layout of stores."""
    return raw.replace(b"\x00", b"\x00\xff") + END


def split(data: bytes, start: int = 0) -> tuple[bytes, int]:
    """The piece that begins at `start`, and where the next one begins. Raises ValueError if there is none."""
    end = data.index(END, start)
    return data[start:end].replace(b"\x00\xff", b"\x00"), end + 2


def after(prefix: bytes) -> bytes | None:
    """The first key behind all keys that begin with `prefix`, a chain of parts; None if there is no such key."""
    return prefix[:-2] + AFTER_END if prefix else None


@dataclass(frozen=True, slots=True)
class KeyCodec:
    """How keys of one type become bytes and come back."""

    name: str
    encode: Callable[[object], bytes]
    decode: Callable[[bytes], object]
    passes_through: bool = False  # the encoding is the Kafka key itself

    def part(self, key: object) -> bytes:
        """The key as one piece of a chained key."""
        return self.encode(key).replace(b"\x00", b"\x00\xff") + END


def key_codec(hint: object) -> KeyCodec:
    """The codec for a key type, or BadKeyType with the reason."""
    hint = plain_hint(hint)
    name = hint_name(hint)
    if isinstance(hint, type):
        return _class_codec(hint, name)
    if get_origin(hint) is tuple:
        return _tuple_codec(get_args(hint), name)
    if get_origin(hint) is Literal:
        return _members_codec(name, {value: value for value in get_args(hint)})
    raise BadKeyType(name, "it has no order that bytes could keep")


def key_encoder(hint: object) -> Callable[[object], bytes]:
    """Encode decoded record keys of this type."""
    return key_codec(hint).encode


def key_decoder(hint: object) -> Callable[[bytes], object]:
    """Decode what `key_encoder` of the same type made."""
    return key_codec(hint).decode


def passes_through(hint: object) -> bool:
    """Whether the raw Kafka key bytes are the encoding already (str and bytes)."""
    return key_codec(hint).passes_through


def plain_hint(hint: object) -> object:
    """The hint without NewType, Annotated and `type` alias around it."""
    while True:
        if isinstance(hint, NewType):
            hint = cast("object", hint.__supertype__)
        elif get_origin(hint) is Annotated:
            hint = get_args(hint)[0]
        elif type(hint).__name__ == "TypeAliasType":  # Python 3.12's `type X = ...`
            hint = cast("object", hint.__value__)  # type: ignore[attr-defined] # the name was checked; 3.11 lacks the class
        else:
            return hint


def hint_name(hint: object) -> str:
    """The hint as an app author would write it."""
    return hint.__qualname__ if isinstance(hint, type) and not get_args(hint) else str(hint).replace("typing.", "")


def _class_codec(hint: type, name: str) -> KeyCodec:
    simple = _SIMPLE.get(hint)
    if simple is not None:
        return simple
    if issubclass(hint, Enum):
        return _members_codec(name, {member: cast("object", member.value) for member in hint})
    if issubclass(hint, msgspec.Struct):
        return _struct_codec(hint, name)
    if hint is float:
        raise BadKeyType(name, "floats that look equal may differ in their last bit; use an int of the smallest unit")
    if hint is tuple:
        raise BadKeyType(name, "its parts have no types; write tuple[str, int]")
    raise BadKeyType(name, "it has no order that bytes could keep")


def _encode_str(key: object) -> bytes:
    if not isinstance(key, str):
        raise BadKey("str", _shown(key), f"it is a {type(key).__qualname__}")
    try:
        return key.encode()
    except UnicodeEncodeError as error:
        raise BadKey("str", _shown(key), "it has a lone surrogate, which UTF-8 cannot hold") from error


def _decode_str(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadStoredKey("str", data) from error


def _encode_bytes(key: object) -> bytes:
    if not isinstance(key, bytes):
        raise BadKey("bytes", _shown(key), f"it is a {type(key).__qualname__}")
    return key


def _decode_bytes(data: bytes) -> bytes:
    return data


def _encode_int(key: object) -> bytes:
    if not isinstance(key, int) or isinstance(key, bool):
        raise BadKey("int", _shown(key), f"it is a {type(key).__qualname__}")
    if not -_BIAS <= key < _BIAS:
        raise BadKey("int", _shown(key), "it does not fit in 64 bits; use str for longer numbers")
    return (key + _BIAS).to_bytes(8, "big")


def _decode_int(data: bytes) -> int:
    if len(data) != 8:
        raise BadStoredKey("int", data)
    return int.from_bytes(data, "big") - _BIAS


def _encode_bool(key: object) -> bytes:
    if not isinstance(key, bool):
        raise BadKey("bool", _shown(key), f"it is a {type(key).__qualname__}")
    return b"\x01" if key else b"\x00"


def _decode_bool(data: bytes) -> bool:
    if data not in (b"\x00", b"\x01"):
        raise BadStoredKey("bool", data)
    return data == b"\x01"


def _encode_uuid(key: object) -> bytes:
    if not isinstance(key, UUID):
        raise BadKey("UUID", _shown(key), f"it is a {type(key).__qualname__}")
    return key.bytes


def _decode_uuid(data: bytes) -> UUID:
    if len(data) != 16:
        raise BadStoredKey("UUID", data)
    return UUID(bytes=data)


_SIMPLE: Final[dict[type, KeyCodec]] = {
    str: KeyCodec("str", _encode_str, _decode_str, passes_through=True),
    bytes: KeyCodec("bytes", _encode_bytes, _decode_bytes, passes_through=True),
    int: KeyCodec("int", _encode_int, _decode_int),
    bool: KeyCodec("bool", _encode_bool, _decode_bool),
    UUID: KeyCodec("UUID", _encode_uuid, _decode_uuid),
}


def _members_codec(name: str, members: dict[object, object]) -> KeyCodec:
    """An Enum or Literal: each member stands for its value, and all values have one key type."""
    kinds = {next((kind for kind in (bool, int, str, bytes) if isinstance(value, kind)), object) for value in members.values()}
    if len(kinds) != 1 or object in kinds:
        raise BadKeyType(name, "its members' values must be all str, all int or all bytes")
    codec = _SIMPLE[kinds.pop()]
    encoded = {member: codec.encode(value) for member, value in members.items()}
    decoded = {data: member for member, data in encoded.items()}

    def encode(key: object) -> bytes:
        try:
            return encoded[key]
        except (KeyError, TypeError) as error:
            raise BadKey(name, _shown(key), "it is none of the members") from error

    def decode(data: bytes) -> object:
        try:
            return decoded[data]
        except KeyError as error:
            raise BadStoredKey(name, data) from error

    return KeyCodec(name, encode, decode)


def _tuple_codec(hints: tuple[object, ...], name: str) -> KeyCodec:
    if len(hints) == 2 and hints[1] is Ellipsis:
        return _long_tuple_codec(key_codec(hints[0]), name)
    codecs = tuple(key_codec(hint) for hint in hints)

    def encode(key: object) -> bytes:
        if not isinstance(key, tuple):
            raise BadKey(name, _shown(key), f"it is a {type(key).__qualname__}")
        values = cast("tuple[object, ...]", key)
        if len(values) != len(codecs):
            raise BadKey(name, _shown(values), f"it has {len(values)} parts, not {len(codecs)}")
        return b"".join([codec.part(value) for codec, value in zip(codecs, values, strict=True)])

    def decode(data: bytes) -> tuple[object, ...]:
        return tuple(codec.decode(raw) for codec, raw in zip(codecs, _pieces(name, data, len(codecs)), strict=True))

    return KeyCodec(name, encode, decode)


def _long_tuple_codec(codec: KeyCodec, name: str) -> KeyCodec:
    def encode(key: object) -> bytes:
        if not isinstance(key, tuple):
            raise BadKey(name, _shown(key), f"it is a {type(key).__qualname__}")
        return b"".join([codec.part(value) for value in cast("tuple[object, ...]", key)])

    def decode(data: bytes) -> tuple[object, ...]:
        return tuple(codec.decode(raw) for raw in _pieces(name, data, None))

    return KeyCodec(name, encode, decode)


def _struct_codec(hint: type[msgspec.Struct], name: str) -> KeyCodec:
    if not hint.__struct_config__.frozen:
        raise BadKeyType(name, "it is not frozen; write class " + hint.__name__ + "(msgspec.Struct, frozen=True)")
    hints = get_type_hints(hint, include_extras=True)
    fields = hint.__struct_fields__
    codecs = tuple(key_codec(hints[field]) for field in fields)

    def encode(key: object) -> bytes:
        if type(key) is not hint:
            raise BadKey(name, _shown(key), f"it is a {type(key).__qualname__}")
        return b"".join([codec.part(getattr(key, field)) for codec, field in zip(codecs, fields, strict=True)])

    def decode(data: bytes) -> object:
        raws = _pieces(name, data, len(codecs))
        return hint(**{field: codec.decode(raw) for field, codec, raw in zip(fields, codecs, raws, strict=True)})

    return KeyCodec(name, encode, decode)


def _pieces(name: str, data: bytes, count: int | None) -> list[bytes]:
    raws: list[bytes] = []
    at = 0
    try:
        while at < len(data):
            raw, at = split(data, at)
            raws.append(raw)
    except ValueError as error:
        raise BadStoredKey(name, data) from error
    if (count is not None and len(raws) != count) or b"".join(map(part, raws)) != data:
        raise BadStoredKey(name, data)
    return raws


def _shown(key: object) -> str:
    text = repr(key)
    return text if len(text) <= 80 else text[:77] + "..."


def loose_key_codec() -> KeyCodec:
    """Keys of whatever type comes, for collections made by hand in unit tests. It remembers keys instead of decoding them."""
    seen: dict[bytes, object] = {}

    def encode(key: object) -> bytes:
        data = key_codec(_hint_of(key)).encode(key)
        seen[data] = key
        return data

    return KeyCodec("any key", encode, seen.__getitem__)


def _hint_of(key: object) -> object:
    if isinstance(key, tuple):
        kinds = tuple(_hint_of(value) for value in cast("tuple[object, ...]", key))
        return tuple.__class_getitem__(kinds)
    return type(key)
