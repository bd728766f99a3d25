"""What can be wrong with a signal. All of it is the sender's fault: nothing here is worth a retry.

    SignalError
    ├── MalformedSignal     not the shape a signal has: a missing field, a wrong type, a broken filter
    ├── NothingRequested    well-formed, but it names no collection, so there is nothing to do
    ├── UnknownSignal       its ``type`` is none of those that exist
    ├── NotASignal          a watermark document, which shares the signal collection
    └── DuplicateSignal     a signal with this id has been sent before

Every message shows the offending value (shortened) and says what was expected.

Pure: standard library only.
"""

from __future__ import annotations

_SHOWN_MAX = 120


class SignalError(ValueError):
    """A signal that cannot be carried out as it is."""


class MalformedSignal(SignalError):
    """Not the shape a signal has."""


class NothingRequested(SignalError):
    """It names no collection. Nothing happens, and it is said."""


class UnknownSignal(SignalError):
    """The ``type`` is none of those that exist."""


class NotASignal(SignalError):
    """A document that opens or closes a snapshot window: it lies among the signals, and asks for nothing."""


class DuplicateSignal(SignalError):
    """A signal with this id has been sent before."""


def shown(value: object) -> str:
    """The value as a message shows it: its repr, cut to a length a person reads."""
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}… ({len(text)} characters)"
