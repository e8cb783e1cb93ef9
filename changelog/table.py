"""A store as its changelog has it: the last committed value of every key of one partition, read while the app runs.

The changelog is the truth and nobody holds a lock on it, so this needs neither the worker nor its machine. It reads the
whole partition: work in proportion to its length, memory in proportion to the keys that are kept.
"""

import time
from collections.abc import Callable

from streamlet.changelog.kafka import ClientConfig, LogOffsets, ReplayConsumer
from streamlet.changelog.replay import ChangelogGap, Partition, Replay
from streamlet.errors import RetryError


class ReadTooLong(RetryError):
    """A changelog could not be read to its end in time."""

    def __init__(self, partition: Partition, offset: int, target: int, waited_s: float) -> None:
        super().__init__(partition, offset, target, waited_s)
        self.partition, self.offset, self.target, self.waited_s = partition, offset, target, waited_s

    def __str__(self) -> str:
        return (
            f"{self.partition} was read to offset {self.offset} only, not to its end {self.target}, in {self.waited_s:.0f} s. "
            "It is longer than expected, or an undecided transaction holds it back. Try again, or give more time with --timeout."
        )


def read_table(
    client: ClientConfig, group: str, partition: Partition, *, wanted: Callable[[bytes], bool] | None = None, deadline_s: float = 120.0
) -> dict[bytes, bytes]:
    """The committed entries of one changelog partition, up to the high watermark of now; `wanted` chooses by key."""
    offsets, end = LogOffsets(client), time.monotonic() + deadline_s
    replay = Replay(partition, offsets.starts([partition])[partition], offsets.ends([partition])[partition])
    found: dict[bytes, bytes] = {}
    if replay.left == 0:
        return found
    consumer = ReplayConsumer(client, group)
    try:
        consumer.add(partition, replay.offset)
        while not replay.done:
            if time.monotonic() > end:
                raise ReadTooLong(partition, replay.offset, replay.target, deadline_s)
            for read in consumer.read(2000, 0.05):
                if read.out_of_range:
                    raise ChangelogGap(partition, replay.offset)
                replay.feed(read)
                _keep(found, read.records, wanted)
    finally:
        consumer.close()
    return found


def _keep(found: dict[bytes, bytes], records: list[tuple[bytes, bytes | None]], wanted: Callable[[bytes], bool] | None) -> None:
    for key, value in records:
        if wanted is not None and not wanted(key):
            continue
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
