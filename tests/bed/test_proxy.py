import contextlib
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from tests.bed.proxy import Proxy, redirect
from tests.bed.waiting import eventually


class Echo(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        with contextlib.suppress(OSError):
            while size := self.rfile.read(4):
                self.wfile.write(size + self.rfile.read(struct.unpack(">i", size)[0]))


@pytest.fixture
def echo() -> Iterator[str]:
    """A server that answers every length-prefixed frame with itself."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture
def proxy(echo: str) -> Iterator[Proxy]:
    with Proxy([echo]) as started:
        yield started


class Client:
    """Sends frames and reads the answers, with a deadline on every step."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=5)

    def send(self, payload: bytes) -> None:
        self._socket.sendall(struct.pack(">i", len(payload)) + payload)

    def receive(self, within_s: float = 5) -> bytes:
        self._socket.settimeout(within_s)
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionResetError
            data += more
        return data

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def client(proxy: Proxy) -> Iterator[Client]:
    with contextlib.closing(Client(proxy.bootstrap)) as connected:
        yield connected


def test_what_is_sent_arrives_in_order_and_complete(client):
    payloads = [bytes([n]) * size for n, size in enumerate((1, 70_000, 3, 1_000_000))]

    for payload in payloads:
        client.send(payload)

    assert [client.receive() for _ in payloads] == payloads


def test_a_delay_holds_both_directions_and_ends_when_healed(proxy, client):
    proxy.delay(0.1)
    started = time.monotonic()
    client.send(b"slow")
    client.receive()
    slow_s = time.monotonic() - started
    proxy.heal()
    started = time.monotonic()
    client.send(b"fast")
    client.receive()

    assert slow_s >= 0.2
    assert time.monotonic() - started < slow_s


def test_a_delay_does_not_slow_down_what_follows(proxy, client):
    proxy.delay(0.1)
    started = time.monotonic()

    for n in range(20):
        client.send(bytes([n]))
    assert [client.receive() for _ in range(20)] == [bytes([n]) for n in range(20)]

    assert time.monotonic() - started < 2, "twenty frames in a row must not wait twenty times"


def test_dropped_bytes_arrive_only_after_the_network_healed(proxy, client):
    proxy.drop()
    client.send(b"lost?")
    with pytest.raises(TimeoutError):
        client.receive(within_s=0.2)

    proxy.heal()

    assert client.receive() == b"lost?"


def test_reset_breaks_open_connections_but_new_ones_work(proxy, client, echo):
    client.send(b"one")
    client.receive()

    proxy.reset()

    with pytest.raises(ConnectionResetError):
        client.receive()
    again = Client(proxy.bootstrap)
    again.send(b"two")
    assert again.receive() == b"two"
    again.close()


def test_cut_refuses_new_connections_until_healed(proxy, client):
    address = proxy.bootstrap
    proxy.cut()

    with pytest.raises(ConnectionResetError):
        client.receive()
    with pytest.raises(ConnectionRefusedError):
        Client(address)
    proxy.heal()
    again = Client(address)
    again.send(b"back")
    assert again.receive() == b"back"
    again.close()


def test_closed_connections_are_forgotten(proxy, client):
    client.send(b"one")
    client.receive()
    assert proxy.connections == 1

    client.close()

    eventually(lambda: proxy.connections == 0, within_s=5)


def test_advertised_ports_become_the_proxys_and_other_bytes_stay():
    answer = b"\x00\x09127.0.0.1\x00\x00\x23\x84 and \x0a127.0.0.1\x00\x00\x00\x07 127.0.0.1"

    assert redirect(answer, {9092: 41000}) == b"\x00\x09127.0.0.1\x00\x00\xa0\x28 and \x0a127.0.0.1\x00\x00\x00\x07 127.0.0.1"


@pytest.mark.broker
def test_a_kafka_client_stays_behind_its_proxy_and_feels_the_cut(kafka, unique):
    from confluent_kafka import Consumer, Producer

    kafka.create_topic(unique)
    delivered: list[object] = []
    with Proxy(kafka.addresses.values()) as proxy:
        producer = Producer({"bootstrap.servers": proxy.bootstrap, "reconnect.backoff.max.ms": 200, "log_level": 0})
        listed = {broker.port for broker in producer.list_topics(timeout=10).brokers.values()}
        assert {f"127.0.0.1:{port}" for port in listed} == set(proxy.bootstrap.split(","))

        proxy.cut()
        producer.produce(unique, b"held back", on_delivery=lambda error, _: delivered.append(error))
        assert producer.flush(0.5) == 1
        proxy.heal()
        assert producer.flush(20) == 0

        consumer = Consumer({"bootstrap.servers": proxy.bootstrap, "group.id": unique, "auto.offset.reset": "earliest"})
        consumer.subscribe([unique])
        messages = consumer.consume(1, timeout=20)
        consumer.close()

    assert delivered == [None]
    assert [message.value() for message in messages] == [b"held back"]


@pytest.mark.cluster
def test_a_proxy_stands_for_every_broker_of_a_cluster(cluster):
    from confluent_kafka.admin import AdminClient

    with Proxy(cluster.addresses.values()) as proxy:
        admin = AdminClient({"bootstrap.servers": proxy.bootstrap})
        listed = {f"127.0.0.1:{broker.port}" for broker in admin.list_topics(timeout=10).brokers.values()}

        assert listed == set(proxy.bootstrap.split(","))
