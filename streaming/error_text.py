"""What an exception says. That of Spark's JVM is asked of the JVM, which may have gone: whoever asks such an exception
for its text gets another one, in the midst of handling the first."""

from __future__ import annotations


def said_by(error: BaseException) -> str:
    """The text of an ``error``. Never raises."""
    try:
        return str(error)
    except Exception as gone:  # noqa: BLE001 - whatever it is, nobody is left to say more
        return f"{type(error).__name__}, and who threw it has gone: {type(gone).__name__}: {gone}"
