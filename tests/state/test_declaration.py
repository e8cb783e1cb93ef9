"""What hints declare, and what is refused when a handler is declared."""

from typing import Annotated

import pytest

from streamlet.ids import BadName
from streamlet.state.declaration import StateOptions, View, declare_state, is_state
from streamlet.state.errors import BadDeclaration, BadKeyType, BadValueType, NotYet
from streamlet.state.spec import Kind, Scope
from streamlet.state.types import ByKey, Group, Log, Map, PerTask, Set, Value, state


class Account(Group):
    balance: Value[int]
    seen: Annotated[Set[str], state(name="pinned")]


class Empty(Group):
    pass


class Wrong(Group):
    count: int


class Nested(Group):
    inner: Account


class Mixed(Group):
    balance: PerTask[Value[int]]


@pytest.mark.parametrize(("hint", "shape", "described"), [
    (Value[int], (Kind.VALUE, Scope.KEY, str, (), int), "Value[int] per str"),
    (Map[str, int], (Kind.MAP, Scope.KEY, str, (str,), int), "Map[str, int] per str"),
    (Map[str, Map[int, bytes]], (Kind.MAP, Scope.KEY, str, (str, int), bytes), "Map[str, Map[int, bytes]] per str"),
    (Map[str, Log[int]], (Kind.LOG, Scope.KEY, str, (str,), int), "Map[str, Log[int]] per str"),
    (Map[str, Set[int]], (Kind.SET, Scope.KEY, str, (str, int), None), "Map[str, Set[int]] per str"),
    (Log[int], (Kind.LOG, Scope.KEY, str, (), int), "Log[int] per str"),
    (PerTask[Set[str]], (Kind.SET, Scope.TASK, None, (str,), None), "Set[str] per task"),
    (ByKey[str, Value[int]], (Kind.VALUE, Scope.KEY, str, (), int), "Value[int] per str"),
])  # fmt: skip
def test_a_hint_declares_a_store(hint: object, shape: tuple[object, ...], described: str) -> None:
    (spec,) = declare_state("h-x", hint, key=str).specs

    assert (spec.kind, spec.scope, spec.key, spec.fields, spec.value) == shape
    assert (spec.name, spec.describe()) == ("h-x", described)


def test_the_view_follows_the_hint() -> None:
    views = [declare_state("x", hint, key=str).view for hint in (Value[int], PerTask[Value[int]], ByKey[str, Value[int]], Account)]

    assert views == [View.CURRENT_KEY, View.TASK, View.BY_KEY, View.CURRENT_KEY]


def test_options_pin_the_name_either_way() -> None:
    assert declare_state("h-x", Annotated[PerTask[Set[str]], state(name="seen")], key=None).specs[0].name == "seen"
    assert declare_state("h-x", Value[int], key=str, options=StateOptions(name="total")).specs[0].name == "total"
    with pytest.raises(BadDeclaration, match="twice"):
        declare_state("h-x", Annotated[Value[int], state(name="a")], key=str, options=StateOptions(name="b"))


def test_a_group_declares_a_store_per_field() -> None:
    declared = declare_state("account", Account, key=str)

    assert ([spec.name for spec in declared.specs], declared.fields, declared.group) == (
        ["account-balance", "pinned"],
        ("balance", "seen"),
        Account,
    )
    assert {spec.scope for spec in declare_state("account", PerTask[Account], key=None).specs} == {Scope.TASK}
    assert {spec.key for spec in declare_state("account", ByKey[int, Account], key=int).specs} == {int}


def test_time_to_live_is_refused_rather_than_ignored() -> None:
    with pytest.raises(NotYet, match="ttl="):
        state(ttl=1000)


@pytest.mark.parametrize(("hint", "key", "match"), [
    (Value[int], None, "key= to the topic"), (ByKey[int, Value[int]], str, r"ByKey\[str, "), (PerTask[ByKey[str, Value[int]]], str, "exclude"),
    (Map[str, Value[int]], str, r"Map\[..., int\]"), (Map[str, Account], str, "only Map, Log and Set"), (Value, str, "does not say what it holds"),
    (Empty, str, "no states"), (Wrong, str, "Value, Map, Log and Set only"), (Nested, str, "Value, Map, Log and Set only"), (Mixed, str, "around the group"),
    (Annotated[Set[str], state(codec=object())], str, "stores no values"), (Annotated[Account, state(codec=object())], str, "one store"),
])  # fmt: skip
def test_a_hint_that_cannot_work_is_refused_with_the_way_out(hint: object, key: object, match: str) -> None:
    with pytest.raises(BadDeclaration, match=match):
        declare_state("h-x", hint, key=key)


def test_keys_and_values_without_a_stored_form_are_refused_at_declaration() -> None:
    for hint, key in ((Value[int], float), (Map[float, int], str), (Set[dict[str, int]], str)):
        with pytest.raises(BadKeyType):
            declare_state("h-x", hint, key=key)
    with pytest.raises(BadValueType):
        declare_state("h-x", Value[pytest.Item], key=str)


def test_a_name_that_cannot_be_a_topic_is_refused() -> None:
    with pytest.raises(BadName):
        state(name="a/b")


def test_state_is_told_from_other_parameters() -> None:
    assert all(
        map(is_state, (Value[int], PerTask[Map[str, int]], ByKey[str, Value[int]], Account, Annotated[Log[int], state(name="x")], Value))
    )
    assert not any(map(is_state, (int, str, list[int], Annotated[int, 5], None, "Value[int]")))
