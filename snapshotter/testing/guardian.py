"""A process that stands between a test run and one server it started, and outlives neither.

Run as a script by `snapshotter.testing.processes` (standard library only, so that it starts in a few
milliseconds):

    python guardian.py OWNER_PID FOLDER OUTPUT -- COMMAND...

Why a process of its own: a test run that is killed with SIGKILL cannot clean up, and PR_SET_PDEATHSIG set
straight on the server is bound to the *thread* that started it, so a server started from a short-lived
thread would die early.

Invariants:
- the server never outlives its owner: the owner's end is seen by end of file on our stdin, and by a changed
  parent (a forked child of the owner may hold the pipe open);
- the server never outlives the guardian: on Linux the kernel kills it (PR_SET_PDEATHSIG, set from our only
  thread);
- when the owner died without stopping us, FOLDER is removed, and its parent once it is empty.

The owner writes one signal number a line to our stdin; it goes to the server's whole process group, which
includes what the server itself has started (a Spark worker's executors). Our exit code is the server's.
"""

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
OWNER_CHECK_SECONDS = 0.5


def die_with_parent() -> None:
    """Ask Linux to kill this process when its parent ends; other systems rely on the guardian alone."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))


def signal_group(child: "subprocess.Popen[bytes]", number: int) -> None:
    """Send a signal to the server and to all it has started; a group that is gone is fine."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


def watch(child: "subprocess.Popen[bytes]", owner: int, wakeup: int) -> bool:
    """Pass signals on until the server (`child`) ends (false), or the process with the id `owner` does (true).
    `wakeup` is a descriptor that can be read when a signal has come: SIGCHLD ends the wait at once."""
    pending = b""
    while child.poll() is None:
        readable, _, _ = select.select([0, wakeup], [], [], OWNER_CHECK_SECONDS)
        if wakeup in readable:
            os.read(wakeup, 4096)
        if 0 in readable:
            received = os.read(0, 4096)
            if not received:  # end of file: the owner has gone
                return True
            *lines, pending = (pending + received).split(b"\n")
            for line in lines:
                signal_group(child, int(line))
        if os.getppid() != owner:
            return True
    return False


def main(arguments: list[str]) -> int:
    """Start the server, report its process id on stdout, and watch over it until it ends."""
    owner, folder, output = int(arguments[0]), Path(arguments[1]), Path(arguments[2])
    command = arguments[arguments.index("--") + 1 :]
    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    signal.set_wakeup_fd(wakeup_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with output.open("ab") as log:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 -- safe here: this process has one thread
        )
    with contextlib.suppress(BrokenPipeError):  # the owner is gone already: watch() sees it
        os.write(1, b"%d\n" % child.pid)
    orphaned = watch(child, owner, wakeup_read)
    signal_group(child, signal.SIGKILL)
    child.wait()
    if orphaned:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # other servers of the owner still have folders in there
            lock = folder.parent / "owner.lock"
            if list(folder.parent.iterdir()) == [lock]:
                lock.unlink()
                folder.parent.rmdir()
    return child.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
