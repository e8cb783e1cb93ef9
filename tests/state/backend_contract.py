"""What every backend promises, run on the twin and on the real thing (test_memory.py, test_rocksdb.py)."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamlet.ids import StoreName
from streamlet.state.backend import Backend, Batch, Change

ONE, TWO = StoreName("one"), StoreName("two")
KEYS = st.binary(max_size=3)


class BackendContract(ABC):
    """Subclasses say how to make one with the stores ONE and TWO, and how to write a file it ingests."""

    @pytest.fixture
    @abstractmethod
    def backend(self, tmp_path: Path) -> Backend: ...

    @abstractmethod
    def write_file(self, file: Path, entries: Sequence[Change]) -> None: ...

    def test_an_empty_backend_knows_nothing(self, backend: Backend) -> None:
        assert backend.offset(ONE) is None
        assert backend.meta("time") is None
        assert backend.get(ONE, b"a") is None
        assert backend.get_many(ONE, [b"a", b"b"]) == [None, None]
        assert backend.get_many(ONE, []) == []
        assert list(backend.scan(ONE)) == []

    def test_a_batch_changes_all_stores_and_offsets(self, backend: Backend) -> None:
        backend.apply(Batch({ONE: [(b"a", b"1"), (b"b", b"")], TWO: [(b"a", b"2")]}, {ONE: 3, TWO: 4}, {"time": b"t"}))
        backend.apply(Batch({ONE: [(b"a", None), (b"absent", None)]}, {ONE: 5}))

        assert backend.get_many(ONE, [b"b", b"a", b"b"]) == [b"", None, b""]
        assert backend.get(TWO, b"a") == b"2"
        assert (backend.offset(ONE), backend.offset(TWO), backend.meta("time")) == (5, 4, b"t")

    def test_a_range_is_deleted_before_the_changes_of_its_batch(self, backend: Backend) -> None:
        backend.apply(Batch({ONE: [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")]}, {ONE: 1}))
        backend.apply(Batch({ONE: [(b"b", b"2")]}, {ONE: 2}, ranges={ONE: [(b"a", b"c")]}))

        assert list(backend.scan(ONE)) == [(b"b", b"2"), (b"c", b"1")]

    def test_a_scan_shows_what_was_there_when_it_was_made(self, backend: Backend) -> None:
        backend.apply(Batch({ONE: [(b"a", b"1"), (b"b", b"1")]}, {ONE: 1}))
        scan = backend.scan(ONE)
        backend.apply(Batch({ONE: [(b"a", b"2"), (b"b", None), (b"c", b"2")]}, {ONE: 2}))

        assert list(scan) == [(b"a", b"1"), (b"b", b"1")]

    def test_a_closed_scan_gives_nothing_more(self, backend: Backend) -> None:
        backend.apply(Batch({ONE: [(b"a", b"1"), (b"b", b"1")]}, {ONE: 1}))
        scan = backend.scan(ONE)
        assert next(scan) == (b"a", b"1")
        scan.close()

        assert list(scan) == []

    def test_scans_are_ordered_and_keep_to_their_range(self, backend: Backend) -> None:
        @settings(max_examples=100, deadline=None)
        @given(st.dictionaries(KEYS, st.binary(max_size=2), max_size=12), KEYS, st.none() | KEYS, st.booleans())
        def check(entries: dict[bytes, bytes], start: bytes, stop: bytes | None, reverse: bool) -> None:
            backend.clear(ONE)
            backend.apply(Batch({ONE: sorted(entries.items())}, {ONE: 1}))

            expected = sorted((k, v) for k, v in entries.items() if k >= start and (stop is None or k < stop))
            assert list(backend.scan(ONE, start, stop, reverse)) == (expected[::-1] if reverse else expected)

        check()

    def test_clear_forgets_one_store_and_its_offset(self, backend: Backend) -> None:
        backend.apply(Batch({ONE: [(b"", b"0"), (b"a", b"1"), (b"\xff\xff", b"1")], TWO: [(b"a", b"2")]}, {ONE: 3, TWO: 4}))
        backend.clear(ONE)
        backend.clear(ONE)

        assert (list(backend.scan(ONE)), backend.offset(ONE)) == ([], None)
        assert (list(backend.scan(TWO)), backend.offset(TWO)) == ([(b"a", b"2")], 4)
        backend.apply(Batch({ONE: [(b"a", b"3")]}, {ONE: 1}))
        assert list(backend.scan(ONE)) == [(b"a", b"3")]

    def test_ingested_files_win_in_their_order_and_bring_the_offset(self, backend: Backend, tmp_path: Path) -> None:
        older, newer = tmp_path / "older", tmp_path / "newer"
        self.write_file(older, [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
        self.write_file(newer, [(b"b", None), (b"c", b"2")])
        backend.ingest(ONE, [older, newer], 9)

        assert list(backend.scan(ONE)) == [(b"a", b"1"), (b"c", b"2")]
        assert (backend.offset(ONE), backend.offset(TWO)) == (9, None)
