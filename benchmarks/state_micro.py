"""What the state layer costs per call, on a warm cache and without Kafka.

    python benchmarks/state_micro.py [--json]

Each line is the quickest of many batches of 2,000 calls, so that other work on the machine disturbs little. What the loop and
an empty call cost is measured alone and taken off; the first line is a plain dict doing the work of `add`, to compare with.
Commits are CPU time, the least of five.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import perf_counter_ns, process_time_ns

from streamlet.ids import StoreName
from streamlet.state.backend import Backend
from streamlet.state.declaration import declare_state
from streamlet.state.memory import MemoryBackend
from streamlet.state.rocksdb import RocksBackend
from streamlet.state.task_state import TaskState
from streamlet.state.types import Log, Map, Set, Value

ROUNDS = 9
BATCH = 2_000
KEYS = [f"key-{n:06d}".encode() for n in range(26_000)]
STORE = StoreName("bench-total")


def main() -> None:
    figures = {**per_call(), **per_commit("memory", MemoryBackend())}
    with tempfile.TemporaryDirectory() as folder:
        backend = RocksBackend.open(Path(folder) / "task", [STORE])
        figures |= per_commit("rocksdb", backend)
        backend.close()
    if "--json" in sys.argv:
        print(json.dumps({"bench": "state-micro", "ratios": {}, "figures": figures}))
        return
    for name, figure in figures.items():
        print(f"{name:45} {figure:10.1f}")


def opened(hint: object, backend: Backend | None = None) -> tuple[TaskState, object]:
    declared = declare_state(STORE, hint, key=str)
    task = TaskState(declared.specs, backend or MemoryBackend())
    return task, task.handle(declared)


def per_call() -> dict[str, float]:
    figures: dict[str, float] = {}
    task, value = opened(Value[int])
    plain: dict[bytes, int] = {}

    def add_to_dict() -> None:
        key = task.key
        plain[key] = plain.get(key, 0) + 1

    figures |= timed("a plain dict's add, ns", task, add_to_dict, wrapped=True)
    assert isinstance(value, Value)
    figures |= timed("Value[int].get, ns", task, value.get)
    figures |= timed("Value[int].get of a clean entry, ns", task, value.get, commit=True)
    figures |= timed("Value[int].set, ns", task, lambda set_value=value.set: set_value(7), wrapped=True)
    figures |= timed("Value[int].add, ns", task, lambda add=value.add: add(1), wrapped=True)
    figures |= timed("Value[int].add of a clean entry, ns", task, lambda add=value.add: add(1), wrapped=True, commit=True)
    task, fields = opened(Map[str, int])
    assert isinstance(fields, Map)
    figures |= timed("Map[str, int].add, ns", task, lambda add=fields.add: add("field", 1), wrapped=True)
    figures |= timed("Map[str, int].get, ns", task, lambda get=fields.get: get("field"), wrapped=True)
    task, log = opened(Log[int])
    assert isinstance(log, Log)
    figures |= timed("Log[int].append, ns", task, lambda append=log.append: append(1), wrapped=True, commit=True)
    task, elements = opened(Set[str])
    assert isinstance(elements, Set)
    figures |= timed("Set[str].add, ns", task, lambda add=elements.add: add("element"), wrapped=True)
    return figures


def timed(name: str, task: TaskState, call: Callable[[], object], *, wrapped: bool = False, commit: bool = False) -> dict[str, float]:
    nothing = (lambda: None) if wrapped else int
    best = min(run(task, call, commit) for _ in range(ROUNDS)) - min(run(task, nothing, commit) for _ in range(ROUNDS))
    return {name: best / BATCH}


def run(task: TaskState, call: Callable[[], object], commit: bool) -> int:
    """The quickest batch of one round over all keys."""
    for key in KEYS:
        task.key = key
        call()
    task.end_batch()
    if commit:
        task.committed(dict.fromkeys(task.changes(), 1))
    best = 1 << 62
    for at in range(0, len(KEYS) - BATCH + 1, BATCH):
        batch = KEYS[at : at + BATCH]
        begin = perf_counter_ns()
        for key in batch:
            task.key = key
            call()
        task.end_batch()
        best = min(best, perf_counter_ns() - begin)
    return best


def per_commit(name: str, backend: Backend) -> dict[str, float]:
    task, value = opened(Value[int], backend)
    assert isinstance(value, Value)
    shuffled = Random(1).sample(KEYS, len(KEYS))
    spent: dict[str, list[float]] = {"changes": [], "committed": [], "write_local": [], "prefetch": []}
    for offset in range(1, 6):
        for key in shuffled:
            task.key = key
            value.add(1)
        task.end_batch()
        for step, call in (
            ("changes", task.changes),
            ("committed", lambda at=offset: task.committed({STORE: at})),
            ("write_local", task.write_local),
        ):
            begin = process_time_ns()
            call()
            spent[step].append((process_time_ns() - begin) / 1e6)
        cold = TaskState(declare_state(STORE, Value[int], key=str).specs, backend)
        begin = process_time_ns()
        cold.prefetch(STORE, shuffled)
        spent["prefetch"].append((process_time_ns() - begin) / 1e6)
    return {f"{name}: {step} of {len(KEYS)} keys, ms": min(times) for step, times in spent.items()}


if __name__ == "__main__":
    main()
