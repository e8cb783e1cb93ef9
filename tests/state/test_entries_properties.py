"""Scans merge dirty, pending and backend, whatever each of them knows."""

from hypothesis import given
from hypothesis import strategies as st

from streamlet.ids import StoreName
from streamlet.state.backend import Batch
from streamlet.state.entries import Entries, Undo
from streamlet.state.memory import MemoryBackend
from streamlet.state.values import ABSENT, value_codec

STORE = StoreName("s")
KEYS = st.sampled_from([b"", b"a", b"a\x00", b"b", b"c", b"d", b"\xff"])
LAYER = st.dictionaries(KEYS, st.none() | st.integers(0, 9))


@given(LAYER, LAYER, LAYER, KEYS, st.none() | KEYS, st.booleans())
def test_a_scan_shows_the_newest_layer_of_each_key(
    stored: dict[bytes, int | None],
    pending: dict[bytes, int | None],
    dirty: dict[bytes, int | None],
    start: bytes,
    stop: bytes | None,
    reverse: bool,
) -> None:
    codec, backend, journal = value_codec(int), MemoryBackend(), list[Undo]()
    backend.apply(Batch({STORE: sorted((k, codec.encode(v)) for k, v in stored.items() if v is not None)}, {STORE: 1}))
    encoded = {key: None if value is None else codec.encode(value) for key, value in pending.items()}
    entries = Entries(STORE, codec, backend, journal, encoded, checking=False)
    list(entries.scan_keys(b"", None))  # from here on the order is kept up
    for key, value in dirty.items():
        entries.write(key, ABSENT if value is None else value)

    merged = {**stored, **pending, **dirty}
    expected = sorted((k, v) for k, v in merged.items() if v is not None and k >= start and (stop is None or k < stop))
    expected = expected[::-1] if reverse else expected
    assert list(entries.scan(start, stop, reverse)) == expected
    assert list(entries.scan_keys(start, stop, reverse)) == [key for key, _ in expected]
