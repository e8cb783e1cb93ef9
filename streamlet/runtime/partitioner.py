"""Which partition of a repartition topic a key goes to: Java's choice, remembered for keys seen before."""

from collections.abc import Iterable, Mapping
from typing import Final

from streamlet.murmur2 import partition_for
from streamlet.runtime.outbox import Output

_REMEMBERED: Final = 200_000  # keys; forgotten all at once when full, which costs one round of hashing


class Partitioner:
    """Splits outputs by partition. Its only user is the worker's commit."""

    def __init__(self, partitions: Mapping[str, int]) -> None:
        self._partitions = dict(partitions)
        self._known: dict[tuple[str, bytes], int] = {}

    def split(self, records: Iterable[Output]) -> dict[tuple[str, int], list[Output]]:
        """Group records by (topic, partition), each in its order."""
        known = self._known
        found: dict[tuple[str, int], list[Output]] = {}
        for record in records:
            topic, key = record[0], record[1] or b""
            partition = known.get((topic, key))
            if partition is None:
                if len(known) >= _REMEMBERED:
                    known.clear()
                partition = known[(topic, key)] = partition_for(key, self._partitions[topic])
            found.setdefault((topic, partition), []).append(record)
        return found
