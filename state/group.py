"""Several states under one name: a class whose annotations are state types."""

from typing import get_type_hints

from streamlet.state.errors import BadDeclaration
from streamlet.state.handle import State


class Group(State):
    """Base of an app's groups. `Account(balance=Value(2))` makes one by hand, for unit tests; what is not given starts empty."""

    __slots__ = ("__dict__",)

    def __init__(self, **given: State) -> None:
        from streamlet.state.bind import make_by_hand

        hints = group_fields(type(self))
        unknown = given.keys() - hints.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no state {', '.join(sorted(unknown))}; it has {', '.join(hints)}")
        for name, hint in hints.items():
            setattr(self, name, given[name] if name in given else make_by_hand(hint))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in group_fields(type(self)))})"


def group_fields(group: type[Group]) -> dict[str, object]:
    """The states of a group, in the order they were written."""
    try:
        hints = get_type_hints(group, include_extras=True)
    except NameError as error:
        raise BadDeclaration(
            group.__name__,
            "Group",
            f"a type in its annotations cannot be found ({error})",
            "Types used by a Group must be importable when the app is declared: not under TYPE_CHECKING, not defined further below.",
        ) from error
    return {name: hint for name, hint in hints.items() if not name.startswith("_")}
