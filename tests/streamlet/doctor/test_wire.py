import pytest
from hypothesis import given
from hypothesis.strategies import binary, integers

from streamlet.doctor.wire import ApiVersions, NotKafka, answer_size, parse

# Correlation id, no error, two requests (18: 0 to 4, 22: 0 to 5), no throttling, three tagged fields of which the
# last holds the finalized features metadata.version 21 and transaction.version 2.
ANSWER = bytes.fromhex(
    "00005eed 0000 03 0012 0000 0004 00 0016 0000 0005 00 00000000"
    "03 00 01 01 01 08 0000000000000005"
    "02 2f 03 11 6d657461646174612e76657273696f6e 0015 0001 00 14 7472616e73616374696f6e2e76657273696f6e 0002 0001 00"
)


def test_an_answer_tells_requests_and_features():
    versions = parse(ANSWER)

    assert versions == ApiVersions({18: 4, 22: 5}, {"metadata.version": 21, "transaction.version": 2})
    assert versions.release == "3.9 (metadata.version 21)"


@pytest.mark.parametrize(
    ("level", "release"),
    [
        (7, "3.3 (metadata.version 7)"),
        (25, "4.0 (metadata.version 25)"),
        (30, "4.3 (metadata.version 30)"),
        (99, "4.3 or newer (metadata.version 99)"),
    ],
)
def test_the_release_is_read_from_the_metadata_level(level, release):
    assert ApiVersions({}, {"metadata.version": level}).release == release


def test_a_broker_too_old_for_this_question_has_no_requests():
    assert parse(bytes.fromhex("00005eed 0023 00000001 0012 0000 0002")) == ApiVersions({}, {})


@pytest.mark.parametrize("prefix", [b"HTTP", b"\x15\x03\x03\x00", b"SSH-", b"\x00\x00\x00\x01"])
def test_greetings_of_other_programs_are_not_kafka(prefix):
    with pytest.raises(NotKafka):
        answer_size(prefix)


@given(binary(max_size=200))
def test_any_other_bytes_are_refused_and_never_crash_the_reader(data):
    with pytest.raises(NotKafka):
        parse(data)


@given(integers(min_value=0, max_value=len(ANSWER) - 1))
def test_an_answer_that_is_cut_short_is_refused(size):
    with pytest.raises(NotKafka):
        parse(ANSWER[:size])
