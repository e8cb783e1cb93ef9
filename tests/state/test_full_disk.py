"""A local copy on a disk that fills up and is given room again. A limit on file sizes stands in for the disk."""

import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import resource, sys
from pathlib import Path
from streamlet.ids import StoreName
from streamlet.state.backend import Batch
from streamlet.state.errors import WriteFailed
from streamlet.state.rocksdb import RocksBackend

STORE = StoreName("store")
backend = RocksBackend.open(Path(sys.argv[1]), [STORE])

def write(number):
    backend.apply(Batch({STORE: [(b"%04d" % number, b"x" * 10_000)]}, {STORE: number + 1}))

resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
written = 0
try:
    while written < 100:
        write(written)
        written += 1
    raise SystemExit("the disk never filled up")
except WriteFailed as failure:
    print(failure.folder)
resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
try:
    write(written)
    raise SystemExit("a full disk took a write")
except WriteFailed:
    pass
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
write(written)
keys = [key for key, _ in backend.scan(STORE)]
assert keys == [b"%04d" % number for number in range(written + 1)], keys
assert backend.offset(STORE) == written + 1
if sys.argv[2] == "full again":
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    try:
        write(written + 1)
    except WriteFailed:
        pass
backend.close()
print("written", written + 1)
"""


@pytest.mark.parametrize("ending", ["with room", "full again"])
def test_a_copy_that_refused_a_write_goes_on_when_there_is_room_and_closes_in_any_case(tmp_path: Path, ending: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "copy"), ending],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )

    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "copy") in done.stdout
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
