"""What type checkers infer for state in user code. Checked, never run."""

from collections.abc import Iterator
from typing import Annotated, assert_type

from streamlet.state.types import ByKey, Group, Log, Map, PerTask, Set, Value, state


def count(n: int, total: Value[int]) -> int:
    assert_type(total.get(), int | None)
    assert_type(total.get(0), int)
    assert_type(total.set(1), int)
    assert_type(total.exists(), bool)
    total.set("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    total.add("1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    return assert_type(total.add(n), int)


def with_default(n: int, total: Value[int] = state(name="total")) -> int:  # noqa: B008
    return total.add(n)


def fields(names: Map[str, int], nested: Map[str, Map[int, bytes]]) -> None:
    assert_type(names["a"], int)
    assert_type(names.get("a"), int | None)
    assert_type(names.get("a", 0), int)
    assert_type(names.add("a", 1), int)
    assert_type(names.pop("a"), int)
    assert_type(names.pop("a", None), int | None)
    assert_type(names.items(start="a", reverse=True), Iterator[tuple[str, int]])
    assert_type(list(names), list[str])
    assert_type(nested["a"], Map[int, bytes])
    assert_type(nested["a"][1], bytes)
    names[1] = 1  # type: ignore[index]  # pyright: ignore[reportArgumentType]
    names["a"] = "1"  # type: ignore[assignment]  # pyright: ignore[reportArgumentType]


def log(elements: Log[float], seen: Annotated[PerTask[Set[str]], state(name="seen")]) -> None:
    assert_type(elements[0], float)
    assert_type(list(elements), list[float])
    assert_type(elements.pop_first(), float)
    assert_type(elements.drop_while(lambda element: element < 1), int)
    assert_type(seen.add("a"), bool)
    assert_type(list(seen), list[str])
    seen.add(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


class Account(Group):
    balance: Value[int]
    holds: Map[str, int]


def groups(account: Account, accounts: ByKey[str, Account], totals: ByKey[int, Value[int]]) -> None:
    assert_type(account.balance.add(1), int)
    assert_type(accounts["a"].holds["b"], int)
    assert_type(totals[1].get(0), int)
    assert_type(list(totals), list[int])
    totals["a"]  # type: ignore[index]  # pyright: ignore[reportArgumentType]


def by_hand() -> None:
    assert_type(Value(2), Value[int])
    assert_type(Map({"a": 1}), Map[str, int])
    assert_type(Log([1, 2]), Log[int])
    assert_type(Set({1}), Set[int])
    assert_type(count(1, Value(2)), int)
    Account(balance=Value(1))
