"""The one Kafka request that every listener answers before any login: which requests and features do you have?

Written by hand because a client library answers "no connection" alike for a web server, a TLS port and a wrong host.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

API_VERSIONS: Final = 18
UNSUPPORTED_VERSION: Final = 35
LARGEST_ANSWER: Final = 1_000_000
_CORRELATION: Final = 0x5EED
_RELEASES: Final = {  # first metadata.version level of each release
    1: "3.0",
    2: "3.1",
    3: "3.2",
    4: "3.3",
    8: "3.4",
    9: "3.5",
    12: "3.6",
    15: "3.7",
    20: "3.8",
    21: "3.9",
    22: "4.0",
    26: "4.1",
    28: "4.2",
    30: "4.3",
}
_NEWEST_KNOWN: Final = 30  # the last level of release 4.3


class NotKafka(Exception):
    """Bytes that no Kafka broker would send."""


@dataclass(frozen=True, slots=True)
class ApiVersions:
    """What a broker can do: the largest version of every request by its number, and the cluster's feature levels."""

    newest: Mapping[int, int]
    features: Mapping[str, int]

    @property
    def release(self) -> str:
        """The release, as far as the cluster's metadata level tells; an upgraded cluster may not have raised it yet."""
        level = self.features.get("metadata.version")
        if level is None:
            return "unknown release (it does not tell its metadata.version)"
        known = max((first for first in _RELEASES if first <= level), default=1)
        return f"{_RELEASES[known]}{' or newer' if level > _NEWEST_KNOWN else ''} (metadata.version {level})"


def request() -> bytes:
    """An ApiVersions request, version 3, with its length in front."""
    name, version = b"streamlet-doctor", b"1"
    header = struct.pack(">hhih", API_VERSIONS, 3, _CORRELATION, len(name)) + name + b"\x00"
    body = bytes([len(name) + 1]) + name + bytes([len(version) + 1]) + version + b"\x00"
    return struct.pack(">i", len(header) + len(body)) + header + body


def answer_size(prefix: bytes) -> int:
    """How many bytes follow the first four."""
    (size,) = struct.unpack(">i", prefix)
    if not 6 <= size <= LARGEST_ANSWER:
        raise NotKafka(prefix)
    return int(size)


def parse(answer: bytes) -> ApiVersions:
    """Read the answer to `request`."""
    try:
        return _parse(_Reader(answer))
    except (struct.error, IndexError, UnicodeDecodeError) as broken:
        raise NotKafka(answer[:16]) from broken


def _parse(reader: "_Reader") -> ApiVersions:
    correlation, code = reader.number(">i"), reader.number(">h")
    if correlation != _CORRELATION:
        raise NotKafka(reader.data[:16])
    if code == UNSUPPORTED_VERSION:  # before release 2.4: answered, but in a format of its own
        return ApiVersions({}, {})
    newest: dict[int, int] = {}
    for _ in range(reader.varint() - 1):
        key, _oldest, largest = reader.number(">h"), reader.number(">h"), reader.number(">h")
        reader.skip_tags()
        newest[key] = largest
    reader.number(">i")  # throttle time
    features: dict[str, int] = {}
    for _ in range(reader.varint()):
        tag, size = reader.varint(), reader.varint()
        end = reader.at + size
        if tag == 2:  # the levels the whole cluster has agreed on
            for _ in range(reader.varint() - 1):
                name, level, _smallest = reader.text(), reader.number(">h"), reader.number(">h")
                reader.skip_tags()
                features[name] = level
        reader.at = end
    return ApiVersions(newest, features)


class _Reader:
    """Reads Kafka's compact types one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return int(value)

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def text(self) -> str:
        size = self.varint() - 1
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def skip_tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.at += self.varint()
