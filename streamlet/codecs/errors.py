"""What can go wrong between values and bytes, apart by whose fault it is.

    StreamletError
    ├── EncodeError, DecodeError    the value or the record is wrong: the `errors=` policy decides
    ├── ConfigError
    │   ├── BadCodec                what was given as codec= is not one
    │   ├── UnsupportedType         no codec can be made for this type
    │   └── registry and schema refusals (streamlet.codecs.registry)
    └── RetryError
        └── RegistryUnavailable     nobody's record is wrong: try the same record again later

Codecs know neither topic nor offset; the runtime adds them when it hands the failure to the policy.
"""

from streamlet.errors import ConfigError, StreamletError


class EncodeError(StreamletError):
    """A value cannot be written as the type its topic declares."""

    exit_code = 6

    def __init__(self, declared: str, got: str, reason: str) -> None:
        super().__init__(declared, got, reason)
        self.declared, self.got, self.reason = declared, got, reason

    def __str__(self) -> str:
        return f"Cannot write {self.got} where {self.declared} is declared: {self.reason}."


class DecodeError(StreamletError):
    """Bytes of a record are not what its topic declares."""

    exit_code = 6

    def __init__(self, declared: str, reason: str) -> None:
        super().__init__(declared, reason)
        self.declared, self.reason = declared, reason

    def __str__(self) -> str:
        return f"Cannot read the record as {self.declared}: {self.reason}."


class BadCodec(ConfigError):
    """What was given as `codec=` is not a codec."""

    def __init__(self, given: str, why: str) -> None:
        super().__init__(given, why)
        self.given, self.why = given, why

    def __str__(self) -> str:
        return (
            f"codec={self.given} cannot be used: {self.why}. "
            'Give "json", "msgpack", avro(...), or an object with encode(value) -> bytes and decode(data) -> value.'
        )


class UnsupportedType(ConfigError):
    """No codec can be made for a declared type."""

    def __init__(self, declared: str, why: str, fix: str) -> None:
        super().__init__(declared, why, fix)
        self.declared, self.why, self.fix = declared, why, fix

    def __str__(self) -> str:
        return f"No codec for {self.declared}: {self.why}. {self.fix}."


def shown(value: object) -> str:
    """A value as error messages name it: short, and with its class."""
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}"
