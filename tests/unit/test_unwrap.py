"""ExtractNewDocumentState in a configuration: what of it is honoured, and what is said of the rest."""

from __future__ import annotations

import pytest

from snapshotter.configuration.settings import Settings
from snapshotter.errors import ConfigurationError
from streaming.delta.further_columns import FurtherColumn, Holds
from streaming.fields.shape import Shape

KIND = "io.debezium.connector.mongodb.transforms.ExtractNewDocumentState"
LEAST = {
    "name": "shop",
    "mongodb.connection.string": "mongodb://mongo/?replicaSet=rs0",
    "delta.warehouse": "/lake",
}


def settings(family: str = "transforms", **given: str) -> Settings:
    """Of a configuration with such a transform, and these of its options, with ``__`` for a dot."""
    options = {f"{family}.flat.{name.replace('__', '.')}": value for name, value in given.items()}
    return Settings.from_options({**LEAST, family: "flat", f"{family}.flat.type": KIND, **options}, {})


def about(made: Settings) -> list[str]:
    """Which of its options something is said of."""
    return [warning.split()[0].removeprefix("transforms.flat.").rstrip(":") for warning in made.warnings]


@pytest.mark.parametrize("family", ["transforms", "debezium.transforms"])
def test_a_transform_alone_is_what_tables_are(family: str) -> None:
    """Documents without their envelope; Debezium's default removes rows. Nothing is to be said of it."""
    made = settings(family)
    assert (made.deletes_mode, made.further_columns.added, made.warnings) == ("remove", (), ())


@pytest.mark.parametrize(
    ("option", "mode", "deletes", "said"),
    [
        ("delete__tombstone__handling__mode", "rewrite", "soft", True),
        ("delete__tombstone__handling__mode", "rewrite-with-tombstone", "soft", True),
        ("delete__tombstone__handling__mode", "Drop", "remove", True),
        ("delete__tombstone__handling__mode", "tombstone", "remove", False),
        ("delete__tombstone__handling__mode", "delete-to-tombstone", "remove", False),
        ("delete__handling__mode", "rewrite", "soft", True),
        ("delete__handling__mode", "drop", "remove", True),
        ("delete__handling__mode", "none", "remove", False),
    ],
)
def test_its_mode_decides_what_becomes_of_deletes(option: str, mode: str, deletes: str, said: bool) -> None:
    """To rewrite them is to keep the rows. Where Debezium would keep a row that goes here, or has another column for
    what stays, that is said. The configuration in force shows what comes of it."""
    made = settings(**{option: mode})
    assert made.masked()["delta.deletes.mode"] == deletes
    assert about(made) == ([option.replace("__", ".")] if said else [])
    assert made.further_columns.soft is (deletes == "soft")


def test_our_option_goes_before_it() -> None:
    """And the configuration says so, where the two differ."""
    mode = {"transforms.flat.delete.handling.mode": "rewrite"}
    base = {**LEAST, "transforms": "flat", "transforms.flat.type": KIND, **mode}
    removing = Settings.from_options({**base, "delta.deletes.mode": "remove"}, {})
    assert removing.deletes_mode == "remove"
    assert removing.warnings[-1] == (
        "transforms.flat.delete.handling.mode=rewrite has no effect: delta.deletes.mode=remove decides what becomes of "
        "deletes"
    )
    soft = Settings.from_options({**base, "delta.deletes.mode": "soft"}, {})
    assert (soft.deletes_mode, len(soft.warnings)) == ("soft", 1)
    assert Settings.from_options(LEAST, {}).masked()["delta.deletes.mode"] == "remove"


def test_the_newer_name_of_the_mode_counts() -> None:
    """As in Debezium."""
    made = settings(delete__handling__mode="rewrite", delete__tombstone__handling__mode="tombstone")
    assert made.deletes_mode == "remove"


def test_a_mode_that_debezium_refuses_is_refused() -> None:
    """It would be guesswork what becomes of rows."""
    with pytest.raises(
        ConfigurationError, match=r"handling[.]mode = keep: must be one of drop, rewrite, none"
    ):
        settings(delete__handling__mode="keep")


def test_added_fields_have_debeziums_names() -> None:
    """A struct that is written out is part of the name, a new name behind a colon takes its place, the prefix goes
    before; a field without a struct is the envelope's, or the source's."""
    made = settings(
        add__fields="op, ts_ms,source.ts_ms,db,source.collection, source.ord:nr,name,connector:by,ts_us"
    )
    assert made.further_columns.added == (
        FurtherColumn("__op", Holds.OP),
        FurtherColumn("__ts_ms", Holds.TS_MS),
        FurtherColumn("__source_ts_ms", Holds.SOURCE_TS_MS),
        FurtherColumn("__db", Holds.SOURCE_DB),
        FurtherColumn("__source_collection", Holds.SOURCE_COLLECTION),
        FurtherColumn("__nr", Holds.SOURCE_ORD),
        FurtherColumn("__name", Holds.SOURCE_NAME, "shop"),
        FurtherColumn("__by", Holds.SOURCE_CONNECTOR),
        FurtherColumn("__ts_us", Holds.SOURCE_TS_US),
    )
    assert made.warnings == ()
    made = settings(add__fields="op,source.db:DB,source.ts_ns", add__fields__prefix="cdc.".rstrip("."))
    assert [column.name for column in made.further_columns.added] == ["cdcop", "cdcDB", "cdcsource_ts_ns"]


def test_what_an_event_says_of_itself_can_be_added() -> None:
    """Its transaction, its session and what an update has changed; the source is asked for just that of it."""
    made = settings(
        add__fields="id,transaction.total_order:nr,data_collection_order,lsid,source.txnNumber,wallTime,"
        "updateDescription.removedFields,updateDescription.updatedFields:changed,updateDescription.truncatedArrays"
    )
    assert [(column.name, column.holds) for column in made.further_columns.added] == [
        ("__id", Holds.TRANSACTION_ID),
        ("__nr", Holds.TRANSACTION_ORDER),
        ("__data_collection_order", Holds.TRANSACTION_COLLECTION_ORDER),
        ("__lsid", Holds.SOURCE_LSID),
        ("__source_txnNumber", Holds.SOURCE_TXN_NUMBER),
        ("__wallTime", Holds.SOURCE_WALL_TIME),
        ("__updateDescription_removedFields", Holds.UPDATE_REMOVED),
        ("__changed", Holds.UPDATE_UPDATED),
        ("__updateDescription_truncatedArrays", Holds.UPDATE_TRUNCATED),
    ]
    assert made.warnings == ()
    assert made.source_options()["details"] == "transaction,update"
    asked = {
        "lsid": "transaction",
        "updateDescription.removedFields": "update",
        "wallTime": None,
        "op": None,
    }
    found = {field: settings(add__fields=field).source_options().get("details") for field in asked}
    assert found == asked


def test_a_field_that_a_table_has_already_is_no_column_more() -> None:
    """Under the prefix _ the operation is the column _op, which every table has."""
    made = settings(add__fields="op,source.db", add__fields__prefix="_")
    assert [column.name for column in made.further_columns.added] == ["_source_db"]
    assert made.warnings == ()


@pytest.mark.parametrize(
    ("field", "why"),
    [
        ("transaction.status", "an event's transaction has id, total_order and data_collection_order"),
        (
            "updateDescription",
            "Debezium's transform finds none either; name its fields one by one: removedFields,",
        ),
        (
            "before.v",
            "a row is a document as it is now, and Debezium's transform, to which before is one text",
        ),
        ("before", "a row is a document as it is now"),
        ("after", "it is a column already, if the document has it"),
        ("snapshot", "_op is r in a row that was read"),
        ("rs", "no row of a table says it"),
        ("op:a b", "__a b is the name of another, or of none"),
        ("db,source.db:DB", "__DB is the name of another, or of none"),
    ],
)
def test_a_field_that_gets_no_column_is_named(field: str, why: str) -> None:
    """With the reason; the others get theirs."""
    made = settings(add__fields=f"{field},op:last")
    assert made.further_columns.added[-1].name == "__last"
    (said,) = made.warnings
    assert said.startswith(f"transforms.flat.add.fields: {field.rpartition(',')[2]} gets no column: {why}")


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({}, Shape()),
        ({"flatten__struct": "false", "flatten__struct__delimiter": "."}, Shape(delimiter=".")),
        ({"flatten__struct": "True"}, Shape(flatten=True)),
        ({"flatten__struct": "true", "flatten__struct__delimiter": "."}, Shape(flatten=True, delimiter=".")),
        ({"array__encoding": "document"}, Shape(arrays=True)),
        ({"array__encoding": "array"}, Shape()),
    ],
)
def test_rows_have_the_shape_that_is_asked_for(options: dict[str, str], shape: Shape) -> None:
    """Nested documents as columns at the top level, arrays as structs; nothing is said of what is carried out."""
    made = settings(**options)
    assert made.unwrap.shape == shape
    assert about(made) == []


def test_what_debezium_would_refuse_of_a_shape() -> None:
    """By the option's name."""
    with pytest.raises(ConfigurationError, match=r"flatten\.struct = yes: must be true or false"):
        settings(flatten__struct="yes")
    with pytest.raises(ConfigurationError, match=r"array\.encoding = list: must be array or document"):
        settings(array__encoding="list")


def test_what_is_not_carried_out_is_named_option_by_option() -> None:
    """Each with its reason; what asks for nothing is not. One after the first does not count."""
    made = settings(
        add__headers="op",
        route__by__field="region",
        predicate="isOrders",
        colour="red",
        replace__null__with__default="false",
    )
    assert about(made) == [
        *("add.headers", "route.by.field", "predicate", "colour"),
    ]
    assert about(settings(flatten__struct="false", array__encoding="array", add__headers="")) == []
    two = {"transforms": "a,b", "transforms.a.type": KIND, "transforms.b.type": KIND}
    assert Settings.from_options({**LEAST, **two}, {}).warnings == (
        f"transforms: b ({KIND}) is not carried out: documents go straight into tables",
    )
