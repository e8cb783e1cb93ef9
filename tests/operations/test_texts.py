"""What people type and read, and the bytes between."""

from dataclasses import dataclass
from uuid import UUID

import pytest

from streamlet.codecs import codec_for
from streamlet.operations.texts import BadText, read_key, show_part, show_raw, write_text


@dataclass(frozen=True)
class Payment:
    id: str
    cents: int


@pytest.mark.parametrize(
    ("hint", "text", "data"),
    [
        (str, "plain text", b"plain text"),
        (bytes, "raw", b"raw"),
        (int, "7", b"\0\0\0\0\0\0\0\x07"),
        (Payment, '{"id": "a", "cents": 5}', b'{"id":"a","cents":5}'),
        (list[int], "[1, 2]", b"[1,2]"),
    ],
)
def test_what_is_typed_becomes_what_the_app_would_write(hint: object, text: str, data: bytes) -> None:
    assert write_text(hint, codec_for(hint), text) == data


def test_what_does_not_fit_is_refused_with_the_type() -> None:
    with pytest.raises(BadText) as refused:
        write_text(Payment, codec_for(Payment), '{"id": "a"}')

    assert refused.value.declared == "Payment"
    assert "cents" in refused.value.why


def test_records_are_shown_as_json_values() -> None:
    assert show_part(int, codec_for(int), b"\0\0\0\0\0\0\0\x07") == 7
    assert show_part(Payment, codec_for(Payment), b'{"id":"a","cents":5}') == {"id": "a", "cents": 5}
    assert show_part(int, codec_for(int), None) is None


def test_an_undecodable_record_is_shown_with_its_bytes() -> None:
    shown = show_part(int, codec_for(int), b"\xff\x01")

    assert isinstance(shown, dict)
    assert shown["bytes"] == "0xff01"


def test_raw_bytes_are_text_where_they_are_text() -> None:
    assert [show_raw(b"caf\xc3\xa9"), show_raw(b"\0\x01"), show_raw(b"\xff"), show_raw(b""), show_raw(None)] == [
        "café", "0x0001", "0xff", "", None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("hint", "text", "key"),
    [
        (str, "7", "7"),
        (int, "7", 7),
        (UUID, "12345678123456781234567812345678", UUID("12345678123456781234567812345678")),
        (tuple[str, int], '["a", 1]', ("a", 1)),
    ],
)
def test_keys_of_state_need_no_quotes(hint: object, text: str, key: object) -> None:
    assert read_key(hint, text) == key
