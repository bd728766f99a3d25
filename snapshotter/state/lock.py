"""One engine to a name: a lock with a fencing token, in files beside the checkpoint (fencing:
Kleppmann, How to do distributed locking, 2016).

Each time the lock is taken it gets the next *token*, a number that only grows. A token is a file of that
number, made by `Storage.create_text`, so of several engines that reach for the same number exactly one gets
it::

    lock/orders/0000000007   {"owner": {...}, "since_ms": ..., "renewed_ms": ..., "released": false}

The highest number is the lock. Whoever holds a lower one has lost it, and learns so from `check`, which
looks for higher numbers and nothing else. So no engine ever writes into another one's file, and a holder
that was only slow (a long pause of the JVM, a suspended machine) cannot take the lock back by renewing it
late.

A lock may be taken over when it was released; when it was not renewed for ``ttl_ms``; or when its process is
known to be dead, which only a process of the same *place* can tell (`snapshotter.state.process`).

What the lock cannot do: between `check` and a commit, a pause may outlast ``ttl_ms``. The commit itself is
the second fence: both engines would use one application id in Delta, and the second to commit a batch is
refused or skipped.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

from snapshotter.state.process import Owner, is_known_dead
from snapshotter.state.storage import Storage, StorageError
from streaming.delta.table_paths import encode_name
from streaming.json_text import from_text, to_text

TTL_MS = 60_000
"""A holder renews three times as often as this, at least."""

_TOKENS_KEPT = 3


class LockError(Exception):
    """The lock cannot be had, or is no longer held."""


class LockHeldError(LockError):
    """Another engine holds the lock. ``message`` is for operators; ``owner`` is that engine's address, and ``since_ms``
    when it took the lock, in milliseconds since the epoch by its clock (both None where its file is gone)."""

    def __init__(self, message: str, owner: Owner | None, since_ms: int | None) -> None:
        super().__init__(message)
        self.owner = owner
        self.since_ms = since_ms


class LockLostError(LockError):
    """Another engine took the lock over: this one must stop before its next effect."""


@dataclass(frozen=True, slots=True)
class _Holding:
    """What a token's file says. Times are milliseconds since the epoch, by the holder's clock. ``taking`` tells each
    attempt to take a lock from every other."""

    owner: Owner
    since_ms: int
    renewed_ms: int
    released: bool = False
    taking: str = ""

    def to_text(self) -> str:
        return to_text(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> _Holding:
        value = from_text(text)
        owner = Owner(**value["owner"])
        since_ms, renewed_ms = int(value["since_ms"]), int(value["renewed_ms"])
        return cls(owner, since_ms, renewed_ms, bool(value["released"]), str(value.get("taking", "")))


class EngineLock:
    """The lock of the engine ``name``, as seen by ``owner``. Not for use by several threads at once.

    Its files are in ``storage``. ``clock`` gives milliseconds since the epoch. A holder that has not renewed for
    ``ttl_ms``, by its clock against this one, may be taken over: the two must differ by much less.
    """

    def __init__(
        self, storage: Storage, name: str, owner: Owner, clock: Callable[[], int], ttl_ms: int = TTL_MS
    ) -> None:
        self._storage = storage
        self._name = name
        self._owner = owner
        self._clock = clock
        self._ttl_ms = ttl_ms
        self._folder = f"lock/{encode_name(name)}"
        self._token: int | None = None
        self._since_ms = 0
        self._taking = ""

    @property
    def token(self) -> int | None:
        """The fencing token, or None while the lock is not held."""
        return self._token

    def acquire(self) -> int:
        """Take the lock and return its token, larger than every token before.

        Raises `LockHeldError`, with the holder's address, when a living engine has it, or was quicker just
        now.
        """
        if self._token is not None:
            raise LockError(f"this engine holds the lock of {self._name!r} already, token {self._token}")
        newest = self._newest()
        if newest is not None:
            self._refuse_if_held(newest)
        token = (newest or 0) + 1
        now_ms = self._clock()
        taken = _Holding(self._owner, now_ms, now_ms, taking=uuid.uuid4().hex)
        self._take(token, taken)
        self._token, self._since_ms, self._taking = token, now_ms, taken.taking
        for old in self._tokens():
            if old <= token - _TOKENS_KEPT:
                self._storage.delete(self._file(old))
        return token

    @property
    def abandoned(self) -> bool:
        """Whether whoever has it is dead for certain, and never gave it back."""
        newest = self._newest()
        holding = None if newest is None else self._read(newest)
        return holding is not None and not holding.released and is_known_dead(holding.owner, self._owner)

    def renew(self) -> None:
        """Say that this engine lives. Raises `LockLostError` when another one took over."""
        token = self.check()
        self._storage.write_text(self._file(token), self._holding().to_text())

    def check(self) -> int:
        """The token, if the lock is still held. Raises `LockLostError` when another engine took over."""
        if self._token is None:
            raise LockError(f"the lock of {self._name!r} is not held: acquire it first")
        newest = self._newest()
        if newest != self._token:
            holder = self._read(newest) if newest is not None else None
            by = f"taken over by {holder.owner}, token {newest}" if holder else "deleted"
            raise LockLostError(
                f"the lock of {self._name!r} (token {self._token}) was {by}: this engine was not heard "
                "of for too long, and must stop; start it again when the other one is gone"
            )
        return self._token

    def release(self) -> None:
        """Give the lock back; harmless when it is not held, or was taken over."""
        if self._token is None:
            return
        if self._newest() == self._token:
            self._storage.write_text(
                self._file(self._token), replace(self._holding(), released=True).to_text()
            )
        self._token = None

    def _holding(self) -> _Holding:
        return _Holding(self._owner, self._since_ms, self._clock(), taking=self._taking)

    def _take(self, token: int, taken: _Holding) -> None:
        """Make the token's file. Where a storage's answer is lost, its client fails, or asks again and meets what it
        has written itself: so what is there says whose it is."""
        try:
            if self._storage.create_text(self._file(token), taken.to_text()):
                return
        except StorageError:
            if self._read(token) != taken:
                raise
            return
        holding = self._read(token)
        if holding != taken:
            self._refuse_as_held(token, holding, "it was quicker just now")

    def _refuse_if_held(self, token: int) -> None:
        holding = self._read(token)
        if holding is None or holding.released or is_known_dead(holding.owner, self._owner):
            return
        silent_ms = self._clock() - holding.renewed_ms
        if silent_ms < self._ttl_ms:
            self._refuse_as_held(token, holding, f"last heard of {silent_ms} ms ago")

    def _refuse_as_held(self, token: int, holding: _Holding | None, why: str) -> None:
        owner = holding.owner if holding else None
        raise LockHeldError(
            f"another engine named {self._name!r} is running: {owner or 'no address'}, token {token}, {why}. "
            f"Stop it, or name this one differently; if it is gone, try again in {self._ttl_ms // 1000} s",
            owner,
            holding.since_ms if holding else None,
        )

    def _read(self, token: int) -> _Holding | None:
        """None for a file that is gone: an old token, swept up by whoever took a newer one."""
        text = self._storage.read_text(self._file(token))
        if text is None:
            return None
        try:
            return _Holding.from_text(text)
        except (ValueError, KeyError, TypeError) as error:
            place = f"{self._storage.location}/{self._file(token)}"
            raise LockError(f"{place} is no lock; delete it once no engine runs: {text!r}") from error

    def _newest(self) -> int | None:
        return max(self._tokens(), default=None)

    def _tokens(self) -> list[int]:
        return [int(name) for name in self._storage.list_names(self._folder) if name.isdecimal()]

    def _file(self, token: int) -> str:
        return f"{self._folder}/{token:010d}"


@contextmanager
def renewing(lock: EngineLock, seconds: float) -> Iterator[None]:
    """Renew the lock every so many seconds while the block runs, which must not use it. Raises at the end of the block
    what a renewal raised."""
    over = threading.Event()
    failed: list[Exception] = []

    def work() -> None:
        while not over.wait(seconds):
            try:
                lock.renew()
            except Exception as error:  # noqa: BLE001 - raised where the block ends
                failed.append(error)
                return

    thread = threading.Thread(target=work, name="lock", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if failed:
        raise failed[0]
