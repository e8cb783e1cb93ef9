"""What the endpoint answers: metrics in Prometheus' text form, health, readiness and status. Pure of sockets."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from streamlet.metrics.meter import STUCK_S, Meter
from streamlet.metrics.numbers import COMMIT_BUCKETS_S, CommitTimes, Look, RestoreNumbers, TaskNumbers

_PLAIN: Final = "text/plain; charset=utf-8"
_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer."""

    status: HTTPStatus
    content_type: str
    body: bytes


def answer(path: str, meter: Meter) -> Answer:
    """The page at `path`."""
    page = PAGES.get(path)
    if page is None:
        return _text(HTTPStatus.NOT_FOUND, f"There is no {path}. There are: {', '.join(PAGES)}.")
    return page(meter)


def metrics(meter: Meter) -> Answer:
    """The worker's numbers, and behind them whatever the app itself keeps in prometheus_client's default registry."""
    own = CollectorRegistry()
    own.register(WorkerCollector(meter))
    return Answer(HTTPStatus.OK, _METRICS, generate_latest(own) + generate_latest(REGISTRY))


def health(meter: Meter) -> Answer:
    """Whether a restart is called for."""
    if meter.is_alive:
        return _text(HTTPStatus.OK, f"alive: {meter.stage.value}")
    return _text(HTTPStatus.SERVICE_UNAVAILABLE, f"stuck: the loop has not turned for {meter.silent_s:.0f} s (limit {STUCK_S:.0f} s)")


def readiness(meter: Meter) -> Answer:
    """Whether every task runs."""
    if meter.is_ready:
        return _text(HTTPStatus.OK, "ready: every task runs")
    look = meter.look
    running = sum(task.phase == "running" for task in look.tasks)
    parts = [f"not ready: {meter.stage.value}", f"{running} running", f"{len(look.restoring)} restoring", f"{len(look.parked)} parked"]
    return _text(HTTPStatus.SERVICE_UNAVAILABLE, ", ".join(parts))


def status(meter: Meter) -> Answer:
    """Everything about the tasks, for programs."""
    return Answer(HTTPStatus.OK, _JSON, json.dumps(status_of(meter), indent=2).encode() + b"\n")


def status_of(meter: Meter) -> dict[str, object]:
    """The status page as a value."""
    tasks = [*map(_task_status, meter.look.tasks), *map(_restore_status, meter.look.restoring)]
    tasks += [_stopped_status(task, reason) for task, reason in meter.look.stopped.items()]
    return {
        "app": meter.app,
        "incarnation": meter.incarnation,
        "stage": meter.stage.value,
        "alive": meter.is_alive,
        "ready": meter.is_ready,
        "restarts": meter.restarts,
        "commits": meter.commits.count,
        "tasks": tasks,
    }


def _task_status(task: TaskNumbers) -> dict[str, object]:
    return {
        "task": task.task,
        "phase": task.phase,
        "term": task.term,
        "positions": dict(task.positions),
        "lag": task.lag,
        "processed": task.processed,
        "skipped": task.skipped,
        "dead_letters": task.dead_letters,
        "failure": task.failure,
    }


def _restore_status(task: RestoreNumbers) -> dict[str, object]:
    running_s = round(task.running_s, 1)
    return {"task": task.task, "phase": "restoring", "restored_records": task.records, "left": task.left, "running_s": running_s}


def _stopped_status(task: str, reason: str) -> dict[str, object]:
    return {"task": task, "phase": "parked", "failure": reason}


PAGES: Final[Mapping[str, Callable[[Meter], Answer]]] = {"/metrics": metrics, "/healthz": health, "/readyz": readiness, "/status": status}


class WorkerCollector(Collector):
    """Turns a meter's numbers into metric families when they are asked for."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def collect(self) -> Iterator[Metric]:
        """Every family once."""
        look = self._meter.look
        yield from task_counters(look)
        yield from task_gauges(look)
        yield commit_histogram(self._meter.commits)
        yield from _process_gauges(self._meter)


def task_counters(look: Look) -> Iterator[Metric]:
    """What only grows, per task."""
    wanted: list[tuple[str, str, Callable[[TaskNumbers], int]]] = [
        ("records_processed", "Records that went through their handlers.", lambda task: task.processed),
        ("records_skipped", "Records dropped by an errors=skip policy.", lambda task: task.skipped),
        ("records_dead_lettered", "Records sent to a dead-letter topic.", lambda task: task.dead_letters),
        ("records_null", "Null values passed over by handlers that do not take them.", lambda task: task.nulls),
        ("cache_hits", "State reads answered by the cache.", lambda task: task.cache_hits),
        ("cache_misses", "State reads that went to the local store.", lambda task: task.cache_misses),
    ]
    for name, help_text, number in wanted:
        family = CounterMetricFamily(f"streamlet_{name}", help_text, labels=["task"])
        for task in look.tasks:
            family.add_metric([task.task], number(task))
        yield family


def task_gauges(look: Look) -> Iterator[Metric]:
    """What goes up and down, per task."""
    wanted: list[tuple[str, str, Callable[[TaskNumbers], int]]] = [
        ("input_lag", "Offsets between a task and the end of its input.", lambda task: task.lag),
        ("cache_entries", "State entries in the cache.", lambda task: task.cache_entries),
        ("pending_local_bytes", "Committed changes that the local copy does not have yet.", lambda task: task.pending_bytes),
    ]
    for name, help_text, number in wanted:
        family = GaugeMetricFamily(f"streamlet_{name}", help_text, labels=["task"])
        for task in look.tasks:
            family.add_metric([task.task], number(task))
        yield family
    phases = GaugeMetricFamily("streamlet_task_phase", "1 for the phase a task is in.", labels=["task", "phase"])
    for task in look.tasks:
        phases.add_metric([task.task, task.phase], 1)
    for item in look.restoring:
        phases.add_metric([item.task, "restoring"], 1)
    for stopped in look.stopped:
        phases.add_metric([stopped, "parked"], 1)
    yield phases
    restored = GaugeMetricFamily("streamlet_restore_records", "Changelog records replayed so far into a task's state.", labels=["task"])
    left = GaugeMetricFamily("streamlet_restore_left", "Changelog offsets a restoring task still has to go.", labels=["task"])
    for item in look.restoring:
        restored.add_metric([item.task], item.records)
        left.add_metric([item.task], item.left)
    yield restored
    yield left


def commit_histogram(times: CommitTimes) -> Metric:
    """How long commits took."""
    family = HistogramMetricFamily("streamlet_commit_seconds", "Time of one commit: one Kafka transaction for all tasks.")
    so_far, buckets = 0, list[tuple[str, float]]()
    for bound, count in zip((*map(str, COMMIT_BUCKETS_S), "+Inf"), times.buckets, strict=True):
        so_far += count
        buckets.append((bound, so_far))
    family.add_metric([], buckets, times.sum_s)
    return family


def _process_gauges(meter: Meter) -> Iterator[Metric]:
    memory = meter.look.memory
    yield GaugeMetricFamily("streamlet_block_cache_bytes", "Block cache in use, all tasks.", value=memory.block_cache)
    yield GaugeMetricFamily("streamlet_block_cache_budget_bytes", "What the block cache may grow to.", value=memory.block_cache_budget)
    yield GaugeMetricFamily("streamlet_write_buffer_bytes", "Write buffers in use, all tasks.", value=memory.write_buffers)
    yield GaugeMetricFamily("streamlet_write_buffer_budget_bytes", "Where write buffers are flushed.", value=memory.write_buffers_budget)
    yield GaugeMetricFamily("streamlet_tasks_parked", "Tasks that stand still until somebody resumes them.", value=len(meter.look.parked))
    yield GaugeMetricFamily("streamlet_loop_silent_seconds", "Time since the worker's loop turned.", value=meter.silent_s)
    restarts = CounterMetricFamily("streamlet_worker_restarts", "Times the worker came back under a new id.")
    restarts.add_metric([], meter.restarts)
    yield restarts


def _text(status_code: HTTPStatus, text: str) -> Answer:
    return Answer(status_code, _PLAIN, f"{text}\n".encode())
