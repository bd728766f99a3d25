"""Rules about fields for tests: drawn ones, and Debezium's cases of `FieldExcludeListIT` and `FieldRenamesIT`."""

from __future__ import annotations

from hypothesis import strategies as st

from streaming.fields.document_rules import DocumentRules, document_rules
from streaming.fields.rules import EXCLUDE, HASH, RENAMES, SALT, FieldRuleError, FieldRules
from streaming.namespaces import Namespace

SECRET = "a secret of sixteen"
C1 = Namespace("dbA", "c1")
_PATHS = (
    "a",
    "b",
    "c",
    "a.a",
    "a.b",
    "b.a",
    "b.c",
    "c.longer_name",
    "a.b.c",
    "a.b.a",
    "b.b.b",
    "ü",
    "a.ü",
    "with space",
)
_NEW = ("a", "b", "d", "new", "longer_name", "ü")


def rules_of(namespace: Namespace = C1, **options: str) -> DocumentRules:
    """The rules about a collection; options with ``__`` for a dot."""
    named = {name.replace("__", "."): value for name, value in options.items()}
    found = document_rules(FieldRules.parse({SALT: SECRET, **named}), namespace)
    assert found is not None
    return found


@st.composite
def field_rules(draw: st.DrawFn, kinds: tuple[str, ...] = (EXCLUDE, RENAMES, HASH)) -> FieldRules:
    """One to five rules about the collection ``C1`` that can be together."""
    while True:
        options: dict[str, list[str]] = {}
        for path in draw(st.lists(st.sampled_from(_PATHS), min_size=1, max_size=5, unique=True)):
            kind = draw(st.sampled_from(kinds))
            new = f":{draw(st.sampled_from(_NEW))}" if kind == RENAMES else ""
            options.setdefault(kind, []).append(f"{draw(st.sampled_from(('dbA', '*')))}.c1.{path}{new}")
        try:
            found = FieldRules.parse(
                {SALT: SECRET, **{name: ",".join(entries) for name, entries in options.items()}}
            )
            if found.of(C1) is not None:
                return found
        except FieldRuleError:
            continue
