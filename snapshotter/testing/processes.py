"""Servers that tests and the demo start: started under a guardian, in a folder that someone always removes.

Three layers of cleaning up, because any of them can be killed:
1. `stop()`, called by a `with` block or a fixture;
2. the guardian (`guardian.py`), which ends the server and removes its folder when its owner dies, by
   SIGKILL too;
3. `temporary_folder()`, which first removes the folders of owners that are dead. An owner holds a file lock
   in its folder for as long as it lives, so "dead" is a fact the kernel tells us, not a guess from process
   ids.
"""

import contextlib
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TypeVar

T = TypeVar("T")

PREFIX = "snapshotter-test-"
# Below the ports that Linux gives to outgoing connections, so that a stopped server's port stays free.
PORTS = range(20_000, 32_000)
_locks: dict[Path, IO[bytes]] = {}


class ServerStartError(RuntimeError):
    """A server that a test asked for did not come up; the message carries the end of its output."""


def wait_until(
    condition: Callable[[], T | None], what: str, *, seconds: float = 180, every: float = 0.05
) -> T:
    """Return the first true value of `condition`, which is asked once in `every` seconds; raise TimeoutError that names
    `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}, and it did not happen")
        time.sleep(every)


@contextlib.contextmanager
def meanwhile(act: Callable[[], object], *, every: float = 0.02) -> Iterator[None]:
    """Do it once in `every` seconds, on a thread, until the block ends."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(every):
            act()

    thread = threading.Thread(target=work, name="meanwhile", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def free_port() -> int:
    """A port of 127.0.0.1 that is free now; another process may still take it, so callers retry."""
    for _ in range(200):
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
    raise ServerStartError(f"no free port of 127.0.0.1 found between {PORTS.start} and {PORTS.stop}")


@contextlib.contextmanager
def _folders_locked() -> Iterator[None]:
    """One process at a time makes or sweeps folders: none is seen before its lock is held."""
    path = Path(tempfile.gettempdir()) / f"{PREFIX}{os.getuid()}.lock"
    with path.open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_dead(folder: Path) -> bool:
    try:
        with (folder / "owner.lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except BlockingIOError:
        return False


def remove_stale_folders() -> list[Path]:
    """Remove the folders whose owner no longer lives; returns what was removed."""
    with _folders_locked():
        removed = []
        for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/"):
            with contextlib.suppress(OSError):  # another user's, or its guardian is removing it right now
                if folder.stat().st_uid == os.getuid() and folder not in _locks and _is_dead(folder):
                    shutil.rmtree(folder, ignore_errors=True)
                    removed.append(folder)
        return removed


def temporary_folder(kind: str) -> Path:
    """A new folder owned by this process, after sweeping away those of dead ones."""
    remove_stale_folders()
    with _folders_locked():
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-"))
        lock = (folder / "owner.lock").open("ab")
        fcntl.flock(lock, fcntl.LOCK_EX)
        _locks[folder] = lock
    return folder


def remove_folder(folder: Path) -> None:
    """Remove a folder made by `temporary_folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    lock = _locks.pop(folder, None)
    if lock is not None:
        lock.close()


class GuardedProcess:
    """One server process under its guardian. It runs `command`; that it is up is for the caller to find out.

    `folder` is the server's own and is removed if this process dies; `output` collects what the server
    prints. `env` is its whole environment, None for this process's. `name` is for messages. Raises
    ServerStartError where the command cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        folder: Path,
        output: Path,
        env: Mapping[str, str] | None = None,
        name: str = "server",
    ) -> None:
        guardian = Path(__file__).with_name("guardian.py")
        self.name = name
        self.output = output
        self._guardian = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                str(guardian),
                str(os.getpid()),
                str(folder),
                str(output),
                "--",
                *command,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=None if env is None else dict(env),
            start_new_session=True,  # a Ctrl-C at the terminal is ours to handle, not the server's
        )
        assert self._guardian.stdout is not None
        reported = self._guardian.stdout.readline()
        if not reported.strip().isdigit():
            self._close()
            raise ServerStartError(f"{name} could not be started: {' '.join(command)}\n{self.tail()}")
        self.pid = int(reported)

    @property
    def alive(self) -> bool:
        return self._guardian.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The server's exit code (modulo 256 when a signal ended it), None while it runs."""
        return self._guardian.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the server and to what it has started; nothing happens when it has ended."""
        assert self._guardian.stdin is not None
        if self.alive:
            with contextlib.suppress(BrokenPipeError):
                self._guardian.stdin.write(b"%d\n" % number)
                self._guardian.stdin.flush()

    def kill(self) -> None:
        """End it as a crash would (SIGKILL), and wait until it is gone."""
        self.signal(signal.SIGKILL)
        self._wait(30)

    def stop(self, seconds: float = 20) -> None:
        """End it in good order (SIGTERM); after `seconds`, SIGKILL."""
        self.signal(signal.SIGCONT)  # a frozen server would never see the next one
        self.signal(signal.SIGTERM)
        try:
            self._wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def tail(self, lines: int = 20) -> str:
        """The last lines that the server printed."""
        if not self.output.exists():
            return "(it printed nothing)"
        return "\n".join(self.output.read_text(errors="replace").splitlines()[-lines:])

    def _wait(self, seconds: float) -> None:
        self._guardian.wait(seconds)
        self._close()

    def _close(self) -> None:
        for pipe in (self._guardian.stdin, self._guardian.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self._guardian.wait(30)
