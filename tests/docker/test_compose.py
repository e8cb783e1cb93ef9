"""What the container files promise, checked without an engine: a cluster that survives the loss of a broker, an app without rights."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
BROKERS = ("kafka-1", "kafka-2", "kafka-3")


def read_compose() -> dict[str, Any]:
    compose: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    return compose


def test_compose_itself_accepts_the_file() -> None:
    docker = shutil.which("docker")
    if docker is None:
        pytest.skip("no docker command here; the structure is checked by the other tests of this file")
    if subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode != 0:
        pytest.skip("docker has no compose plugin here; the structure is checked by the other tests of this file")

    checked = subprocess.run(
        [docker, "compose", "--file", str(DOCKER / "compose.yaml"), "--profile", "app", "config", "--quiet"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stderr
    assert checked.stderr == ""


def test_the_brokers_form_one_quorum_of_three() -> None:
    services = read_compose()["services"]

    environments = [services[name]["environment"] for name in BROKERS]
    assert [environment["KAFKA_NODE_ID"] for environment in environments] == [1, 2, 3]
    assert {environment["KAFKA_PROCESS_ROLES"] for environment in environments} == {"broker,controller"}
    assert {environment["KAFKA_CONTROLLER_QUORUM_VOTERS"] for environment in environments} == {
        "1@kafka-1:9093,2@kafka-2:9093,3@kafka-3:9093"
    }
    assert len({environment["CLUSTER_ID"] for environment in environments}) == 1
    assert {services[name]["image"] for name in BROKERS} == {"${KAFKA_IMAGE:-apache/kafka:4.3.1}"}


@pytest.mark.parametrize("name", BROKERS)
def test_every_topic_outlives_the_loss_of_one_broker(name: str) -> None:
    environment = read_compose()["services"][name]["environment"]

    factors = {key: value for key, value in environment.items() if key.endswith("REPLICATION_FACTOR")}
    in_sync = {key: value for key, value in environment.items() if key.endswith(("MIN_ISR", "MIN_INSYNC_REPLICAS"))}
    assert factors == {
        "KAFKA_DEFAULT_REPLICATION_FACTOR": 3,
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": 3,
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": 3,
        "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": 3,
    }
    assert in_sync == {
        "KAFKA_MIN_INSYNC_REPLICAS": 2,
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": 2,
        "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": 2,
    }


@pytest.mark.parametrize(("name", "port"), [("kafka-1", "19092"), ("kafka-2", "29092"), ("kafka-3", "39092")])
def test_a_broker_is_reached_by_containers_under_its_name_and_by_the_host_on_the_loopback_address_only(name: str, port: str) -> None:
    broker = read_compose()["services"][name]

    variable = f"${{KAFKA_{name[-1]}_PORT:-{port}}}"
    assert broker["ports"] == [f"127.0.0.1:{variable}:19092"]
    assert broker["environment"]["KAFKA_ADVERTISED_LISTENERS"] == f"INTERNAL://{name}:9092,HOST://127.0.0.1:{variable}"


@pytest.mark.parametrize("name", BROKERS)
def test_a_broker_has_a_volume_of_its_own_and_a_health_check(name: str) -> None:
    compose = read_compose()
    broker = compose["services"][name]

    assert broker["volumes"] == [f"{name}:{broker['environment']['KAFKA_LOG_DIRS']}"]
    assert name in compose["volumes"]
    assert broker["healthcheck"]["test"][:2] == ["CMD", "bash"]


def test_the_app_waits_for_all_brokers_and_keeps_its_state_on_a_volume() -> None:
    compose = read_compose()
    app = compose["services"]["app"]

    assert app["profiles"] == ["app"]
    assert app["depends_on"] == {name: {"condition": "service_healthy"} for name in BROKERS}
    assert app["environment"]["STREAMLET_BROKERS"] == ",".join(f"{name}:9092" for name in BROKERS)
    assert f"state:{state_folder()}" in app["volumes"]
    assert "state" in compose["volumes"]


def test_without_a_command_the_app_service_runs_an_example_that_is_there() -> None:
    app = read_compose()["services"]["app"]

    command = re.fullmatch(r"\$\{APP_COMMAND:-(.+)\}", app["command"])
    mounted = re.search(r"\$\{APP_DIR:-(.+)\}:/app:ro", "\n".join(app["volumes"]))
    assert command is not None
    assert mounted is not None
    name, file, *options = command[1].split()
    assert (name, options) == ("run", ["--dev"])
    assert (DOCKER / mounted[1] / file).is_file()


def test_the_image_runs_as_a_user_without_rights_and_owns_its_state_folder() -> None:
    final_stage = (DOCKER / "Dockerfile").read_text().rpartition("\nFROM ")[2]

    assert re.findall(r"^USER (.+)$", final_stage, re.MULTILINE) == ["10001:10001"]
    assert re.findall(r"^VOLUME (.+)$", final_stage, re.MULTILINE) == [state_folder()]
    assert re.search(rf"install -d -o streamlet -g streamlet .*{state_folder()}", final_stage)
    assert 'ENTRYPOINT ["streamlet"]' in final_stage
    assert re.search(r"\b(apt-get|gcc|build-essential)\b", final_stage) is None


def test_the_build_sees_what_the_wheel_is_made_of_and_nothing_else() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders = {Path(folder).parts[0] for folder in project["tool"]["setuptools"]["package-dir"].values()}

    lines = (ROOT / ".dockerignore").read_text().splitlines()

    assert "*" in lines
    assert {line[1:] for line in lines if line.startswith("!")} == folders | {"pyproject.toml", "README.md", "LICENSE"}


@pytest.mark.parametrize(
    ("fake", "said"),
    [
        pytest.param(None, "There is no 'docker' command", id="no docker"),
        pytest.param('[ "$1" != compose ]', "Compose v2", id="no compose"),
        pytest.param('[ "$1" != info ] || { echo no socket >&2; exit 1; }', "does not answer. Start it", id="no engine"),
    ],
)
def test_up_says_what_is_missing(tmp_path: Path, fake: str | None, said: str) -> None:
    make_tools(tmp_path, docker=fake)

    refused = run_up(tmp_path)

    assert refused.returncode == 1
    assert said in refused.stderr
    assert "Kafka is up" not in refused.stdout


def test_up_with_a_command_starts_the_app_after_the_brokers(tmp_path: Path) -> None:
    make_tools(tmp_path, docker='echo "${APP_COMMAND-}|${*##*compose.yaml }" >> "$CALLS"')

    started = run_up(tmp_path, "run", "word_count.py")

    assert started.returncode == 0, started.stderr
    assert "127.0.0.1:19092,127.0.0.1:29092,127.0.0.1:39092" in started.stdout
    assert (tmp_path / "calls").read_text().splitlines()[-3:] == [
        "|--profile app build app",
        "|--profile app up --detach --wait --wait-timeout 300 kafka-1 kafka-2 kafka-3",
        "run word_count.py|--profile app up --detach app",
    ]


def make_tools(folder: Path, docker: str | None) -> None:
    """What docker/up may call: two standard tools and a docker that is the given line of shell."""
    for tool in ("dirname", "cat"):
        (folder / tool).symlink_to(shutil.which(tool) or tool)
    if docker is not None:
        (folder / "docker").write_text(f"#!/bin/sh\n{docker}\n")
        (folder / "docker").chmod(0o755)


def run_up(tools: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run docker/up where `tools` is all there is on PATH."""
    return subprocess.run(
        ["/bin/sh", str(DOCKER / "up"), *arguments],
        env={"PATH": str(tools), "CALLS": str(tools / "calls")},
        cwd=os.sep,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def state_folder() -> str:
    match = re.search(r"STREAMLET_STATE_DIR=(\S+)", (DOCKER / "Dockerfile").read_text())
    assert match, "the image must say where state lives"
    return match[1]
