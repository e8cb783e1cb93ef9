"""A network that can fail: a TCP proxy between one client and its brokers, with faults that a test switches on and off.

A Kafka client connects to the addresses that brokers advertise, so the proxy also puts its own ports into their
answers. Give every client under test a proxy of its own, and one can be cut off while the others go on.
Plain-text listeners only: in a TLS stream the advertised ports cannot be seen.

Invariant: bytes of a connection arrive in order and complete, or the connection is reset.
"""

import queue
import re
import socket
import struct
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Self

HOST = "127.0.0.1"
_CHUNK = 65_536
_POLL_S = 0.05
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_ADVERTISED = re.compile(re.escape(HOST.encode()) + rb"(.{4})", re.DOTALL)


class Proxy:
    """Stands for `targets` ("127.0.0.1:9092", …), one port each. Faults act on all of them together."""

    def __init__(self, targets: Iterable[str]) -> None:
        self._network = _Network()
        ports = [int(target.rpartition(":")[2]) for target in targets]
        self._doors = [_Door(self._network, port) for port in ports]
        self._network.ports.update({door.target: door.port for door in self._doors})

    @property
    def bootstrap(self) -> str:
        """What the client takes for its brokers."""
        return ",".join(f"{HOST}:{door.port}" for door in self._doors)

    @property
    def connections(self) -> int:
        """How many connections are open now."""
        return sum(len(door.links) for door in self._doors)

    def delay(self, seconds: float) -> None:
        """Everything sent from now on arrives this much later, in both directions."""
        self._network.delay_s = seconds

    def drop(self) -> None:
        """Nothing gets through and nothing is closed, as when a cable is pulled; `heal` delivers what was sent."""
        self._network.flows.clear()

    def reset(self) -> None:
        """Reset the open connections; new ones work."""
        for door in self._doors:
            door.reset_links()

    def cut(self) -> None:
        """Reset the open connections and refuse new ones, as when the brokers' machine is down."""
        for door in self._doors:
            door.shut()
        self.reset()

    def heal(self) -> None:
        """End every fault."""
        self._network.delay_s = 0.0
        self._network.flows.set()
        for door in self._doors:
            door.open()

    def close(self) -> None:
        self._network.closed = True
        self._network.flows.set()
        self.cut()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Network:
    """The state of all faults. Written by the test's thread, read by the pumps."""

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.flows = threading.Event()
        self.flows.set()
        self.closed = False
        self.ports: dict[int, int] = {}


class _Door:
    """One listening port and the connections that came through it."""

    def __init__(self, network: _Network, target: int) -> None:
        self._network, self.target = network, target
        self.port = 0
        self._lock = threading.Lock()  # links and listener change together
        self.links: set[_Link] = set()
        self._listener: socket.socket | None = None
        self.open()

    def open(self) -> None:
        with self._lock:
            if self._listener is None:
                listener = socket.socket()
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((HOST, self.port))
                listener.listen(64)
                listener.settimeout(_POLL_S)
                self.port = listener.getsockname()[1]
                self._listener = listener
                threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def shut(self) -> None:
        with self._lock:
            if self._listener is not None:
                self._listener.close()
                self._listener = None

    def reset_links(self) -> None:
        with self._lock:
            links = list(self.links)
        for link in links:
            link.reset()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            try:
                link = _Link(self, self._network, client)
            except OSError:  # the broker is not there: the client sees what it would see without us
                _close_with_reset(client)
                continue
            with self._lock:
                shut = self._listener is not listener
                self.links.add(link)
            link.start()
            if shut:
                link.reset()


class _Link:
    """One connection: a client's socket, a broker's socket and a pump for each direction."""

    def __init__(self, door: _Door, network: _Network, client: socket.socket) -> None:
        self._door, self._network = door, network
        self._client, self._broker = client, socket.create_connection((HOST, door.target), timeout=5)
        for end in (self._client, self._broker):
            end.settimeout(None)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ended = [threading.Event(), threading.Event()]

    def start(self) -> None:
        self._start_pump(self._client, self._broker, self._ended[0], answers=False)
        self._start_pump(self._broker, self._client, self._ended[1], answers=True)

    def reset(self) -> None:
        for end in (self._client, self._broker):
            _close_with_reset(end)
        self._door.links.discard(self)

    def _start_pump(self, source: socket.socket, sink: socket.socket, ended: threading.Event, *, answers: bool) -> None:
        waiting: queue.Queue[tuple[float, bytes]] = queue.Queue(1024)
        threading.Thread(target=self._read, args=(source, waiting, answers), daemon=True).start()
        threading.Thread(target=self._write, args=(sink, waiting, ended), daemon=True).start()

    def _read(self, source: socket.socket, waiting: "queue.Queue[tuple[float, bytes]]", answers: bool) -> None:
        rest = b""
        while True:
            try:
                data = source.recv(_CHUNK)
            except OSError:
                data = b""
            if answers and data:
                data, rest = _whole_frames(rest + data)
                if not data:
                    continue
                data = redirect(data, self._network.ports)
            try:
                waiting.put((time.monotonic() + self._network.delay_s, data), timeout=600)
            except queue.Full:
                return
            if not data:
                return

    def _write(self, sink: socket.socket, waiting: "queue.Queue[tuple[float, bytes]]", ended: threading.Event) -> None:
        while True:
            due, data = waiting.get()
            self._network.flows.wait()
            time.sleep(max(due - time.monotonic(), 0))
            try:
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    break
                sink.sendall(data)
            except OSError:
                break
        ended.set()
        if all(end.is_set() for end in self._ended):
            self.reset()


def redirect(answer: bytes, ports: Mapping[int, int]) -> bytes:
    """Put the proxy's ports in the place of the brokers' wherever an answer names an address.

    Kafka writes an address as host and 4-byte port; that pair is looked for, so no version of any request matters.
    """

    def replace(found: re.Match[bytes]) -> bytes:
        (port,) = struct.unpack(">i", found[1])
        return HOST.encode() + struct.pack(">i", ports.get(port, port))

    return _ADVERTISED.sub(replace, answer)


def _whole_frames(data: bytes) -> tuple[bytes, bytes]:
    """Split into complete answers (4 bytes of length, then so many bytes) and the beginning of the next."""
    end = 0
    while len(data) - end >= 4:
        (size,) = struct.unpack_from(">i", data, end)
        if len(data) - end - 4 < size:
            break
        end += 4 + size
    return data[:end], data[end:]


def _close_with_reset(end: socket.socket) -> None:
    try:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        end.shutdown(socket.SHUT_RD)  # wakes a reader that waits in recv
    except OSError:
        pass
    end.close()
