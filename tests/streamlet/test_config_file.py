from pathlib import Path

import pytest

from streamlet.config import BadSetting, UnknownSetting, command_line_layer
from streamlet.config_file import BadConfigFile, default_state_dir, find_config_file, load, parse_config, read_config_file

EXAMPLE = """
[kafka]
bootstrap.servers = "broker:9092"
security.protocol = "SASL_SSL"
enable.metrics.push = false
socket.timeout.ms = 5000

[app.word-count]
workers = 3
state_dir = "state"

[app."with.dots"]
brokers = "own:1"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "streamlet.toml"
    path.write_text(text)
    return path


def test_an_app_reads_its_own_table_and_every_client_the_kafka_table(tmp_path, monkeypatch):
    write(tmp_path, EXAMPLE)
    monkeypatch.chdir(tmp_path)

    settings = load("word-count", command_line_layer({}))

    assert settings.processes.workers == 3
    assert settings.storage.state_dir == tmp_path / "state"
    assert settings.connection.client_config == {
        "bootstrap.servers": "broker:9092",
        "security.protocol": "SASL_SSL",
        "enable.metrics.push": "false",
        "socket.timeout.ms": "5000",
    }
    assert str(settings.origins["workers"]) == f"{tmp_path}/streamlet.toml [app.word-count] workers"
    assert str(settings.origins["brokers"]).startswith(f"{tmp_path}/streamlet.toml [kafka]")


def test_brokers_of_one_app_win_over_those_of_all(tmp_path, monkeypatch):
    path = write(tmp_path, EXAMPLE)

    settings = load("with.dots", command_line_layer({}), config_file=path)

    assert settings.connection.brokers == "own:1"
    assert str(settings.origins["brokers"]) == f"{path} [app.with.dots] brokers"


def test_without_a_file_the_state_folder_is_the_platforms(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert load(None, command_line_layer({})).storage.state_dir == default_state_dir()


def test_a_named_file_wins_over_the_environment_and_the_folder(tmp_path):
    here, named, other = write(tmp_path, ""), tmp_path / "a.toml", tmp_path / "b.toml"
    named.touch()
    other.touch()

    assert find_config_file(named, {"STREAMLET_CONFIG": str(other)}, tmp_path) == named
    assert find_config_file(None, {"STREAMLET_CONFIG": str(other)}, tmp_path) == other
    assert find_config_file(None, {}, tmp_path) == here
    assert find_config_file(None, {}, tmp_path / "elsewhere") is None


def test_a_named_file_that_is_missing_is_refused_with_who_named_it(tmp_path):
    with pytest.raises(BadConfigFile, match="STREAMLET_CONFIG"):
        find_config_file(None, {"STREAMLET_CONFIG": str(tmp_path / "gone.toml")}, tmp_path)


def test_a_file_that_is_not_toml_is_refused_with_the_line(tmp_path):
    with pytest.raises(BadConfigFile) as refused:
        read_config_file(write(tmp_path, "[kafka\n"))

    assert "line 1" in refused.value.why


@pytest.mark.parametrize(
    ("text", "key", "nearest"),
    [
        ("[app.x]\nworker = 2", "worker", "workers"),
        ("[kafkas]\na = 1", "kafkas", "kafka"),
        ("[app.x]\ncommit_interval = 2", "commit_interval", "commit_interval_ms"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest_known_one(tmp_path, text, key, nearest):
    with pytest.raises(UnknownSetting) as refused:
        read_config_file(write(tmp_path, text))

    assert (refused.value.key, refused.value.nearest) == (key, nearest)


def test_a_list_is_no_kafka_property():
    with pytest.raises(BadSetting) as refused:
        parse_config({"kafka": {"ssl": {"protocols": ["a", "b"]}}}, Path("streamlet.toml"))

    assert refused.value.key == "ssl.protocols"


def test_an_app_that_is_no_table_is_refused():
    with pytest.raises(BadConfigFile, match=r"\[app\.x\] must be a table"):
        parse_config({"app": {"x": 3}}, Path("streamlet.toml"))


def test_passwords_do_not_appear_when_a_file_is_printed():
    assert "hush" not in repr(parse_config({"kafka": {"sasl": {"password": "hush"}}}, Path("streamlet.toml")))
