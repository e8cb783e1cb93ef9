"""JSON and msgpack for everything that has structure, by msgspec: Struct, dataclass, TypedDict, NamedTuple, containers,
unions, Literal, Enum, dates.

Unknown fields are ignored when reading and missing ones take their default, so that types may grow. What is checked when
writing is told in `admission`; JSON has no NaN and no infinity, so these are refused rather than written as null.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import msgspec
from msgspec import inspect

from streamlet.codecs.admission import Admission, admission
from streamlet.codecs.codec import BoundCodec
from streamlet.codecs.errors import EncodeError, UnsupportedType, shown
from streamlet.codecs.hints import name_of
from streamlet.codecs.leaves import Search, leaf_search
from streamlet.codecs.models import has_models, model_codec
from streamlet.codecs.structure import fingerprint_of, shape_of

Encode = Callable[[object], bytes]
Decode = Callable[[bytes], object]


@dataclass(frozen=True, slots=True)
class Json:
    """The format behind `codec="json"`, and the default for structured types."""

    def for_type(self, hint: object, subject: str) -> BoundCodec[object]:  # noqa: ARG002  # the seam is the same for all formats
        """A JSON codec for the hint; `subject` plays no part."""
        if has_models(hint):
            return model_codec(hint, "json")
        shape, declared = shape_of(hint), name_of(hint)
        raw = msgspec.json.Encoder().encode
        decode = _decoder(msgspec.json.Decoder, hint)
        has_no_number = leaf_search(shape, (inspect.FloatType,), _is_no_number)
        encode = raw if has_no_number is None else _finite(raw, has_no_number, declared)
        return BoundCodec(guarded(encode, decode, admission(hint), declared), decode, f"json {declared} {fingerprint_of(shape)}", declared)


@dataclass(frozen=True, slots=True)
class Msgpack:
    """The format behind `codec="msgpack"`."""

    def for_type(self, hint: object, subject: str) -> BoundCodec[object]:  # noqa: ARG002  # the seam is the same for all formats
        """A msgpack codec for the hint; `subject` plays no part."""
        if has_models(hint):
            return model_codec(hint, "msgpack")
        shape, declared = shape_of(hint), name_of(hint)
        raw = msgspec.msgpack.Encoder().encode
        decode = _decoder(msgspec.msgpack.Decoder, hint)
        return BoundCodec(guarded(raw, decode, admission(hint), declared), decode, f"msgpack {declared} {fingerprint_of(shape)}", declared)


def _decoder(make: Callable[[object], object], hint: object) -> Decode:
    try:
        decoder = make(hint)
    except TypeError as error:
        raise UnsupportedType(name_of(hint), str(error).split(" - ")[0].rstrip("."), "Change the type as this says") from error
    return cast("Decode", getattr(decoder, "decode"))  # noqa: B009  # both decoders have it, their classes share no base


def guarded(encode: Encode, decode: Decode, admitted: Admission, declared: str) -> Encode:
    """Let only admitted values through to the encoder."""
    exact, is_sound, is_kin = admitted.exact, admitted.is_sound, admitted.is_kin

    def encode_admitted(value: object) -> bytes:
        if type(value) in exact or is_sound(value):
            return encode(value)
        if not is_kin(value):
            raise EncodeError(declared, shown(value), f"it is not {declared}")
        data = encode(value)
        try:
            decode(data)
        except Exception as error:
            raise EncodeError(declared, shown(value), f"it cannot be read back as {declared} ({error})") from error
        return data

    return encode_admitted


def _finite(encode: Encode, has_no_number: Search, declared: str) -> Encode:
    """Refuse NaN and infinity: msgspec writes them as null, so a null in the bytes asks for a closer look at the value."""

    def encode_finite(value: object) -> bytes:
        data = encode(value)
        if b"null" in data and has_no_number(value):
            raise EncodeError(declared, shown(value), 'JSON has no NaN and no infinity; use None, or codec="msgpack"')
        return data

    return encode_finite


def _is_no_number(leaf: object) -> bool:
    return isinstance(leaf, float) and not math.isfinite(leaf)
