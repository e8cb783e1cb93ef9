"""Random and mutated bytes into a topic of every codec, through production's task code: only the error policy speaks.

Each record is either handled or becomes a dead letter with its own bytes, in order; the task is never parked, nothing
else is raised, and the state counts exactly what was handled.
"""

import dataclasses
import datetime as dt
import enum
import uuid
from collections import Counter
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from streamlet import App, TestDriver, Value, dead_letter, seconds
from streamlet.codecs.avro_format import avro
from streamlet.codecs.file_registry import FileRegistry

INPUTS = 10_000
KEYS = [b"a", "ž".encode(), b"\xff\xfe", b"", None, b"\x00" * 8]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Order(msgspec.Struct):
    id: str
    cents: int
    made: dt.datetime
    price: Decimal
    token: uuid.UUID
    colour: Colour
    tags: list[str] = []
    notes: dict[str, float] = {}
    before: "Order | None" = None


@dataclasses.dataclass
class Click:
    page: str
    at: float
    parts: tuple[int, str]


class Visit(TypedDict):
    page: str
    seconds: float


class Person(pydantic.BaseModel):
    name: str
    age: int | None = None


ORDER = Order(
    "o-1", 250, dt.datetime(2024, 5, 1, tzinfo=dt.UTC), Decimal("2.50"), uuid.UUID(int=7), Colour.RED, ["x", "ž"], {"a": 0.5},
    Order("o-0", -1, dt.datetime(2024, 4, 1, tzinfo=dt.UTC), Decimal("0.1"), uuid.UUID(int=8), Colour.BLUE),
)  # fmt: skip


def kinds(folder: Path) -> dict[str, tuple[Any, Any, Any]]:
    """Every codec: the hint, the `codec=` and a value."""
    filed = FileRegistry(folder / "registry.json")
    return {
        "str": (str, None, "straße"),
        "bytes": (bytes, None, b"raw"),
        "int": (int, None, 42),
        "float": (float, None, 2.5),
        "json-struct": (Order, "json", ORDER),
        "json-dataclass": (Click, "json", Click("p", 1.5, (1, "x"))),
        "json-typeddict": (Visit, "json", Visit(page="p", seconds=2.0)),
        "json-pydantic": (Person, "json", Person(name="Ada", age=36)),
        "json-map": (dict[str, list[int]], "json", {"a": [1, 2], "b": []}),
        "msgpack-struct": (Order, "msgpack", ORDER),
        "msgpack-list": (list[str], "msgpack", ["a", "b"]),
        "msgpack-pydantic": (Person, "msgpack", Person(name="Ada")),
        "avro-bare": (Click, "avro", Click("p", 1.5, (1, "x"))),
        "avro-typeddict": (Visit, avro(), Visit(page="p", seconds=2.0)),
        "avro-filed": (Visit, avro(registry=filed), Visit(page="p", seconds=2.0)),
        "avro-struct-filed": (Order, avro(registry=filed), ORDER),
    }


def mutated(random: Random, data: bytes) -> bytes:
    """The bytes with a few accidents: flipped, cut, doubled, lengthened or made up."""
    kind = random.randrange(6)
    if kind == 0 or not data:
        return random.randbytes(random.randrange(64))
    found = bytearray(data)
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(len(found) + 1)
        if kind == 1:
            found[min(at, len(found) - 1)] ^= 1 << random.randrange(8)
        elif kind == 2:
            found = found[:at] or bytearray(b"\x00")
        elif kind == 3:
            found[at:at] = found[at : at + random.randrange(1, 9)]
        elif kind == 4:
            found[at:at] = random.choice(
                [b"\xff\xff\xff\xff\xff", b"\x00", b'"', b"[[[[[[[[", b"1e999", b"\xc1", b"NaN", b"\xdd\x7f\xff\xff\xff"]
            )
        else:
            found[at : at + 1] = random.randbytes(1)
    return bytes(found)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("key_type", [str, int, bytes])
def test_whatever_bytes_come_each_record_is_handled_or_is_a_dead_letter(tmp_path: Path, key_type: type) -> None:
    app, random, found = App("fuzz"), Random(f"fuzz {key_type.__name__}"), kinds(tmp_path)
    topics = {name: declare(app, name, key_type, hint, choice) for name, (hint, choice, _) in found.items()}
    good = {name: topics[name].value_codec.encode(sample) for name, (_, _, sample) in found.items()}
    sent: dict[str, list[tuple[bytes | None, bytes]]] = {name: [] for name in topics}

    with TestDriver(app, autocommit=False) as driver:
        for number in range(INPUTS // 3 + 1):
            name, key = random.choice(list(topics)), random.choice(KEYS)
            value = good[name] if random.random() < 0.1 else mutated(random, good[name])
            sent[name].append((key, value))
            driver._broker.append((name, key, value, number, ()))  # good and bad ones together in a batch
            if random.random() < 0.05:
                driver.advance(seconds(1))
            if number % 500 == 499:
                driver.commit()
        driver.commit()
        letters = {name: [(letter.key, letter.value) for letter in driver.read(f"{name}-dead")] for name in topics}
        counted = {name: [(record.key, int.from_bytes(record.value, "big")) for record in driver.read(f"{name}-out")] for name in topics}

    for name, records in sent.items():
        rest = iter(records)
        assert all(letter in rest for letter in letters[name]), f"dead letters of {name} are its records as they came, in order"
        handled = Counter(key for key, _ in counted[name])
        assert handled + Counter(key for key, _ in letters[name]) == Counter(key for key, _ in records), name
        for key, times in handled.items():
            assert [number for by, number in counted[name] if by == key] == [*range(1, times + 1)], name
        assert handled, f"some records of {name} are right"
        assert letters[name], f"some records of {name} are wrong"


def declare(app: App, name: str, key_type: type, hint: Any, choice: Any) -> Any:
    """A topic of one codec and a handler that counts by key what reaches it."""
    letters = dead_letter(f"{name}-dead")
    topic = app.topic(name, key=key_type, value=hint, codec=choice, errors=letters)
    out = app.topic(f"{name}-out", key=key_type, value=int)

    def count(value: Any, total: Value[int]) -> int:
        return total.add(1)

    count.__annotations__["value"] = hint
    app.process(topic, to=out, name=f"count-{name}", errors=letters)(count)
    return topic
