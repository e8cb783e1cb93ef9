"""`streamlet doctor` as a person meets it: no broker, something else on the port, a running Kafka, a secure one."""

import contextlib
import http.server
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bed.processes import Processes


@pytest.fixture
def doctor(processes: Processes, tmp_path: Path):
    """Run the command in an empty folder; returns exit code and findings by their check."""

    def run(*arguments: str) -> tuple[int, dict[str, dict[str, str]]]:
        process = processes.start_streamlet("doctor", "--json", "--state-dir", str(tmp_path / "state"), *arguments, name="doctor")
        exit_code = process.wait(within_s=60)
        return exit_code, {finding["check"]: finding for finding in json.loads(process.log())["findings"]}

    return run


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A program that accepts connections and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture
def web_port() -> Iterator[int]:
    """A web server."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        with contextlib.closing(server.socket):
            yield server.server_address[1]
        server.shutdown()
        thread.join(5)


def test_no_broker_is_an_error_that_offers_a_local_one(doctor):
    address = f"127.0.0.1:{free_port()}"

    exit_code, findings = doctor("--brokers", address)

    assert exit_code == 2
    assert findings["broker"]["found"] == f"nothing listens at {address}"
    assert "streamlet kafka up" in findings["broker"]["fix"]


def test_a_silent_port_is_not_kafka(doctor, silent_port):
    exit_code, findings = doctor("--brokers", f"127.0.0.1:{silent_port}")

    assert exit_code == 2
    assert "is not Kafka: it accepts connections and stays silent" in findings["broker"]["found"]


def test_a_web_server_is_not_kafka(doctor, web_port):
    exit_code, findings = doctor("--brokers", f"127.0.0.1:{web_port}")

    assert exit_code == 2
    assert "is not Kafka" in findings["broker"]["found"]


def test_a_broken_settings_file_is_an_error_and_the_machine_is_still_examined(doctor, tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text("[kafak]\n")

    exit_code, findings = doctor("--config-file", str(path))

    assert exit_code == 2
    assert "Did you mean kafka?" in findings["settings"]["found"]
    assert findings["Python"]["severity"] == "ok"
    assert findings["broker"]["severity"] == "skipped"


def test_people_get_one_line_per_check_and_an_arrow_to_the_fix(processes):
    process = processes.start_streamlet("doctor", "--brokers", f"127.0.0.1:{free_port()}")

    assert process.wait(within_s=60) == 2
    assert "error   broker         nothing listens at" in process.log()
    assert "→ Start a Kafka on this machine" in process.log()


@pytest.mark.broker
def test_a_running_kafka_is_fine_and_nothing_is_left_on_it(doctor, kafka):
    exit_code, findings = doctor("--brokers", kafka.bootstrap)

    assert exit_code == 0
    assert {name: finding["severity"] for name, finding in findings.items() if name != "disk"} == dict.fromkeys(
        ("Python", "Java", "state folder", "settings", "broker", "broker version", "client", "cluster", "transactions", "clock"), "ok"
    )
    assert findings["broker version"]["found"].startswith("Kafka 4.3 ")
    assert not [topic for topic in kafka.topics() if topic.startswith("streamlet-doctor-")]


@pytest.mark.broker
def test_read_only_leaves_out_what_writes(doctor, kafka):
    _, findings = doctor("--brokers", kafka.bootstrap, "--read-only")

    assert [findings[name]["severity"] for name in ("cluster", "transactions", "clock")] == ["ok", "skipped", "skipped"]


@pytest.mark.broker
def test_tls_on_a_plain_listener_is_told_apart(doctor, kafka):
    exit_code, findings = doctor("--brokers", kafka.bootstrap, "--config", "security.protocol=SSL")

    assert exit_code == 2
    assert "speaks plain text, and the settings say TLS" in findings["broker"]["found"]


@pytest.mark.broker
@pytest.mark.timeout(240)
def test_a_secure_kafka_tells_each_wrong_setting_apart(doctor):
    from streamlet.local import KafkaOptions, LocalKafka

    with LocalKafka.start(KafkaOptions(secure=True)) as secure:
        right = secure.secure_client_config
        address = right.pop("bootstrap.servers")

        def examine(**changes: str | None) -> tuple[int, dict[str, dict[str, str]]]:
            properties = {**right, **{key.replace("_", "."): value for key, value in changes.items()}}
            options = [part for key, value in properties.items() if value is not None for part in ("--config", f"{key}={value}")]
            return doctor("--brokers", address, *options)

        all_right = examine()
        plain = doctor("--brokers", address)
        untrusted = examine(ssl_ca_location=None)
        wrong_password = examine(sasl_password="wrong")

    assert all_right[0] == 0
    assert all_right[1]["transactions"]["severity"] == "ok"
    assert "wants TLS" in plain[1]["broker"]["found"]
    assert "certificate" in untrusted[1]["broker"]["found"]
    assert "the login was refused" in wrong_password[1]["cluster"]["found"]
    assert [result[0] for result in (plain, untrusted, wrong_password)] == [2, 2, 2]
