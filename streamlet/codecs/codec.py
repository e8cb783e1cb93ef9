"""The seam between values and the bytes of a record, small enough that an app can bring its own.

A codec is any object with two methods:

    class Csv:
        def encode(self, value: list[str]) -> bytes: ...
        def decode(self, data: bytes) -> list[str]: ...

    rows = app.topic("rows", value=list[str], codec=Csv())

`encode` must raise on a value it cannot write; `decode` may raise anything, the topic's error policy speaks then.
A raised `RetryError` or `ConfigError` says that no record is at fault (a registry is down, a password is wrong).
`describe() -> str` is optional: a stable text for the manifest, so that a changed codec is noticed. Null never reaches
a codec: `None` is Kafka's null on the wire, whatever the type.

A format is an object with `for_type(hint, subject) -> BoundCodec`: it makes codecs for any type (JSON, Avro).

Invariant: `encode` and `decode` of a BoundCodec are attributes to be looked up once and called per record.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, cast

from streamlet.codecs.errors import BadCodec, DecodeError, EncodeError, shown
from streamlet.errors import ConfigError, RetryError

T = TypeVar("T")


class Codec(Protocol[T]):
    """What an app may give as `codec=`."""

    def encode(self, value: T, /) -> bytes: ...
    def decode(self, data: bytes, /) -> T: ...


def nothing_to_prepare() -> None:
    """Stand-in for codecs that need nobody else."""


@dataclass(frozen=True, slots=True)
class BoundCodec(Generic[T]):
    """A codec bound to one type: what the runtime calls."""

    encode: Callable[[T], bytes]
    decode: Callable[[bytes], T]
    description: str
    declared: str
    prepare: Callable[[], None] = nothing_to_prepare  # contacts what the codec depends on, so that refusals come at start

    def describe(self) -> str:
        """A stable text for the manifest: type, format and schema fingerprint."""
        return self.description


class Format(Protocol):
    """Makes a codec for a type; `subject` is what a registry files its schema under."""

    def for_type(self, hint: object, subject: str) -> BoundCodec[object]: ...


def bind_own_codec(codec: object, declared: str) -> BoundCodec[object]:
    """Check an app's own codec at declaration and give it the shape the runtime expects."""
    given = type(codec).__name__
    if isinstance(codec, type):
        raise BadCodec(codec.__name__, f"it is a class; write {codec.__name__}()")
    missing = [name for name in ("encode", "decode") if not callable(getattr(codec, name, None))]
    if missing:
        raise BadCodec(given, f"it has no method {' and no method '.join(missing)}")
    describe = getattr(codec, "describe", None)
    description = describe() if callable(describe) else f"own {type(codec).__qualname__}"
    if not isinstance(description, str) or not description:
        raise BadCodec(given, f"its describe() returns {shown(description)}, not a text")
    prepare = getattr(codec, "prepare", nothing_to_prepare)
    sound = cast("Codec[object]", codec)  # its methods were looked up above; what they take is the app's word
    return BoundCodec(sound.encode, sound.decode, description, declared, prepare)


def explain_encode(codec: BoundCodec[T], value: object, error: Exception) -> Exception:
    """Say clearly why `encode` failed. For the cold path: bare C callables name neither the type nor the value."""
    if isinstance(error, EncodeError | RetryError | ConfigError):
        return error
    is_no_str = codec.encode is str.encode and not isinstance(value, str)
    reason = "it is not a str" if is_no_str else f"{type(error).__name__}: {error}".rstrip(": .")
    return _caused_by(error, EncodeError(codec.declared, shown(value), reason))


def explain_decode(codec: BoundCodec[T], error: Exception) -> Exception:
    """Say clearly why `decode` failed. For the cold path, as `explain_encode`."""
    if isinstance(error, DecodeError | RetryError | ConfigError):
        return error
    return _caused_by(error, DecodeError(codec.declared, f"{type(error).__name__}: {error}".rstrip(": .")))


def verified(codec: BoundCodec[T]) -> BoundCodec[T]:
    """The same codec, but every value written is read back at once: deep checks for tests, at the price of a decode."""
    encode, decode = codec.encode, codec.decode

    def encode_and_read_back(value: T) -> bytes:
        data = encode(value)
        try:
            decode(data)
        except (RetryError, ConfigError):
            raise
        except Exception as error:
            reason = f"what was written cannot be read back ({type(error).__name__}: {error})"
            raise EncodeError(codec.declared, shown(value), reason) from error
        return data

    return BoundCodec(encode_and_read_back, decode, codec.description, codec.declared, codec.prepare)


def _caused_by(cause: Exception, error: Exception) -> Exception:
    error.__cause__ = cause
    return error
