"""The twin keeps the promises of a backend."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from streamlet.state.backend import Batch, Change
from streamlet.state.memory import MemoryBackend, write_dump
from tests.state.backend_contract import ONE, BackendContract


class TestMemoryBackend(BackendContract):
    @pytest.fixture
    def backend(self, tmp_path: Path) -> MemoryBackend:
        return MemoryBackend()

    def write_file(self, file: Path, entries: Sequence[Change]) -> None:
        write_dump(file, entries)


def test_a_batch_out_of_order_is_a_bug_that_stops_here() -> None:
    with pytest.raises(AssertionError, match="sorted"):
        MemoryBackend().apply(Batch({ONE: [(b"b", b"1"), (b"a", b"1")]}, {ONE: 1}))
