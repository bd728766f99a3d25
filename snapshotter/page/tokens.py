"""The page's token: as the options set it, or made up once and kept beside the state, for its owner's eyes alone.

Where the state lies on another machine there are no modes of files to keep it by; each start makes another one then.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from snapshotter.errors import DefiniteError

FILE = "http-token"
_BYTES = 24


@dataclass(frozen=True, slots=True)
class Token:
    """``made_up``: nobody has set it, so somebody has to be told. ``file``: where it is kept; None if it is not."""

    text: str = field(repr=False)
    made_up: bool = False
    file: Path | None = None


def token_of(given: str | None, folder: Path | None) -> Token:
    """The token: the ``given`` one, else that of the ``folder``, else a new one, which is put there. Raises
    DefiniteError where others may read or write the one that is there."""
    if given is not None:
        return Token(given)
    if folder is None:
        return Token(secrets.token_urlsafe(_BYTES), made_up=True)
    path = folder / FILE
    return Token(_kept(path) or _put(path), made_up=True, file=path)


def _kept(path: Path) -> str | None:
    """What is in the file; None where there is none, or nothing in it."""
    try:
        with path.open("rb") as file:
            mode, text = os.fstat(file.fileno()).st_mode, file.read(1_000)
    except FileNotFoundError:
        return None
    if mode & 0o077:
        raise DefiniteError(
            f"others than its owner may open {path}, which holds the token of the engine's page",
            f"delete {path}: the next start makes up another token",
        )
    return text.decode("ascii", "replace").strip() or None


def _put(path: Path) -> str:
    """Make one up. Of two engines that do at once, the later one's holds: one of them won't have its name."""
    text = secrets.token_urlsafe(_BYTES)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"{text}\n")
    draft.replace(path)
    return text
