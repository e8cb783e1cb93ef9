"""What the endpoint says, over numbers set by hand."""

import json
import urllib.error
import urllib.request
from http import HTTPStatus

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streamlet.config import Address
from streamlet.ids import Incarnation
from streamlet.metrics.http import AddressTaken, serving
from streamlet.metrics.meter import STUCK_S, Meter, Stage
from streamlet.metrics.numbers import COMMIT_BUCKETS_S, CommitTimes, Look, RestoreNumbers, TaskNumbers
from streamlet.metrics.pages import answer
from streamlet.state.budget import MemoryUsage


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def no_memory() -> MemoryUsage:
    return MemoryUsage(0, 0, 0, 0, 0)


def task(name: str, phase: str = "running", **changes: object) -> TaskNumbers:
    facts: dict[str, object] = {
        "task": name, "phase": phase, "term": 1, "positions": {"in": 40}, "ends": {"in": 50}, "processed": 40, "skipped": 2,
        "dead_letters": 1, "nulls": 0, "cache_hits": 30, "cache_misses": 10, "cache_entries": 10, "pending_bytes": 512, "failure": None,
    }  # fmt: skip
    return TaskNumbers(**{**facts, **changes})  # type: ignore[arg-type]  # facts by name


@pytest.fixture
def meter() -> Meter:
    made = Meter("app", no_memory, Clock())
    made.enters(Stage.RUNNING)
    made.look = Look(100.0, tasks=(task("in/0"), task("in/1")))
    return made


def samples(meter: Meter) -> dict[tuple[str, str], float]:
    text = answer("/metrics", meter).body.decode()
    return {
        (sample.name, sample.labels.get("task", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_task_has_its_counters_and_its_lag(meter: Meter) -> None:
    found = samples(meter)

    assert found["streamlet_records_processed_total", "in/1"] == 40
    assert found["streamlet_records_skipped_total", "in/1"] == 2
    assert found["streamlet_records_dead_lettered_total", "in/1"] == 1
    assert found["streamlet_input_lag", "in/0"] == 10
    assert found["streamlet_pending_local_bytes", "in/0"] == 512
    assert found["process_resident_memory_bytes", ""] > 1_000_000


def test_commit_times_are_a_histogram(meter: Meter) -> None:
    meter.committed([], 0.004)
    meter.committed([], 0.3)
    meter.committed([], 99.0)

    body = answer("/metrics", meter).body.decode()

    assert 'streamlet_commit_seconds_bucket{le="0.005"} 1.0' in body
    assert 'streamlet_commit_seconds_bucket{le="0.5"} 2.0' in body
    assert 'streamlet_commit_seconds_bucket{le="+Inf"} 3.0' in body


def test_a_commit_of_exactly_a_bound_counts_below_it() -> None:
    times = CommitTimes().and_one_of(COMMIT_BUCKETS_S[2])

    assert times.buckets[2] == 1
    assert times.count == 1


def test_ready_only_when_every_task_runs(meter: Meter) -> None:
    assert answer("/readyz", meter).status is HTTPStatus.OK

    meter.look = Look(100.0, tasks=(task("in/0"), task("in/1", "parked", failure="it broke")))
    assert answer("/readyz", meter).status is HTTPStatus.SERVICE_UNAVAILABLE
    assert samples(meter)["streamlet_tasks_parked", ""] == 1

    meter.look = Look(100.0, tasks=(task("in/0"),), restoring=(RestoreNumbers("in/1", 500, 1500, 2.0),))
    assert answer("/readyz", meter).status is HTTPStatus.SERVICE_UNAVAILABLE
    assert samples(meter)["streamlet_restore_left", "in/1"] == 1500

    meter.look = Look(100.0, tasks=(task("in/0"),), stopped={"in/1": "no offset"})
    assert answer("/readyz", meter).status is HTTPStatus.SERVICE_UNAVAILABLE


def test_healthy_until_the_loop_stands_still_but_not_for_want_of_brokers(meter: Meter) -> None:
    clock = meter._clock
    assert isinstance(clock, Clock)

    clock.now += STUCK_S - 1
    assert answer("/healthz", meter).status is HTTPStatus.OK
    clock.now += 2
    assert answer("/healthz", meter).status is HTTPStatus.SERVICE_UNAVAILABLE

    meter.enters(Stage.WAITING)
    clock.now += 10 * STUCK_S
    assert answer("/healthz", meter).status is HTTPStatus.OK


def test_status_names_phase_position_and_failure(meter: Meter) -> None:
    meter.starts(Incarnation("app-host/0-abc"), lambda _: {})
    meter.look = Look(100.0, tasks=(task("in/1", "parked", failure="it broke"),), stopped={"in/0": "no offset"})

    told = json.loads(answer("/status", meter).body)

    assert told["incarnation"] == "app-host/0-abc"
    parked, stopped = told["tasks"]
    assert (parked["task"], parked["phase"], parked["positions"], parked["lag"], parked["failure"]) == (
        "in/1", "parked", {"in": 40}, 10, "it broke",
    )  # fmt: skip
    assert stopped == {"task": "in/0", "phase": "parked", "failure": "no offset"}


def test_it_answers_over_http_and_says_what_pages_there_are(meter: Meter) -> None:
    with serving(Address("127.0.0.1", 0), meter) as address:
        with urllib.request.urlopen(f"http://{address}/readyz?verbose=1", timeout=5) as page:
            assert page.read() == b"ready: every task runs\n"
        with pytest.raises(urllib.error.HTTPError) as missing:
            urllib.request.urlopen(f"http://{address}/nothing", timeout=5)
        assert missing.value.code == 404
        assert b"/metrics" in missing.value.read()
        missing.value.close()


def test_an_address_in_use_is_refused_with_the_way_on(meter: Meter) -> None:
    with serving(Address("127.0.0.1", 0), meter) as address, pytest.raises(AddressTaken) as refused, serving(address, meter):
        pass

    assert refused.value.address == address
