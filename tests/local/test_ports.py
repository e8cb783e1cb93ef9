import os
import socket
from collections.abc import Iterator

import pytest

from streamlet.local.ports import PortTaken, free_ports, holder_of, is_free, require_free


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_free_ports_are_different_and_free() -> None:
    ports = free_ports(9)

    assert len(set(ports)) == 9
    assert all(is_free(port) for port in ports)


def test_a_taken_port_is_refused_with_its_holder_and_another_port(taken: int) -> None:
    with pytest.raises(PortTaken) as caught:
        require_free(taken, 1)

    assert caught.value.port == taken
    assert caught.value.holder is not None
    assert str(os.getpid()) in caught.value.holder
    assert is_free(caught.value.suggestion)
    assert f"--port {caught.value.suggestion}" in str(caught.value)


def test_a_port_is_taken_also_by_a_listener_on_every_address() -> None:
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))
        listener.listen()

        assert not is_free(listener.getsockname()[1])


def test_nobody_holds_a_free_port() -> None:
    assert holder_of(free_ports(1)[0]) is None
