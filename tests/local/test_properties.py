from pathlib import Path

import pytest

from streamlet.local.properties import Node, Plan, Secrets, logging_properties, render, server_properties


def nodes(count: int, *, secure: bool = False) -> tuple[Node, ...]:
    return tuple(Node(i, 9091 + i, 19091 + i, 29091 + i if secure else None, Path(f"/data/broker-{i}")) for i in range(1, count + 1))


def settings(plan: Plan, index: int = 0) -> dict[str, str]:
    return dict(line.split("=", 1) for line in server_properties(plan, plan.nodes[index]).splitlines())


def test_one_broker_is_its_own_quorum_and_keeps_one_copy() -> None:
    found = settings(Plan(nodes(1), "id"))

    assert found["process.roles"] == "broker,controller"
    assert found["controller.quorum.voters"] == "1@127.0.0.1:19092"
    assert found["listeners"] == "PLAIN://127.0.0.1:9092,CONTROLLER://127.0.0.1:19092"
    assert found["advertised.listeners"] == "PLAIN://127.0.0.1:9092"
    assert (found["offsets.topic.replication.factor"], found["transaction.state.log.min.isr"]) == ("1", "1")


def test_three_brokers_form_one_quorum_with_three_copies_of_which_two_must_be_in_sync() -> None:
    plan = Plan(nodes(3), "id")

    assert {settings(plan, i)["controller.quorum.voters"] for i in range(3)} == {"1@127.0.0.1:19092,2@127.0.0.1:19093,3@127.0.0.1:19094"}
    assert [settings(plan, i)["node.id"] for i in range(3)] == ["1", "2", "3"]
    copies = {key: value for key, value in settings(plan).items() if key.endswith("replication.factor")}
    assert set(copies.values()) == {"3"}
    assert settings(plan)["min.insync.replicas"] == settings(plan)["transaction.state.log.min.isr"] == "2"
    assert plan.bootstrap == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"


def test_topics_are_never_made_by_accident_and_groups_start_at_once() -> None:
    found = settings(Plan(nodes(1), "id"))

    assert found["auto.create.topics.enable"] == "false"
    assert found["group.initial.rebalance.delay.ms"] == "0"
    assert found["offsets.topic.num.partitions"] == found["transaction.state.log.num.partitions"] == "4"


def test_the_cleaner_is_prompt_only_on_request() -> None:
    usual, prompt = settings(Plan(nodes(1), "id")), settings(Plan(nodes(1), "id", prompt_cleaner=True))

    assert "log.cleaner.backoff.ms" not in usual
    assert prompt["log.cleaner.backoff.ms"] == "100"


def test_a_secure_listener_stands_beside_the_plain_one() -> None:
    secrets = Secrets(Path("/data/secrets/broker.p12"), Path("/data/secrets/ca.pem"), "hush")

    found = settings(Plan(nodes(1, secure=True), "id", secrets=secrets))

    assert found["listeners"] == "PLAIN://127.0.0.1:9092,SECURE://127.0.0.1:29092,CONTROLLER://127.0.0.1:19092"
    assert "SECURE:SASL_SSL" in found["listener.security.protocol.map"].split(",")
    assert 'user_streamlet="hush"' in found["listener.name.secure.plain.sasl.jaas.config"]
    assert found["listener.name.secure.ssl.keystore.location"] == "/data/secrets/broker.p12"


@pytest.mark.parametrize("count", [1, 3])
def test_equal_plans_give_equal_text(count: int) -> None:
    assert server_properties(Plan(nodes(count), "id"), nodes(count)[0]) == server_properties(Plan(nodes(count), "id"), nodes(count)[0])


def test_a_backslash_in_a_value_survives_the_properties_format() -> None:
    assert render({"path": "a\\b"}) == "path=a\\\\b\n"


def test_the_log_goes_to_the_brokers_own_file_and_is_bounded() -> None:
    text = logging_properties(nodes(1)[0])

    assert "appender.file.fileName=/data/broker-1/logs/server.log\n" in text
    assert "appender.file.policies.size.size=20MB\n" in text
    assert "appender.file.strategy.max=2\n" in text
