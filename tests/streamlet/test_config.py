from pathlib import Path

import pytest

from streamlet.config import (
    Address,
    BadSetting,
    Commit,
    Connection,
    Layer,
    Origin,
    Processes,
    ReservedProperty,
    Settings,
    UnknownSetting,
    code_layer,
    command_line_layer,
    environment_layer,
    resolve,
)

STATE = Path("/var/lib/streamlet")


def resolved(*layers: Layer) -> Settings:
    return resolve(layers, default_state_dir=STATE)


def file_layer(values: dict[str, object], properties: dict[str, str] | None = None) -> Layer:
    return Layer(lambda key: Origin("streamlet.toml", key), values, properties or {})


def test_without_anything_the_defaults_hold_and_say_so():
    settings = resolved()

    assert settings.connection.brokers == "127.0.0.1:9092"
    assert settings.storage.state_dir == STATE
    assert settings.commit == Commit(interval_ms=100, max_bytes=64 * 1024 * 1024)
    assert settings.processes == Processes(workers=1, standbys=0)
    assert {str(origin) for origin in settings.origins.values()} == {"default"}


def test_the_stronger_place_wins_and_every_value_remembers_its_place():
    command_line = command_line_layer({"brokers": "cli:1", "workers": None})
    environment = environment_layer({"STREAMLET_BROKERS": "env:1", "STREAMLET_WORKERS": "4"})
    file = file_layer({"brokers": "file:1", "workers": 3, "standbys": 2})
    code = code_layer(brokers="code:1", state_dir=Path("/code"), commit=Commit(interval_ms=250))

    settings = resolved(command_line, environment, file, code)

    assert settings.connection.brokers == "cli:1"
    assert settings.processes == Processes(workers=4, standbys=2)
    assert settings.storage.state_dir == Path("/code")
    assert settings.commit.interval_ms == 250
    assert {key: str(origin) for key, origin in settings.origins.items()} == {
        "brokers": "command line --brokers",
        "workers": "environment STREAMLET_WORKERS",
        "standbys": "streamlet.toml standbys",
        "rack": "default",
        "state_dir": "App(...)",
        "commit_interval_ms": "App(...)",
        "commit_max_bytes": "App(...)",
        "write_interval_ms": "default",
        "write_max_bytes": "default",
        "http": "default",
    }


def test_kafka_properties_of_all_places_are_joined_and_the_stronger_wins():
    command_line = command_line_layer({}, ["sasl.username=anna"])
    environment = environment_layer({"STREAMLET_KAFKA_SASL_PASSWORD": "hush"})
    file = file_layer({}, {"sasl.username": "file", "security.protocol": "SASL_SSL"})

    settings = resolved(command_line, environment, file)

    assert settings.connection.client_config == {
        "bootstrap.servers": "127.0.0.1:9092",
        "sasl.username": "anna",
        "sasl.password": "hush",
        "security.protocol": "SASL_SSL",
    }
    assert str(settings.origins["kafka.sasl.username"]) == "command line --config sasl.username"
    assert str(settings.origins["kafka.sasl.password"]) == "environment STREAMLET_KAFKA_SASL_PASSWORD"


def test_bootstrap_servers_among_the_properties_means_brokers():
    settings = resolved(command_line_layer({}), file_layer({}, {"bootstrap.servers": "a:1,b:2"}))

    assert settings.connection.brokers == "a:1,b:2"
    assert settings.connection.properties == {}


def test_secrets_are_masked_wherever_settings_are_shown():
    properties = [
        "sasl.password=hush",
        "ssl.key.password=hush",
        "ssl.key.pem=hush",
        "sasl.oauthbearer.client.secret=hush",
        "sasl.username=anna",
    ]
    settings = resolved(command_line_layer({}, properties))

    shown = settings.shown()

    assert shown["kafka.sasl.password"] == "********"
    assert shown["kafka.sasl.username"] == "anna"
    assert "hush" not in repr(settings) + str(shown)
    assert shown.keys() == settings.origins.keys()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("brokers", "localhost"),
        ("brokers", "localhost:x"),
        ("brokers", "a:1,,b:2"),
        ("brokers", "a:70000"),
        ("brokers", ""),
        ("workers", 0),
        ("workers", "two"),
        ("workers", True),
        ("standbys", -1),
        ("commit_interval_ms", 1.5),
        ("state_dir", 7),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_its_place(key, value):
    with pytest.raises(BadSetting) as refused:
        resolved(file_layer({key: value}))

    assert (refused.value.key, refused.value.value, refused.value.origin) == (key, value, Origin("streamlet.toml", key))


@pytest.mark.parametrize(
    ("key", "most"), [("commit_max_bytes", 64 * 1024 * 1024), ("write_interval_ms", 1000), ("write_max_bytes", 32 * 1024 * 1024)]
)
def test_bounds_may_be_narrowed_but_not_widened(key, most):
    with pytest.raises(BadSetting) as refused:
        resolved(file_layer({key: most + 1}))

    assert (refused.value.key, refused.value.origin) == (key, Origin("streamlet.toml", key))
    assert f"it is at most {most}, since " in str(refused.value)
    assert resolved(file_layer({key: 1})).shown()[key] == "1"


def test_values_given_in_code_are_checked_when_they_are_made():
    with pytest.raises(BadSetting) as refused:
        Commit(interval_ms=0)
    with pytest.raises(BadSetting):
        Connection(brokers="nowhere")

    assert str(refused.value) == "commit_interval_ms = '0' cannot be used: it is 1 or more."


def test_an_environment_name_that_is_nearly_a_setting_is_refused_and_others_are_left_alone():
    with pytest.raises(UnknownSetting) as refused:
        environment_layer({"STREAMLET_BROKER": "a:1"})

    assert refused.value.nearest == "STREAMLET_BROKERS"
    assert environment_layer({"STREAMLET_SERVICE_HOST": "10.0.0.1", "STREAMLET_CONFIG": "x", "PATH": "y"}).values == {}


def test_an_unknown_option_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownSetting) as refused:
        resolved(file_layer({"state-dir": "/x"}))

    assert (refused.value.key, refused.value.nearest) == ("state-dir", "state_dir")
    assert "Did you mean state_dir?" in str(refused.value)


def test_properties_on_which_the_guarantees_rest_are_refused():
    with pytest.raises(ReservedProperty) as refused:
        resolved(command_line_layer({}, ["isolation.level=read_uncommitted"]))

    assert (refused.value.name, str(refused.value.origin)) == ("isolation.level", "command line --config isolation.level")


def test_a_property_without_a_value_sign_is_refused():
    with pytest.raises(BadSetting) as refused:
        command_line_layer({}, ["security.protocol"])

    assert refused.value.value == "security.protocol"


@pytest.mark.parametrize(
    ("given", "address"),
    [("8080", Address("127.0.0.1", 8080)), ("0.0.0.0:80", Address("0.0.0.0", 80)), ("off", None)],
)
def test_the_endpoint_is_off_unless_an_address_or_a_port_is_given(given, address):
    settings = resolve([command_line_layer({"http": given})], default_state_dir=Path("/state"))

    assert settings.http == address
    assert resolve([], default_state_dir=Path("/state")).http is None


@pytest.mark.parametrize("given", ["host", "host:http", "127.0.0.1:70000"])
def test_an_endpoint_without_a_port_is_refused(given):
    with pytest.raises(BadSetting) as refused:
        resolve([command_line_layer({"http": given})], default_state_dir=Path("/state"))

    assert (refused.value.key, refused.value.value) == ("http", given)
