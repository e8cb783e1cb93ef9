"""What `@app.process(...)` and `@app.batch(...)` return: the second half of a decorator, typed by its sources and targets.

At run time all of them do the same; they differ in what a type checker lets them be applied to. Without `to=` the exact
return type is kept, and taken apart where another handler follows. With `to=` it must fit the topic: the overloads go
from the bare value to unions, since the first that fits decides.
"""

# Overloads of a generic class overlap as long as its types are open (V2 may be an Iterator); in use they are known.
# mypy: disable-error-code="overload-overlap"
# pyright: reportOverlappingOverload=false

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from streamlet.handler import Handler
from streamlet.record import Record, Sent

P = ParamSpec("P")
R = TypeVar("R")
K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


# The app's side of a decorator: check the function, with the names visible where it stands, and remember the handler.
Register = Callable[[Callable[..., Any], Mapping[str, object]], Handler[..., Any, Any]]


class Step(Generic[K, V]):
    """Takes a function of the value or of the Record."""

    def __init__(self, register: Register) -> None:
        """Made by `app.process`."""
        self._register = register

    @overload
    def __call__(self, function: Callable[Concatenate[V, P], R], /) -> Handler[Concatenate[V, P], R, K]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Record[K, V], P], R], /) -> Handler[Concatenate[Record[K, V], P], R, K]: ...
    def __call__(self, function: Callable[..., Any], /) -> Handler[..., Any, Any]:
        """Declare the function as a handler."""
        return self._register(function, sys._getframe(1).f_locals)


class StepTo(Generic[K, V, K2, V2]):
    """Takes a function of the value or of the Record whose result fits the topics in `to=`."""

    def __init__(self, register: Register) -> None:
        """Made by `app.process(..., to=...)`."""
        self._register = register

    @overload
    def __call__(self, function: Callable[Concatenate[V, P], V2], /) -> Handler[Concatenate[V, P], V2, K]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[V, P], V2 | None], /) -> Handler[Concatenate[V, P], V2 | None, K]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[V, P], Record[K2, V2]], /) -> Handler[Concatenate[V, P], Record[K2, V2], K]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[V, P], Iterator[V2]], /) -> Handler[Concatenate[V, P], Iterator[V2], K]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[V, P], Iterator[Record[K2, V2]]], /
    ) -> Handler[Concatenate[V, P], Iterator[Record[K2, V2]], K]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[V, P], Iterator[V2 | Sent]], /
    ) -> Handler[Concatenate[V, P], Iterator[V2 | Sent], K]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[V, P], Iterator[Record[K2, V2] | Sent]], /
    ) -> Handler[Concatenate[V, P], Iterator[Record[K2, V2] | Sent], K]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[V, P], Record[K2, V2 | None] | Sent | None], /
    ) -> Handler[Concatenate[V, P], Record[K2, V2 | None] | Sent | None, K]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[V, P], Iterable[Record[K2, V2 | None] | Sent | None]], /
    ) -> Handler[Concatenate[V, P], Iterable[Record[K2, V2 | None] | Sent | None], K]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[V, P], V2 | Sent | None], /) -> Handler[Concatenate[V, P], V2 | Sent | None, K]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[V, P], Iterable[V2 | Sent | None]], /
    ) -> Handler[Concatenate[V, P], Iterable[V2 | Sent | None], K]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Record[K, V], P], V2], /) -> Handler[Concatenate[Record[K, V], P], V2, K]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Record[K, V], P], V2 | None], /
    ) -> Handler[Concatenate[Record[K, V], P], V2 | None, K]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Record[K, V], P], Record[K2, V2]], /
    ) -> Handler[Concatenate[Record[K, V], P], Record[K2, V2], K]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Record[K, V], P], Iterator[V2]], /
    ) -> Handler[Concatenate[Record[K, V], P], Iterator[V2], K]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Record[K, V], P], Iterator[Record[K2, V2]]], /
    ) -> Handler[Concatenate[Record[K, V], P], Iterator[Record[K2, V2]], K]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Record[K, V], P], Iterator[V2 | Sent]], /
    ) -> Handler[Concatenate[Record[K, V], P], Iterator[V2 | Sent], K]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Record[K, V], P], Iterator[Record[K2, V2] | Sent]], /
    ) -> Handler[Concatenate[Record[K, V], P], Iterator[Record[K2, V2] | Sent], K]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Record[K, V], P], Record[K2, V2 | None] | Sent | None], /
    ) -> Handler[Concatenate[Record[K, V], P], Record[K2, V2 | None] | Sent | None, K]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Record[K, V], P], Iterable[Record[K2, V2 | None] | Sent | None]], /
    ) -> Handler[Concatenate[Record[K, V], P], Iterable[Record[K2, V2 | None] | Sent | None], K]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Record[K, V], P], V2 | Sent | None], /
    ) -> Handler[Concatenate[Record[K, V], P], V2 | Sent | None, K]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[Record[K, V], P], Iterable[V2 | Sent | None]], /
    ) -> Handler[Concatenate[Record[K, V], P], Iterable[V2 | Sent | None], K]: ...
    def __call__(self, function: Callable[..., Any], /) -> Handler[..., Any, Any]:
        """Declare the function as a handler."""
        return self._register(function, sys._getframe(1).f_locals)


class BatchStep(Generic[K, V]):
    """Takes a function of a list of Records, or of values."""

    def __init__(self, register: Register) -> None:
        """Made by `app.batch`."""
        self._register = register

    @overload
    def __call__(
        self, function: Callable[Concatenate[list[Record[K, V]], P], R], /
    ) -> Handler[Concatenate[list[Record[K, V]], P], R, K]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[list[V], P], R], /) -> Handler[Concatenate[list[V], P], R, K]: ...
    def __call__(self, function: Callable[..., Any], /) -> Handler[..., Any, Any]:
        """Declare the function as a handler."""
        return self._register(function, sys._getframe(1).f_locals)


class BatchStepTo(Generic[K, V, K2, V2]):
    """Takes a function of a list of Records, or of values, that gives Records which fit the topics in `to=`."""

    def __init__(self, register: Register) -> None:
        """Made by `app.batch(..., to=...)`."""
        self._register = register

    @overload
    def __call__(
        self, function: Callable[Concatenate[list[Record[K, V]], P], Iterator[Record[K2, V2]]], /
    ) -> Handler[Concatenate[list[Record[K, V]], P], Iterator[Record[K2, V2]], K]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[list[Record[K, V]], P], Iterator[Record[K2, V2] | Sent]], /
    ) -> Handler[Concatenate[list[Record[K, V]], P], Iterator[Record[K2, V2] | Sent], K]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[list[Record[K, V]], P], Iterable[Record[K2, V2 | None] | Sent | None]], /
    ) -> Handler[Concatenate[list[Record[K, V]], P], Iterable[Record[K2, V2 | None] | Sent | None], K]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[list[V], P], Iterator[Record[K2, V2]]], /
    ) -> Handler[Concatenate[list[V], P], Iterator[Record[K2, V2]], K]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[list[V], P], Iterator[Record[K2, V2] | Sent]], /
    ) -> Handler[Concatenate[list[V], P], Iterator[Record[K2, V2] | Sent], K]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[list[V], P], Iterable[Record[K2, V2 | None] | Sent | None]], /
    ) -> Handler[Concatenate[list[V], P], Iterable[Record[K2, V2 | None] | Sent | None], K]: ...
    def __call__(self, function: Callable[..., Any], /) -> Handler[..., Any, Any]:
        """Declare the function as a handler."""
        return self._register(function, sys._getframe(1).f_locals)
