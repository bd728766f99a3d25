"""An object store for tests: moto as an S3 server, the jars by which Hadoop reaches it, and a proxy between the two
that has the store refuse requests, and loses its answers.

The jars are Hadoop's own `hadoop-aws` and those parts of Amazon's SDK that it uses (15 MB; the bundle of all of it,
which it names, is 670 MB).
"""

from __future__ import annotations

import http.client
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from email.message import Message
from email.utils import format_datetime, parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from snapshotter.spark_jars import ivy_folder
from snapshotter.testing.kafka_jars import gather
from snapshotter.testing.processes import GuardedProcess, free_port, wait_until

SDK, ACCELERATOR = "2.35.4", "1.3.1"
"""As Hadoop 3.5.0 names them."""
_IMPATIENT = {
    "attempts.maximum": "1",
    "retry.limit": "1",
    "retry.interval": "10ms",
    "retry.throttle.limit": "1",
    "retry.throttle.interval": "10ms",
}
KEYS = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "not-a-secret", "AWS_REGION": "us-east-1"}
_AMAZON = "software.amazon.awssdk"
_PARTS = ("s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
_SLOW_DOWN = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code>'
    b"<Message>Please reduce your request rate.</Message><RequestId>test</RequestId></Error>"
)
_DENIED = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>AccessDenied</Code>'
    b"<Message>Access Denied</Message><RequestId>test</RequestId></Error>"
)
# Of a request that reads an object moto only asks whether it is signed, not by whom.
_SIGNED = {"Authorization": "AWS4-HMAC-SHA256 Credential=tester/20260101/us-east-1/s3/aws4_request"}
Answer = tuple[int, list[tuple[str, str]], bytes]
_HOP = {"connection", "keep-alive", "transfer-encoding", "expect"}


def s3_jars() -> Path:
    """The folder of the jars."""
    version = _hadoop_version()
    folder = ivy_folder({}) / f"hadoop-aws-{version}"
    if not folder.is_dir():
        gather(folder, _module(version), f"hadoop-aws-{version}.jar")
    return folder


def _hadoop_version() -> str:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    (jar,) = (Path(spec.origin).parent / "jars").glob("hadoop-client-api-*.jar")
    found = re.fullmatch(r"hadoop-client-api-([\d.]+)\.jar", jar.name)
    assert found is not None, jar
    return found[1]


def _module(hadoop: str) -> str:
    alone = 'conf="default" transitive="false"'
    accelerator = "software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", ACCELERATOR, alone
    wanted = [("org.apache.hadoop", "hadoop-aws", hadoop, alone), accelerator]
    wanted += [(_AMAZON, part, SDK, 'conf="default"') for part in _PARTS]
    lines = [f'<dependency org="{org}" name="{name}" rev="{rev}" {how}/>' for org, name, rev, how in wanted]
    body = "".join(lines)  # Spark brings Netty, and a binding of slf4j
    return (
        '<ivy-module version="2.0"><info organisation="snapshotter" module="s3-for-tests"/>'
        f'<dependencies>{body}<exclude org="io.netty"/><exclude org="org.slf4j"/></dependencies></ivy-module>'
    )


class Refusing:
    """A proxy that hands requests on to a ``store``. It refuses as many as it is told to, as S3 does where there are
    too many (503, SlowDown), and what a client would write that is ``forbidden`` to (403; by its User-Agent). Others it
    carries out and gives no answer, as where a network fails at that moment. Objects may seem older than they are."""

    def __init__(self, store: int) -> None:
        self._store = store
        self._left, self._refusing = 0.0, ""
        self._lost: str | None = None
        self._lock = threading.Lock()
        self.refused = 0
        self.lost: list[str] = []
        self.forbidden: str | None = None
        self._aged: tuple[str, timedelta] | None = None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def refuse(self, requests: float, of: str = "") -> None:
        """The next so many; ``inf``: all, until told otherwise. ``of``: only those whose command and path match
        this pattern."""
        with self._lock:
            self._left, self._refusing = requests, of

    def lose_answer(self, pattern: str) -> None:
        """That to the next file that is put under a path in which ``pattern`` is found; ``lost`` has it then."""
        with self._lock:
            self._lost = pattern

    def age(self, prefix: str, by: timedelta) -> None:
        """Objects whose keys begin so seem to be so much older."""
        self._aged = prefix, by

    def _older(self, path: str, answer: Answer) -> Answer:
        if self._aged is None or self._aged[0] not in unquote(path):
            return answer
        status, headers, content = answer

        def listed(found: re.Match[bytes]) -> bytes:
            at = datetime.fromisoformat(found[1].decode()) - self._aged[1] if self._aged else None
            return b"<LastModified>" + f"{at:%Y-%m-%dT%H:%M:%S.000Z}".encode() + b"</LastModified>"

        def told(name: str, value: str) -> str:
            if name.lower() != "last-modified" or self._aged is None:
                return value
            return format_datetime(parsedate_to_datetime(value) - self._aged[1], usegmt=True)

        content = re.sub(rb"<LastModified>([^<]*)</LastModified>", listed, content)
        return status, [(name, told(name, value)) for name, value in headers], content

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _refuses(self, command: str, path: str, headers: Message) -> tuple[int, bytes] | None:
        if command == "PUT" and self.forbidden and self.forbidden in headers.get("User-Agent", ""):
            return 403, _DENIED
        with self._lock:
            if self._left <= 0 or not re.search(self._refusing, f"{command} {path}"):
                return None
            self._left -= 1
            self.refused += 1
            return 503, _SLOW_DOWN

    def _loses(self, key: str) -> bool:
        with self._lock:
            if self._lost is None or not re.search(self._lost, key):
                return False
            self._lost = None
            self.lost.append(key)
            return True

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                body = self._body()
                if (refusal := proxy._refuses(self.command, self.path, self.headers)) is not None:
                    self._answer(refusal[0], [("Content-Type", "application/xml")], refusal[1])
                    return
                puts, key = self.command == "PUT", self.path.partition("?")[0]
                given = {k: v for k, v in self.headers.items() if k.lower() not in _HOP | {"content-length"}}
                try:
                    answer = proxy._older(
                        self.path, _asked(proxy._store, self.command, self.path, body, given)
                    )
                except OSError:  # the store has ended
                    self.close_connection = True
                    return
                if puts and proxy._loses(key):
                    self.close_connection = True
                else:
                    self._answer(*answer)

            def _body(self) -> bytes:
                if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
                    pieces = []
                    while size := int(self.rfile.readline().split(b";")[0], 16):
                        pieces.append(self.rfile.read(size))
                        self.rfile.readline()
                    self.rfile.readline()
                    return b"".join(pieces)
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))

            def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
                self.send_response_only(status)
                length = None
                for name, value in headers:
                    if name.lower() == "content-length":
                        length = value
                    elif name.lower() not in _HOP:
                        self.send_header(name, value)
                empty = self.command == "HEAD" or status in (204, 304)
                said = length if empty and length is not None else str(len(content))
                if status not in (204, 304):
                    self.send_header("Content-Length", said)
                self.end_headers()
                if not empty:
                    self.wfile.write(content)

            def __getattr__(self, name: str) -> Any:
                if name.startswith("do_"):  # whatever the method
                    return self._serve
                raise AttributeError(name)

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        return Handler


@contextmanager
def object_store(folder: Path, bucket: str) -> Iterator[tuple[Refusing, int]]:
    """A store with this ``bucket``, behind a proxy; and the store's own port. ``folder``: for what the server says."""
    port, log = free_port(), folder / "moto.log"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = GuardedProcess(command, folder=folder / "moto", output=log, env={**os.environ}, name="moto")
    try:
        wait_until(lambda: _made(server, port, bucket), "the object store")
        proxy = Refusing(port)
        try:
            yield proxy, port
        finally:
            proxy.close()
    finally:
        server.kill()


def _made(server: GuardedProcess, port: int, bucket: str) -> bool:
    assert server.alive, f"moto does not run: pip install -e '.[dev]' brings it\n{server.tail(20)}"
    made = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        made.request("PUT", f"/{bucket}")
        return made.getresponse().status == 200
    except OSError:
        time.sleep(0.05)
        return False
    finally:
        made.close()


def put(port: int, key: str, content: bytes) -> None:
    """Make an object of the store at this port, as somebody else does."""
    status, _, said = _asked(port, "PUT", key, content, _SIGNED)  # what is there is its owner's
    assert status == 200, said


def text_of(port: int, key: str) -> str | None:
    """The text of an object; None where there is none."""
    status, _, content = _asked(port, "GET", key, headers=_SIGNED)
    return content.decode() if status == 200 else None


def keys_under(port: int, bucket: str, prefix: str) -> list[str]:
    """The keys of the first thousand objects that begin so."""
    status, _, content = _asked(port, "GET", f"/{bucket}?list-type=2&prefix={quote(prefix)}")
    assert status == 200, content
    return re.findall(r"<Key>([^<]*)</Key>", content.decode())


def _asked(
    port: int, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> Answer:
    """Status, headers and content of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body, {**(headers or {}), "Content-Length": str(len(body))})
        answer = connection.getresponse()
        return answer.status, answer.getheaders(), answer.read()
    finally:
        connection.close()


def client_options(port: int) -> dict[str, str]:
    """How delta-rs reaches it."""
    return {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ALLOW_HTTP": "true"}


def spark_options(jars: Path, port: int, *, patient: bool = False) -> dict[str, str]:
    """How Spark reaches the store. Unless it is ``patient`` Hadoop's client tries each request twice, not for minutes,
    so that what it gives up at is seen."""
    s3a = {
        "endpoint": f"http://127.0.0.1:{port}",
        "endpoint.region": KEYS["AWS_REGION"],
        "path.style.access": "true",
        "access.key": KEYS["AWS_ACCESS_KEY_ID"],
        "secret.key": KEYS["AWS_SECRET_ACCESS_KEY"],
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        **({} if patient else _IMPATIENT),
    }
    options = {f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a.items()}
    return {**options, "spark.jars": ",".join(sorted(str(jar) for jar in jars.glob("*.jar")))}
