"""What one call of each codec costs: `python benchmarks/codec_micro.py`. Best of several runs, in nanoseconds.

The time is the process's own CPU time, so that neighbours on the machine disturb it little.
"""

import datetime as dt
import time
from collections.abc import Callable
from uuid import UUID

import msgspec

from streamlet.codecs import codec_for
from streamlet.murmur2 import partition_for

RUNS, CALLS = 7, 20_000


class Order(msgspec.Struct):
    id: str
    customer: str
    cents: int
    weight: float
    made: dt.datetime
    note: str | None = None


ORDER = Order("o-12345", "c-678", 1999, 1.5, dt.datetime(2026, 1, 2, tzinfo=dt.UTC))
CASES: list[tuple[str, type, str | None, object]] = [
    ("str", str, None, "customer-0001234"),
    ("bytes", bytes, None, b"x" * 100),
    ("int", int, None, 1_234_567),
    ("float", float, None, 3.25),
    ("bool", bool, None, True),
    ("UUID", UUID, None, UUID(int=7)),
    ("Struct, json", Order, "json", ORDER),
    ("Struct, msgpack", Order, "msgpack", ORDER),
    ("Struct, avro", Order, "avro", ORDER),
    ("list[int] of 10, json", list[int], "json", list(range(10))),
]


def nanoseconds(call: Callable[[object], object], argument: object) -> float:
    best = float("inf")
    for _ in range(RUNS):
        begun = time.process_time_ns()
        for _ in range(CALLS):
            call(argument)
        best = min(best, time.process_time_ns() - begun)
    return best / CALLS


def main() -> None:
    print(f"{'codec':<24}{'encode ns':>10}{'decode ns':>10}{'bytes':>7}")
    for name, hint, choice, value in CASES:
        codec = codec_for(hint, choice)
        wire = codec.encode(value)
        print(f"{name:<24}{nanoseconds(codec.encode, value):>10.0f}{nanoseconds(codec.decode, wire):>10.0f}{len(wire):>7}")
    print(f"{'partition_for, 16 bytes':<24}{nanoseconds(lambda key: partition_for(key, 16), b'customer-0001234'):>10.0f}")


if __name__ == "__main__":
    main()
