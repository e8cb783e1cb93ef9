"""The streamlet apps that are measured, as a user would write them; topics and name come from the environment."""

import os
from typing import Literal

from streamlet import App, Value

guarantee: Literal["exactly-once", "at-least-once"] = "at-least-once" if "BENCH_AT_LEAST_ONCE" in os.environ else "exactly-once"
app = App(os.environ["BENCH_APP"], guarantee=guarantee)

if "BENCH_COUNT_INPUT" in os.environ:
    events = app.topic(os.environ["BENCH_COUNT_INPUT"], key=str, value=bytes)
    counts = app.topic(os.environ["BENCH_COUNT_OUTPUT"], key=str, value=int)

    @app.process(events, to=counts)
    def count(_value: bytes, total: Value[int]) -> int:
        return total.add(1)


if "BENCH_KEEP_INPUT" in os.environ:
    values = app.topic(os.environ["BENCH_KEEP_INPUT"], key=str, value=bytes)
    probes = app.topic(os.environ["BENCH_KEEP_OUTPUT"], key=str, value=int)

    @app.process(values, to=probes)
    def keep(value: bytes, last: Value[bytes]) -> int | None:
        last.set(value)
        return 1 if value.startswith(b"probe") else None
