"""The floor: a keyed count as one plain batch loop, to know what Python and the clients can reach at best.

It gives the guarantees streamlet gives and nothing else: outputs, changelog and input offsets in one transaction,
the local store written after the commit together with its changelog offset, behind by at most a second.
"""

import argparse
import contextlib
import gc
import signal
import time
from collections import deque
from collections.abc import Callable
from itertools import groupby, repeat
from pathlib import Path
from typing import cast

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from rocksdict import Options, Rdict, WriteBatch

LOCAL_LAG_S = 1.0
# Every record here has these; said once, because a check per record is what a floor must not have.
KEY = cast("Callable[[Message], bytes]", Message.key)
OFFSET = cast("Callable[[Message], int]", Message.offset)
PARTITION = cast("Callable[[Message], int]", Message.partition)
COUNT_BYTES = 8


class Task:
    """One input partition: its counts, what this commit changed, and its RocksDB."""

    def __init__(self, folder: Path, partition: int) -> None:
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        options.set_write_buffer_size(8 << 20)
        options.set_max_total_wal_size(64 << 20)
        options.set_allow_concurrent_memtable_write(False)  # one writer: sorted inserts go in sequence
        self.db = Rdict(str(folder / str(partition)), options, column_families={"counts": options})
        self.family = self.db.get_column_family_handle("counts")
        self.stored = self.db.get_column_family("counts")
        self.partition = partition
        self.counts: dict[bytes, int] = {}
        self.outputs: tuple[list[bytes], list[bytes], list[int]] = ([], [], [])
        self.dirty: set[bytes] = set()
        self.pending: dict[bytes, bytes] = {}
        self.input_offset = self.changelog_offset = 0

    def process(self, messages: list[Message]) -> None:
        keys = list(map(KEY, messages))
        counts, stored, emit = self.counts, self.stored, self.outputs[1].append
        for key in keys:
            try:
                count = counts[key] + 1
            except KeyError:
                before = stored.get(key)
                count = int.from_bytes(before[1:], "big") + 1 if before else 1
            counts[key] = count
            emit(count.to_bytes(COUNT_BYTES, "big"))
        self.outputs[0].extend(keys)
        self.outputs[2].extend([time_ms for _, time_ms in map(Message.timestamp, messages)])
        self.dirty.update(keys)
        self.input_offset = OFFSET(messages[-1]) + 1

    def produce(self, producer: Producer, output: str, changelog: str) -> None:
        keys, values, times = self.outputs
        send, part, none = producer.produce, repeat(self.partition), repeat(None)
        deque(map(send, repeat(output), values, keys, part, none, none, times), 0)
        changes = {key: b"\x01" + self.counts[key].to_bytes(COUNT_BYTES, "big") for key in self.dirty}
        last_key, last_value = changes.popitem()
        deque(map(send, repeat(changelog), changes.values(), changes, part), 0)
        send(changelog, last_value, last_key, self.partition, self.delivered)
        changes[last_key] = last_value
        self.pending.update(changes)
        self.outputs = ([], [], [])
        self.dirty = set()

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        self.changelog_offset = OFFSET(message) + 1

    def write_local(self) -> None:
        if self.pending:
            batch = WriteBatch(raw_mode=True)
            batch.put(b"offset", self.changelog_offset.to_bytes(8, "big"))
            batch.set_default_column_family(self.family)
            keys = sorted(self.pending)
            deque(map(batch.put, keys, map(self.pending.__getitem__, keys)), 0)
            self.db.write(batch)
            self.pending = {}


def run(arguments: argparse.Namespace) -> None:
    bootstrap = {"bootstrap.servers": arguments.brokers}
    consumer = Consumer(
        bootstrap | {"group.id": arguments.group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        | {"isolation.level": "read_committed", "fetch.queue.backoff.ms": 5, "fetch.wait.max.ms": 10, "queued.max.messages.kbytes": 16384}
    )  # fmt: skip
    producer = Producer(
        bootstrap | {"transactional.id": arguments.group, "linger.ms": 5, "retry.backoff.ms": 5, "batch.size": 1 << 20}
        | {"queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 1 << 20, "compression.type": "none"}
    )  # fmt: skip
    producer.init_transactions(30)
    tasks = {number: Task(Path(arguments.state_dir), number) for number in range(arguments.partitions)}
    consumer.assign(consumer.committed([TopicPartition(arguments.input, number) for number in tasks], 10))
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    gc.freeze()
    gc.disable()
    interval_s = arguments.commit_ms / 1000
    commit_at = local_at = 0.0
    while not stopped:
        messages = consumer.consume(2000, 0.005)
        if any(map(Message.error, messages)):
            raise SystemExit(next(str(message.error()) for message in messages if message.error()))
        for partition, run_of in groupby(messages, PARTITION):
            tasks[partition].process(list(run_of))
        now = time.monotonic()
        active = [task for task in tasks.values() if task.dirty]
        if active and (not messages or now >= commit_at):
            producer.begin_transaction()
            for task in active:
                task.produce(producer, arguments.output, arguments.changelog)
            producer.flush()  # the delivery reports say which changelog offsets the local stores may claim
            offsets = [TopicPartition(arguments.input, task.partition, task.input_offset) for task in active]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
            producer.commit_transaction(30)
            commit_at = time.monotonic() + interval_s
        if now >= local_at:
            for task in tasks.values():
                task.write_local()
            local_at = time.monotonic() + LOCAL_LAG_S
    with contextlib.suppress(KeyboardInterrupt):
        consumer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("brokers", "input", "output", "changelog", "group", "state-dir"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--commit-ms", type=int, default=100)
    run(parser.parse_args())
