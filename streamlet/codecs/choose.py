"""Which codec a topic's key or value gets: by its type, or by what `codec=` says."""

from typing import Final, Literal, TypeVar, cast, overload

from streamlet.codecs.codec import BoundCodec, Codec, Format, bind_own_codec
from streamlet.codecs.errors import BadCodec
from streamlet.codecs.hints import name_of, unwrapped
from streamlet.codecs.primitives import BY_TYPE
from streamlet.codecs.structured import Json, Msgpack

T = TypeVar("T")
Name = Literal["json", "msgpack", "avro"]
Part = Literal["key", "value"]

JSON: Final = Json()
MSGPACK: Final = Msgpack()


@overload
def codec_for(  # pyright: ignore[reportOverlappingOverload]  # a class is an object too: the first overload knows more
    hint: type[T], choice: Name | Codec[T] | Format | None = None, *, topic: str = "", part: Part = "value"
) -> BoundCodec[T]: ...
@overload
def codec_for(
    hint: object, choice: Name | Codec[object] | Format | None = None, *, topic: str = "", part: Part = "value"
) -> BoundCodec[object]: ...
def codec_for(hint: object, choice: object = None, *, topic: str = "", part: Part = "value") -> object:
    """The codec of one part of a topic, checked now, at declaration. `X | None` is the codec of X: null is Kafka's own."""
    bare = unwrapped(hint)
    if choice is None:
        scalar = BY_TYPE.get(bare) if isinstance(bare, type) else None
        return cast("BoundCodec[object]", scalar or JSON.for_type(bare, ""))  # the table's key proves the type
    if isinstance(choice, BoundCodec):
        return cast("BoundCodec[object]", choice)
    if isinstance(choice, str):
        return _named(choice).for_type(bare, f"{topic}-{part}")
    if callable(getattr(choice, "for_type", None)) and not isinstance(choice, type):
        return cast("Format", choice).for_type(bare, f"{topic}-{part}")
    return bind_own_codec(choice, name_of(bare))


def _named(name: str) -> Format:
    if name == "json":
        return JSON
    if name == "msgpack":
        return MSGPACK
    if name == "avro":
        from streamlet.codecs.avro_format import avro  # fastavro is loaded only by apps that use it

        return avro()
    raise BadCodec(repr(name), "there is no codec of that name")
