"""Kafka's hash, held against the vectors of Kafka's own unit tests."""

import pytest

from streamlet.murmur2 import murmur2, partition_for

# From Kafka's UtilsTest.testMurmur2: signed, as Java shows them.
KAFKA_VECTORS = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize(("key", "signed"), KAFKA_VECTORS)
def test_the_hash_is_kafkas(key, signed):
    assert murmur2(key) == signed % 2**32


@pytest.mark.parametrize(
    ("key", "partitions", "partition"),
    [(b"21", 4, 0), (b"foobar", 4, 2), (b"abc", 4, 3), (b"abc", 1, 0), (b"foobar", 100, 66), (b"", 10, 1)],
)
def test_a_keys_partition_is_the_positive_hash_by_count(key, partitions, partition):
    assert partition_for(key, partitions) == partition


def test_every_length_of_tail_is_hashed():
    assert len({murmur2(b"x" * length) for length in range(64)}) == 64
