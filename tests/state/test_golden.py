"""A state folder written once and kept: what this version writes and reads cannot change unnoticed.

`python -m tests.state.test_golden` writes it anew, which is right only together with a new format number and a way to migrate.
"""

import json
import shutil
from pathlib import Path
from uuid import UUID

import msgspec

from streamlet.ids import StoreName
from streamlet.state.declaration import declare_state
from streamlet.state.keys import key_encoder
from streamlet.state.memory import MemoryBackend
from streamlet.state.rocksdb import RocksBackend
from streamlet.state.task_state import TaskState
from streamlet.state.types import ByKey, Group, Log, Map, PerTask, Set, Value

GOLDEN = Path(__file__).parent / "golden"
KEY = tuple[str, int]


class Point(msgspec.Struct, frozen=True):
    x: int
    label: str = ""


class Account(Group):
    balance: Value[int]
    point: Value[Point]
    tags: Value[list[str]]
    holds: Map[str, Map[int, float]]
    ids: Set[UUID]
    log: Log[bytes]


DECLARED = [declare_state("account", ByKey[KEY, Account], key=KEY), declare_state("names", PerTask[Map[int, str]], key=KEY)]
SPECS = [spec for declared in DECLARED for spec in declared.specs]
NAMES = [StoreName(spec.name) for spec in SPECS]
IDS = [UUID(int=1), UUID(int=2**127)]


def write(task: TaskState) -> None:
    """What the golden folder holds."""
    accounts, names = task.handle(DECLARED[0]), task.handle(DECLARED[1])
    assert isinstance(accounts, ByKey)
    assert isinstance(names, Map)
    for key, balance in ((("ann", -1), 5), (("ann\x00", 2**40), -(2**63))):
        account = accounts[key]
        account.balance.set(balance)
        account.point.set(Point(balance, "é"))
        account.tags.set(["a", "b"])
        account.holds["h"][7] = 0.5
        for identity in IDS:
            account.ids.add(identity)
        for element in (b"", b"\x00", b"last"):
            account.log.append(element)
        account.log.pop_first()
    names[-1] = "minus"
    names[300] = "more"
    task.set_stream_time(1_700_000_000_000)


def dumped(changes: dict[StoreName, list[tuple[bytes, bytes | None]]]) -> dict[str, dict[str, str | None]]:
    return {
        name: {key.hex(): None if data is None else data.hex() for key, data in sorted(changed)}
        for name, changed in sorted(changes.items())
    }


def test_changes_are_written_as_they_always_were() -> None:
    task = TaskState(SPECS, MemoryBackend())
    write(task)

    assert dumped(task.changes()) == json.loads((GOLDEN / "changes.json").read_text())


def test_the_golden_folder_reads_as_it_always_did(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "task", tmp_path / "task")
    backend = RocksBackend.open(tmp_path / "task", NAMES)
    task = TaskState(SPECS, backend)
    accounts, names = task.handle(DECLARED[0]), task.handle(DECLARED[1])
    assert isinstance(accounts, ByKey)
    assert isinstance(names, Map)

    found = [
        (
            key,
            account.balance.get(),
            account.point.get(),
            account.tags.get(),
            dict(account.holds["h"].items()),
            list(account.ids),
            list(account.log),
        )
        for key, account in accounts.items()
    ]
    assert found == [
        (("ann", -1), 5, Point(5, "é"), ["a", "b"], {7: 0.5}, IDS, [b"\x00", b"last"]),
        (("ann\x00", 2**40), -(2**63), Point(-(2**63), "é"), ["a", "b"], {7: 0.5}, IDS, [b"\x00", b"last"]),
    ]
    assert list(names.items()) == [(-1, "minus"), (300, "more")]
    assert ({backend.offset(name) for name in NAMES}, backend.meta("time"), task.stream_time) == ({42}, b"now", 1_700_000_000_000)
    assert backend.get(NAMES[0], key_encoder(KEY)(("ann", -1))) == b"\x01\x05"
    backend.close()


def main() -> None:
    """Write the golden folder anew."""
    shutil.rmtree(GOLDEN, ignore_errors=True)
    backend = RocksBackend.open(GOLDEN / "task", NAMES)
    task = TaskState(SPECS, backend)
    write(task)
    (GOLDEN / "changes.json").write_text(json.dumps(dumped(task.changes()), indent=1) + "\n")
    task.committed(dict.fromkeys(NAMES, 42), {"time": b"now"})
    task.write_local()
    backend.flush()
    backend.close()
    for path in (GOLDEN / "task").iterdir():
        if path.name.startswith(("LOG", "LOCK", "OPTIONS")):
            path.unlink()


if __name__ == "__main__":
    main()
