"""One `mongod` process: its command line, its port, and when it is up.

It is up when its own log says that it waits for connections. A ping would not do: in a race for a port it
may be answered by someone else's server.
"""

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snapshotter.testing.processes import GuardedProcess, ServerStartError, free_port, wait_until

_UP = '"id":23016'  # "Waiting for connections"
_ADDRESS_IN_USE = 48
_ATTEMPTS = 5


@dataclass(frozen=True)
class NodeOptions:
    """What all nodes of a deployment have in common; `replica_set` None is a standalone server."""

    binary: Path
    replica_set: str | None
    oplog_size_mb: int | None = None
    cache_gb: float = 0.5
    extra_args: tuple[str, ...] = ()
    set_parameters: Mapping[str, Any] = field(default_factory=dict)
    key_file: Path | None = None

    def command(self, port: int, data: Path) -> list[str]:
        """The command line of one node."""
        command = [str(self.binary), "--dbpath", str(data), "--port", str(port), "--bind_ip", "127.0.0.1"]
        command += ["--quiet", "--nounixsocket", "--wiredTigerCacheSizeGB", str(self.cache_gb)]
        if self.replica_set:
            command += ["--replSet", self.replica_set]
        if self.oplog_size_mb:
            command += ["--oplogSize", str(self.oplog_size_mb)]
        if self.key_file:
            command += ["--keyFile", str(self.key_file)]
        # The full-time diagnostic recorder costs a steady share of a small machine, and nobody reads it here.
        parameters = {"diagnosticDataCollectionEnabled": "false", **self.set_parameters}
        for name, value in parameters.items():
            command += ["--setParameter", f"{name}={_text(value)}"]
        return [*command, *self.extra_args]


class MongoNode:
    """A node that can be started, killed, and started again on the same port and data."""

    def __init__(self, folder: Path, options: NodeOptions) -> None:
        self.folder = folder
        self.port = 0
        self._options = options
        self._process: GuardedProcess | None = None
        self._starts = 0
        (folder / "data").mkdir(parents=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.alive

    @property
    def pid(self) -> int:
        """The server's process id."""
        if self._process is None:
            raise ServerStartError(f"the node in {self.folder} has not been started")
        return self._process.pid

    @property
    def log(self) -> Path:
        """What the server printed since its last start."""
        return self.folder / f"mongod.{self._starts}.log"

    def start(self) -> None:
        """Start it and wait until it listens; if its first port was taken meanwhile, another is chosen."""
        attempts = _ATTEMPTS if self._starts == 0 else 1
        while True:
            if attempts > 1:
                self.port = free_port()
            self._starts += 1
            attempts -= 1
            command = self._options.command(self.port, self.folder / "data")
            name = f"mongod {self.address}"
            process = GuardedProcess(command, folder=self.folder, output=self.log, name=name)
            self._process = process
            if wait_until(self._up_or_dead, f"{name} to listen") == "up":
                return
            if process.exit_code != _ADDRESS_IN_USE or attempts == 0:
                raise ServerStartError(f"{name} ended with code {process.exit_code}:\n{process.tail()}")

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone; also when it is frozen, or gone already."""
        if self._process is not None:
            self._process.kill()

    def stop(self) -> None:
        """SIGTERM: it steps down, flushes, and ends."""
        if self._process is not None:
            self._process.stop()

    def _up_or_dead(self) -> str | None:
        assert self._process is not None
        if not self._process.alive:
            return "dead"
        return "up" if self.log.exists() and _UP in self.log.read_text(errors="replace") else None


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
