"""Any program of changes, failures, commits, aborts, local writes and crashes leaves the state a plain dict model says.

The model keeps three dicts: what a handler sees now, what the last commit left, and per store what the folder must hold.
"""

import copy
import shutil
import tempfile
from pathlib import Path
from typing import ClassVar, cast

import msgspec
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamlet.ids import StoreName
from streamlet.state.backend import Backend
from streamlet.state.declaration import declare_state
from streamlet.state.keys import key_encoder
from streamlet.state.memory import MemoryBackend
from streamlet.state.rocksdb import RocksBackend
from streamlet.state.task_state import TaskState
from streamlet.state.types import ByKey, Group, Log, Map, PerTask, Set, Value


class Point(msgspec.Struct, frozen=True):
    x: int
    tags: tuple[str, ...] = ()


class Many(Group):
    total: Value[int]
    words: Value[list[str]]
    point: Value[Point]
    fields: Map[str, int]
    nested: Map[int, Map[str, list[int]]]
    friends: Map[str, Set[int]]
    log: Log[int]
    seen: Set[bytes]


KEY = tuple[str, int]
PLAIN = declare_state("many", Many, key=KEY)
SHARED = declare_state("shared", PerTask[Many], key=KEY)
BY_KEY = declare_state("many", ByKey[KEY, Many], key=KEY)
SPECS = [*PLAIN.specs, *SHARED.specs]
KEYS = st.tuples(st.sampled_from(["", "a", "a\x00", "b"]), st.sampled_from([-1, 0, 256]))
NAMES = st.sampled_from(["", "\x00", "a", "a\x00b", "é"])
NUMBERS = st.sampled_from([-(2**63), -1, 0, 1, 255, 2**63 - 1])
SMALL = st.integers(-3, 3)
BYTES = st.sampled_from([b"", b"\x00", b"\x00\xff", b"\xff\xff", b"a"])
WHERE = st.booleans()  # the key's group, or the task's


def fresh() -> dict[str, object]:
    return {"total": None, "words": None, "point": None, "fields": {}, "nested": {}, "friends": {}, "log": [], "seen": set()}


class Model:
    def __init__(self) -> None:
        self.keys: dict[object, dict[str, object]] = {}

    def of(self, key: object) -> dict[str, object]:
        return self.keys.setdefault(key, fresh())


class TaskStateMachine(RuleBasedStateMachine):
    """Drives one task. Subclasses give it a backend."""

    encode: ClassVar = staticmethod(key_encoder(KEY))

    def make_backend(self) -> Backend:
        return MemoryBackend()

    def reopen_backend(self, backend: Backend) -> Backend:
        return backend

    @initialize(cache_entries=st.sampled_from([0, 3, 1000]), checking=st.booleans())
    def start(self, cache_entries: int, checking: bool) -> None:
        self.cache_entries, self.checking = cache_entries, checking
        self.backend = self.make_backend()
        self.model, self.last_commit, self.on_disk = Model(), Model(), Model()
        self.offset, self.time, self.committed_time, self.disk_time = 0, -1, -1, -1
        self.open()

    def open(self) -> None:
        self.task = TaskState(SPECS, self.backend, cache_entries=self.cache_entries, checking=self.checking)
        self.plain, self.shared = cast("Many", self.task.handle(PLAIN)), cast("Many", self.task.handle(SHARED))
        self.by_key = cast("ByKey[tuple[str, int], Many]", self.task.handle(BY_KEY))
        self.at: object = ("", 0)
        self.task.key = self.encode(self.at)

    def pick(self, shared: bool) -> tuple[Many, dict[str, object]]:
        return (self.shared, self.model.of("task")) if shared else (self.plain, self.model.of(self.at))

    @rule(key=KEYS)
    def next_record(self, key: tuple[str, int]) -> None:
        self.at = key
        self.task.key = self.encode(key)

    # changes

    @rule(shared=WHERE, number=NUMBERS)
    def set_total(self, shared: bool, number: int) -> None:
        state, model = self.pick(shared)
        assert state.total.set(number) == number
        model["total"] = number

    @rule(shared=WHERE, number=SMALL)
    def add_total(self, shared: bool, number: int) -> None:
        state, model = self.pick(shared)
        expected = cast("int", model["total"] or 0) + number
        if not -(2**63) <= expected < 2**63:
            return
        assert state.total.add(number) == expected
        model["total"] = expected

    @rule(shared=WHERE, which=st.sampled_from(["total", "words", "point"]))
    def delete_value(self, shared: bool, which: str) -> None:
        state, model = self.pick(shared)
        cast("Value[object]", getattr(state, which)).delete()
        model[which] = None

    @rule(shared=WHERE, words=st.lists(NAMES, max_size=3))
    def set_words(self, shared: bool, words: list[str]) -> None:
        state, model = self.pick(shared)
        state.words.set(words)
        model["words"] = list(words)
        words.append("leaked")
        cast("list[str]", state.words.get()).append("leaked too")

    @rule(shared=WHERE, x=SMALL, tags=st.lists(NAMES, max_size=2))
    def set_point(self, shared: bool, x: int, tags: list[str]) -> None:
        state, model = self.pick(shared)
        model["point"] = state.point.set(Point(x, tuple(tags)))

    @rule(shared=WHERE, name=NAMES, number=SMALL)
    def add_field(self, shared: bool, name: str, number: int) -> None:
        state, model = self.pick(shared)
        fields = cast("dict[str, int]", model["fields"])
        fields[name] = fields.get(name, 0) + number
        assert state.fields.add(name, number) == fields[name]

    @rule(shared=WHERE, name=NAMES)
    def pop_field(self, shared: bool, name: str) -> None:
        state, model = self.pick(shared)
        assert state.fields.pop(name, None) == cast("dict[str, int]", model["fields"]).pop(name, None)

    @rule(shared=WHERE)
    def clear_fields(self, shared: bool) -> None:
        state, model = self.pick(shared)
        state.fields.clear()
        model["fields"] = {}

    @rule(shared=WHERE)
    def double_fields_while_iterating(self, shared: bool) -> None:
        state, model = self.pick(shared)
        fields = cast("dict[str, int]", model["fields"])
        found = []
        for name, number in state.fields.items():
            state.fields[name + "+"] = number
            found.append((name, number))
        assert found == sorted(fields.items(), key=lambda item: item[0].encode())
        fields.update({name + "+": number for name, number in found})
        for name in state.fields:
            if len(name) > 3:
                del state.fields[name]
        model["fields"] = {name: number for name, number in fields.items() if len(name) <= 3}

    @rule(shared=WHERE, outer=SMALL, name=NAMES, numbers=st.lists(SMALL, max_size=2))
    def set_nested(self, shared: bool, outer: int, name: str, numbers: list[int]) -> None:
        state, model = self.pick(shared)
        state.nested[outer][name] = numbers
        cast("dict[int, dict[str, list[int]]]", model["nested"]).setdefault(outer, {})[name] = numbers

    @rule(shared=WHERE, outer=SMALL)
    def delete_nested(self, shared: bool, outer: int) -> None:
        state, model = self.pick(shared)
        if outer in state.nested:
            del state.nested[outer]
        cast("dict[int, object]", model["nested"]).pop(outer, None)

    @rule(shared=WHERE, name=NAMES, number=SMALL)
    def toggle_friend(self, shared: bool, name: str, number: int) -> None:
        state, model = self.pick(shared)
        friends = cast("dict[str, set[int]]", model["friends"])
        present = number in friends.get(name, set())
        assert state.friends[name].discard(number) == present
        if present:
            friends[name].remove(number)
            if not friends[name]:
                del friends[name]
        else:
            assert state.friends[name].add(number) is True
            friends.setdefault(name, set()).add(number)

    @rule(shared=WHERE, numbers=st.lists(SMALL, min_size=1, max_size=3))
    def append(self, shared: bool, numbers: list[int]) -> None:
        state, model = self.pick(shared)
        for number in numbers:
            state.log.append(number)
        cast("list[int]", model["log"]).extend(numbers)

    @rule(shared=WHERE, count=st.integers(0, 3))
    def keep_last(self, shared: bool, count: int) -> None:
        state, model = self.pick(shared)
        log = cast("list[int]", model["log"])
        dropped = max(0, len(log) - count)
        assert state.log.keep_last(count) == dropped
        del log[:dropped]

    @rule(shared=WHERE)
    def pop_first(self, shared: bool) -> None:
        state, model = self.pick(shared)
        log = cast("list[int]", model["log"])
        if log:
            assert state.log.pop_first() == log.pop(0)

    @rule(shared=WHERE, below=SMALL)
    def drop_while(self, shared: bool, below: int) -> None:
        state, model = self.pick(shared)
        log = cast("list[int]", model["log"])
        count = next((n for n, number in enumerate(log) if number >= below), len(log))
        assert state.log.drop_while(lambda number: number < below) == count
        del log[:count]

    @rule(shared=WHERE, element=BYTES)
    def add_seen(self, shared: bool, element: bytes) -> None:
        state, model = self.pick(shared)
        seen = cast("set[bytes]", model["seen"])
        assert state.seen.add(element) == (element not in seen)
        seen.add(element)

    @rule(shared=WHERE, element=BYTES)
    def discard_seen(self, shared: bool, element: bytes) -> None:
        state, model = self.pick(shared)
        seen = cast("set[bytes]", model["seen"])
        assert state.seen.discard(element) == (element in seen)
        seen.discard(element)

    @rule(step=st.integers(0, 5))
    def time_passes(self, step: int) -> None:
        self.time += step
        self.task.set_stream_time(self.time)

    # what a task's loop does

    @rule(data=st.data())
    def a_record_fails(self, data: st.DataObject) -> None:
        """Changes of all kinds, then a rollback: as if nothing had happened."""
        before, changes = copy.deepcopy(self.model.keys), self.task.changes()
        key = self.at
        mark = self.task.mark()
        for _ in range(data.draw(st.integers(1, 4))):
            change = data.draw(
                st.sampled_from(
                    [self.set_total, self.add_field, self.append, self.keep_last, self.add_seen, self.clear_fields, self.pop_first]
                )
            )
            arguments = {
                self.set_total: (NUMBERS,), self.add_field: (NAMES, SMALL), self.append: (st.lists(SMALL, min_size=1, max_size=2),),
                self.keep_last: (st.integers(0, 1),), self.add_seen: (BYTES,), self.clear_fields: (), self.pop_first: (),
            }[change]  # fmt: skip
            self.next_record(data.draw(KEYS))
            change(data.draw(WHERE), *[data.draw(argument) for argument in arguments])
        self.task.rollback(mark)
        self.next_record(cast("tuple[str, int]", key))
        self.model.keys = before
        assert self.task.changes() == changes

    @rule()
    def end_batch(self) -> None:
        self.task.end_batch()
        self.task.key = self.encode(self.at)

    @rule(keys=st.lists(KEYS))
    def prefetch(self, keys: list[tuple[str, int]]) -> None:
        for spec in SPECS:
            self.task.prefetch(spec.name, [self.encode(key) for key in keys])

    @rule()
    def commit(self) -> None:
        changes = self.task.changes()
        self.offset += 1
        self.task.committed(dict.fromkeys(changes, self.offset), {"commit": b"%d" % self.offset}, now_ms=self.offset)
        self.last_commit.keys = copy.deepcopy(self.model.keys)
        self.committed_time = self.time

    @rule()
    def abort(self) -> None:
        self.task.aborted()
        self.model.keys = copy.deepcopy(self.last_commit.keys)
        self.time = self.committed_time

    @rule()
    def write_local(self) -> None:
        assert self.task.write_local() is False
        assert self.task.pending_bytes == 0
        self.on_disk.keys, self.disk_time = copy.deepcopy(self.last_commit.keys), self.committed_time

    @rule(max_entries=st.integers(1, 5))
    def write_local_in_slices(self, max_entries: int) -> None:
        for _ in range(1000):
            if not self.task.write_local(max_entries):
                break
        assert self.task.pending_since_ms is None
        self.on_disk.keys, self.disk_time = copy.deepcopy(self.last_commit.keys), self.committed_time

    @rule()
    def crash(self) -> None:
        """Only what the backend has is left."""
        self.task.close()
        self.backend = self.reopen_backend(self.backend)
        self.model.keys, self.last_commit.keys = copy.deepcopy(self.on_disk.keys), copy.deepcopy(self.on_disk.keys)
        self.time = self.committed_time = self.disk_time
        self.open()

    # what must hold

    @invariant()
    def the_current_key_and_the_task_read_as_the_model_says(self) -> None:
        if not hasattr(self, "task"):
            return
        for shared in (False, True):
            state, model = self.pick(shared)
            compare(state, model)
        assert self.task.stream_time == self.time

    @rule(start=NAMES, stop=NAMES, reverse=st.booleans(), shared=WHERE)
    def ranges_read_as_the_model_says(self, start: str, stop: str, reverse: bool, shared: bool) -> None:
        state, model = self.pick(shared)
        fields = cast("dict[str, int]", model["fields"])
        inside = sorted(name for name in fields if start <= name < stop)
        assert list(state.fields.keys(start, stop, reverse)) == (inside[::-1] if reverse else inside)

    @rule()
    def every_key_reads_as_the_model_says(self) -> None:
        held = sorted(key for key, model in self.model.keys.items() if key != "task" and model != fresh())
        assert list(self.by_key) == held
        for key in held:
            compare(self.by_key[key], self.model.of(key))

    @precondition(lambda self: self.checking)
    @rule()
    def mutations_are_found_only_in_words(self) -> None:
        assert {found.store for found in self.task.unset_mutations()} <= {"many-words", "shared-words"}

    def teardown(self) -> None:
        if hasattr(self, "task"):
            self.crash()
            self.every_key_reads_as_the_model_says()


def compare(state: Many, model: dict[str, object]) -> None:
    for name in ("total", "words", "point"):
        value = cast("Value[object]", getattr(state, name))
        assert value.get() == model[name]
        assert value.exists() == (model[name] is not None)
    fields = cast("dict[str, int]", model["fields"])
    assert list(state.fields.items()) == sorted(fields.items(), key=lambda item: item[0].encode())
    assert list(state.fields.items(reverse=True)) == sorted(fields.items(), key=lambda item: item[0].encode(), reverse=True)
    assert (len(state.fields), bool(state.fields)) == (len(fields), bool(fields))
    for name in ("a", "é"):
        assert (state.fields.get(name), name in state.fields) == (fields.get(name), name in fields)
    nested = cast("dict[int, dict[str, list[int]]]", model["nested"])
    assert {outer: dict(inner.items()) for outer, inner in state.nested.items()} == nested
    assert list(state.nested) == sorted(nested)
    friends = cast("dict[str, set[int]]", model["friends"])
    assert {name: list(inner) for name, inner in state.friends.items()} == {name: sorted(inner) for name, inner in friends.items()}
    log = cast("list[int]", model["log"])
    assert (list(state.log), list(reversed(state.log)), len(state.log)) == (log, log[::-1], len(log))
    for index in range(-len(log), len(log)):
        assert state.log[index] == log[index]
    seen = cast("set[bytes]", model["seen"])
    assert (list(state.seen), len(state.seen), b"a" in state.seen) == (sorted(seen), len(seen), b"a" in seen)


class RocksMachine(TaskStateMachine):
    """The same over RocksDB, closing and opening the folder at each crash."""

    def make_backend(self) -> Backend:
        self.folder = Path(tempfile.mkdtemp(prefix="streamlet-state-"))
        return RocksBackend.open(self.folder / "task", [StoreName(spec.name) for spec in SPECS])

    def reopen_backend(self, backend: Backend) -> Backend:
        backend.close()
        return RocksBackend.open(self.folder / "task", [StoreName(spec.name) for spec in SPECS])

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "folder"):
            self.backend.close()
            shutil.rmtree(self.folder)


TestTaskStateOverMemory = TaskStateMachine.TestCase
TestTaskStateOverMemory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))
TestTaskStateOverRocksDB = RocksMachine.TestCase
# shrinking would open thousands of databases; the twin's machine finds the small program
TestTaskStateOverRocksDB.settings = settings(
    max_examples=10, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate]
)
