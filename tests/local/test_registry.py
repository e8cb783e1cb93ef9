import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from streamlet.local import registry
from streamlet.local.process import ProcessId, identify
from streamlet.local.properties import Plan
from streamlet.local.registry import FolderNotUsable, WrongFolder
from tests.bed.waiting import eventually

ME = identify(os.getpid())
GONE = ProcessId(ME.pid, ME.started - 100)  # my pid, but another process had it


def plan_of(folder: Path, brokers: int = 1) -> Plan:
    return Plan(tuple(registry.node_of(folder, i, 9091 + i, 19091 + i, None) for i in range(1, brokers + 1)), "id")


def test_a_folder_keeps_its_identity(tmp_path: Path) -> None:
    first = registry.claim_identity(tmp_path, 3)

    assert registry.claim_identity(tmp_path, 3) == first
    assert first.brokers == 3


def test_a_folder_made_for_one_broker_is_refused_to_three(tmp_path: Path) -> None:
    registry.claim_identity(tmp_path, 1)

    with pytest.raises(WrongFolder) as caught:
        registry.claim_identity(tmp_path, 3)

    assert (caught.value.found, caught.value.wanted) == ("one broker", "3 brokers")
    assert "--data DIR" in str(caught.value)


def test_a_folder_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text('{"version": 2, "kafka": "5.0.0", "cluster_id": "x", "brokers": 1}')

    with pytest.raises(WrongFolder, match="newer streamlet"):
        registry.read_identity(tmp_path)


def test_a_running_record_is_found_while_its_process_lives(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)

    registry.write_running(tmp_path, plan, {1: ME}, owner=None)

    running = registry.read_running(tmp_path)
    assert running is not None
    assert running.nodes(tmp_path) == plan.nodes
    assert not running.is_orphaned


def test_a_record_whose_pid_was_reused_counts_as_none(tmp_path: Path) -> None:
    registry.write_running(tmp_path, plan_of(tmp_path), {1: GONE}, owner=None)

    assert registry.read_running(tmp_path) is None


def test_brokers_whose_owner_is_gone_are_orphans(tmp_path: Path) -> None:
    registry.write_running(tmp_path, plan_of(tmp_path), {1: ME}, owner=GONE)

    running = registry.read_running(tmp_path)
    assert running is not None
    assert running.is_orphaned


def test_a_record_that_cannot_be_read_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "running.json").write_text('{"version": 1, "bro')

    assert registry.read_running(tmp_path) is None


def test_temporary_folders_of_killed_owners_are_swept_and_others_stay(tmp_path: Path) -> None:
    for name, broker, owner in (("left", GONE, GONE), ("used", ME, ME), ("alone", GONE, None)):
        folder = tmp_path / f"kafka-{name}"
        folder.mkdir()
        registry.write_running(folder, plan_of(folder), {1: broker}, owner)
    (tmp_path / "kafka-foreign").mkdir()

    registry.sweep(tmp_path, "kafka-")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["kafka-alone", "kafka-foreign", "kafka-used"]


def test_only_one_holder_works_on_a_folder_at_a_time(tmp_path: Path) -> None:
    order: list[str] = []

    def second() -> None:
        with registry.holding(tmp_path):
            order.append("second")

    with registry.holding(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        order.append("first")
    thread.join(10)

    assert order == ["first", "second"]


def test_a_lock_left_by_a_killed_process_holds_nobody_up(tmp_path: Path) -> None:
    source = (
        f"import time; from pathlib import Path; from streamlet.local import registry\n"
        f"with registry.holding(Path({str(tmp_path)!r})):\n  print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    holder.kill()
    holder.wait(10)
    holder.stdout.close()

    with registry.holding(tmp_path):
        assert eventually((tmp_path / "lock").exists, within_s=1)


def test_a_folder_under_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(FolderNotUsable) as caught, registry.holding(tmp_path / "file" / "data"):
        pytest.fail("nothing can be held there")

    assert caught.value.folder == tmp_path / "file" / "data"
    assert "--data DIR" in str(caught.value)


def test_cluster_ids_have_kafkas_form() -> None:
    ids = {registry.new_cluster_id() for _ in range(500)}

    assert len(ids) == 500
    assert {len(text) for text in ids} == {22}
    assert not any(text.startswith("-") for text in ids)
