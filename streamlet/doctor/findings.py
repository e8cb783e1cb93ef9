"""What an examination found, as values: one finding per check, each with its severity and its fix."""

from dataclasses import asdict, dataclass
from enum import Enum


class Severity(Enum):
    """How bad a finding is; the worst one decides the exit code of the command."""

    OK = "ok"
    SKIPPED = "skipped"  # could not be looked at, for a reason that another finding names
    WARNING = "warning"
    ERROR = "error"

    @property
    def exit_code(self) -> int:
        """0: go ahead. 1: works, but look at it. 2: an app would not work."""
        return {Severity.WARNING: 1, Severity.ERROR: 2}.get(self, 0)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the examination. `fix` says what to do, and is empty only when there is nothing to do."""

    check: str
    severity: Severity
    found: str
    fix: str = ""

    def __post_init__(self) -> None:
        assert bool(self.fix) == (self.severity in {Severity.WARNING, Severity.ERROR}), "every trouble comes with its fix"

    def to_json(self) -> dict[str, str]:
        """Plain values for a JSON document."""
        return asdict(self) | {"severity": self.severity.value}


def ok(check: str, found: str) -> Finding:
    """All is well."""
    return Finding(check, Severity.OK, found)


def skipped(check: str, why: str) -> Finding:
    """Not looked at."""
    return Finding(check, Severity.SKIPPED, why)


def warning(check: str, found: str, fix: str) -> Finding:
    """Works, but not as well as it should."""
    return Finding(check, Severity.WARNING, found, fix)


def error(check: str, found: str, fix: str) -> Finding:
    """An app would not work."""
    return Finding(check, Severity.ERROR, found, fix)


def worst(findings: list[Finding]) -> Severity:
    """The severity that decides."""
    return max((finding.severity for finding in findings), key=list(Severity).index, default=Severity.OK)
