"""The query that reads one range of `_id`, in the total order of BSON.

``{_id: {$gt: x}}`` only sees ids of x's own type bracket, which is how other tools lose documents. So there
are two ways to ask, both exact, both a scan of the `_id` index between tight bounds (server 5.0 and later):

- *bracket*: ``{_id: {$gt: x, $lte: y}}`` (`$gte` where the lower end belongs to the range) where both ends are of one
  bracket, hence everything between them too, and neither is NaN (``$gt: NaN`` matches nothing). It needs no filter
  behind the index, and a query for ids alone never fetches a document (skipping 4.3 M ids a second).
- *total*: ``$expr`` with ``$literal``, for a range that crosses brackets or is open at an end. The
  condition is evaluated again on each document fetched: reading is 5 to 15 % slower, skipping over ids four
  times.

``min()``/``max()`` were tried and not taken: they are no faster than a bracket, their upper end is exclusive
where a range's is inclusive and their lower end the other way round, nothing lies above MaxKey to serve as a
bound, and a condition that leaves the lower end out costs a fetch of each document.

Ids go into the query as the bytes they came as, so that no id changes its type on the way (a DBPointer, a
date beyond the year 9999, a string that is no UTF-8).

Both ways follow the collation of a collection, and `_key` does not: see `collation_proof`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bson.raw_bson import RawBSONDocument

from snapshotter.core.values.chunks import Bound, KeyList, KeyRange, Target
from streaming.bson.raw_fields import Element, document_of, elements
from streaming.keys.keys import TAGS, is_sharded, key_of_document
from streaming.namespaces import Namespace

Style = Literal["auto", "bracket", "total"]

_ARRAY = 0x04
_OBJECT = 0x03
_SYMBOL = 0x0E
_TEXTS = frozenset((0x02, 0x0D, 0x0E, 0x0F))
_BRACKETS = frozenset("NSVbilmt")
_NAN_KEY = "NB"


@dataclass(frozen=True, slots=True)
class FindArguments:
    """What to give to ``find`` or ``find_raw_batches``: ids ascending, by a scan of the `_id` index.

    `style` tells which way the range is asked for; "all" and "list" are the ranges that need none.
    """

    filter: Mapping[str, Any]
    style: Literal["bracket", "total", "all", "list"]

    def to_find(self, projection: Mapping[str, int] | None = None) -> dict[str, Any]:
        """``collection.find(**arguments.to_find())``; the hint works on clustered collections as well. ``projection``:
        which fields the server leaves out."""
        arguments = {"filter": self.filter, "sort": [("_id", 1)], "hint": [("_id", 1)]}
        return arguments if projection is None else {**arguments, "projection": projection}


HIGHEST_ID = b"\x0a\x00\x00\x00\x7f_id\x00\x00"  # {"_id": MaxKey}


def bound_of(id_document: bytes) -> Bound:
    """The bound at one id: `id_document` is raw BSON, ``{"_id": value}`` (or a documentKey, for a `KeyList`).

    Raises `streaming.keys.keys.UnkeyableId` for damaged bytes.
    """
    return Bound(bytes(id_document), key_of_document(id_document))


HIGHEST = bound_of(HIGHEST_ID)


def plain(bound: Bound) -> Bound:
    """The bound by its `_id` alone, whichever collection it was made for: ids are looked for, not keys."""
    return bound_of(bound.id) if is_sharded(bound.key) else bound


def plain_range(target: KeyRange) -> KeyRange:
    """The same range, its ends by their `_id` alone."""
    after, upto = (None if end is None else plain(end) for end in (target.after, target.upto))
    return KeyRange(after, upto, target.closed)


def range_find(
    target: Target, *, filter: Mapping[str, Any] | None = None, style: Style = "auto"
) -> FindArguments:
    """The query for exactly the documents of `target`, and of `filter` where one is given.

    `style` is for tests and measurements: "bracket" for a range that has no common bracket is a ValueError.
    """
    if isinstance(target, KeyList):
        return FindArguments(_both(_list_filter(target.ids), filter), "list")
    if target.after is None and target.upto is None:
        return FindArguments(dict(filter or {}), "all")
    target = plain_range(target)
    in_bracket = _in_one_bracket(target)
    if style == "bracket" and not in_bracket:
        raise ValueError(f"the ends of this range share no type bracket: {target}")
    if in_bracket and style != "total":
        return FindArguments(_both(_bracket_filter(target), filter), "bracket")
    return FindArguments(_both(_total_filter(target), filter), "total")


def rest_of_bracket(after: Bound, *, closed: bool = False) -> Mapping[str, Any] | None:
    """The ids above `after` (or, `closed`, from it on) in its own bracket, by the index alone; None where a bracket
    can't be used."""
    element = _id_of(after)
    name = "$gte" if closed else "$gt"
    return None if _bracket(after, element) is None else {"_id": _document(_named(name, element))}


def out_of_order(namespace: Namespace) -> str:
    """Why a range that is not in `any_order` cannot be read where a collation orders the ids."""
    return (
        f"{namespace} has a collation, which orders strings otherwise than their bytes: a range of ids cannot begin or "
        f"end with a string there. Use a filter, or ask for the whole collection."
    )


def any_order(target: KeyRange) -> bool:
    """Whether every collation has the same ids in this range."""
    return all(collation_proof(bound) for bound in (target.after, target.upto) if bound is not None)


def collation_proof(bound: Bound) -> bool:
    """Whether every collation has the same ids at or below this one: it holds no string to compare."""
    return not any(map(_holds_text, elements(bound.id)))


def _holds_text(element: Element) -> bool:
    if element.kind in (_OBJECT, _ARRAY):
        return any(map(_holds_text, elements(element.payload)))
    return element.kind in _TEXTS


def _in_one_bracket(target: KeyRange) -> bool:
    if target.after is None or target.upto is None:
        return False
    low = _bracket(target.after, _id_of(target.after))
    return low is not None and low == _bracket(target.upto, _id_of(target.upto))


def _bracket(bound: Bound, element: Element) -> str | None:
    """The tag of the bound's bracket, or None for an id that `$gt` and `$lte` may not be trusted with.

    Those are the brackets of a single value (MaxKey and null also match by rules of their own), NaN, and the
    deprecated types, for which the documentation promises nothing.
    """
    tag = TAGS[element.kind]
    if tag not in _BRACKETS or element.kind == _SYMBOL or bound.key == _NAN_KEY:
        return None
    return tag


def _bracket_filter(target: KeyRange) -> Mapping[str, Any]:
    conditions = [_named(name, _id_of(bound)) for name, bound in _ends(target)]
    return {"_id": _document(*conditions)}


def _total_filter(target: KeyRange) -> Mapping[str, Any]:
    conditions = [
        {name: ["$_id", _document(_named("$literal", _id_of(bound)))]} for name, bound in _ends(target)
    ]
    return {"$expr": conditions[0] if len(conditions) == 1 else {"$and": conditions}}


def _ends(target: KeyRange) -> Iterable[tuple[str, Bound]]:
    if target.after is not None:
        yield ("$gte" if target.closed else "$gt"), target.after
    if target.upto is not None:
        yield "$lte", target.upto


def _list_filter(ids: tuple[Bound, ...]) -> Mapping[str, Any]:
    keys = [tuple(elements(bound.id)) for bound in ids]
    if all(len(fields) == 1 and fields[0].name == b"_id" for fields in keys):
        values = [_named(str(place), fields[0]) for place, fields in enumerate(keys)]
        return {"_id": _document(Element(_ARRAY, b"$in", document_of(values)))}
    # documentKeys of a sharded collection: each field must be equal.
    return {"$or": [_document(*[_equal(field) for field in fields]) for fields in keys]}


def _equal(field: Element) -> Element:
    return Element(_OBJECT, field.name, document_of([_named("$eq", field)]))


def _both(condition: Mapping[str, Any], filter: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return {"$and": [condition, filter]} if filter else condition


def _id_of(bound: Bound) -> Element:
    fields = tuple(elements(bound.id))
    if len(fields) != 1 or fields[0].name != b"_id":
        names = [field.name.decode(errors="replace") for field in fields]
        raise ValueError(f"the end of a range is one _id, this bound has the fields {names}: {bound.key!r}")
    return fields[0]


def _named(name: str, element: Element) -> Element:
    return Element(element.kind, name.encode(), element.payload)


def _document(*fields: Element) -> RawBSONDocument:
    return RawBSONDocument(document_of(fields))
