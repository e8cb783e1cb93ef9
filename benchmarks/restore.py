"""Restore: how fast an empty state folder is rebuilt from the changelog, beside reading that changelog and doing nothing.

A contestant keeps the last value of every key. Probes, one per partition at the end of the input, tell from outside
when it is through: restore time = (start with an empty folder until the probes are answered) - (the same with the folder
in place), so that starting a program counts for nobody. streamlet's restore also runs once beside a busy handler of the
same app, whose rate is compared with its own rate after the restore.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import contestants
from confluent_kafka import IsolationLevel
from contestants import Run
from invocation import Invocation, main, say
from kafka import Broker, Sample, WrongOutput
from peers.bring import bring_quix
from report import Report
from running import Running, started
from workload import PARTITIONS, Workload

STEP_S = 1800.0
RAW = Path(__file__).resolve().parent / "peers" / "raw_consume.py"


@dataclass(frozen=True, slots=True)
class Keeper:
    """A contestant that keeps the last value per key, and the names of one run of it."""

    name: str
    run: Run
    command: list[str]
    environment: Mapping[str, str]
    log: Path

    @property
    def busy_input(self) -> str:
        return f"{self.run.id}-busy-input"

    @property
    def busy_output(self) -> str:
        return f"{self.run.id}-busy-output"


def measure(invocation: Invocation, report: Report) -> None:
    with_quix = invocation.wants("quix")
    with_streamlet = invocation.wants("streamlet") and contestants.engine_is_there()
    if invocation.wants("streamlet") and not with_streamlet:
        report.notes.append("streamlet itself was left out: `streamlet run` is not there yet")
    source = "bench-restore-input"
    broker, workload = invocation.broker, invocation.workload
    broker.remove(source)
    broker.create(source)
    took_s = broker.fill(source, records=workload.records, keys=workload.restore_keys, seed=2)
    say(f"input: {workload.records:,} records over {workload.restore_keys:,} keys in {took_s:.1f} s")
    try:
        with ExitStack() as kept:
            quix = kept.enter_context(filled(broker, quix_keeper(invocation, source))) if with_quix else None  # it fills slowly: once
            for number in range(workload.rounds):
                if with_streamlet:
                    with filled(broker, streamlet_keeper(invocation, source)) as ours:  # each time, for a busy handler without state
                        time_restore(broker, report, ours, number)
                        time_beside(broker, report, ours, workload, number)
                if quix:
                    time_restore(broker, report, quix, number)
    finally:
        broker.remove(source)
    report.ratio("restore/consume", report.median("streamlet"), report.median("raw consume of streamlet's changelog"))
    report.ratio("restore/quix", report.median("streamlet"), report.median("quix"))
    report.ratio("running_beside/alone", report.median("busy handler beside a restore"), report.median("busy handler alone"))
    report.ratio("quix/consume", report.median("quix"), report.median("raw consume of quix's changelog"))


def streamlet_keeper(invocation: Invocation, source: str) -> Keeper:
    run = Run(invocation.broker.address, source, invocation.folder / "streamlet")
    keeper = Keeper("streamlet", run, contestants.streamlet_command(run.brokers, run.folder), {}, invocation.folder / "log")
    topics = {
        "BENCH_APP": run.id,
        "BENCH_KEEP_INPUT": source,
        "BENCH_KEEP_OUTPUT": run.output,
        "BENCH_COUNT_INPUT": keeper.busy_input,
        "BENCH_COUNT_OUTPUT": keeper.busy_output,
    }
    return Keeper(keeper.name, run, keeper.command, topics, keeper.log)


def quix_keeper(invocation: Invocation, source: str) -> Keeper:
    run = Run(invocation.broker.address, source, invocation.folder / "quix")
    return Keeper("quix", run, contestants.quix_command(bring_quix(), run, "--keep"), {}, invocation.folder / "log")


@contextmanager
def filled(broker: Broker, keeper: Keeper) -> Generator[Keeper]:
    """The contestant after it has taken the whole input: its folder and its changelog are there."""
    run = keeper.run
    run.folder.mkdir()
    for topic in (run.output, keeper.busy_input, keeper.busy_output):
        broker.create(topic)
    try:
        say(f"{keeper.name}: input taken in {start_until_answered(broker, keeper):.1f} s")
        yield keeper
    finally:
        broker.remove(run.id)
        shutil.rmtree(run.folder)


def time_restore(broker: Broker, report: Report, keeper: Keeper, number: int) -> None:
    """Start with the folder, read the changelog raw, start without the folder."""
    warm_s = start_until_answered(broker, keeper)
    (changelog,) = [topic for topic in broker.topics(keeper.run.id) if "changelog" in topic and "count" not in topic]
    raw = raw_consume(broker, changelog)
    empty(keeper.run.folder)
    cold_s = start_until_answered(broker, keeper)
    if cold_s <= warm_s:
        raise WrongOutput(
            f"{keeper.name} started from nothing in {cold_s:.2f} s and with its folder in {warm_s:.2f} s: too few records to tell"
        )
    report.add(keeper.name, raw.records / (cold_s - warm_s))
    report.add(f"raw consume of {keeper.name}'s changelog", raw.records / raw.seconds)
    say(
        f"round {number + 1}: {keeper.name}: started in {warm_s:.2f} s, from nothing in {cold_s:.2f} s; "
        f"{raw.records:,} changelog records, raw {raw.seconds:.2f} s"
    )


def time_beside(broker: Broker, report: Report, keeper: Keeper, workload: Workload, number: int) -> None:
    """Restore once more while the app's other handler works through a long input."""
    empty(keeper.run.folder)
    beside, alone = run_beside(broker, keeper, workload)
    report.add("busy handler beside a restore", beside)
    report.add("busy handler alone", alone)
    say(f"round {number + 1}: busy handler: {beside:,.0f} records/s beside a restore, {alone:,.0f} alone")


def start_until_answered(broker: Broker, keeper: Keeper) -> float:
    """Seconds from the start of the process until everything before now, and one probe per partition, is committed."""
    before = answers(broker, keeper.run)
    send_probes(broker, keeper.run.input)
    with started(keeper.name, keeper.command, keeper.log, keeper.environment) as process:
        return wait_for(lambda: are_answered(broker, keeper.run, before), process) - process.started


def send_probes(broker: Broker, topic: str) -> None:
    broker.send(topic, [(number, b"probe-%d" % number, b"probe") for number in range(PARTITIONS)])


def are_answered(broker: Broker, run: Run, before: int) -> bool:
    """Whether every input partition's probe has its output. Offsets count markers too, so the records decide."""
    wanted = before + PARTITIONS
    return sum(broker.ends(run.output).values()) >= wanted and answers(broker, run) >= wanted


def answers(broker: Broker, run: Run) -> int:
    return sum(len(batch) for batch in broker.read(run.output, deadline=time.monotonic() + 60))


def wait_for(condition: Callable[[], bool], process: Running) -> float:
    deadline = time.monotonic() + STEP_S
    while not condition():
        process.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{process.name} did not get through within {STEP_S:.0f} s")
        time.sleep(0.02)
    return time.monotonic()


@dataclass(frozen=True, slots=True)
class Raw:
    records: int
    seconds: float


def raw_consume(broker: Broker, topic: str) -> Raw:
    ends = broker.ends(topic, IsolationLevel.READ_UNCOMMITTED)
    given = ",".join(str(ends[number]) for number in sorted(ends))
    command = [sys.executable, str(RAW), "--brokers", broker.address, "--topic", topic, "--ends", given]
    result = subprocess.run(command, check=True, capture_output=True, text=True, timeout=STEP_S)
    return Raw(**json.loads(result.stdout))


def run_beside(broker: Broker, keeper: Keeper, workload: Workload) -> tuple[float, float]:
    """Rate of the app's other handler while this one restores, and after that."""
    broker.fill(keeper.busy_input, records=2 * workload.records, keys=workload.keys, seed=3)
    before = answers(broker, keeper.run)
    send_probes(broker, keeper.run.input)
    samples: list[Sample] = []

    def is_restored() -> bool:
        samples.append(Sample(time.monotonic(), sum(broker.ends(keeper.busy_output).values())))
        return are_answered(broker, keeper.run, before)

    def is_done() -> bool:
        samples.append(Sample(time.monotonic(), sum(broker.ends(keeper.busy_output).values())))
        return samples[-1].count >= 2 * workload.records

    with started(keeper.name, keeper.command, keeper.log, keeper.environment) as process:
        restored_at = wait_for(is_restored, process)
        wait_for(is_done, process)
    working = [sample for sample in samples if sample.count]
    return rate(working, working[0].at + 0.5, restored_at), rate(working, restored_at + 0.5, working[-1].at)


def rate(samples: list[Sample], begin: float, end: float) -> float:
    """Outputs per second in a stretch of time."""
    inside = [sample for sample in samples if begin <= sample.at <= end]
    if len(inside) < 2:
        raise TimeoutError("the busy handler's input was too short for this restore")
    return (inside[-1].count - inside[0].count) / (inside[-1].at - inside[0].at)


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


if __name__ == "__main__":
    main(Report("restore", "changelog records/s"), measure)
