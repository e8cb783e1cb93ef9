"""What every benchmark does first and last: read the command line, start a Kafka of its own, print the report."""

import argparse
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafka import Broker
from report import Report, machine_facts
from running import Bystanders, end_on_sigterm
from workload import FULL, QUICK, Workload

OTHERS_ALLOWED = 0.1  # a Java peer that must share its cores compiles for minutes, and every ratio to it is flattered


@dataclass(frozen=True, slots=True)
class Invocation:
    """One start of a benchmark."""

    broker: Broker
    folder: Path  # for state and logs; removed at the end
    workload: Workload
    only: frozenset[str]  # contestants to run; empty for all

    def wants(self, contestant: str) -> bool:
        return not self.only or contestant in self.only


def main(report: Report, measure: Callable[[Invocation, Report], None]) -> None:
    """Run a benchmark from the command line."""
    parser = argparse.ArgumentParser(prog=f"scripts/bench {report.bench}")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line instead of a table")
    parser.add_argument("--quick", action="store_true", help="small numbers, one round: to try things out, not to quote")
    parser.add_argument("--rounds", type=int, help="how often every contestant runs (3)")
    parser.add_argument("--only", default="", help="comma-separated contestants, e.g. floor,streamlet")
    parser.add_argument("--brokers", help="a Kafka that is already running on this machine (default: start one)")
    arguments = parser.parse_args()
    end_on_sigterm()
    workload = QUICK if arguments.quick else FULL
    if arguments.rounds:
        import dataclasses

        workload = dataclasses.replace(workload, rounds=arguments.rounds)
    machine = machine_facts()
    if arguments.quick:
        report.notes.append("quick run: small numbers, not to be quoted")
    only = frozenset(name for name in arguments.only.split(",") if name)
    bystanders = Bystanders()
    with tempfile.TemporaryDirectory(prefix="streamlet-bench-") as folder, _kafka(arguments.brokers) as brokers:
        measure(Invocation(Broker(brokers), Path(folder), workload, only), report)
        share = bystanders.share()
    machine["others_cpu"] = round(share, 3)
    if share > OTHERS_ALLOWED and not arguments.brokers:
        report.notes.append(
            f"other programs used {share:.0%} of the processors: no figure of this run may be quoted, run again on a quiet machine"
        )
    print(report.to_json(machine) if arguments.json else report.to_table(machine))


@contextmanager
def _kafka(brokers: str | None) -> Generator[str]:
    if brokers is not None:
        if not all(address.strip().startswith(("127.", "localhost:")) for address in brokers.split(",")):
            raise SystemExit("benchmarks load only a Kafka on this machine: name a loopback address, or leave --brokers out")
        yield brokers
        return
    from streamlet.local import KafkaOptions, LocalKafka

    with LocalKafka.start(KafkaOptions()) as kafka:
        yield kafka.bootstrap


def say(text: str) -> None:
    """Progress, beside the report's way."""
    print(text, file=sys.stderr, flush=True)
