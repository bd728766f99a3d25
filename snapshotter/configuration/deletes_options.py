"""The options of deletes in tables."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from snapshotter.configuration.option_values import Group, choice, option

DELETES = "delta.deletes.mode"


class DeletesMode(StrEnum):
    """What becomes of the row of a document that is deleted."""

    REMOVE = "remove"
    SOFT = "soft"


class DeletesOptions(Group):
    """What becomes of the rows of documents that are gone."""

    mode: Annotated[DeletesMode | None, choice(DeletesMode)] = option(
        DELETES,
        "what becomes of the row of a document that is deleted: it goes (remove), or it stays with _deleted = true "
        "(soft); unset is what a transform unwrap (ExtractNewDocumentState) asks for, else remove",
        None,
    )
