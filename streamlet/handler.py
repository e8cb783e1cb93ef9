"""A declared function. It can still be called exactly as it was written; declaring it only registers it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import update_wrapper
from typing import Generic, NoReturn, ParamSpec, TypeVar

from streamlet.declaration import not_yet, place_of
from streamlet.output import OutputKind
from streamlet.policy import Policy
from streamlet.signature import Signature
from streamlet.topic import Topic

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
K_co = TypeVar("K_co", covariant=True)

AnyTopic = Topic[object, object]


@dataclass(frozen=True, slots=True)
class Batching:
    """How records are gathered for one call: at most `size` of them, waiting at most `within_ms` for more."""

    size: int
    within_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """How a handler is connected. `repartition` is the wished partition count of its repartition topic, if it gets one.

    `errors_given` tells a policy of the handler's own from the app's.
    """

    sources: "tuple[AnyTopic | AnyHandler, ...]"
    to: tuple[AnyTopic, ...]
    also: tuple[AnyTopic, ...]
    errors: Policy
    errors_given: bool
    keeps_key: bool
    repartition: int | None
    batching: Batching | None


class Handler(Generic[P, R_co, K_co]):
    """What `@app.process` and `@app.batch` make of a function."""

    def __init__(self, function: Callable[P, R_co], *, name: str, app: str, signature: Signature, wiring: Wiring) -> None:
        """Made by the decorators of an App only."""
        update_wrapper(self, function)
        self.function = function
        self.name, self.app, self.signature, self.wiring = name, app, signature, wiring

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function as it was written: for tests, and from other code."""
        return self.function(*args, **kwargs)

    @property
    def place(self) -> str | None:
        """File and line of the function."""
        return place_of(self.function)

    @property
    def changes_key(self) -> bool:
        """Whether an output may carry another key than its input."""
        return self.signature.output.kind is OutputKind.RECORD and not self.wiring.keeps_key

    def __repr__(self) -> str:
        return f"<handler {self.name!r}>"

    def __reduce__(self) -> NoReturn:
        """Workers import the app's file again; a handler is never shipped."""
        raise TypeError(f"handler {self.name!r} cannot be pickled: import the module that declares it instead")

    def timer(self, *_args: object, **_options: object) -> NoReturn:
        """Planned: `@handler.timer`."""
        raise not_yet(f"handler '{self.name}'", "@handler.timer", "keep the due time in state and act on it at the key's next record")

    def every(self, *_args: object, **_options: object) -> NoReturn:
        """Planned: `@handler.every(minutes(1))`."""
        raise not_yet(f"handler '{self.name}'", "@handler.every", "let a topic with one record per tick be a source of the handler")


AnyHandler = Handler[..., object, object]
