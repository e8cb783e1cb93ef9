"""Where a key lives: Kafka's own hash, so that every client that partitions by key agrees (I6).

Java's default partitioner, Kafka Streams and librdkafka's `murmur2_random` put a keyed record in
`toPositive(murmur2(key)) % partitions`.

Invariant: equal to Kafka's `Utils.murmur2` for every input; the vectors in the tests are Kafka's own.
"""

from struct import unpack_from
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def partition_for(key: bytes, partitions: int) -> int:
    """The partition of a key in a topic with that many of them."""
    assert partitions > 0, "a topic has at least one partition"
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """The hash as an unsigned 32-bit number (Java shows the same bits as a signed one)."""
    length = len(data)
    h = _SEED ^ length
    words = length >> 2
    for k in unpack_from(f"<{words}I", data):
        k = k * _M & _MASK  # noqa: PLW2901  # a hot loop over plain locals
        h = (h * _M & _MASK) ^ ((k ^ k >> 24) * _M & _MASK)
    tail = data[words << 2 :]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15
