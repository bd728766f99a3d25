"""What Debezium's `FiltersTest` and `ChangeStreamPipelineFactoryTest` try of lists, case by case (docs/peer-tests.md).

Each case has the name of its test there. The collections are asked of the predicate; that the server agrees with it is
shown by `integration/test_change_stream_range`.
"""

from __future__ import annotations

import bson
import pytest

from streaming.fields.document_rules import document_rules
from streaming.fields.rules import EXCLUDE, RENAMES, FieldRules
from streaming.namespaces import Namespace
from streaming.scope.scope import CaptureScope

DATABASES, NO_DATABASES = "database.include.list", "database.exclude.list"
COLLECTIONS, NO_COLLECTIONS = "collection.include.list", "collection.exclude.list"
SIGNALS = "signal.data.collection"
BOTH, REGEX, LITERAL = ("regex", "literal"), ("regex",), ("literal",)

Case = tuple[str, tuple[str, ...], dict[str, str], str, str]
"""Its name, the modes of matching that it is tried in, options, what is captured, and what is not."""

TWO, TWO_WITH_SPACES = "db1.collectionA,db1.collectionB", " db1.collectionA ,  db1.collectionB "
OTHERS = "db2.collectionA db2.collectionxA db2.B db2.collB db2.collectionB"

CASES: list[Case] = [
    ("shouldIncludeDatabaseCoveredByLiteralInIncludeList", BOTH, {DATABASES: "db1"}, "db1.a", "db2.a db12.a"),
    (
        "shouldIncludeDatabaseCoveredByMultipleLiteralsInIncludeList",
        BOTH,
        {DATABASES: "db1,db2"},
        "db1.a db2.a",
        "db3.a",
    ),
    (
        "shouldIncludeDatabaseCoveredByMultipleLiteralsWithSpacesInIncludeListForLiteralFilters",
        LITERAL,
        {DATABASES: " db1 ,  db2 "},
        "db1.a db2.a",
        "db3.a",
    ),
    (
        "shouldIncludeDatabaseCoveredByWildcardInIncludeList",
        REGEX,
        {DATABASES: "db.*"},
        "db1.a db.a",
        "adb1.a",
    ),
    (
        "shouldIncludeDatabaseCoveredByMultipleWildcardsInIncludeList",
        REGEX,
        {DATABASES: "db.*,mongo.*"},
        "db1.a mongo2.a",
        "other.a",
    ),
    ("shouldExcludeDatabaseCoveredByLiteralInExcludeList", BOTH, {NO_DATABASES: "db1"}, "db12.a", "db1.a"),
    (
        "shouldExcludeDatabaseCoveredByMultipleLiteralsInExcludeList",
        BOTH,
        {NO_DATABASES: "db1,db2"},
        "db3.a",
        "db1.a db2.a",
    ),
    (
        "shouldExcludeDatabaseCoveredByMultipleLiteralsWithSpacesInExcludeListForLiteralFilters",
        LITERAL,
        {NO_DATABASES: " db1 ,  db2 "},
        "db3.a",
        "db1.a db2.a",
    ),
    ("shouldNotExcludeDatabaseNotCoveredByLiteralInExcludeList", BOTH, {NO_DATABASES: "db1"}, "db2.a", ""),
    ("shouldExcludeDatabaseCoveredByWildcardInExcludeList", REGEX, {NO_DATABASES: "db.*"}, "a.b", "db1.a"),
    (
        "shouldExcludeDatabaseCoveredByMultipleWildcardsInExcludeList",
        REGEX,
        {NO_DATABASES: "db.*,mongo.*"},
        "a.b",
        "db1.a mongo2.a",
    ),
    (
        "shouldIncludeCollectionCoveredByLiteralWithPeriodAsWildcardInIncludeListAndNoExcludeList",
        REGEX,
        {COLLECTIONS: "db1.coll[.]?ection[x]?A,db1[.](.*)B"},
        "db1xcoll.ectionA db1.collectionA",
        "db1.collectioA",
    ),
    (
        "shouldIncludeCollectionCoveredByLiteralInIncludeListAndNoExcludeList",
        BOTH,
        {COLLECTIONS: "db1.collectionA"},
        "db1.collectionA",
        "db1.collectionB db2.collectionA",
    ),
    (
        "shouldIncludeCollectionCoveredByLiteralWithEscapedPeriodInIncludeListAndNoExcludeList",
        REGEX,
        {COLLECTIONS: "db1[.]collectionA"},
        "db1.collectionA",
        "db1.collectionB db2.collectionA",
    ),
    (
        "shouldIncludeCollectionCoveredByLiteralWithEscapedPeriodInIncludeListAndNoExcludeList, a backslash",
        REGEX,
        {COLLECTIONS: r"db1\.collectionA"},
        "db1.collectionA",
        "db1.collectionB db2.collectionA",
    ),
    (
        "shouldIncludeCollectionCoveredByMultipleLiteralsInIncludeListAndNoExcludeList",
        BOTH,
        {COLLECTIONS: TWO},
        "db1.collectionA db1.collectionB",
        "db2.collectionA db2.collectionB",
    ),
    (
        "shouldIncludeCollectionCoveredByMultipleLiteralsWithSpacesInIncludeListAndNoExcludeListForLiteralFilters",
        LITERAL,
        {COLLECTIONS: TWO_WITH_SPACES},
        "db1.collectionA db1.collectionB",
        "db2.collectionA db2.collectionB",
    ),
    (
        "shouldIncludeCollectionCoveredByMultipleRegexInIncludeListAndNoExcludeList",
        REGEX,
        {COLLECTIONS: "db1.collection[x]?A,db1[.](.*)B"},
        "db1.collectionA db1.collectionxA db1.B db1.collB db1.collectionB",
        f"db1.collectionx db1.collectioxA {OTHERS}",
    ),
    (
        "shouldIncludeCollectionCoveredByRegexWithWildcardInIncludeListAndNoExcludeList",
        REGEX,
        {COLLECTIONS: "db1[.](.*)"},
        "db1.collectionA db1.collectionx db1.B db1.a.b",
        f"{OTHERS} db12.B db12.collectionB",
    ),
    (
        "shouldExcludeCollectionCoveredByLiteralInExcludeList",
        BOTH,
        {NO_COLLECTIONS: "db1.collectionA"},
        "db1.collectionB db2.collectionA",
        "db1.collectionA",
    ),
    (
        "shouldExcludeCollectionCoveredByMultipleLiteralsnExcludeList",
        BOTH,
        {NO_COLLECTIONS: TWO},
        "db1.collectionC db2.collectionA",
        "db1.collectionA db1.collectionB",
    ),
    (
        "shouldExcludeCollectionCoveredByMultipleLiteralsWithSpacesInExcludeListForLiteralFilters",
        LITERAL,
        {NO_COLLECTIONS: TWO_WITH_SPACES},
        "db1.collectionC db2.collectionA",
        "db1.collectionA db1.collectionB",
    ),
    (
        "shouldIncludeAllCollectionsFromDatabaseWithSignalingCollection",
        BOTH,
        {DATABASES: "db1", SIGNALS: "db1.signal"},
        "db1.signal db1.other",
        "db2.other",
    ),
    (
        "shouldIncludeSignalingCollectionAndNoIncludeListAndNoExcludeList",
        BOTH,
        {SIGNALS: "db1.signal"},
        "db1.signal db2.other",
        "",
    ),
    (
        "shouldIncludeSignalingCollectionNotCoveredByIncludeList",
        BOTH,
        {COLLECTIONS: "db1.table", SIGNALS: "db1.signal"},
        "db1.signal db1.table",
        "db1.other",
    ),
    (
        "shouldIncludeSignalingCollectionCoveredByLiteralInExcludeList",
        BOTH,
        {NO_COLLECTIONS: "db1.signal", SIGNALS: "db1.signal"},
        "db1.signal db1.other",
        "",
    ),
    (
        "shouldIncludeSignalingCollectionCoveredByRegexInExcludeList",
        REGEX,
        {NO_COLLECTIONS: "db1.*", SIGNALS: "db1.signal"},
        "db1.signal",
        "db1.other",
    ),
    (
        "testCollectionIncludeListTrimsWhitespace",
        REGEX,
        {COLLECTIONS: "db.col1, db.col2"},
        "db.col1 db.col2",
        "db.col3",
    ),
    (
        "testCollectionIncludeListTrimsAllWhitespace",
        REGEX,
        {COLLECTIONS: " db1.col1 ,   db2.col2  ,  db3.col3 "},
        "db1.col1 db2.col2 db3.col3",
        "db1.col2",
    ),
    (
        "testCollectionExcludeListTrimsWhitespace",
        REGEX,
        {NO_COLLECTIONS: "db1.col1, db2.col2"},
        "db1.col2",
        "db1.col1 db2.col2",
    ),
    (
        "testDatabaseIncludeListTrimsWhitespace",
        REGEX,
        {DATABASES: "db1, db2, db3"},
        "db1.a db2.a db3.a",
        "db4.a",
    ),
    (
        "testDatabaseExcludeListTrimsWhitespace",
        REGEX,
        {NO_DATABASES: "db1, db2 , db3"},
        "db4.a",
        "db1.a db2.a db3.a",
    ),
]


@pytest.mark.parametrize(
    ("mode", "case"),
    [(mode, case) for case in CASES for mode in case[1]],
    ids=[f"{case[0]}-{mode}" for case in CASES for mode in case[1]],
)
def test_what_lists_capture(mode: str, case: Case) -> None:
    """Debezium's cases, under regular expressions and under literals where it tries both."""
    _, _, options, captured, others = case
    scope = CaptureScope.parse({**options, "filters.match.mode": mode})
    names = [*captured.split(), *others.split()]
    assert [name for name in names if scope.captures(Namespace.parse(name))] == captured.split()


@pytest.mark.parametrize(
    ("name", "option", "entries", "collection", "before", "after"),
    [
        ("excludeFilterShouldRemoveMatchingField", EXCLUDE, "db1.collectionA.key1", "db1", "12", "2"),
        (
            "excludeFilterShouldRemoveMatchingFieldWithLeadingWhiteSpaces",
            EXCLUDE,
            " *.collectionA.key1",
            "x",
            "12",
            "2",
        ),
        (
            "excludeFilterShouldRemoveMatchingFieldWithLeadingMultipleAsterisks",
            EXCLUDE,
            " *.*.key1",
            "x",
            "12",
            "2",
        ),
        (
            "excludeFilterShouldRemoveMatchingFieldWithTrailingWhiteSpaces",
            EXCLUDE,
            "db.collectionA.key1 ,db.collectionA.key2 ",
            "db",
            "123",
            "3",
        ),
        ("renameFilterShouldRenameMatchingField", RENAMES, "db1.collectionA.key1:key2", "db1", "1", "2"),
        (
            "renameFilterShouldRenameMatchingFieldWithLeadingWhiteSpaces",
            RENAMES,
            " *.collectionA.key2:key3",
            "x",
            "12",
            "13",
        ),
        (
            "renameFilterShouldRenameMatchingFieldWithLeadingMultipleAsterisks",
            RENAMES,
            " *.*.key2:key3",
            "x",
            "12",
            "13",
        ),
        (
            "renameFilterShouldRenameMatchingFieldWithTrailingWhiteSpaces",
            RENAMES,
            "db2.collectionA.key1:key2 ,db2.collectionA.key3:key4 ",
            "db2",
            "13",
            "24",
        ),
    ],
)
def test_what_rules_make_of_a_document(
    name: str, option: str, entries: str, collection: str, before: str, after: str
) -> None:
    """Debezium's cases about spaces and asterisks: which fields a document has, before and after."""
    rules = document_rules(FieldRules.parse({option: entries}), Namespace(collection, "collectionA"))
    assert rules is not None, name
    found = bson.decode(rules.document(bson.encode({"_id": 1} | {f"key{n}": int(n) for n in before})))
    assert list(found) == ["_id", *(f"key{n}" for n in after)]
