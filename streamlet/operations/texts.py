"""Between what people type and read and the bytes of a record: text and JSON on one side, a topic's codec on the other."""

import json
from typing import cast

import msgspec

from streamlet.codecs import BoundCodec, codec_for, explain_encode
from streamlet.codecs.hints import unwrapped
from streamlet.errors import ConfigError
from streamlet.state.keys import hint_name


class BadText(ConfigError):
    """What was typed does not fit the type it is meant for."""

    def __init__(self, text: str, declared: str, why: str) -> None:
        super().__init__(text, declared, why)
        self.text, self.declared, self.why = text, declared, why

    def __str__(self) -> str:
        return f"{self.text!r} is not {self.declared}: {self.why}. Texts are typed as they are, everything else as JSON."


def write_text(hint: object, codec: BoundCodec[object], text: str) -> bytes:
    """The bytes of a record part, from what was typed."""
    value = read_typed(hint, text)
    try:
        return codec.encode(value)
    except Exception as error:  # whatever a codec raises: it is what was typed that does not fit
        raise BadText(text, codec.declared, str(explain_encode(codec, value, error))) from error


def read_typed(hint: object, text: str) -> object:
    """A value of a type from text: str and bytes as typed, everything else as JSON."""
    bare = unwrapped(hint)
    if bare is str:
        return text
    if bare is bytes:
        return text.encode()
    try:
        return codec_for(bare, "json").decode(text.encode())
    except Exception as error:  # whatever a codec raises: it is what was typed that does not fit
        raise BadText(text, hint_name(bare), str(error)) from error


def read_key(hint: object, text: str) -> object:
    """A key of state from text: as `read_typed`, and what needs no brackets needs no quotes either."""
    try:
        return msgspec.convert(text, type=cast("type[object]", unwrapped(hint)), strict=False)
    except msgspec.ValidationError:
        return read_typed(hint, text)


def show_part(hint: object, codec: BoundCodec[object], data: bytes | None) -> object:
    """A record part as a JSON value; what cannot be decoded says so and shows its bytes."""
    if data is None:
        return None
    try:
        value = codec.decode(data)
    except Exception as error:  # whatever a codec raises: the record is shown all the same
        return {"undecodable": str(error), "bytes": show_raw(data)}
    bare = unwrapped(hint)
    if isinstance(value, bytes):
        return show_raw(value)
    if isinstance(value, str | int | float | bool | None):
        return value
    return cast("object", json.loads(codec_for(bare, "json").encode(value)))


def show_raw(data: bytes | None) -> str | None:
    """Bytes nobody knows the type of: as text where they are text, else in hexadecimal."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex()}"
    return text if text.isprintable() or not text else f"0x{data.hex()}"


def show_value(value: object) -> object:
    """A value of state as a JSON value."""
    return cast("object", msgspec.to_builtins(value, str_keys=True, enc_hook=repr))
