"""Stored values: one version byte, then msgpack of the type hint.

A codec also decides what the cache keeps. Deeply immutable values are kept as objects, since nobody can change them;
all others are kept as bytes and decoded afresh at each read, so that no uncommitted change can leak through a reference.
Invariant: what `hold` accepted, `pack` can encode. A value that cannot be stored is refused at the record that sets it,
not at the commit, where nobody could say which record it was.
"""

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, Protocol, TypeVar, cast, runtime_checkable

import msgspec
from msgspec import inspect, msgpack

from streamlet.state.errors import BadStoredValue, BadValueType, WrongValue
from streamlet.state.keys import hint_name

V = TypeVar("V")

VERSION: Final = b"\x01"
INT_MAX: Final = (1 << 63) - 1  # as Java's Long: every reader can hold what we store
INT_MIN: Final = -(1 << 63)


class Gap(Enum):
    """Two ways of not being there."""

    MISSING = "this layer does not know the key"
    ABSENT = "the key is known to hold nothing"


MISSING: Final = Gap.MISSING
ABSENT: Final[Literal[Gap.ABSENT]] = Gap.ABSENT


@runtime_checkable
class StateCodec(Protocol[V]):
    """What `state(codec=...)` takes: bytes for values that msgspec does not know."""

    def encode(self, value: V, /) -> bytes: ...
    def decode(self, data: bytes, /) -> V: ...


@dataclass(frozen=True, slots=True)
class ValueCodec:
    """How values of one store are checked, kept in the cache, and stored."""

    name: str
    frozen: bool  # values are kept as objects
    exact: type | None  # int, float or bool: the hot path needs to look at nothing else but the range
    encode: Callable[[object], bytes]  # value → stored bytes
    decode: Callable[[bytes], object]  # stored bytes → value
    hold: Callable[[str, object], object]  # (store, value) → what the cache keeps; refuses what cannot be stored
    give: Callable[[object], object]  # what the cache keeps → value
    thaw: Callable[[str, bytes], object]  # (store, stored bytes) → what the cache keeps
    pack: Callable[[Iterable[object]], list[bytes | None]]  # what the cache keeps → stored bytes; ABSENT becomes None


def value_codec(hint: object, codec: StateCodec[object] | None = None, *, checking: bool = False) -> ValueCodec:
    """The codec for a value type. `checking` proves at every `set` that the value survives a round trip."""
    name = hint_name(hint)
    if codec is not None:
        return _bytes_codec(name, codec.encode, codec.decode)
    try:
        encoder, decoder = msgpack.Encoder(), msgpack.Decoder(cast("type[object]", hint))
        info = inspect.type_info(hint)
    except TypeError as error:
        raise BadValueType(name, str(error)) from error
    _refuse_custom(name, info, set())
    if not _is_frozen(info, set()):
        return _bytes_codec(name, encoder.encode, decoder.decode)
    return _object_codec(name, hint, encoder.encode, decoder.decode, checking)


def _object_codec(name: str, hint: object, dump: Callable[[object], bytes], load: Callable[[bytes], object], checking: bool) -> ValueCodec:
    exact: type | None = next((kind for kind in (int, float, bool) if hint is kind), None)
    shallow = not checking and (hint is str or hint is bytes or (isinstance(hint, type) and issubclass(hint, msgspec.Struct)))

    def hold_checked(store: str, value: object) -> object:
        try:
            data = dump(value)
            if shallow and type(value) is hint:
                return value
            return _surviving(value, load(data), data, dump)
        except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
            raise _wrong(store, name, value, error) from error

    hold = hold_checked if exact is None else _number(name, exact, hold_checked)

    def decode(data: bytes) -> object:
        return _load(name, load, data)

    def thaw(store: str, data: bytes) -> object:
        try:
            return _load(name, load, data)
        except BadStoredValue as error:
            raise BadStoredValue(store, name, error.why) from error

    def pack(held: Iterable[object]) -> list[bytes | None]:
        return [None if value is ABSENT else VERSION + dump(value) for value in held]

    return ValueCodec(name, True, exact, lambda value: VERSION + dump(value), decode, hold, _identity, thaw, pack)


def _number(name: str, exact: type, hold: Callable[[str, object], object]) -> Callable[[str, object], object]:
    """A number of the very type passes at once; integers beyond 64 bits are refused, so that every reader can hold them."""

    def hold_number(store: str, value: object) -> object:
        if type(value) is exact and INT_MIN <= value <= INT_MAX:  # type: ignore[operator] # exact means a number
            return value
        if isinstance(value, int) and not INT_MIN <= value <= INT_MAX:
            raise WrongValue(store, name, _shown(value), "it does not fit in 64 bits")
        return hold(store, value)

    return hold_number


def _bytes_codec(name: str, dump: Callable[[object], bytes], load: Callable[[bytes], object]) -> ValueCodec:
    def hold(store: str, value: object) -> object:
        try:
            data = dump(value)
            _surviving(value, load(data), data, dump)
        except Exception as error:  # a codec of the app's may raise anything; it is told with store and value
            raise _wrong(store, name, value, error) from error
        return VERSION + data

    def decode(data: bytes) -> object:
        return _load(name, load, data)

    def give(held: object) -> object:
        return _load(name, load, cast("bytes", held))

    def thaw(store: str, data: bytes) -> object:
        if data[:1] != VERSION:
            raise BadStoredValue(store, name, _version_of(data))
        return data

    def pack(held: Iterable[object]) -> list[bytes | None]:
        return [None if value is ABSENT else cast("bytes", value) for value in held]

    return ValueCodec(name, False, None, lambda value: VERSION + dump(value), decode, hold, give, thaw, pack)


def presence_codec() -> ValueCodec:
    """What a Set stores per element: that it is there."""

    def pack(held: Iterable[object]) -> list[bytes | None]:
        return [None if value is ABSENT else VERSION for value in held]

    def thaw(store: str, data: bytes) -> object:
        if data != VERSION:
            raise BadStoredValue(store, "presence", _version_of(data))
        return True

    def hold(store: str, value: object) -> object:  # noqa: ARG001 # same shape for all codecs
        return value

    return ValueCodec("presence", True, bool, lambda value: VERSION, lambda data: True, hold, _identity, thaw, pack)  # noqa: ARG005


def loose_value_codec() -> ValueCodec:
    """Values of whatever type comes, for state made by hand in unit tests: copied in and out, never stored."""

    def hold(store: str, value: object) -> object:  # noqa: ARG001
        return deepcopy(value)

    def refuse(value: object) -> bytes:
        raise AssertionError(f"state made by hand has no stored form, but {value!r} was to be stored")

    def thaw(store: str, data: bytes) -> object:
        raise AssertionError(f"state made by hand has no stored form, but {store} read {data!r}")

    def pack(held: Iterable[object]) -> list[bytes | None]:
        return [refuse(value) for value in held]

    return ValueCodec("anything", False, None, refuse, refuse, hold, deepcopy, thaw, pack)


def plus(value: object, amount: object) -> object:
    """Their sum, as the value's type defines it."""
    return value + amount  # type: ignore[operator] # V decides, as in Python


def _load(name: str, load: Callable[[bytes], object], data: bytes) -> object:
    if data[:1] != VERSION:
        raise BadStoredValue("", name, _version_of(data))
    try:
        return load(data[1:])
    except Exception as error:  # msgspec or the app's own codec; either way these bytes are not this type
        raise BadStoredValue("", name, f"{type(error).__name__}: {error}") from error


def _version_of(data: bytes) -> str:
    return f"it begins with format version {data[0]}, not {VERSION[0]}" if data else "it is empty, without a format version"


def _identity(value: object) -> object:
    return value


def _surviving(value: object, loaded: object, data: bytes, dump: Callable[[object], bytes]) -> object:
    """The given object if the round trip keeps it, an equal one if only its type differs (1 → 1.0); else TypeError."""
    equal = bool(value == loaded)
    if type(value) is type(loaded) and (equal or dump(loaded) == data):  # a NaN is not equal to itself, a plain object to no copy
        return value
    if equal:
        return loaded
    raise TypeError(f"it would come back as {_shown(loaded)}")


def _wrong(store: str, name: str, value: object, error: Exception) -> WrongValue:
    return WrongValue(store, name, f"a {type(value).__qualname__} ({_shown(value)})", str(error) or type(error).__name__)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


_IMMUTABLE: Final = (
    inspect.NoneType,
    inspect.BoolType,
    inspect.IntType,
    inspect.FloatType,
    inspect.StrType,
    inspect.BytesType,
    inspect.DateTimeType,
    inspect.TimeType,
    inspect.DateType,
    inspect.TimeDeltaType,
    inspect.UUIDType,
    inspect.DecimalType,
    inspect.EnumType,
    inspect.LiteralType,
)


def _is_frozen(info: inspect.Type, seen: set[type]) -> bool:
    if isinstance(info, _IMMUTABLE):
        return True
    if isinstance(info, inspect.StructType | inspect.DataclassType | inspect.NamedTupleType):
        if info.cls in seen:
            return True  # a recursive type is as frozen as its other parts
        seen.add(info.cls)
        if not isinstance(info, inspect.NamedTupleType) and not _cannot_be_assigned(info.cls):
            return False
    return _parts_hold(info, lambda inner: _is_frozen(inner, seen)) and not isinstance(
        info,
        inspect.ListType
        | inspect.SetType
        | inspect.DictType
        | inspect.TypedDictType
        | inspect.AnyType
        | inspect.ByteArrayType
        | inspect.MemoryViewType
        | inspect.RawType
        | inspect.ExtType,
    )


def _cannot_be_assigned(cls: type) -> bool:
    if issubclass(cls, msgspec.Struct):
        return bool(cls.__struct_config__.frozen)
    return bool(cls.__dataclass_params__.frozen)  # type: ignore[attr-defined] # every dataclass has it; no stub says so


def _refuse_custom(name: str, info: inspect.Type, seen: set[type]) -> None:
    if isinstance(info, inspect.CustomType):
        raise BadValueType(name, f"msgspec does not know {hint_name(info.cls)}")
    if isinstance(info, inspect.StructType | inspect.DataclassType | inspect.NamedTupleType | inspect.TypedDictType):
        if info.cls in seen:
            return
        seen.add(info.cls)

    def known(inner: inspect.Type) -> bool:
        _refuse_custom(name, inner, seen)
        return True

    _parts_hold(info, known)


def _parts_hold(info: inspect.Type, test: Callable[[inspect.Type], bool]) -> bool:
    """Whether `test` holds for every type this type is made of."""
    if isinstance(info, inspect.UnionType):
        return all(test(inner) for inner in info.types)
    if isinstance(info, inspect.TupleType):
        return all(test(inner) for inner in info.item_types)
    if isinstance(info, inspect.VarTupleType | inspect.ListType | inspect.SetType | inspect.FrozenSetType):
        return test(info.item_type)
    if isinstance(info, inspect.DictType):
        return test(info.key_type) and test(info.value_type)
    if isinstance(info, inspect.StructType | inspect.DataclassType | inspect.NamedTupleType | inspect.TypedDictType):
        return all(test(field.type) for field in info.fields)
    return True
