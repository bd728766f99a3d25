"""Signals from a file of JSON lines that others append to.

The file is only read. Where it has been read to is kept in the engine's state, so no line is lost that was written
while others were read, and none is read twice. A line counts once its end is there: half of one waits for the rest.

A file may be rotated: renamed and begun anew, removed, replaced, or truncated in place. The open file is read to its
end before its successor is begun, and after a restart the one that was being read is looked for beside its old place,
by its inode and its first bytes. A rewrite in place is noticed by these bytes or by its length. Two things are not
seen: what is written into a file after its successor has been begun, and a file that comes and goes between two looks.

Deliveries are named ``<file>/<generation>/<byte>``: the generation grows with every new file, so names never come back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from signals.channels.channel import (
    ChannelContext,
    PositionStore,
    Received,
    SignalsLost,
    position_path,
    received_text,
)
from signals.channels.deliveries import Deliveries
from signals.channels.file_position import FilePosition, FileState
from signals.errors import MalformedSignal

NAME = "file"
OPTION = "signal.file"
DEFAULT_FILE = "file-signals.txt"
MAX_LINE = 1 << 20
MAX_OPEN = 10_000


def file_channel(context: ChannelContext) -> FileChannel:
    """The channel of the file that ``signal.file`` names."""
    return FileChannel(Path(context.options.get(OPTION, DEFAULT_FILE)), context.store)


class FileChannel:
    """One file, and what follows it under its name."""

    name = NAME

    def __init__(self, path: Path, store: PositionStore) -> None:
        self._path = path
        self._store = store
        self._file: BinaryIO | None = None
        self._read = FilePosition()  # where the next line begins; what is acknowledged lies before
        self._begun: list[FilePosition] = []  # beginnings of files, for a restart
        self._later: deque[FilePosition] = deque()  # after a restart: those that follow the one that is read
        self._unsaved = False
        self._deliveries: Deliveries[FilePosition] | None = None
        self._trouble: str | None = None

    def poll(self) -> list[Received]:
        """Whole lines that have not been acknowledged, in order."""
        deliveries = self._resumed()
        try:
            while len(deliveries) < MAX_OPEN and self._advance(deliveries):
                pass
            self._trouble = None
        except OSError as error:
            reason = error.strerror or str(error)
            self._trouble = f"the signal file {self._path} ({OPTION}) cannot be read: {reason}"
            self._let_go()
        self._save(deliveries.position)
        return deliveries.open()

    def ack(self, *names: str) -> None:
        """Forget these lines, and save how far all are forgotten."""
        deliveries = self._resumed()
        self._unsaved |= deliveries.ack(names)
        self._save(deliveries.position)

    def health(self) -> str | None:
        """Why the file cannot be read; a file that is not there yet is well."""
        return self._trouble

    def close(self) -> None:
        """Let go of the file."""
        self._let_go()

    def _resumed(self) -> Deliveries[FilePosition]:
        if self._deliveries is None:
            text = self._store.read_text(position_path(NAME))
            state = FileState() if text is None else FileState.from_json(text)
            self._read, self._begun = state.position, list(state.later)
            self._later = deque(state.later)
            self._deliveries = Deliveries(self._read)
        return self._deliveries

    def _save(self, position: FilePosition) -> None:
        if self._unsaved:
            self._begun = [place for place in self._begun if place.generation > position.generation]
            self._store.write_text(position_path(NAME), FileState(position, tuple(self._begun)).to_json())
            self._unsaved = False

    def _advance(self, deliveries: Deliveries[FilePosition]) -> bool:
        """Take a piece of the open file, or of the next; says whether there may be more."""
        file = self._file or self._open(deliveries)
        if file is None:
            return False
        self._file = file
        # Asked before the file is read: what was written until it was replaced is still seen.
        replaced = _inode(self._path) != self._read.inode
        if not self._read.is_in(file):  # rewritten in place
            self._report_loss(deliveries)
            self._begin(file, deliveries)
        self._read = self._read.seen(file)
        if self._take(file, deliveries, last=replaced):
            return True
        if replaced:
            self._let_go()
            self._turn_to_next()
        return replaced

    def _open(self, deliveries: Deliveries[FilePosition]) -> BinaryIO | None:
        """The file that was being read, wherever it is called now; else the one in its place, from its beginning."""
        while self._read.inode:
            if file := self._former():
                return file
            if not self._path.exists():
                return None  # perhaps all of the folder is away, and comes back
            self._report_loss(deliveries)
            self._turn_to_next()
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return None
        self._begin(file, deliveries)
        return file

    def _begin(self, file: BinaryIO, deliveries: Deliveries[FilePosition]) -> None:
        """Read this file from its beginning, and remember that it was begun: it may be renamed before a restart."""
        number = max([self._read.generation, *(place.generation for place in self._begun)]) + 1
        self._read = FilePosition.beginning(file, number)
        deliveries.pass_over(self._read)
        self._begun.append(self._read)
        self._unsaved = True

    def _turn_to_next(self) -> None:
        self._read = self._later.popleft() if self._later else self._read.finished()

    def _former(self) -> BinaryIO | None:
        pattern = "".join(f"[{c}]" if c in "*?[" else c for c in self._path.name)
        for path in sorted(self._path.parent.glob(f"{pattern}*")):
            if _inode(path) == self._read.inode:
                file = path.open("rb")
                if self._read.is_in(file):
                    return file
                file.close()
        return None

    def _report_loss(self, deliveries: Deliveries[FilePosition]) -> None:
        place = self._read
        if not place.unread:
            return
        name = self._delivery(place)
        error = SignalsLost(
            f"{self._path} was replaced before its bytes {place.offset} to {place.size} were read, and the old file is "
            "not beside it. If signals were in there, send them again; rotate the file by renaming it."
        )
        self._read = place.behind(b"", place.size - place.offset)
        deliveries.show(Received(NAME, name, name, None, error), self._read)

    def _take(self, file: BinaryIO, deliveries: Deliveries[FilePosition], *, last: bool) -> bool:
        """Show the lines of a piece of the file; ``last``: nobody will finish its last line."""
        start = self._read.offset
        for line, length in _lines(file, start, last=last):
            place, self._read = self._read, self._read.behind(line, length)
            if line.strip():
                deliveries.show(self._received(place, line, length), self._read)
            else:
                deliveries.pass_over(self._read)
        return self._read.offset > start

    def _received(self, place: FilePosition, line: bytes, length: int) -> Received:
        name, what = self._delivery(place), f"the line at byte {place.offset} of {self._path}"
        if length <= MAX_LINE:
            return received_text(NAME, name, line, what)
        error = MalformedSignal(f"{what} has {length:,} bytes; a signal may have {MAX_LINE:,}")
        return Received(NAME, name, name, None, error)

    def _delivery(self, place: FilePosition) -> str:
        return f"{self._path.name}/{place.generation}/{place.offset}"

    def _let_go(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _lines(file: BinaryIO, offset: int, *, last: bool) -> Iterator[tuple[bytes, int]]:
    """The whole lines of a piece of the file, each with its length; of a very long one only the beginning."""
    file.seek(offset)
    piece = file.read(MAX_LINE + 1)
    *whole, rest = piece.split(b"\n")
    for line in whole:
        yield line + b"\n", len(line) + 1
    if whole and len(piece) > MAX_LINE:
        return  # the rest goes on in the next piece
    length = len(rest)
    ended = False
    while not ended and (more := file.readline(MAX_LINE)):
        length += len(more)
        ended = more.endswith(b"\n")
    if ended or (last and rest):
        yield rest, length


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0
