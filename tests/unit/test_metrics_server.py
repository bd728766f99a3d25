"""A server's places: whoever says nothing takes none from others. Over real connections."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPConnection

import pytest

from snapshotter.configuration.metrics_config import MetricsConfig
from snapshotter.metrics import server
from snapshotter.metrics.server import CONNECTIONS_MAX
from snapshotter.testing.processes import meanwhile, wait_until
from tests.support.pages import Stage, backfill, moment, staged

SECONDS = 20
HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: here\r\n"


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Both ports, which are not the same."""
    with staged(Stage(metrics=MetricsConfig("127.0.0.1", 0))) as found:
        backfill(found, moment())
        yield found


@pytest.fixture
def open_one() -> Iterator[Callable[[int | None], socket.socket]]:
    """Opens a connection to a port of this machine, for the length of a test."""
    with ExitStack() as stack:

        def connected(port: int | None) -> socket.socket:
            assert port is not None
            return stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=SECONDS))

        yield connected


def healthz(port: int | None) -> int:
    assert port is not None
    connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    connection.request("GET", "/healthz")
    try:
        return connection.getresponse().status
    finally:
        connection.close()


def ended(connection: socket.socket) -> bool:
    """Wait for the end, whatever is said before; False where that does not come."""
    try:
        while connection.recv(65_536):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


def test_each_port_has_its_own_places(
    stage: Stage, open_one: Callable[[int | None], socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages that are open take all of one, and the other's probes answer."""
    monkeypatch.setattr("snapshotter.page.site.STREAMS_MAX", 1_000)
    for _ in range(CONNECTIONS_MAX - 1):
        page = open_one(stage.port)
        page.sendall(f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{stage.port}\r\n\r\n".encode())
        assert page.recv(100)
    assert healthz(stage.port) == 503, "all of them are busy"
    assert healthz(stage.endpoint.port) == 200


@pytest.mark.parametrize("port", ["port", "page_port"])
def test_whoever_is_silent_gives_way(
    stage: Stage, open_one: Callable[[int | None], socket.socket], port: str
) -> None:
    """At once, and before a scraper that rests between two requests."""
    here = getattr(stage.endpoint, port)
    scraper = HTTPConnection("127.0.0.1", here, timeout=SECONDS)
    scraper.request("GET", "/healthz")
    assert scraper.getresponse().read() == b"running\n"
    silent = [open_one(here) for _ in range(CONNECTIONS_MAX + 20)]
    assert healthz(here) == 200
    assert ended(silent[0])
    assert scraper.sock is not None, "its connection has lasted"
    scraper.request("GET", "/healthz")
    assert scraper.getresponse().status == 200
    scraper.close()


def test_a_request_has_to_come(
    stage: Stage, open_one: Callable[[int | None], socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In time: nothing at all, half of it, a byte now and then, a body that nobody waits for. Who has been answered may
    rest for longer."""
    monkeypatch.setattr(server, "PATIENCE_SECONDS", 0.5)
    rests, silent, half, slow, late = (open_one(stage.endpoint.port) for _ in range(5))
    rests.sendall(HEALTHZ + b"\r\n")
    half.sendall(HEALTHZ)
    slow.sendall(HEALTHZ)
    late.sendall(HEALTHZ + b"Content-Length: 1000\r\n\r\n")

    def trickle() -> None:
        for one in (slow, late):
            with suppress(OSError):
                one.sendall(b"x")

    with meanwhile(trickle, every=0.1):
        assert all(ended(one) for one in (silent, half, slow, late))
    rests.sendall(HEALTHZ + b"\r\n")
    heard = b""
    while heard.count(b"200 OK") < 2:
        part = rests.recv(65_536)
        assert part, "its connection has lasted"
        heard += part


def test_an_answer_has_to_be_taken(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who does not read is cut off: what waits for him does not keep a place."""
    monkeypatch.setattr(server, "PATIENCE_SECONDS", 0.5)
    assert stage.status is not None
    stage.status = stage.status.model_copy(update={"warnings": ("x" * 20_000_000,)})
    with socket.socket() as reader:
        reader.settimeout(SECONDS)
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        reader.connect(("127.0.0.1", stage.port))
        reader.sendall(f"GET /api/status HTTP/1.1\r\nHost: 127.0.0.1:{stage.port}\r\n\r\n".encode())
        places = stage.endpoint._servers[-1]._server.server_state.connections
        wait_until(lambda: not places, "its place to be free")
