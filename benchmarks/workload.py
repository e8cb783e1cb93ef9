"""What is measured: how much data, how often, and which part of a run counts. The same values for every contestant."""

from dataclasses import dataclass
from typing import Final

PARTITIONS: Final = 4
VALUE_BYTES: Final = 100
COMMIT_MS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One size of the benchmarks."""

    records: int
    keys: int
    restore_keys: int
    rounds: int
    warm_share: float  # of the records; what is made of them counts for nothing
    warm_s: float  # a slow peer warms up for this long instead (a JVM compiles meanwhile)
    window_s: float  # and is then measured over this long, not to the end
    latency_rate: int  # records per second
    latency_warm_s: float
    latency_s: float


FULL: Final = Workload(
    records=3_000_000,
    keys=100_000,
    restore_keys=1_000_000,
    rounds=3,
    warm_share=0.25,
    warm_s=20.0,
    window_s=25.0,
    latency_rate=10_000,
    latency_warm_s=15.0,
    latency_s=20.0,
)
QUICK: Final = Workload(
    records=300_000,
    keys=20_000,
    restore_keys=100_000,
    rounds=1,
    warm_share=0.2,
    warm_s=5.0,
    window_s=6.0,
    latency_rate=2_000,
    latency_warm_s=3.0,
    latency_s=4.0,
)


def key_of(number: int) -> bytes:
    """The Kafka key of the n-th key: text, so that every peer can read it."""
    return b"key-%07d" % number
