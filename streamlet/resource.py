"""Things a handler needs that are neither records nor state: models, clients, pools.

Opened once per worker, closed at its end, never on a changelog.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

from streamlet.errors import ConfigError


class UsedOutsideTask(ConfigError):
    """A placeholder was used as if it were the thing itself."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(kind, name)
        self.kind, self.name = kind, name

    def __str__(self) -> str:
        return (
            f"{self.kind} '{self.name}' exists only inside a running task. Take it as a parameter of a handler "
            f"(`{self.name}: … = {self.name}`); in a unit test pass a value of your own for that parameter."
        )


class Placeholder:
    """Stands in a signature's default for what the runtime will pass. Every other use of it is refused."""

    kind: str = "placeholder"

    def __init__(self, name: str) -> None:
        self.name: Final = name

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name!r}>"

    def __getattr__(self, name: str) -> NoReturn:
        """Python asks here only for attributes that do not exist."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise UsedOutsideTask(self.kind, self.name)

    def _refuse(self, *_arguments: object) -> NoReturn:
        raise UsedOutsideTask(self.kind, self.name)

    __call__ = __getitem__ = __setitem__ = __delitem__ = __contains__ = __iter__ = __len__ = __bool__ = _refuse


class Resource(Placeholder):
    """Declared by `@app.resource`; `open` is the user's generator function, `type` what it yields."""

    kind = "resource"

    def __init__(self, name: str, opener: Callable[[], Iterator[object]], type_: object) -> None:
        super().__init__(name)
        self.open: Final = opener
        self.type: Final = type_


@contextmanager
def opened(resource: Resource) -> Generator[object]:
    """A resource for the life of a worker: up to its `yield`, and behind it at the end, however that comes."""
    steps = resource.open()
    value = next(steps)
    try:
        yield value
    finally:
        next(steps, None)
