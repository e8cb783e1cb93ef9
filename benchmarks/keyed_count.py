"""Keyed count: records per second through state, changelog, output and transactions, streamlet beside its peers.

Every contestant reads the same input on the same broker, in turns. Its rate is read from the committed end of its
output topic after warm-up, and its output is then checked: a count that skips or repeats ends the benchmark.
"""

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass

import contestants
from contestants import Contestant, Run
from invocation import Invocation, main, say
from kafka import Sample, WrongOutput, check_counts, follow
from report import Report
from running import Running, started
from workload import Workload

RUN_S = 300.0


def measure(invocation: Invocation, report: Report) -> None:
    workload, broker = invocation.workload, invocation.broker
    field = contenders(invocation, report)
    source = "bench-keyed-count-input"
    broker.remove(source)
    broker.create(source)
    say(f"input: {workload.records:,} records in {broker.fill(source, records=workload.records, keys=workload.keys, seed=1):.1f} s")
    cpu_us: dict[str, list[float]] = {}
    try:
        for number in range(workload.rounds):
            for contestant in field:
                speed = run_once(invocation, contestant, source)
                report.add(contestant.name, speed.rate)
                cpu_us.setdefault(contestant.name, []).append(round(speed.cpu_us, 2))
                say(f"round {number + 1}: {contestant.name}: {speed.rate:,.0f} records/s, {speed.cpu_us:.2f} µs CPU per record")
    finally:
        broker.remove(source)
    report.figures["cpu_us_per_record"] = cpu_us
    conclude(report)


def contenders(invocation: Invocation, report: Report) -> list[Contestant]:
    field: list[Contestant] = []
    if invocation.wants("streamlet"):
        if contestants.engine_is_there():
            field += [contestants.streamlet(), contestants.streamlet(exactly_once=False)]
        else:
            report.notes.append("streamlet itself was left out: `streamlet run` is not there yet")
    if invocation.wants("floor"):
        field.append(contestants.floor())
    if invocation.wants("kafka-streams"):
        field += [contestants.kafka_streams(cache=True), contestants.kafka_streams(cache=False)]
    if invocation.wants("quix"):
        field.append(contestants.quix())
    return field


@dataclass(frozen=True, slots=True)
class Speed:
    """What one run made, after its warm-up."""

    rate: float
    cpu_us: float  # processor time of the contestant per record: steadier than the rate on a busy machine


def run_once(invocation: Invocation, contestant: Contestant, source: str) -> Speed:
    """One start of one contestant on fresh topics and an empty folder."""
    broker, workload = invocation.broker, invocation.workload
    folder = invocation.folder / "state"
    folder.mkdir()
    run = Run(broker.address, source, folder)
    broker.create(run.output)
    if contestant.needs_changelog:
        broker.create(run.changelog, {"cleanup.policy": "compact"})
    deadline = time.monotonic() + RUN_S
    try:
        with started(contestant.name, contestant.command(run), invocation.folder / "log", contestant.environment(run)) as process:
            speed, complete = time_output(follow(broker, run.output, alive=process.check, deadline=deadline), process, workload)
        made = check_counts(broker, run.output, decode=contestant.decode, deadline=deadline + RUN_S)
        if complete and made != workload.records:
            raise WrongOutput(f"{contestant.name}: {made:,} outputs of {workload.records:,} inputs")
    finally:
        broker.remove(run.id)
        shutil.rmtree(folder)
    return speed


def time_output(samples: Iterator[Sample], process: Running, workload: Workload) -> tuple[Speed, bool]:
    """Outputs per second between warm-up and end, and whether all came. A slow contestant warms up and runs by the clock."""
    first = next(one for one in samples if one.count)
    warm_at, warm_count = first.at + workload.warm_s, workload.records * workload.warm_share
    warm = next(one for one in samples if one.count >= warm_count or one.at >= warm_at)
    warm_cpu_s = process.cpu_s()
    last = next(one for one in samples if one.count >= workload.records or one.at >= warm.at + workload.window_s)
    made = last.count - warm.count
    return Speed(made / (last.at - warm.at), (process.cpu_s() - warm_cpu_s) / made * 1e6), last.count >= workload.records


def conclude(report: Report) -> None:
    streams = max((report.median(name) or 0.0 for name in report.runs if name.startswith("kafka-streams")), default=0.0)
    ours, floor, quix = report.median("streamlet"), report.median("floor"), report.median("quix")
    report.ratio("streamlet/kafka-streams", ours, streams)
    report.ratio("streamlet/quix", ours, quix)
    report.ratio("streamlet/floor", ours, floor)
    report.ratio("exactly-once/at-least-once", ours, report.median("streamlet at-least-once"))
    report.ratio("floor/kafka-streams", floor, streams)
    report.ratio("floor/quix", floor, quix)


if __name__ == "__main__":
    main(Report("keyed-count", "records/s"), measure)
