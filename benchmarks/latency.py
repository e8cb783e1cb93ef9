"""Latency: from the moment a record was due to the moment a read_committed reader has its output.

Open loop at a fixed rate. The n-th count of a key belongs to the n-th record of that key, so every output is matched
with its own schedule and a contestant that skips or repeats cannot pass.
"""

import json
import random
import shutil
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path

import contestants
from contestants import Contestant, Run
from invocation import Invocation, main, say
from kafka import Broker, WrongOutput
from open_loop import keys_of
from report import Report
from running import Running, started
from workload import Workload

START_S = 60.0  # what a contestant may need to come up
BEHIND_S = 60.0  # what it may need after the last record was due


def measure(invocation: Invocation, report: Report) -> None:
    seen: dict[str, dict[str, list[float]]] = {}
    field = contenders(invocation, report)
    for number in range(invocation.workload.rounds):
        for contestant in field:
            latencies, delay_ms = run_once(invocation, contestant, seed=number)
            points = {
                "p50_ms": percentile(latencies, 50),
                "p99_ms": percentile(latencies, 99),
                "worst_ms": max(latencies),
                "load_delay_ms": delay_ms,
            }
            report.add(contestant.name, points["p99_ms"])
            for name, value in points.items():
                seen.setdefault(contestant.name, {}).setdefault(name, []).append(round(value, 1))
            say(f"round {number + 1}: {contestant.name}: " + ", ".join(f"{name} {value:.1f}" for name, value in points.items()))
    report.figures["rate"] = invocation.workload.latency_rate
    report.figures["percentiles"] = seen
    report.ratio("p99/kafka-streams", report.median("streamlet"), report.median("kafka-streams, cache off"))
    report.ratio("floor_p99/kafka-streams", report.median("floor"), report.median("kafka-streams, cache off"))
    if "streamlet" in seen:
        report.figures |= {name: statistics.median(seen["streamlet"][name]) for name in ("p50_ms", "p99_ms")}


def contenders(invocation: Invocation, report: Report) -> list[Contestant]:
    field: list[Contestant] = []
    if invocation.wants("streamlet"):
        if contestants.engine_is_there():
            field.append(contestants.streamlet())
        else:
            report.notes.append("streamlet itself was left out: `streamlet run` is not there yet")
    if invocation.wants("floor"):
        field.append(contestants.floor())
    if invocation.wants("kafka-streams"):
        field.append(contestants.kafka_streams(cache=False))  # its cache would only add work to the commit
    return field


def run_once(invocation: Invocation, contestant: Contestant, *, seed: int) -> tuple[list[float], float]:
    """Latencies in ms after the warm-up, and the load generator's own worst delay."""
    broker, workload = invocation.broker, invocation.workload
    folder = invocation.folder / "state"
    folder.mkdir()
    run = Run(broker.address, "", folder)
    run = Run(broker.address, f"{run.id}-input", folder, run.id)
    for topic in (run.input, run.output):
        broker.create(topic)
    if contestant.needs_changelog:
        broker.create(run.changelog, {"cleanup.policy": "compact"})
    try:
        with started(contestant.name, contestant.command(run), invocation.folder / "log", contestant.environment(run)) as process:
            wait_until_it_answers(broker, run, process)
            return time_outputs(broker, run, process, workload=workload, seed=seed, log=invocation.folder / "load.log")
    finally:
        broker.remove(run.id)
        shutil.rmtree(folder)


def wait_until_it_answers(broker: Broker, run: Run, process: Running) -> None:
    """One record through every partition: the contestant is up, and reads from here on."""
    broker.send(run.input, [(number, b"hello-%d" % number, b"") for number in range(len(broker.ends(run.input)))])
    deadline = time.monotonic() + START_S
    while not all(broker.ends(run.output).values()):
        process.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{process.name} gave no output within {START_S:.0f} s of its start")
        time.sleep(0.05)


def time_outputs(broker: Broker, run: Run, process: Running, *, workload: Workload, seed: int, log: Path) -> tuple[list[float], float]:
    rate = workload.latency_rate
    records = int((workload.latency_warm_s + workload.latency_s) * rate)
    places: dict[bytes, list[int]] = defaultdict(list)
    for place, key in enumerate(keys_of(seed, workload.keys, records)):
        places[key].append(place)
    begin = time.monotonic() + 2.0 + random.random() / 10  # not in step with anybody's commits
    options = {
        "brokers": broker.address,
        "topic": run.input,
        "rate": rate,
        "records": records,
        "keys": workload.keys,
        "seed": seed,
        "start": begin,
    }
    generator = [
        sys.executable,
        str(Path(__file__).with_name("open_loop.py")),
        *(part for name, value in options.items() for part in (f"--{name}", str(value))),
    ]
    latencies = [0.0] * records
    left = records
    with started("load generator", generator, log) as load:
        for at, key, value in broker.tail(run.output, alive=process.check, deadline=begin + records / rate + BEHIND_S):
            if key.startswith(b"hello"):
                continue
            count = int.from_bytes(value, "big")
            if not 0 < count <= len(places[key]) or latencies[places[key][count - 1]]:
                raise WrongOutput(f"{process.name}: key {key!r} counts {count}, again or too far")
            place = places[key][count - 1]
            latencies[place] = (at - begin - place / rate) * 1000
            left -= 1
            if not left:
                break
        load.process.wait(BEHIND_S)
    return latencies[int(workload.latency_warm_s * rate) :], float(json.loads(log.read_text())["worst_delay_ms"])


def percentile(values: list[float], share: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[share - 1]


if __name__ == "__main__":
    main(Report("latency", "ms, p99"), measure)
