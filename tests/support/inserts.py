"""Raw documents into a real server, also those whose refusal pymongo could not read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bson.codec_options import DatetimeConversion
from bson.raw_bson import DEFAULT_RAW_BSON_OPTIONS, RawBSONDocument
from pymongo.collection import Collection

RAW = DEFAULT_RAW_BSON_OPTIONS.with_options(datetime_conversion=DatetimeConversion.DATETIME_MS)
LENIENT = RAW.with_options(unicode_decode_error_handler="replace")


def insert_raw(collection: Collection[Any], documents: Iterable[bytes]) -> tuple[int, list[int]]:
    """Insert what the server takes: how many that were, and the code of each refusal.

    A command, because the driver's own method reads each document and refuses some that the server takes, and because
    a refusal quotes the id, and pymongo cannot decode each: its bytes are left as they are, a date of any year is a
    number, and what is no UTF-8 is replaced in the message.
    """
    given = list(map(RawBSONDocument, documents))
    reply = collection.database.command(
        {"insert": collection.name, "documents": given, "ordered": False}, codec_options=LENIENT
    )
    return reply["n"], [refused["code"] for refused in reply.get("writeErrors", ())]
