"""The metadata tables of a snapshot: their names, and conversion of values for them."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from harness.errors import HarnessError, RequestError, UnknownColumnError
from harness.metadata.model.arrow_values import array_of, children_of, from_numpy, nested_type, to_numpy, with_children
from harness.metadata.model.schema import (
    CellValue,
    Field,
    IntegerType,
    OpaqueType,
    StructType,
    Type,
    UuidType,
    arrow_type,
)
from harness.metadata.model.text_tables import Column, column_of, html_table, table_lines
from harness.storage.records import dataclass

if TYPE_CHECKING:
    import duckdb

    from harness.metadata.iceberg.table import IcebergTable


NAMES = {
    "iceberg": (
        *("snapshots", "history", "refs", "manifests", "files", "data_files", "delete_files", "entries", "partitions"),
        "position_deletes",
        *("metadata_log_entries", "all_manifests", "all_files", "all_data_files", "all_delete_files", "all_entries"),
    ),
    "delta": ("versions", "files", "partitions"),
}
"""Metadata tables by format. Names with `all_` cover all snapshots."""


def is_metadata_table(table_format: str, name: str) -> bool:
    """Return whether tables of a format have a metadata table with this name, in any letter case."""
    return name.casefold() in NAMES[table_format]


@dataclass(frozen=True, slots=True)
class MetadataTable:
    """A metadata table that is read when its rows are needed. It can be passed wherever an Arrow stream is accepted.

    When it is printed, or shown by a notebook, it displays its first rows.

    Attributes:
        schema: The columns.
        read: Takes the names of the needed columns and returns the rows. Columns that are not needed may be null.
    """

    schema: pa.Schema
    read: Callable[[frozenset[str]], pa.Table]

    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows as an Arrow table.

        Args:
            columns: Column names in the order of the result; None for all columns. Statistics of columns are read only
                if they are named.

        Raises:
            UnknownColumnError: A column does not exist.
            InvalidTableError: The metadata breaks the specification.
            MissingFileError: A metadata file does not exist.
            UnsupportedError: The table uses a feature that harness does not support.
        """
        names = self.schema.names if columns is None else list(columns)
        for name in names:
            if name not in self.schema.names:
                raise UnknownColumnError(
                    f"Unknown column {name!r}: there are {', '.join(self.schema.names)}", field=name
                )
        return self.read(frozenset(names)).select(names)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __str__(self) -> str:
        columns, rows, notes = self._first_rows()
        return "\n".join([*table_lines(columns, [rows], width=shutil.get_terminal_size().columns), *notes])

    def _repr_html_(self) -> str:
        columns, rows, notes = self._first_rows()
        return rows_html(columns, rows) + "".join(f"<p>{note}</p>" for note in notes)

    def _first_rows(self) -> tuple[list[Column], list[tuple[str | None, ...]], list[str]]:
        from harness.engines.duckdb.instance import cursor

        table = self.to_arrow()
        notes = [f"({_SHOWN} of {table.num_rows:,} rows; to_arrow() returns all)"] if table.num_rows > _SHOWN else []
        return *texts_of(cursor().from_arrow(with_readable_units(table)).limit(_SHOWN)), notes


def texts_of(relation: duckdb.DuckDBPyRelation) -> tuple[list[Column], list[tuple[str | None, ...]]]:
    """Return the column names of a relation, and its rows with all values as text."""
    columns = list(map(column_of, relation.columns, relation.types))
    return columns, relation.project("CAST(COLUMNS(*) AS VARCHAR)").fetchall()


def rows_html(columns: Sequence[Column], rows: Iterable[Sequence[str | None]]) -> str:
    """Return rows as an HTML table. Long maps and structs are truncated."""
    from harness.metadata.model.text_tables import cut_text

    most = [_LONG if column.type in ("map", "struct") else sys.maxsize for column in columns]
    return html_table(
        columns, ([text and cut_text(text, width) for text, width in zip(row, most, strict=True)] for row in rows)
    )


_SHOWN, _LONG = 40, 100
"""The number of rows shown, and the maximum length of a map or struct in HTML, where a browser would wrap it into very
short lines."""


def metadata_table(table: Any, selection: Any, name: str) -> MetadataTable:
    """Return the metadata table called `name`, of a snapshot or of the table.

    Args:
        table: An opened table.
        selection: The result of its `select`.
        name: One of `NAMES`, in any letter case.

    Raises:
        RequestError: There is no such metadata table.
        HarnessError: The manifest list cannot be read.
    """
    kind, names = name.casefold(), NAMES[table.format]
    if kind not in names:
        similar_names = get_close_matches(kind, names, n=1)
        hint = f"did you mean {similar_names[0]}" if similar_names else f"there are {', '.join(names)}"
        raise RequestError(f"Unknown metadata table {name!r} for {table.format} tables: {hint}")
    try:
        if table.format != "delta":
            return _iceberg_table(table, selection, kind)
        from harness.metadata.tables import delta

        return delta.table(table, selection.snapshot, kind)
    except HarnessError as error:
        raise error.within(table=table.location, format=table.format) from error.__cause__


def _iceberg_table(table: IcebergTable, selection: Any, kind: str) -> MetadataTable:
    """Return a metadata table of the metadata file, or of the manifests of one snapshot or, with `all_`, of all.

    A manifest that several snapshots share counts once.
    """
    from harness.metadata.iceberg.scan import manifests_of, with_specs_of
    from harness.metadata.iceberg.values import read_schema_first
    from harness.metadata.tables import iceberg_log as log
    from harness.metadata.tables.iceberg_files import ManifestTables

    metadata = table.metadata
    if kind in log.METADATA_TABLES:
        schema, rows = log.METADATA_TABLES[kind]
        return MetadataTable(schema, lambda _: table_of(schema, rows(metadata, table.metadata_path)))
    schemas = read_schema_first(metadata.schemas, selection.schema)
    is_all, kind = kind.startswith("all_"), kind.removeprefix("all_")
    snapshots = list(metadata.snapshots.values()) if is_all else [selection.snapshot] if selection.snapshot else []
    lists = {each.id: manifests_of(table, each) for each in snapshots}
    if kind == "manifests":
        schema = log.ALL_MANIFESTS if is_all else log.MANIFESTS
        return MetadataTable(schema, lambda _: log.manifests(lists, metadata, schemas))
    manifests = [each for manifest_files in lists.values() for each in manifest_files]
    if is_all:
        manifests = list({each.path: each for each in manifests}.values())
    source = with_specs_of(manifests, table)
    return ManifestTables(source=source, schema=selection.schema, manifests=manifests).table(kind)


TIME = pa.timestamp("us", "UTC")
INT, LONG, TEXT, FLAG = pa.int32(), pa.int64(), pa.string(), pa.bool_()
TEXTS = pa.map_(TEXT, TEXT)


def schema_of(**types: pa.DataType) -> pa.Schema:
    """Return a schema from names and types. Every column is nullable."""
    return pa.schema(list(types.items()))


def table_of(schema: pa.Schema, rows: Iterable[Sequence[Any]]) -> pa.Table:
    """Return rows as a table. Times are in milliseconds since 1970-01-01 UTC, and maps are lists of pairs."""
    row_list, arrays = list(rows), []
    for place, type_ in enumerate(schema.types):
        values = [row[place] for row in row_list]
        if type_ == TIME:
            micros = [None if value is None else value * 1000 for value in values]
            arrays.append(array_of(micros, pa.int64()).cast(TIME))
        else:
            arrays.append(array_of(values, type_))
    return pa.Table.from_arrays(arrays, schema=schema)


def values_of(values: Sequence[object], type_: Type) -> pa.Array:
    """Return internal values (`harness.metadata.model.schema`) of a type without children as an Arrow array."""
    match type_:
        case UuidType():
            return pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))
        case OpaqueType():
            return array_of([None if value is None else str(value) for value in values], pa.string())
        case _:
            return array_of(values, arrow_type(type_))


def tuple_struct(fields: Sequence[Field]) -> StructType | None:
    """Return the type of a column of partition tuples, or None if there are no fields.

    DuckDB does not allow two fields with one name, so repeated names get the field id.
    """
    if not fields:
        return None
    counts = Counter(field.name.casefold() for field in fields)
    return StructType(
        tuple(
            Field(id=f.id, name=f.name if counts[f.name.casefold()] == 1 else f"{f.name}_{f.id}", type=f.type)
            for f in fields
        )
    )


def partition_column(type_: StructType | None) -> dict[str, pa.DataType]:
    """Return the column of partition tuples as a mapping from its name to its type. The result is empty for None.

    Struct fields whose values count units of time have the unit in their metadata.
    """
    return {} if type_ is None else {"partition": pa.struct(_tuple_fields(type_))}


def _tuple_fields(type_: StructType) -> list[pa.Field]:
    units = [f.type.unit if isinstance(f.type, IntegerType) else "" for f in type_.fields]
    fields = zip(arrow_type(type_), units, strict=True)
    return [field.with_metadata({_UNIT: unit}) if unit else field for field, unit in fields]


_UNIT = b"unit"


def with_readable_units(rows: pa.Table) -> pa.Table:
    """Return the rows, with month and hour partition values as text: `2024-03` and `2024-03-01T05`."""
    columns = [
        _with_readable_units(column.combine_chunks(), field)
        for column, field in zip(rows.columns, rows.schema, strict=True)
    ]
    return pa.table(columns, names=rows.column_names)


def _with_readable_units(array: pa.Array, field: pa.Field) -> pa.Array:
    if (unit := (field.metadata or {}).get(_UNIT)) is not None:
        texts = [None if value is None else str(np.datetime64(value, unit.decode())) for value in array.to_pylist()]
        return array_of(texts, TEXT)
    if not pa.types.is_struct(array.type):
        return array
    children = [_with_readable_units(child, part) for child, part in zip(children_of(array), array.type, strict=True)]
    return with_children(array, children, nested_type(array.type, [child.type for child in children]))


def tuples_of(tuples: Sequence[Mapping[int, CellValue]], type_: StructType) -> pa.Array:
    """Return partition tuples (internal values by field id) as structs. A field that a tuple lacks is null."""
    arrays = [values_of([values.get(f.id) for values in tuples], f.type) for f in type_.fields]
    return pa.StructArray.from_arrays(arrays, fields=_tuple_fields(type_))


def map_of(keys: Sequence[int], columns: Sequence[pa.Array], type_: pa.DataType) -> pa.Array:
    """Return one map per row, with one entry per column: the key of the column and its value in that row.

    A null value is left out of the map, and a map without entries is null.

    Args:
        keys: One key per column.
        columns: At least one column.
        type_: The type of the maps.
    """
    size = len(columns[0])
    has_value = np.array([to_numpy(column.is_valid()) for column in columns], np.bool_).reshape(len(columns), size).T
    rows, places = np.nonzero(has_value)
    offsets = np.zeros(size + 1, np.int32)
    np.cumsum(has_value.sum(axis=1), out=offsets[1:])
    items = pa.concat_arrays(list(columns)).take(from_numpy(places * size + rows))
    found_keys = from_numpy(np.array(keys, np.int32)[places])
    entries = pa.StructArray.from_arrays([found_keys, items], fields=[type_.key_field, type_.item_field])
    validity = pa.py_buffer(np.packbits(has_value.any(axis=1), bitorder="little"))
    return pa.Array.from_buffers(type_, size, [validity, pa.py_buffer(offsets)], children=[entries])
