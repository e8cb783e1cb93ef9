"""Between values and the bytes of a record: a codec for every type, by default as Kafka's Java clients write it."""

from streamlet.codecs.choose import codec_for
from streamlet.codecs.codec import BoundCodec, Codec, Format, explain_decode, explain_encode, verified
from streamlet.codecs.errors import BadCodec, DecodeError, EncodeError, UnsupportedType
from streamlet.codecs.primitives import float32, int16, int32

__all__ = [
    "BadCodec",
    "BoundCodec",
    "Codec",
    "DecodeError",
    "EncodeError",
    "Format",
    "UnsupportedType",
    "codec_for",
    "explain_decode",
    "explain_encode",
    "float32",
    "int16",
    "int32",
    "verified",
]
