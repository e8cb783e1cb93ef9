"""What is behind an address: nothing, something else, a Kafka that wants TLS, one that does not, or the right one."""

import contextlib
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from streamlet.doctor.wire import ApiVersions, NotKafka, answer_size, parse, request


class Reach(Enum):
    """How far a connection came, from nowhere to everywhere."""

    UNKNOWN_HOST = auto()
    NOTHING_LISTENS = auto()
    NO_ANSWER = auto()  # the connection itself timed out: a firewall, or a wrong address
    NOT_KAFKA = auto()
    WANTS_TLS = auto()  # Kafka, but the settings say plain text
    WITHOUT_TLS = auto()  # Kafka, but the settings say TLS
    CERTIFICATE_REFUSED = auto()
    KAFKA = auto()


@dataclass(frozen=True, slots=True)
class Probe:
    """What one address turned out to be."""

    address: str
    reach: Reach
    detail: str = ""
    versions: ApiVersions | None = None


def probe(address: str, properties: Mapping[str, str], timeout_s: float) -> Probe:
    """Connect to one address as the settings say, ask for its versions, and find out what is wrong if that fails."""
    wants_tls = properties.get("security.protocol", "plaintext").lower() in {"ssl", "sasl_ssl"}
    try:
        return Probe(address, Reach.KAFKA, versions=_ask(address, tls_context(properties) if wants_tls else None, timeout_s))
    except socket.gaierror as failed:
        return Probe(address, Reach.UNKNOWN_HOST, failed.strerror or str(failed))
    except ConnectionRefusedError:
        return Probe(address, Reach.NOTHING_LISTENS)
    except _NoConnection as failed:
        return Probe(address, Reach.NO_ANSWER, str(failed))
    except ssl.SSLCertVerificationError as failed:
        return Probe(address, Reach.CERTIFICATE_REFUSED, failed.verify_message)
    except (OSError, NotKafka) as failed:
        return _other_protocol(address, failed, timeout_s, wants_tls=wants_tls)


def _other_protocol(address: str, failed: Exception, timeout_s: float, *, wants_tls: bool) -> Probe:
    with contextlib.suppress(OSError, NotKafka):
        return Probe(
            address,
            Reach.WITHOUT_TLS if wants_tls else Reach.WANTS_TLS,
            versions=_ask(address, None if wants_tls else _any_tls(), timeout_s),
        )
    return Probe(address, Reach.NOT_KAFKA, _describe(failed))


def tls_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """What the Kafka client would use: its authority, its certificate, its strictness."""
    context = ssl.create_default_context(cafile=properties.get("ssl.ca.location"), cadata=properties.get("ssl.ca.pem"))
    if properties.get("enable.ssl.certificate.verification", "true").lower() == "false":
        return _any_tls()
    if properties.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    if certificate := properties.get("ssl.certificate.location"):
        context.load_cert_chain(certificate, properties.get("ssl.key.location"), properties.get("ssl.key.password"))
    return context


def _any_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class _NoConnection(Exception):
    """No connection came about."""


def _ask(address: str, context: ssl.SSLContext | None, timeout_s: float) -> ApiVersions:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        plain = socket.create_connection((host, int(port)), timeout=timeout_s)
    except TimeoutError:
        raise _NoConnection(f"no connection within {timeout_s:g} s") from None
    except OSError as failed:
        if isinstance(failed, ConnectionRefusedError | socket.gaierror):
            raise
        raise _NoConnection(failed.strerror or str(failed)) from failed
    with plain, context.wrap_socket(plain, server_hostname=host) if context else plain as connection:
        connection.sendall(request())
        return parse(_read(connection, answer_size(_read(connection, 4))))


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise NotKafka(data)
        data += more
    return data


def _describe(failed: Exception) -> str:
    if isinstance(failed, TimeoutError):
        return "it accepts connections and stays silent"
    if isinstance(failed, NotKafka):
        said = failed.args[0] if failed.args else b""
        return f"it answers {said!r}" if said else "it closes the connection"
    return f"it breaks the connection off ({failed})"
