import pytest

from streamlet.doctor.findings import Finding, Severity, error, ok, skipped, warning, worst


@pytest.mark.parametrize(
    ("findings", "severity", "exit_code"),
    [
        ([], Severity.OK, 0),
        ([ok("a", "x"), skipped("b", "y")], Severity.SKIPPED, 0),
        ([warning("a", "x", "do"), ok("b", "y")], Severity.WARNING, 1),
        ([warning("a", "x", "do"), error("b", "y", "do"), ok("c", "z")], Severity.ERROR, 2),
    ],
)
def test_the_worst_finding_decides_the_exit_code(findings, severity, exit_code):
    assert worst(findings) is severity
    assert severity.exit_code == exit_code


def test_a_trouble_without_a_fix_cannot_be_expressed():
    with pytest.raises(AssertionError, match="every trouble comes with its fix"):
        Finding("disk", Severity.ERROR, "full")


def test_json_holds_plain_values():
    assert warning("disk", "small", "Free some.").to_json() == {
        "check": "disk",
        "severity": "warning",
        "found": "small",
        "fix": "Free some.",
    }
