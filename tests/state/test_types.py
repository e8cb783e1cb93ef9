"""State types made by hand, as an app's unit tests make them, and what their methods promise."""

import pytest

from streamlet.state.errors import AmbiguousTruth, BadDeclaration
from streamlet.state.types import ByKey, Group, Log, Map, Set, Value


def count(n: int, total: Value[int]) -> int:
    return total.add(n)


def test_a_handler_is_called_with_state_made_by_hand() -> None:
    assert count(1, Value(2)) == 3
    assert count(1, Value()) == 1


def test_value() -> None:
    value = Value[int]()
    assert (value.get(), value.get(5), value.exists()) == (None, 5, False)
    assert (value.set(3), value.add(4), value.get(), value.exists()) == (3, 7, 7, True)
    value.delete()
    assert (value.get(), repr(value), repr(Value("a"))) == (None, "Value()", "Value('a')")


def test_a_value_has_no_truth() -> None:
    with pytest.raises(AmbiguousTruth, match="exists"):
        bool(Value(1))


def test_a_value_made_by_hand_hands_out_copies_as_a_real_one_does() -> None:
    given = [1]
    value = Value(given)
    given.append(2)
    got = value.get([])
    got.append(3)

    assert value.get() == [1]


def test_map() -> None:
    fields = Map({"b": 2, "a": 1})
    assert (fields["a"], fields.get("c"), fields.get("c", 9), "b" in fields, len(fields), bool(fields)) == (1, None, 9, True, 2, True)
    assert (fields.set("c", 3), fields.add("c", 1), fields.add("d", 1), fields.pop("d"), fields.pop("d", 0)) == (3, 4, 1, 1, 0)
    assert (list(fields), list(fields.keys()), list(fields.values())) == (["a", "b", "c"], ["a", "b", "c"], [1, 2, 4])
    assert list(fields.items("b")) == [("b", 2), ("c", 4)]
    assert list(fields.items("a", "c", reverse=True)) == [("b", 2), ("a", 1)]
    del fields["a"]
    assert repr(fields) == "Map({'b': 2, 'c': 4})"
    fields.clear()
    assert (list(fields), len(fields), bool(fields)) == ([], 0, False)
    for missing in (lambda: fields["a"], lambda: fields.pop("a"), lambda: fields.__delitem__("a")):
        with pytest.raises(KeyError):
            missing()


def test_a_map_of_maps() -> None:
    outer = Map({"x": Map({1: "a"})})
    outer["x"][2] = "b"
    outer["y"][1] = "c"

    assert {name: dict(inner.items()) for name, inner in outer.items()} == {"x": {1: "a", 2: "b"}, "y": {1: "c"}}
    assert ("x" in outer, "z" in outer, len(outer), outer.get("z") is None) == (True, False, 2, True)
    del outer["x"]
    assert list(outer) == ["y"]
    for refused in (lambda: outer.set("x", Map({1: "a"})), lambda: outer.pop("y"), lambda: outer.add("y", Map({1: "a"}))):
        with pytest.raises(BadDeclaration, match=r"outer\[a\]\[b\]"):
            refused()
    with pytest.raises(KeyError):
        del outer["x"]


def test_map_iteration_shows_the_map_as_it_was_when_it_began() -> None:
    fields = Map({n: n for n in range(5)})
    items = fields.items()
    fields.clear()
    fields[9] = 9

    assert list(items) == [(n, n) for n in range(5)]
    assert list(fields.items()) == [(9, 9)]


def test_log() -> None:
    log = Log([1, 2, 3, 4])
    log.append(5)
    assert (list(log), len(log), log[0], log[-1], list(reversed(log)), bool(log)) == ([1, 2, 3, 4, 5], 5, 1, 5, [5, 4, 3, 2, 1], True)
    assert (log.pop_first(), log.drop_while(lambda n: n < 4), list(log)) == (1, 2, [4, 5])
    assert (log.keep_last(1), list(log), log.keep_last(5)) == (1, [5], 0)
    assert (log.pop_first(), list(log), bool(log), repr(log)) == (5, [], False, "Log([])")
    for index in (0, -1):
        with pytest.raises(IndexError):
            log[index]
    with pytest.raises(IndexError, match="empty"):
        log.pop_first()
    with pytest.raises(ValueError, match="less than 0"):
        log.keep_last(-1)


def test_log_iteration_shows_the_log_as_it_was_when_it_began() -> None:
    log = Log([1, 2])
    elements = iter(log)
    log.append(3)
    log.pop_first()

    assert list(elements) == [1, 2]


def test_set() -> None:
    seen = Set({3, 1})
    assert (seen.add(2), seen.add(2), seen.discard(3), seen.discard(3)) == (True, False, True, False)
    assert (list(seen), len(seen), 1 in seen, 3 in seen, bool(seen), repr(seen)) == ([1, 2], 2, True, False, True, "Set([1, 2])")
    seen.clear()
    assert (list(seen), bool(seen)) == ([], False)


def test_set_iteration_shows_the_set_as_it_was_when_it_began() -> None:
    seen = Set([(1, "a"), (0, "b")])
    elements = iter(seen)
    seen.add((5, "c"))

    assert list(elements) == [(0, "b"), (1, "a")]


class Account(Group):
    balance: Value[int]
    holds: Map[str, int]


def test_a_group_made_by_hand_starts_empty_or_with_what_is_given() -> None:
    account = Account(balance=Value(2))
    account.holds["a"] = 1

    assert (account.balance.add(1), dict(account.holds.items())) == (3, {"a": 1})
    assert repr(account) == "Account(balance=Value(3), holds=Map({'a': 1}))"
    with pytest.raises(TypeError, match="no state typo"):
        Account(typo=Value(1))


def test_by_key_made_by_hand() -> None:
    totals: ByKey[str, Value[int]] = ByKey(Value[int], {"b": Value(2)})
    totals["a"].add(1)
    totals["b"].add(1)

    assert [(key, total.get()) for key, total in totals.items()] == [("a", 1), ("b", 3)]
    assert (list(totals), len(totals)) == (["a", "b"], 2)
