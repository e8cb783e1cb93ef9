"""Between values and the bytes of a record: a codec for every type, by default as Kafka's Java clients write it.

Avro and the registries are loaded when first named, since most apps need neither.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from streamlet.codecs.choose import codec_for
from streamlet.codecs.codec import BoundCodec, Codec, Format, explain_decode, explain_encode, verified
from streamlet.codecs.errors import BadCodec, DecodeError, EncodeError, UnsupportedType
from streamlet.codecs.primitives import float32, int16, int32

if TYPE_CHECKING:
    from streamlet.codecs.avro_format import avro
    from streamlet.codecs.file_registry import FileRegistry
    from streamlet.codecs.http_registry import HttpRegistry, Tls
    from streamlet.codecs.registry import Registry

__all__ = [
    "BadCodec",
    "BoundCodec",
    "Codec",
    "DecodeError",
    "EncodeError",
    "FileRegistry",
    "Format",
    "HttpRegistry",
    "Registry",
    "Tls",
    "UnsupportedType",
    "avro",
    "codec_for",
    "explain_decode",
    "explain_encode",
    "float32",
    "int16",
    "int32",
    "verified",
]

_LATE: Final = {
    "avro": "avro_format",
    "FileRegistry": "file_registry",
    "HttpRegistry": "http_registry",
    "Tls": "http_registry",
    "Registry": "registry",
}


def __getattr__(name: str) -> object:
    if name in _LATE:
        return getattr(import_module(f"streamlet.codecs.{_LATE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
