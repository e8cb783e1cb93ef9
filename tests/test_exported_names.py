"""`streamlet.__all__` is the contract: it names everything that can be imported from there, and nothing else."""

import types

import streamlet


def exported(module: types.ModuleType) -> set[str]:
    """The public names of a module: all but private ones and sub-modules."""
    found = {name for name, value in vars(module).items() if not name.startswith("_") and not isinstance(value, types.ModuleType)}
    return found | {"__version__"}


LATE = {"TestDriver"}  # loaded when asked for
CHECKING = {"TYPE_CHECKING"}  # of typing, no name of ours


def test_all_lists_exactly_what_is_exported():
    assert set(streamlet.__all__) - LATE == exported(streamlet) - LATE - CHECKING


def test_every_listed_name_can_be_had():
    assert [name for name in streamlet.__all__ if not hasattr(streamlet, name)] == []


def test_all_is_sorted_and_without_repetition():
    assert list(streamlet.__all__) == sorted(set(streamlet.__all__))


def test_a_name_missing_from_all_is_seen():
    module = types.ModuleType("made_up")
    module.App, module._private, module.inner = object(), object(), types.ModuleType("inner")

    assert exported(module) == {"App", "__version__"}
