"""Keys keep their order and come back, whatever they are."""

from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Literal, NewType
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamlet.state.errors import BadKey, BadKeyType, BadStoredKey
from streamlet.state.keys import after, key_codec, key_decoder, key_encoder, part, passes_through, split

INT64 = st.integers(-(2**63), 2**63 - 1)
Cents = NewType("Cents", int)


class Place(msgspec.Struct, frozen=True, order=True):
    city: str
    house: int


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(Enum):
    LOW = 1
    HIGH = 300


KINDS = {
    "str": (str, st.text()),
    "bytes": (bytes, st.binary()),
    "int": (int, INT64),
    "bool": (bool, st.booleans()),
    "UUID": (UUID, st.uuids()),
    "tuple": (tuple[str, int, bytes], st.tuples(st.text(), INT64, st.binary())),
    "nested tuple": (tuple[tuple[bytes, int], bytes], st.tuples(st.tuples(st.binary(), INT64), st.binary())),
    "long tuple": (tuple[bytes, ...], st.lists(st.binary()).map(tuple)),
    "empty tuple": (tuple[()], st.just(())),
    "frozen Struct": (Place, st.builds(Place, st.text(), INT64)),
    "NewType": (Cents, INT64),
    "int around zero bytes": (int, st.sampled_from([0, 1, -1, 255, 256, -256, 2**32, -(2**32), 2**63 - 1, -(2**63)])),
    "bytes around zero bytes": (bytes, st.lists(st.sampled_from([b"\x00", b"\x01", b"\xff", b"\xfe"])).map(b"".join)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_keys_come_back_as_they_were(kind: str) -> None:
    hint, keys = KINDS[kind]
    encode, decode = key_encoder(hint), key_decoder(hint)

    @given(keys)
    def check(key: object) -> None:
        assert decode(encode(key)) == key
        assert type(decode(encode(key))) is type(key)

    check()


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_are_ordered_as_the_keys_are(kind: str) -> None:
    hint, keys = KINDS[kind]
    encode = key_encoder(hint)

    @given(keys, keys)
    def check(one: object, other: object) -> None:
        assert (encode(one) < encode(other)) == (one < other)  # type: ignore[operator]
        assert (part(encode(one)) < part(encode(other))) == (one < other)  # type: ignore[operator]
        assert (encode(one) == encode(other)) == (one == other)

    check()


@given(st.lists(st.binary(), min_size=1))
def test_a_chain_of_parts_comes_apart_again(raws: list[bytes]) -> None:
    chain = b"".join(map(part, raws))

    found, at = [], 0
    while at < len(chain):
        raw, at = split(chain, at)
        found.append(raw)

    assert found == raws


@given(st.binary(), st.binary(), st.binary())
def test_after_a_prefix_come_only_other_keys(key: bytes, field: bytes, other: bytes) -> None:
    below, beyond = part(key) + part(field), after(part(key))

    assert beyond is not None
    assert part(key) <= below < beyond
    if other != key:
        assert not part(key) <= part(other) + part(field) < beyond


def test_nothing_lies_after_the_empty_prefix() -> None:
    assert after(b"") is None


@pytest.mark.parametrize(("hint", "key", "data"), [
    (str, "héllo", "héllo".encode()),
    (bytes, b"\x00\xff", b"\x00\xff"),
    (int, 0, b"\x80\x00\x00\x00\x00\x00\x00\x00"),
    (int, -1, b"\x7f\xff\xff\xff\xff\xff\xff\xff"),
    (bool, True, b"\x01"),
    (Color, Color.RED, b"red"),
    (Level, Level.HIGH, b"\x80\x00\x00\x00\x00\x00\x01\x2c"),
    (Literal["a", "b"], "b", b"b"),
    (tuple[str, bytes], ("a", b"\x00"), b"a\x00\x00" + b"\x00\xff\x00\x00"),
    (Place, Place("x", 1), b"x\x00\x00" + b"\x80" + b"\x00\xff" * 6 + b"\x01\x00\x00"),
])  # fmt: skip
def test_the_encoding_never_changes(hint: object, key: object, data: bytes) -> None:
    assert key_encoder(hint)(key) == data
    assert key_decoder(hint)(data) == key


def test_only_str_and_bytes_pass_through() -> None:
    assert [passes_through(hint) for hint in (str, bytes, int, tuple[str, str])] == [True, True, False, False]


class Open(msgspec.Struct):
    city: str


class Mixed(Enum):
    A = "a"
    B = 2


@pytest.mark.parametrize("hint", [float, dict, dict[str, int], list[str], Open, Mixed, tuple, int | str, object, tuple[str, float]])
def test_a_type_without_an_order_of_bytes_is_refused(hint: object) -> None:
    with pytest.raises(BadKeyType, match="Use str, bytes, int"):
        key_codec(hint)


@pytest.mark.parametrize(("hint", "key"), [
    (str, 1), (str, b"a"), (str, "\ud800"), (bytes, "a"), (int, "1"), (int, True), (int, 2**63), (int, -(2**63) - 1), (bool, 1),
    (UUID, "x"), (Color, "red"), (Color, []), (tuple[str, int], ("a",)), (tuple[str, int], "a"), (tuple[str, ...], ["a"]), (Place, ("a", 1)),
])  # fmt: skip
def test_a_key_of_another_type_is_refused(hint: object, key: object) -> None:
    with pytest.raises(BadKey):
        key_encoder(hint)(key)


@given(st.binary())
def test_foreign_bytes_never_crash_a_decoder(data: bytes) -> None:
    decoders: list[Callable[[bytes], object]] = [key_decoder(hint) for hint, _ in KINDS.values()]
    for decode in [*decoders, key_decoder(Color)]:
        with suppress(BadStoredKey):
            decode(data)
