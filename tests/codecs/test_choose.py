"""What `codec=` accepts, and how it refuses."""

import pytest

from streamlet.codecs import BadCodec, codec_for, explain_decode, explain_encode
from streamlet.codecs.errors import DecodeError, EncodeError
from streamlet.errors import RetryError


class Reversed:
    def encode(self, value: str) -> bytes:
        return value[::-1].encode()

    def decode(self, data: bytes) -> str:
        return data.decode()[::-1]


class Described(Reversed):
    def describe(self) -> str:
        return "reversed 1"


class OnlyEncode:
    def encode(self, value: str) -> bytes:
        return value.encode()


class BadDescription(Reversed):
    def describe(self) -> int:
        return 5


def test_an_own_codec_is_taken_as_it_is():
    codec = codec_for(str, Reversed())

    assert codec.encode("abc") == b"cba"
    assert codec.decode(b"cba") == "abc"
    assert codec.describe() == "own Reversed"


def test_an_own_codec_may_describe_itself():
    assert codec_for(str, Described()).describe() == "reversed 1"


@pytest.mark.parametrize(
    ("choice", "why"),
    [
        (OnlyEncode(), "it has no method decode"),
        (5, "it has no method encode and no method decode"),
        (Reversed, "it is a class; write Reversed()"),
        ("protobuf", "there is no codec of that name"),
        (BadDescription(), "its describe() returns int 5, not a text"),
    ],
)
def test_what_is_no_codec_is_refused_at_declaration(choice, why):
    with pytest.raises(BadCodec) as failure:
        codec_for(str, choice)

    assert failure.value.why == why


def test_failures_of_an_own_codec_are_explained_with_their_cause():
    codec = codec_for(str, Reversed())
    cause = ValueError("odd")

    written, read = explain_encode(codec, "abc", cause), explain_decode(codec, cause)

    assert isinstance(written, EncodeError)
    assert (written.reason, written.__cause__) == ("ValueError: odd", cause)
    assert isinstance(read, DecodeError)
    assert (read.reason, read.__cause__) == ("ValueError: odd", cause)


def test_an_outage_stays_an_outage_when_explained():
    codec, outage = codec_for(str), RetryError("registry down")

    assert explain_decode(codec, outage) is outage
    assert explain_encode(codec, "abc", outage) is outage
