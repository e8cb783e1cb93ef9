"""The Quix Streams peer, run in its own virtual environment: a keyed count, or keeping the last value per key.

Exactly once, the harness's commit interval, and the client settings that make streamlet fast, so that it does not
lose by defaults.
"""

import argparse

from quixstreams import Application, State

parser = argparse.ArgumentParser(description=__doc__)
for name in ("brokers", "input", "output", "group", "state-dir"):
    parser.add_argument(f"--{name}", required=True)
parser.add_argument("--commit-ms", type=int, default=100)
parser.add_argument("--keep", action="store_true", help="keep values instead of counting; only probes give output")
arguments = parser.parse_args()

app = Application(
    broker_address=arguments.brokers,
    consumer_group=arguments.group,
    state_dir=arguments.state_dir,
    auto_offset_reset="earliest",
    auto_create_topics=True,  # its changelog; input and output are there
    commit_interval=arguments.commit_ms / 1000,
    processing_guarantee="exactly-once",
    consumer_extra_config={"fetch.queue.backoff.ms": 5, "fetch.wait.max.ms": 10},
    producer_extra_config={
        "linger.ms": 5,
        "retry.backoff.ms": 5,
        "batch.size": 1 << 20,
        "queue.buffering.max.messages": 1_000_000,
        "partitioner": "murmur2_random",
    },
    consumer_poll_timeout=0.01,
    loglevel="WARNING",
)


def count(_value: bytes, state: State) -> int:
    total = state.get("count", 0) + 1
    state.set("count", total)
    return total


def keep(value: bytes, state: State) -> int:
    state.set_bytes("last", value)
    return int(value.startswith(b"probe"))


source = app.topic(arguments.input, key_deserializer="bytes", value_deserializer="bytes")
target = app.topic(arguments.output, key_serializer="bytes", value_serializer="integer")
counted = app.dataframe(source).apply(keep if arguments.keep else count, stateful=True)
answers = counted.filter(lambda is_probe: is_probe == 1) if arguments.keep else counted
answers.to_topic(target)
app.run()
