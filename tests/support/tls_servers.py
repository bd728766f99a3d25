"""What speaks TLS with a certificate that no real server would start with: it shakes hands, and says no more."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from snapshotter.testing.certificates import Issued


@contextmanager
def handshakes(certificate: Issued) -> Iterator[str]:
    """The address of such a server. Whoever refuses its certificate never gets any further with a real one either."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.path)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:  # the test is over
                    return
                with suppress(OSError), connection:
                    context.wrap_socket(connection, server_side=True).close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
    thread.join(10)
