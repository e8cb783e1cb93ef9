"""The cluster and the app image for real: runs where an engine and the images are to be had, and says what is missing elsewhere."""

import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]  # public, but its stubs do not say so
from testcontainers.compose import DockerCompose

from tests.bed.waiting import eventually

DOCKER = Path(__file__).parents[2] / "docker"
KAFKA_IMAGE = os.environ.get("KAFKA_IMAGE", "apache/kafka:4.3.1")
PYTHON_IMAGE = os.environ.get("PYTHON_IMAGE", "python:3.11-slim-bookworm")

pytestmark = [pytest.mark.docker, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def project() -> Iterator[dict[str, str]]:
    """A compose project of our own on free ports, so that a cluster the developer runs is neither met nor removed."""
    need_engine()
    with ExitStack() as held, pytest.MonkeyPatch.context() as patch:
        ports = [held.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(3)]
        held.close()
        run = uuid.uuid4().hex[:8]
        settings = {f"KAFKA_{index}_PORT": str(port) for index, port in enumerate(ports, start=1)}
        settings |= {"COMPOSE_PROJECT_NAME": f"streamlet-test-{run}", "APP_IMAGE": f"streamlet-test:{run}", "APP_DIR": str(DOCKER)}
        for name, value in settings.items():
            patch.setenv(name, value)
        yield settings


@pytest.fixture(scope="module")
def bootstrap(project: dict[str, str]) -> Iterator[str]:
    """Addresses of the running cluster, as this machine sees it."""
    need_image(KAFKA_IMAGE)
    servers = ",".join(f"127.0.0.1:{project[f'KAFKA_{index}_PORT']}" for index in (1, 2, 3))
    with DockerCompose(DOCKER, compose_file_name="compose.yaml"):
        admin = AdminClient({"bootstrap.servers": servers})
        eventually(lambda: len(admin.list_topics(timeout=10).brokers) == 3, within_s=60, what="three brokers in the metadata")
        yield servers


@pytest.fixture
def image(project: dict[str, str]) -> Iterator[str]:
    need_image(PYTHON_IMAGE)
    compose("--profile", "app", "build", "app")
    yield project["APP_IMAGE"]
    docker("image", "rm", "--force", project["APP_IMAGE"])


def test_a_new_topic_is_on_three_brokers_and_wants_two_in_sync(bootstrap: str, unique: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})

    topic = create_topic(admin, unique)

    described = eventually(lambda: admin.list_topics(topic, timeout=10).topics[topic].partitions, within_s=60)
    min_in_sync = eventually(lambda: setting_of(admin, topic, "min.insync.replicas"), within_s=60)
    assert [sorted(partition.replicas) for partition in described.values()] == [[1, 2, 3]] * 3
    assert min_in_sync == "2"


def test_a_committed_transaction_is_read_and_an_aborted_one_is_not(bootstrap: str, unique: str) -> None:
    topic = create_topic(AdminClient({"bootstrap.servers": bootstrap}), unique)
    producer = transactional_producer(bootstrap, unique)

    producer.begin_transaction()
    producer.produce(topic, b"dropped", partition=0)
    producer.flush(30)
    producer.abort_transaction(30)
    send_in_transaction(producer, topic, b"kept")

    assert read_committed(bootstrap, topic, count=1) == [b"kept"]


def test_transactions_go_on_without_one_broker(bootstrap: str, unique: str) -> None:
    topic = create_topic(AdminClient({"bootstrap.servers": bootstrap}), unique)
    producer = transactional_producer(bootstrap, unique)
    send_in_transaction(producer, topic, b"with three")

    compose("kill", "kafka-3")
    try:
        send_in_transaction(producer, topic, b"with two")
        seen = read_committed(bootstrap, topic, count=2)
    finally:
        compose("up", "--wait", "kafka-3")

    assert seen == [b"with three", b"with two"]


def test_the_app_image_runs_without_rights_and_can_write_its_state(image: str) -> None:
    version = docker("run", "--rm", image, "--version")
    script = "id -u && touch /var/lib/streamlet/probe && ! touch /opt/streamlet/probe 2>/dev/null && ! command -v gcc cc"
    facts = docker("run", "--rm", "--cap-drop", "ALL", "--entrypoint", "sh", image, "-c", script)

    assert version.startswith("streamlet ")
    assert facts == "10001\n"


def need_engine() -> None:
    if shutil.which("docker") is None:
        pytest.skip("no container engine: there is no docker command on PATH")
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no compose: the docker command here has no compose plugin")
    asked = subprocess.run(["docker", "info", "--format", "{{.ServerVersion}}"], capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        pytest.skip(f"the container engine is not running: {asked.stderr.strip()}")


def need_image(name: str) -> None:
    if subprocess.run(["docker", "image", "inspect", name], capture_output=True, check=False).returncode == 0:
        return
    pulled = subprocess.run(["docker", "pull", "--quiet", name], capture_output=True, text=True, check=False, timeout=300)
    if pulled.returncode != 0:
        pytest.skip(f"image {name} is not on this machine and cannot be pulled: {pulled.stderr.strip()}")


def docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout


def compose(*arguments: str) -> None:
    docker("compose", "--file", str(DOCKER / "compose.yaml"), *arguments)


def create_topic(admin: AdminClient, name: str) -> str:
    """A topic by the cluster's defaults, three partitions; returns when a broker shows them."""
    admin.create_topics([NewTopic(name, num_partitions=3)])[name].result(30)
    eventually(lambda: len(admin.list_topics(name, timeout=10).topics[name].partitions) == 3, within_s=60, what=f"topic {name}")
    return name


def setting_of(admin: AdminClient, topic: str, name: str) -> str | None:
    """The value in force; None while the broker that was asked does not know the topic yet."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    try:
        return str(admin.describe_configs([resource])[resource].result(30)[name].value)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise
        return None


def transactional_producer(bootstrap: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(60)
    return producer


def send_in_transaction(producer: Producer, topic: str, value: bytes) -> None:
    producer.begin_transaction()
    producer.produce(topic, value, partition=0)
    producer.commit_transaction(60)


def read_committed(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    """The first `count` committed values of partition 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    seen: list[bytes | None] = []

    def all_seen() -> bool:
        seen.extend(message.value() for message in consumer.consume(count, timeout=0.5) if message.error() is None)
        return len(seen) >= count

    try:
        eventually(all_seen, within_s=60, what=f"{count} committed records")
    finally:
        consumer.close()
    return seen
