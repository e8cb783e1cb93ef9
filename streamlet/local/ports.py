"""Ports on the loopback address: free ones to take, and who holds one that is taken."""

import random
import socket
from typing import Final

import psutil

from streamlet.errors import ConfigError
from streamlet.local.properties import HOST

# Below the range from which systems take the ports of outgoing connections, so that no client grabs one in between.
_FIRST: Final = 20_000
_LAST: Final = 32_000
_TRIES: Final = 200


class PortTaken(ConfigError):
    """Somebody else listens on a port that the broker was told to use."""

    def __init__(self, port: int, holder: str | None, suggestion: int) -> None:
        super().__init__(port, holder, suggestion)
        self.port, self.holder, self.suggestion = port, holder, suggestion

    def __str__(self) -> str:
        by = f" by {self.holder}" if self.holder else ""
        return f"Port {self.port} is taken{by}. Stop that process, or choose another port, for example --port {self.suggestion}."


def is_free(port: int) -> bool:
    """True if nobody listens on this port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a connection in TIME_WAIT holds nothing
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_ports(count: int, *, avoid: frozenset[int] = frozenset()) -> list[int]:
    """So many different ports that nobody listens on now."""
    found: list[int] = []
    for _ in range(_TRIES):
        if len(found) == count:
            return found
        port = random.randrange(_FIRST, _LAST)
        if port not in avoid and port not in found and is_free(port):
            found.append(port)
    raise ConfigError(f"No {count} free ports were found between {_FIRST} and {_LAST} on {HOST}. Stop something that listens there.")


def require_free(first: int, count: int) -> list[int]:
    """`count` ports from `first` on, all free."""
    wanted = list(range(first, first + count))
    for port in wanted:
        if not is_free(port):
            raise PortTaken(port, holder_of(port), suggest(first, count))
    return wanted


def suggest(first: int, count: int) -> int:
    """The next base port above `first` from which `count` ports are free."""
    for candidate in range(first + 10, min(first + 1000, 65_000), 10):
        if all(is_free(port) for port in range(candidate, candidate + count)):
            return candidate
    return free_ports(1)[0]


def holder_of(port: int) -> str | None:
    """The process that listens on a port, as text; None if this system does not tell."""
    try:
        for connection in psutil.net_connections(kind="tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr[1] == port and connection.pid:
                return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
    except (psutil.Error, OSError):
        return None
    return None
