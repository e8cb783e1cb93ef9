"""A function while it is being declared, with the words to refuse it by."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from streamlet.declaration import DeclarationError, place_of
from streamlet.hints import resolve_hints


@dataclass(frozen=True, slots=True)
class Input:
    """What a handler's sources give. `has_key` is false where the key is opaque bytes.

    `told` names whose types these are, up to the verb: "'split' yields", "topic 'lines' holds".
    """

    key_type: object
    value_type: object
    has_key: bool
    told: str
    key_fix: str  # the corrected line for a handler that needs a key where there is none


@dataclass(frozen=True, slots=True)
class Subject:
    """One function with its parameters and hints."""

    name: str
    function: Callable[..., object]
    parameters: tuple[inspect.Parameter, ...]
    hints: Mapping[str, object]

    @classmethod
    def of(cls, function: Callable[..., object], name: str, local_names: Mapping[str, object]) -> "Subject":
        """Look at a function once; `local_names` are those visible where it was decorated."""
        parameters = tuple(inspect.signature(function).parameters.values())
        return cls(name, function, parameters, resolve_hints(function, local_names, f"handler '{name}'"))

    def refuse(self, problem: str, fix: str, parameter: str | None = None) -> DeclarationError:
        """The error for this handler, with the place of its definition."""
        return DeclarationError(f"handler '{self.name}'", problem, fix, parameter, place_of(self.function))

    def line(self, index: int, text: str) -> str:
        """The `def` line with the parameter at `index` written as `text` and the others left out."""
        before = "…" if index > 0 else ""
        after = "…" if index + 1 < len(self.parameters) else ""
        return f"def {self.function.__name__}({', '.join(part for part in (before, text, after) if part)})"

    def returning(self, text: str) -> str:
        """The `def` line with another return hint."""
        return f"def {self.function.__name__}({'…' if self.parameters else ''}) -> {text}:"


def identifier(name: str) -> str:
    """A Python variable name like this one, for corrected lines."""
    return "".join(letter if letter.isalnum() else "_" for letter in name)
