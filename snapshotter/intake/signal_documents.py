"""Documents of the signal collection, as what they ask for.

Whoever inserted a document sees only what is said of it: one that asks for nothing that can be understood is refused
with its reason, under its id.
"""

from __future__ import annotations

from collections.abc import Iterable

from bson.errors import BSONError

from signals.actions import Action
from signals.channels.source_channel import decode, id_of
from signals.errors import NotASignal, SignalError
from snapshotter.reporting.outcomes import Refusal
from streaming.namespaces import Namespace


def actions_in(
    documents: Iterable[bytes], collection: Namespace | None
) -> tuple[list[Action], list[Refusal]]:
    """Both in the order of the documents; what is no signal is neither."""
    actions: list[Action] = []
    refused: list[Refusal] = []
    for document in documents:
        try:
            actions.append(decode(document).parse())
        except NotASignal:
            continue  # a watermark of another engine, Debezium's for example, that shares the collection
        except SignalError as error:
            refused.append(Refusal(id_of(document), str(error)))
        except BSONError as error:
            why = f"a document in {collection} is no readable BSON: {error}"
            refused.append(Refusal(id_of(document), why))
    return actions, refused
