"""Documents of the signal collection, as what they ask for.

Whoever inserted a document sees only what is said of it: one that asks for nothing that can be understood is refused
with its reason, under its id.
"""

from __future__ import annotations

from collections.abc import Callable

from bson.errors import BSONError

from signals.actions import Action
from signals.errors import NotASignal, SignalError
from signals.source_channel import decode, id_of
from streaming.namespaces import Namespace


def action_in(
    document: bytes, collection: Namespace | None, refuse: Callable[[str, str], None]
) -> Action | None:
    """None for what is no signal, or is refused: ``refuse`` is told the id, and why."""
    try:
        return decode(document).parse()
    except NotASignal:
        return None  # a watermark of another engine, Debezium's for example, that shares the collection
    except SignalError as error:
        refuse(id_of(document), str(error))
    except BSONError as error:
        refuse(id_of(document), f"a document in {collection} is no readable BSON: {error}")
    return None
