"""Files whose rows are read through Arrow: Avro, ORC, and the Parquet files that an engine would not read right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import UnionType

import pyarrow as pa

from harness.engines.shared.data_files import FileName, check_file, check_format
from harness.errors import CorruptFileError, HarnessError
from harness.files.arrow_parquet import open_parquet, row_count, whole
from harness.files.wkb import canonical_wkb
from harness.limits import contained
from harness.model.arrow_rebuild import children_of, nested_type, with_children
from harness.model.schema import Field, GeographyType, GeometryType, VariantType, children
from harness.plan.projection import ColumnSource, PhysicalSchema, Stored
from harness.storage.stores import Storage


def variants(fields: Sequence[Field], sources: Sequence[ColumnSource]) -> Iterable[tuple[int, ...]]:
    """The stored columns, at any level, that the table reads as variant: their places from the top level down."""
    return _stored_as(VariantType, fields, sources)


def geometries(fields: Sequence[Field], sources: Sequence[ColumnSource]) -> Iterable[tuple[int, ...]]:
    """The stored columns, at any level, that the table reads as geometry or geography: their places."""
    return _stored_as(GeometryType | GeographyType, fields, sources)


def _stored_as(
    kind: type | UnionType, fields: Sequence[Field], sources: Sequence[ColumnSource]
) -> Iterable[tuple[int, ...]]:
    for target, source in zip(fields, sources, strict=True):
        if not isinstance(source, Stored):
            continue
        if isinstance(target.type, kind):
            yield (source.place,)
        else:
            inner_places = _stored_as(kind, children(target.type), source.parts)
            yield from ((source.place, *inner) for inner in inner_places)


def load(file: FileName, file_format: str, storage: Storage, *, table: str) -> tuple[PhysicalSchema, pa.Table]:
    """All rows of an Avro or ORC file in physical order, and its physical schema.

    Raises:
        UnsupportedError: another format (iceberg 7.5).
        MissingFileError, EncryptedTableError, CorruptFileError, LimitError: naming the file.
    """
    check_format(file, file_format, table=table)
    check_file(file, storage, table=table)
    try:
        data, name = storage.read(file.physical), str(file)
        with contained(file=name):
            if file_format == "orc":
                from harness.files.orc import read_orc

                return read_orc(data, file=name, limits=storage.limits)
            from harness.files.avro import read_avro

            return read_avro(data, file=name, limits=storage.limits)
    except HarnessError as error:
        raise error.within(table=table) from error.__cause__


def load_parquet(
    file: FileName,
    schema: PhysicalSchema,
    fields: Sequence[Field],
    sources: Sequence[ColumnSource],
    storage: Storage,
    *,
    table: str,
) -> pa.Table:
    """All rows of a Parquet file in physical order; variant columns become JSON text.

    Raises:
        CorruptFileError: the file or a variant value cannot be decoded.
        LimitError: it has more rows than are read at once.
    """
    try:
        with contained(file=str(file)):
            return _load_parquet(file, schema, fields, sources, storage)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise CorruptFileError(
            f"Cannot read file: {error}", cause="CorruptDataFile", table=table, file=str(file)
        ) from error
    except HarnessError as error:
        raise error.within(table=table, file=str(file)) from error.__cause__


def _load_parquet(
    file: FileName, schema: PhysicalSchema, fields: Sequence[Field], sources: Sequence[ColumnSource], storage: Storage
) -> pa.Table:
    from harness.files.variant import variant_to_json

    data = storage.read(file.physical)
    opened = open_parquet(pa.BufferReader(data), arrow_extensions_enabled=False)
    count = row_count(opened.metadata, file=str(file))
    storage.limits.check("rows", count, "rows", file=str(file))
    rows = opened.read()
    if not schema:
        return rows  # a table that is made of no arrays has no rows
    whole(rows, count, file=str(file))
    encoded = set(variants(fields, sources))
    columns = [_mapped(rows.column(i).combine_chunks(), (i,), encoded, variant_to_json) for i in range(len(schema))]
    return pa.table(columns, names=[str(i) for i in range(len(columns))])


def with_canonical_geometries(
    rows: pa.Table, fields: Sequence[Field], sources: Sequence[ColumnSource], *, file: FileName, table: str
) -> pa.Table:
    """The rows with all geometries in one form, see `harness.files.wkb` (frontier F1.6).

    Raises:
        CorruptFileError: a value is no WKB (frontier F1.7).
    """
    found = set(geometries(fields, sources))
    for source in sources:
        if not isinstance(source, Stored) or not any(path[0] == source.place for path in found):
            continue
        place = source.place
        try:
            column = _mapped(rows.column(place).combine_chunks(), (place,), found, _canonical)
        except ValueError as error:
            raise CorruptFileError(
                f"Cannot read file: a geometry is no well-known binary: {error}; restore it",
                cause="CorruptDataFile",
                table=table,
                file=str(file),
                field=source.physical.name,
                rule="frontier F1.7",
            ) from error
        rows = rows.set_column(place, rows.column_names[place], column)
    return rows


def _canonical(array: pa.Array) -> pa.Array:
    return pa.array([None if v is None else canonical_wkb(v) for v in array.to_pylist()], pa.binary())


def _mapped(
    array: pa.Array, place: tuple[int, ...], chosen: set[tuple[int, ...]], change: Callable[[pa.Array], pa.Array]
) -> pa.Array:
    """`array` with the chosen columns in it, at any level, changed."""
    if place in chosen:
        return change(array)
    if not any(path[: len(place)] == place for path in chosen):
        return array
    parts = [_mapped(child, (*place, i), chosen, change) for i, child in enumerate(children_of(array))]
    return with_children(array, parts, nested_type(array.type, [part.type for part in parts]))
