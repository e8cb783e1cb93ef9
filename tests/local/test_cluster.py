from pathlib import Path

import pytest

from streamlet.errors import ConfigError
from streamlet.local import KafkaOptions, LocalKafka
from streamlet.local.cluster import SMALLEST_SPACE, check_space
from streamlet.local.registry import FolderNotUsable


@pytest.mark.parametrize("brokers", [0, 2, 4])
def test_only_one_or_three_brokers_make_a_cluster(brokers: int) -> None:
    with pytest.raises(ConfigError, match=f"1 or 3 brokers, not {brokers}"):
        KafkaOptions(brokers=brokers)


@pytest.mark.parametrize("port", [80, 70_000])
def test_a_port_out_of_range_is_refused(port: int) -> None:
    with pytest.raises(ConfigError, match=str(port)):
        KafkaOptions(port=port)


def test_a_disk_as_good_as_full_is_refused() -> None:
    check_space(Path("/data"), SMALLEST_SPACE)

    with pytest.raises(FolderNotUsable, match="disk is full"):
        check_space(Path("/data"), SMALLEST_SPACE - 1)


def test_no_cluster_is_attached_to_a_new_folder(tmp_path: Path) -> None:
    assert LocalKafka.attach(tmp_path / "new") is None
