"""How rows fit a state table.

A table may have columns, and fields in its structs, that no plan knows: somebody has added them. They are not ours: a
field of the documents whose name clashes with one is rescued, and rows that are written have null there.
"""

from __future__ import annotations

from collections.abc import Container

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from streaming.column_names import quoted


def fitting(rows: StructType, table: StructType, ours: StructType) -> list[Column]:
    """The columns of a table from those of the rows, in the table's order. What is not of the schema ``ours`` is null.

    Raises ValueError where the rows do not fit our columns in the table.
    """
    differences = type_differences(rows, _ours(table, ours))
    if differences:
        raise ValueError("; ".join(differences))
    return of_schema(rows, table)


def of_schema(rows: StructType, ours: StructType, but: Container[str] = ()) -> list[Column]:
    """The columns of ``ours``, without those named in ``but``, from rows that have more: further columns, and further
    fields in their structs. What the rows have not is null."""
    given = {field.name: field.dataType for field in rows.fields}
    return [
        _filled(F.col(quoted(field.name)), given.get(field.name), field.dataType).alias(field.name)
        for field in ours.fields
        if field.name not in but
    ]


def type_differences(rows: StructType, table: StructType) -> list[str]:
    """Why rows do not fit a table, by column; [] when they do. Nullability and order do not matter."""
    found = {field.name: field.dataType.simpleString() for field in rows.fields}
    wanted = {field.name: field.dataType.simpleString() for field in table.fields}
    differences = [f"no column {name!r} in the rows" for name in wanted if name not in found]
    differences += [f"no column {name!r} in the table" for name in found if name not in wanted]
    differences += [
        f"column {name!r} is {found[name]} in the rows and {type_} in the table"
        for name, type_ in wanted.items()
        if found.get(name, type_) != type_
    ]
    if len(rows.fields) != len(found):
        differences.append(f"a column comes twice in the rows: {rows.names}")
    return differences


def _ours(table: StructType, ours: StructType) -> StructType:
    """The table's fields without those that somebody has added."""
    known = {field.name: field.dataType for field in ours.fields}
    kept = [field for field in table.fields if field.name in known]
    return StructType([StructField(f.name, _our_type(f.dataType, known[f.name])) for f in kept])


def _our_type(table: DataType, ours: DataType) -> DataType:
    match table, ours:
        case StructType(), StructType():
            return _ours(table, ours)
        case ArrayType(), ArrayType():
            return ArrayType(_our_type(table.elementType, ours.elementType))
        case _:
            return table


def _filled(value: Column, have: DataType | None, want: DataType) -> Column:
    """A value of type ``have`` (None: there is none) as one of ``want``, which may have more fields."""
    match have, want:
        case None, _:
            return F.lit(None).cast(want)
        case _ if have.simpleString() == want.simpleString():
            return value
        case StructType(), StructType():
            given = {field.name: field.dataType for field in have.fields}
            fields = [
                _filled(value.getField(f.name), given.get(f.name), f.dataType).alias(f.name)
                for f in want.fields
            ]
            return F.when(value.isNotNull(), F.struct(*fields))
        case ArrayType(), ArrayType():
            inner = have.elementType, want.elementType
            return F.transform(value, lambda element: _filled(element, *inner))
        case _:
            raise ValueError(f"{have.simpleString()} is no {want.simpleString()}")
