"""The HTTP endpoint: a thread that answers from the meter's plain numbers and never touches the worker."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from streamlet.config import Address
from streamlet.errors import ConfigError
from streamlet.metrics.meter import Meter
from streamlet.metrics.pages import answer


class AddressTaken(ConfigError):
    """The endpoint cannot listen where it was told to."""

    def __init__(self, address: Address, why: str) -> None:
        super().__init__(address, why)
        self.address, self.why = address, why

    def __str__(self) -> str:
        return (
            f"The HTTP endpoint cannot listen on {self.address}: {self.why}. Choose another with --http HOST:PORT; port 0 takes a free one."
        )


@contextmanager
def serving(address: Address, meter: Meter) -> Generator[Address]:
    """Answer requests inside the block; gives the address with the port that was really taken."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # seconds for a client to finish its request

        def do_GET(self) -> None:
            given = answer(self.path.partition("?")[0], meter)
            self.send_response(given.status)
            self.send_header("Content-Type", given.content_type)
            self.send_header("Content-Length", str(len(given.body)))
            self.end_headers()
            self.wfile.write(given.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
            """Scrapes are no news."""

    try:
        server = ThreadingHTTPServer((address.host, address.port), Handler)
    except OSError as error:
        raise AddressTaken(address, error.strerror or str(error)) from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, name="streamlet-http", daemon=True)
    thread.start()
    try:
        yield Address(address.host, server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join(2.0)
