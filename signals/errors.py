"""What can be wrong with a signal. All of it is the sender's fault: nothing here is worth a retry.

    SignalError
    ├── MalformedSignal     not the shape a signal has: a missing field, a wrong type, a broken filter
    ├── NothingRequested    well-formed, but it names no collection, so there is nothing to do
    ├── UnknownSignal       its ``type`` is none of those that exist
    ├── NotASignal          a watermark document, which shares the signal collection
    ├── DuplicateSignal     a signal with this id has been sent before
    └── CodeInFilter        a filter that would run code on the server, which is not allowed here

Every message shows the offending value (shortened) and says what was expected. Showing a value never fails
and takes a time that does not grow with it, whatever the value is: it came from outside.

Pure: standard library only.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

_SHOWN_MAX = 120
_LISTED_MAX = 5
_INT_BITS_MAX = 256


class SignalError(ValueError):
    """A signal that cannot be carried out as it is."""


class MalformedSignal(SignalError):
    """Not the shape a signal has."""


class NothingRequested(SignalError):
    """It names no collection. Nothing happens, and that is logged."""


class UnknownSignal(SignalError):
    """The ``type`` is none of those that exist."""


class NotASignal(SignalError):
    """A document that opens or closes a snapshot window: it lies among the signals, and asks for nothing."""


class DuplicateSignal(SignalError):
    """A signal with this id has been sent before."""


class CodeInFilter(SignalError):
    """A filter with ``$where``, ``$function`` or ``$accumulator``: JavaScript that the server would run."""


@contextmanager
def unnamed(made_up: str | None) -> Iterator[None]:
    """What is raised here about the signal of this id does not name it: whoever sent it never saw the id, for it was
    made up. None: it was given."""
    try:
        yield
    except SignalError as error:
        if made_up is not None:
            name = f"signal {made_up!r}"
            error.args = (str(error).replace(f"{name}: ", "").replace(name, "the signal"),)
        raise


class _Shown(reprlib.Repr):
    """A repr of bounded length and depth. Python itself refuses to write an integer of thousands of digits.

    The arguments of the methods are the base class's.
    """

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = _SHOWN_MAX + 1

    def repr_int(self, x: int, level: int) -> str:  # noqa: ARG002
        """The number, or how large it is."""
        bits = x.bit_length()
        return repr(x) if bits <= _INT_BITS_MAX else f"<an integer of {bits} bits>"

    def repr_str(self, x: str, level: int) -> str:  # noqa: ARG002
        """The text's beginning."""
        return repr(x[: self.maxstring])

    def repr_bytes(self, x: bytes, level: int) -> str:  # noqa: ARG002
        """The beginning."""
        return repr(x[: self.maxstring])


_SHOWN = _Shown()


def shown(value: object) -> str:
    """The value as a message shows it: its repr, cut to a length a person reads."""
    text = _SHOWN.repr(value)
    length = len(value) if isinstance(value, (str, bytes)) else len(text)
    return text if max(len(text), length) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}… ({length} characters)"


def listed(values: Iterable[object]) -> str:
    """Some values one after another, as a message shows them: the first few."""
    first = list(islice(values, _LISTED_MAX + 1))
    text = ", ".join(shown(value) for value in first[:_LISTED_MAX])
    return f"{text}, …" if len(first) > _LISTED_MAX else text


def shortened(message: object) -> str:
    """What a library says, cut: most of them quote the whole value."""
    text = str(message) or type(message).__name__
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"
