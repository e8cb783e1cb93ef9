"""Every codec, by Hypothesis: what is written is read back; whatever is read, nothing worse than an exception comes out."""

import datetime as dt
import enum
import math
import random
import time
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlet.codecs import FileRegistry, avro, codec_for, float32, int16, int32, verified

ROUNDS = 500  # per decoder; with 29 decoders more than 10^4 inputs per run
SLOWEST_S = 2.0  # for one input: far above any honest decode of 4 KB, far below a hang

INTS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False)
MOMENTS = st.datetimes(timezones=st.just(dt.UTC))


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Leaf(msgspec.Struct):
    text: str
    number: int
    real: float = 0.0
    maybe: int | None = None


class Tree(msgspec.Struct):
    name: str
    leaves: list[Leaf]
    named: dict[str, Leaf]
    colour: Colour
    made: dt.datetime
    token: UUID
    raw: bytes
    children: "list[Tree]" = []


class Hollow(msgspec.Struct):
    pass


class Model(pydantic.BaseModel):
    text: str
    number: int
    parts: list[float] = []


LEAVES = st.builds(Leaf, text=st.text(), number=INTS, real=st.floats(allow_nan=False, allow_infinity=False), maybe=st.none() | INTS)
TREES = st.builds(
    Tree,
    name=st.text(),
    leaves=st.lists(LEAVES, max_size=3),
    named=st.dictionaries(st.text(), LEAVES, max_size=3),
    colour=st.sampled_from(Colour),
    made=MOMENTS,
    token=st.uuids(),
    raw=st.binary(),
)
MODELS = st.builds(Model, text=st.text(), number=INTS, parts=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3))
SCALARS: list[tuple[Any, Any, Any]] = [
    (str, None, st.text()),
    (bytes, None, st.binary()),
    (int, None, INTS),
    (float, None, FLOATS),
    (bool, None, st.booleans()),
    (UUID, None, st.uuids()),
    (int, int32, st.integers(-(2**31), 2**31 - 1)),
    (int, int16, st.integers(-(2**15), 2**15 - 1)),
    (float, float32, st.floats(allow_nan=False, width=32)),
]
STRUCTURED: list[tuple[Any, Any]] = [
    (Tree, TREES),
    (list[Leaf], st.lists(LEAVES, max_size=4)),
    (dict[str, int], st.dictionaries(st.text(), INTS, max_size=4)),
    (int | str | None, INTS | st.text()),
    (Colour, st.sampled_from(Colour)),
]
CODECS = [
    *SCALARS,
    *((hint, choice, values) for hint, values in STRUCTURED for choice in ("json", "msgpack", "avro")),
    *((Model, choice, MODELS) for choice in ("json", "msgpack")),
    (list[Hollow], "avro", st.lists(st.builds(Hollow), max_size=5)),
    (
        object,
        "json",
        st.recursive(st.none() | st.booleans() | st.text() | INTS, lambda x: st.lists(x) | st.dictionaries(st.text(), x), max_leaves=8),
    ),
    (
        object,
        "msgpack",
        st.recursive(st.none() | st.binary() | st.text() | INTS, lambda x: st.lists(x) | st.dictionaries(st.text(), x), max_leaves=8),
    ),
]
IDS = [f"{getattr(hint, '__name__', hint)}-{choice if isinstance(choice, str | None) else choice.declared}" for hint, choice, _ in CODECS]


@pytest.mark.parametrize(("hint", "choice", "values"), CODECS, ids=IDS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_what_is_written_is_read_back(hint, choice, values, data):
    codec = verified(codec_for(hint, choice))
    value = data.draw(values)

    wire = codec.encode(value)

    assert type(wire) is bytes
    assert codec.decode(wire) == value


def test_nan_comes_back_where_it_can_be_written():
    for codec in (codec_for(float), float32, codec_for(float, "msgpack"), codec_for(float, "avro")):
        assert math.isnan(codec.decode(codec.encode(math.nan)))


def _mutated(wire: bytes, dice: random.Random) -> bytes:
    """The bytes of an honest record after an accident: cut, grown, flipped, spliced, or with a monstrous length in them."""
    data = bytearray(wire)
    for _ in range(dice.randint(1, 4)):
        at = dice.randint(0, len(data))
        match dice.randrange(6):
            case 0:
                del data[at:]
            case 1:
                data[at:at] = dice.randbytes(dice.randint(1, 8))
            case 2 if at < len(data):
                data[at] ^= 1 << dice.randrange(8)
            case 3:
                data[at : at + dice.randint(0, 8)] = dice.choice(
                    [
                        b"\xff" * 9,
                        b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f",
                        b"\xdd\xff\xff\xff\xff",
                        b"\xdf\x7f\xff\xff\xff",
                        b"[" * 2000,
                        b"\x91" * 3000,
                        b"\x02" * 4000,
                    ]
                )
            case 4:
                data += data[: dice.randint(0, len(data))]
            case _:
                data[at:at] = bytes([dice.randrange(256)]) * dice.randint(1, 64)
    return bytes(data[:8192])


def _survives(decode: Any, data: bytes) -> None:
    begun = time.monotonic()
    try:
        decode(data)
    except MemoryError:
        raise AssertionError(f"a MemoryError on {data[:64]!r}") from None
    except Exception:  # any ordinary exception is the error policy's to handle
        pass
    took = time.monotonic() - begun
    assert took < SLOWEST_S, f"{took:.1f} s on {data[:64]!r}"


@pytest.mark.parametrize(("hint", "choice", "values"), CODECS, ids=IDS)
def test_no_bytes_do_more_than_raise(hint, choice, values):
    dice = random.Random(f"{hint} {choice}")
    codec = codec_for(hint, choice)
    honest = _examples(codec, values)
    header = honest[0][:10] if choice == "avro" else b""

    for round_number in range(ROUNDS):
        junk = dice.randbytes(dice.randint(0, 64))
        _survives(
            codec.decode,
            [junk, header + junk, header + _mutated(dice.choice(honest)[len(header) :], dice), _mutated(dice.choice(honest), dice)][
                round_number % 4
            ],
        )


def test_no_bytes_do_more_than_raise_when_schemas_are_resolved(tmp_path):
    dice = random.Random(4)
    registry = FileRegistry(tmp_path / "schemas.json")
    writer = codec_for(Tree, avro(registry=registry), topic="trees")
    smaller = msgspec.defstruct("Tree", [("name", str), ("added", list[str], msgspec.field(default_factory=list))])
    reader = codec_for(smaller, avro(registry=registry), topic="trees")
    honest = _examples(writer, TREES)
    assert reader.decode(honest[0]).added == []

    for _ in range(ROUNDS * 2):
        _survives(reader.decode, honest[0][:5] + _mutated(dice.choice(honest)[5:], dice))


def _examples(codec: Any, values: Any) -> list[bytes]:
    found: list[bytes] = []

    @settings(max_examples=30, deadline=None, derandomize=True, database=None)
    @given(values)
    def collect(value: object) -> None:
        found.append(codec.encode(value))

    collect()
    return found
