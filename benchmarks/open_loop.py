"""The load of the latency benchmark: records at a fixed rate, whatever the system under test does.

A process of its own, so that neither the reader's work nor the interpreter's lock can delay it. Record i is due at
start + i / rate; latency counts from there, so a record that leaves late is late for the contestant as well (and the
worst such delay is printed).
"""

import argparse
import json
import random
import time

from confluent_kafka import Producer
from kafka import LOADER
from workload import VALUE_BYTES, key_of

TICK_S = 0.001


def keys_of(seed: int, keys: int, records: int) -> list[bytes]:
    """Which key each record has; the reader computes the same list."""
    draw = random.Random(seed).random
    return [key_of(int(draw() * keys)) for _ in range(records)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", required=True)
    parser.add_argument("--topic", required=True)
    for name in ("rate", "records", "keys", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--start", type=float, required=True, help="on the monotonic clock, which all processes share")
    arguments = parser.parse_args()
    names = keys_of(arguments.seed, arguments.keys, arguments.records)
    producer = Producer({"bootstrap.servers": arguments.brokers, **LOADER, "linger.ms": 0})
    producer.list_topics(arguments.topic, timeout=30)  # connect before the first record is due
    value = b"x" * VALUE_BYTES
    sent, worst_s = 0, 0.0
    while sent < arguments.records:
        now = time.monotonic()
        due = min(arguments.records, int((now - arguments.start) * arguments.rate) + 1)
        if due <= sent:
            time.sleep(TICK_S)
            continue
        worst_s = max(worst_s, now - (arguments.start + sent / arguments.rate))
        for key in names[sent:due]:
            producer.produce(arguments.topic, value, key)
        sent = due
    producer.flush(30)
    print(json.dumps({"worst_delay_ms": round(worst_s * 1000, 1)}))


if __name__ == "__main__":
    main()
