"""One task's state from the first change to the disk."""

from typing import cast

import msgspec
import pytest

from streamlet.ids import StoreName
from streamlet.state.declaration import declare_state
from streamlet.state.errors import OutsideTask, ReservedKey, WrongValue
from streamlet.state.memory import MemoryBackend
from streamlet.state.spec import Kind
from streamlet.state.task_state import TaskState
from streamlet.state.types import ByKey, Group, Log, Map, PerTask, Set, Value

TOTAL = StoreName("total")


def opened(hint: object, backend: MemoryBackend | None = None, *, key: object = str, checking: bool = False) -> tuple[TaskState, object]:
    declared = declare_state(TOTAL, hint, key=key)
    task = TaskState(declared.specs, backend or MemoryBackend(), checking=checking)
    return task, task.handle(declared)


def int_value(backend: MemoryBackend | None = None) -> tuple[TaskState, Value[int]]:
    task, handle = opened(Value[int], backend)
    return task, cast("Value[int]", handle)


def test_a_value_counts_per_key() -> None:
    task, total = int_value()

    counted = []
    for key in (b"a", b"b", b"a"):
        task.key = key
        counted.append(total.add(2))

    assert counted == [2, 2, 4]


def test_changes_are_combined_per_key_in_the_order_of_their_first_change() -> None:
    task, total = int_value()
    for key, amount in ((b"b", 1), (b"a", 2), (b"b", 3)):
        task.key = key
        total.add(amount)

    assert task.changes() == {TOTAL: [(b"b", b"\x01\x04"), (b"a", b"\x01\x02")]}
    assert task.changes() == task.changes()


def test_a_deleted_value_becomes_a_tombstone() -> None:
    task, total = int_value()
    task.key = b"a"
    total.set(1)
    total.delete()

    assert total.get() is None
    assert total.get(7) == 7
    assert not total.exists()
    assert task.changes() == {TOTAL: [(b"a", None)]}


def test_rollback_restores_what_the_record_changed_and_nothing_else() -> None:
    task, total = int_value()
    task.key = b"a"
    total.set(1)
    before = task.changes()

    mark = task.mark()
    total.add(5)
    total.delete()
    task.key = b"b"
    total.set(9)
    task.rollback(mark)

    assert task.changes() == before
    assert total.get() is None


def test_an_abort_goes_back_to_the_last_commit() -> None:
    backend = MemoryBackend()
    task, total = int_value(backend)
    task.key = b"a"
    total.set(1)
    task.changes()
    task.committed({TOTAL: 5})
    total.set(2)
    task.aborted()

    assert total.get() == 1
    assert task.changes() == {}


def test_committed_changes_reach_the_backend_with_their_offset_and_not_before() -> None:
    backend = MemoryBackend()
    task, total = int_value(backend)
    task.key = b"a"
    total.set(1)
    task.changes()
    task.committed({TOTAL: 5}, {"time": b"now"}, now_ms=77)

    assert (backend.get(TOTAL, b"a"), backend.offset(TOTAL), task.pending_since_ms) == (None, None, 77)
    assert task.pending_bytes == 3
    assert task.write_local() is False
    assert (backend.get(TOTAL, b"a"), backend.offset(TOTAL), backend.meta("time")) == (b"\x01\x01", 5, b"now")
    assert (task.pending_since_ms, task.pending_bytes) == (None, 0)


def test_a_sliced_write_leaves_each_store_at_a_whole_commit() -> None:
    backend = MemoryBackend()
    one, two = declare_state("one", Value[int], key=str), declare_state("two", Value[int], key=str)
    task = TaskState([*one.specs, *two.specs], backend)
    handles = [cast("Value[int]", task.handle(one)), cast("Value[int]", task.handle(two))]
    names = [one.specs[0].name, two.specs[0].name]
    for commit in range(3):
        for key in range(10):
            task.key = b"%d" % key
            for handle in handles:
                handle.set(commit)
        task.changes()
        task.committed(dict.fromkeys(names, 100 + commit), {"commit": b"%d" % commit})

    states = []
    more = True
    while more:
        more = task.write_local(10)
        states.append([(backend.offset(name), {data for _, data in backend.scan(name)}) for name in names] + [backend.meta("commit")])

    for *stores, _ in states:
        for offset, values in stores:
            assert values == (set() if offset is None else {bytes([1, offset - 100])})
    assert len(states) > 2
    assert states[-1] == [(102, {b"\x01\x02"}), (102, {b"\x01\x02"}), b"2"]
    assert states[0][-1] is None, "the time of a commit is written when every store has it"


def test_the_cache_is_trimmed_to_its_bound_and_dirty_entries_stay() -> None:
    backend = MemoryBackend()
    declared = declare_state(TOTAL, Value[int], key=str)
    task = TaskState(declared.specs, backend, cache_entries=10)
    total = cast("Value[int]", task.handle(declared))
    for n in range(50):
        task.key = b"%d" % n
        total.set(n)
    assert task.counters().dirty == 50
    task.changes()
    task.committed({TOTAL: 1})

    assert task.counters().entries == 10
    task.key = b"3"
    assert total.get() == 3
    assert task.counters().misses == 1


def test_prefetch_reads_each_missing_key_once_from_pending_or_backend() -> None:
    backend = MemoryBackend()
    task, total = int_value(backend)
    for n in range(4):
        task.key = b"%d" % n
        total.set(n)
    task.changes()
    task.committed({TOTAL: 1})
    task.write_local()
    fresh, again = int_value(backend)
    fresh.key = b"0"
    again.set(10)
    fresh.changes()
    fresh.committed({TOTAL: 2})
    fresh._trim()

    fresh.prefetch(TOTAL, [b"0", b"1", b"1", b"absent"])

    assert (fresh.counters().hits, fresh.counters().misses) == (1, 2)
    fresh.key = b"1"
    assert again.get() == 1
    fresh.key = b"absent"
    assert again.get() is None
    assert fresh.counters().misses == 2


def test_stream_time_survives_by_its_reserved_key_and_shows_nowhere_else() -> None:
    backend = MemoryBackend()
    task, _ = int_value(backend)
    assert task.stream_time == -1
    task.set_stream_time(1000)
    task.set_stream_time(900)
    changes = task.changes()
    assert [len(changed) for changed in changes.values()] == [1]
    task.committed({TOTAL: 1})
    task.write_local()

    declared = declare_state(TOTAL, ByKey[str, Value[int]], key=str)
    again = TaskState(declared.specs, backend)
    assert again.stream_time == 1000
    assert again.changes() == {}
    assert list(cast("ByKey[str, Value[int]]", again.handle(declared))) == []


def test_keys_that_are_set_between_two_scans_show_in_the_second() -> None:
    task, handle = opened(ByKey[str, Value[int]])
    totals = cast("ByKey[str, Value[int]]", handle)
    totals["b"].set(1)
    assert list(totals) == ["b"]
    totals["a"].set(1)

    assert list(totals) == ["a", "b"]
    assert task.changes()[TOTAL] == [(b"b", b"\x01\x01"), (b"a", b"\x01\x01")]


def test_an_abort_takes_stream_time_back() -> None:
    task, _ = int_value()
    task.set_stream_time(5)
    task.aborted()

    assert task.stream_time == -1


def test_a_bytes_key_that_equals_the_reserved_one_is_refused() -> None:
    task, handle = opened(Value[int], key=bytes)
    task.set_stream_time(1)
    (reserved, _), *_ = task.changes()[TOTAL]
    task.key = reserved
    value = cast("Value[int]", handle)

    with pytest.raises(ReservedKey):
        value.get()
    value.set(1)
    with pytest.raises(ReservedKey):
        task.changes()


def test_state_outside_a_record_says_so() -> None:
    for hint in (Value[int], Map[str, int], Log[int], Set[str]):
        task, handle = opened(hint)
        for use in uses(handle):
            with pytest.raises(OutsideTask):
                use()
        task.key = b"a"
        task.end_batch()
        for use in uses(handle):
            with pytest.raises(OutsideTask):
                use()


def test_state_of_a_closed_task_says_so() -> None:
    for hint in (
        Value[int],
        Map[str, int],
        Log[int],
        Set[str],
        PerTask[Value[int]],
        PerTask[Map[str, int]],
        PerTask[Log[int]],
        PerTask[Set[str]],
    ):
        task, handle = opened(hint)
        task.key = b"a"
        task.close()
        task.key = b"a"
        for use in uses(handle):
            with pytest.raises(OutsideTask, match="total"):
                use()


def uses(handle: object) -> list[object]:
    if isinstance(handle, Value):
        return [handle.get, lambda: handle.set(1), lambda: handle.add(1), handle.delete, handle.exists]
    if isinstance(handle, Map):
        return [lambda: handle.get("a"), lambda: handle.set("a", 1), lambda: handle.add("a", 1), handle.clear, lambda: list(handle)]
    if isinstance(handle, Log):
        return [lambda: handle.append(1), lambda: list(handle), lambda: len(handle), lambda: handle[0]]
    assert isinstance(handle, Set)
    return [lambda: handle.add("a"), lambda: "a" in handle, lambda: list(handle), lambda: handle.discard("a")]


def test_a_view_of_one_key_raises_once_its_task_is_closed() -> None:
    task, handle = opened(ByKey[str, Value[int]])
    view = cast("ByKey[str, Value[int]]", handle)["a"]
    view.set(1)
    task.close()

    with pytest.raises(OutsideTask):
        view.get()
    with pytest.raises(OutsideTask):
        view.set(1)


class Point(msgspec.Struct, frozen=True):
    x: int


@pytest.mark.parametrize(("hint", "wrong"), [
    (Value[int], "1"), (Value[int], True), (Value[int], None), (Value[int], 2**63), (Value[int], 1.5), (Value[str], 1), (Value[str], "\ud800"),
    (Value[bytes], "a"), (Value[float], "a"), (Value[bool], 1), (Value[Point], {"x": 1}), (Value[list[int]], ["a"]), (Value[dict[str, int]], {1: 1}),
    (Value[tuple[int, str]], (1, 2)), (Value[int | None], "a"), (Value[list[int]], [2**70]), (Value[Point], Point(2**70)),
])  # fmt: skip
def test_a_value_of_another_type_is_refused_when_it_is_set(hint: object, wrong: object) -> None:
    task, handle = opened(hint)
    task.key = b"a"

    with pytest.raises(WrongValue) as refused:
        cast("Value[object]", handle).set(wrong)

    assert refused.value.store == TOTAL
    assert task.changes() == {}


def test_an_overflowing_counter_is_refused_at_the_record_that_overflows() -> None:
    task, total = int_value()
    task.key = b"a"
    total.set(2**63 - 1)

    with pytest.raises(WrongValue, match="64 bits"):
        total.add(1)
    assert total.get() == 2**63 - 1


def test_an_int_where_a_float_is_declared_becomes_one() -> None:
    task, handle = opened(Value[float])
    task.key = b"a"

    assert repr(cast("Value[float]", handle).set(1)) == "1.0"
    assert repr(cast("Value[float]", handle).get()) == "1.0"


def test_a_mutable_value_comes_as_a_copy_that_leaks_nothing() -> None:
    task, handle = opened(Value[list[int]])
    seen = cast("Value[list[int]]", handle)
    task.key = b"a"
    given = [1]
    seen.set(given)
    given.append(2)
    got = seen.get([])
    got.append(3)

    assert seen.get() == [1]


def test_checking_finds_a_value_that_was_changed_but_not_set() -> None:
    task, handle = opened(Value[list[int]], checking=True)
    seen = cast("Value[list[int]]", handle)
    for key in (b"kept", b"set", b"forgotten"):
        task.key = key
        seen.set([1])
    task.key = b"kept"
    seen.get([])
    task.key = b"set"
    seen.set([*seen.get([]), 2])
    changed = seen.get([])
    changed.append(3)
    seen.set(changed)
    task.key = b"forgotten"
    seen.get([]).append(2)

    assert [(found.store, found.key) for found in task.unset_mutations()] == [(TOTAL, b"forgotten")]
    assert task.unset_mutations() == []


def test_a_value_that_was_set_and_set_over_in_one_batch_is_no_mutation() -> None:
    task, handle = opened(Value[list[int]], checking=True)
    seen = cast("Value[list[int]]", handle)
    task.key = b"a"
    for number in (1, 2, 3):
        changed = seen.get([])
        changed.append(number)
        seen.set(changed)
    task.end_batch()

    assert task.unset_mutations() == []


def test_what_a_failed_record_did_to_a_value_is_no_mutation() -> None:
    task, handle = opened(Value[list[int]], checking=True)
    seen = cast("Value[list[int]]", handle)
    task.key = b"a"
    seen.set([1])
    mark = task.mark()
    seen.get([]).append(2)
    changed = seen.get([])
    changed.append(3)
    seen.set(changed)
    task.rollback(mark)
    task.end_batch()

    assert task.unset_mutations() == []


def test_a_mutation_is_still_known_after_its_batch() -> None:
    task, handle = opened(Value[list[int]], checking=True)
    seen = cast("Value[list[int]]", handle)
    task.key = b"a"
    seen.set([1])
    seen.get([]).append(2)
    task.end_batch()

    assert [found.key for found in task.unset_mutations()] == [b"a"]


def test_checking_refuses_a_frozen_value_with_a_wrong_field() -> None:
    task, handle = opened(Value[Point], checking=True)
    task.key = b"a"

    with pytest.raises(WrongValue):
        cast("Value[Point]", handle).set(Point("one"))  # type: ignore[arg-type]


class Account(Group):
    balance: Value[int]
    holds: Map[str, int]


def test_a_group_is_one_store_per_field_under_the_groups_name() -> None:
    declared = declare_state("account", Account, key=str)
    task = TaskState(declared.specs, MemoryBackend())
    account = task.handle(declared)
    assert isinstance(account, Account)
    task.key = b"ann"
    account.balance.add(5)
    account.holds["x"] = 1

    assert [(spec.name, spec.kind) for spec in declared.specs] == [("account-balance", Kind.VALUE), ("account-holds", Kind.MAP)]
    assert task.changes() == {"account-balance": [(b"ann", b"\x01\x05")], "account-holds": [(b"ann\x00\x00x\x00\x00", b"\x01\x01")]}
    task.close()
    with pytest.raises(OutsideTask):
        account.balance.get()
    with pytest.raises(OutsideTask):
        account.holds.get("x")


def test_state_per_task_ignores_the_key_and_has_no_key_in_its_layout() -> None:
    for hint, change, key in (
        (PerTask[Value[int]], lambda state: state.set(1), b"v"),
        (PerTask[Map[str, int]], lambda state: state.set("f", 1), b"f\x00\x00"),
        (PerTask[Set[str]], lambda state: state.add("f"), b"f\x00\x00"),
    ):
        task, handle = opened(hint)
        task.key = b"a"
        change(handle)
        assert [changed for changed, _ in task.changes()[TOTAL]] == [key]


def test_one_store_serves_this_key_and_any_key() -> None:
    here, anywhere = declare_state(TOTAL, Value[int], key=int), declare_state(TOTAL, ByKey[int, Value[int]], key=int)
    task = TaskState(here.specs, MemoryBackend())
    total, totals = cast("Value[int]", task.handle(here)), cast("ByKey[int, Value[int]]", task.handle(anywhere))
    task.key = (5 + 2**63).to_bytes(8, "big")
    total.set(50)
    totals[-1].set(10)

    assert totals[5].get() == 50
    assert list(totals) == [-1, 5]
    assert [(key, value.get()) for key, value in totals.items()] == [(-1, 10), (5, 50)]
    assert len(totals) == 2
