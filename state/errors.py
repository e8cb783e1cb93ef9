"""What can go wrong with state, placed in the error tree by what the catcher does next.

A wrong declaration, key or value is the app author's to fix (ConfigError); a folder that cannot be trusted
is set aside and rebuilt (StateError); a folder in use by another process is left alone (RetryError).
"""

from pathlib import Path

from streamlet.errors import ConfigError, RetryError, StateError


class BadKeyType(ConfigError, TypeError):
    """A type that cannot be a key: it has no order-preserving encoding."""

    def __init__(self, hint: str, why: str) -> None:
        super().__init__(hint, why)
        self.hint, self.why = hint, why

    def __str__(self) -> str:
        return (
            f"{self.hint} cannot be a key inside state: {self.why}. "
            "Use str, bytes, int, bool, UUID, an Enum, a tuple of these or a frozen msgspec.Struct."
        )


class BadKey(ConfigError, TypeError):
    """A key of the wrong type, or one that its type's encoding cannot hold."""

    def __init__(self, hint: str, got: str, why: str) -> None:
        super().__init__(hint, got, why)
        self.hint, self.got, self.why = hint, got, why

    def __str__(self) -> str:
        return f"{self.got} is not a key of type {self.hint}: {self.why}. Pass a {self.hint}, or change the declared key type."


class BadStoredKey(StateError):
    """Stored key bytes that do not decode as the declared key type."""

    def __init__(self, hint: str, data: bytes) -> None:
        super().__init__(hint, data)
        self.hint, self.data = hint, data

    def __str__(self) -> str:
        return (
            f"The stored key {self.data!r} is not a {self.hint}. The store was written with another key type or is damaged. "
            "Set the folder aside and replay the changelog; if the type was changed on purpose, reset the store."
        )


class BadValueType(ConfigError, TypeError):
    """A type that cannot be stored."""

    def __init__(self, hint: str, why: str) -> None:
        super().__init__(hint, why)
        self.hint, self.why = hint, why

    def __str__(self) -> str:
        return (
            f"Values of type {self.hint} cannot be stored: {self.why}. Use scalars, containers, msgspec Structs, dataclasses "
            "or TypedDicts, or give the store its own codec: Annotated[..., state(codec=...)]."
        )


class WrongValue(ConfigError, TypeError):
    """A value that does not fit the declared type of its store."""

    def __init__(self, store: str, expected: str, got: str, why: str) -> None:
        super().__init__(store, expected, got, why)
        self.store, self.expected, self.got, self.why = store, expected, got, why

    def __str__(self) -> str:
        return (
            f"Store '{self.store}' holds {self.expected}, but was given {self.got}: {self.why}. "
            "Nothing was changed. Pass the declared type, or change the hint of the parameter."
        )


class BadStoredValue(StateError):
    """Stored bytes that do not decode as the declared value type."""

    def __init__(self, store: str, expected: str, why: str) -> None:
        super().__init__(store, expected, why)
        self.store, self.expected, self.why = store, expected, why

    def __str__(self) -> str:
        return (
            f"A value in store '{self.store}' cannot be read as {self.expected}: {self.why}. "
            "The type changed incompatibly or the copy is damaged. New fields need a default, renamed ones an alias; "
            "otherwise set the folder aside and replay the changelog."
        )


class BadDeclaration(ConfigError, TypeError):
    """A hint that does not declare usable state."""

    def __init__(self, name: str, hint: str, why: str, fix: str) -> None:
        super().__init__(name, hint, why, fix)
        self.name, self.hint, self.why, self.fix = name, hint, why, fix

    def __str__(self) -> str:
        return f"State '{self.name}: {self.hint}' cannot be used: {self.why}. {self.fix}"


class NotYet(ConfigError):
    """Something of the contract that this version does not do."""

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(what, instead)
        self.what, self.instead = what, instead

    def __str__(self) -> str:
        return f"{self.what} is not there yet. {self.instead}"


class OutsideTask(ConfigError):
    """State was touched while no record of its task was being handled."""

    def __init__(self, store: str) -> None:
        super().__init__(store)
        self.store = store

    def __str__(self) -> str:
        return (
            f"State '{self.store}' was used outside a task: there is no current record, or the task has moved away. "
            "Use state only inside the handler that declares it, while it runs; to look at it from a test use TestDriver.store(...), "
            "from a shell `streamlet state get`."
        )


class AmbiguousTruth(ConfigError, TypeError):
    """`if value:` on a Value could mean two things."""

    def __str__(self) -> str:
        return (
            "A Value has no truth value: `if total:` could ask whether it was ever set or whether what it holds is zero. "
            "Write `if total.exists():` or `if total.get(0):`."
        )


class ReservedKey(ConfigError):
    """A record key that equals the one streamlet keeps for itself."""

    def __init__(self, store: str) -> None:
        super().__init__(store)
        self.store = store

    def __str__(self) -> str:
        return (
            f"A record key equals the key that streamlet reserves in store '{self.store}' for the task's stream time. "
            "Put anything in front of the key, or use a key type other than bytes."
        )


class FolderLocked(RetryError):
    """Another process has this state folder open."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder

    def __str__(self) -> str:
        return (
            f"State folder {self.folder} is open in another process, or still open in this one. Nothing was changed. "
            "Stop that process, or give this one its own --state-dir."
        )


class FolderUnusable(StateError):
    """A state folder that is damaged, foreign or of a newer format."""

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__(folder, why)
        self.folder, self.why = folder, why

    def __str__(self) -> str:
        return f"State folder {self.folder} cannot be used: {self.why}. Set it aside; the next start replays the changelog."


class WriteFailed(RetryError):
    """The local copy refused a write: the disk is full or failing."""

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__(folder, why)
        self.folder, self.why = folder, why

    def __str__(self) -> str:
        return (
            f"State folder {self.folder} cannot be written: {self.why}. Nothing is lost, the changelog has every change. "
            "Make room or repair the disk, then resume the task."
        )
