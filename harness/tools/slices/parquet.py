"""Parquet files without some of their rows or columns; types, field ids, names and footer texts of them stay."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.errors import CorruptFileError, UnsupportedError
from harness.metadata.files.parquet import open_parquet
from harness.metadata.model.arrow_values import from_numpy, plain_type
from harness.metadata.model.schema import Field
from harness.testing.writing.arrow import write_columnless_parquet
from harness.tools.slices.masking import OLD_INT96, Mask, check_calendar, check_stored

_ANNOTATION = re.compile(r"field_id=\d+|\([A-Z]\w+")
_CODECS = {"UNCOMPRESSED": "none", "SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd", "LZ4": "lz4"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowIds:
    """The column in which a file that loses rows keeps the ids of the others.

    name, field_id: of the column; None: it has no id. place: where the file has it already; None: it has none.
    first: the id of the file's first row, for rows without one of their own.
    """

    name: str
    field_id: int | None
    place: int | None
    first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What becomes of a file.

    rows: positions that stay, ascending; None: all.
    places: of the top-level columns that stay, ascending; None: all.
    instants: places of columns whose values are instants, which INT96 does not say of itself.
    row_ids: None: rows have no ids, or all of them stay where they are.
    mask: gives the columns at the places of `masked`, which are those of the table, other values; None: none.
    """

    rows: npt.NDArray[np.int64] | None = None
    places: Sequence[int] | None = None
    instants: frozenset[int] = frozenset()
    row_ids: RowIds | None = None
    mask: Mask | None = None
    masked: Mapping[int, Field] = field(default_factory=dict)


def cut_file(source: Path, target: Path, cut: Cut, *, name: str) -> int:
    """Writes the file with the rows and columns that stay; how many rows it has.

    name: of the source, for messages.

    Raises:
        UnsupportedError: a column would become one of another type.
        CorruptFileError: the source cannot be read.
    """
    try:
        return _cut(source, target, cut, name)
    except pa.ArrowException as error:
        raise CorruptFileError(f"Cannot rewrite data file: {error}", cause="CorruptDataFile", file=name) from error


def _cut(source: Path, target: Path, cut: Cut, name: str) -> int:
    with open_parquet(source) as file:
        places = range(len(file.schema_arrow)) if cut.places is None else cut.places
        count = file.metadata.num_rows if cut.rows is None else len(cut.rows)
        if not places and cut.row_ids is None:
            write_columnless_parquet(target, [count] if count else [], {})
            return count
        stored = pa.schema([f.with_type(plain_type(f.type)) for f in file.schema_arrow], file.schema_arrow.metadata)
        schema = _schema(file, stored, places, cut, name)
        if cut.mask is not None:
            schema = _masked_schema(stored, schema, cut, name)
        with pq.ParquetWriter(target, schema, store_schema=False, **_settings(file)) as out:
            start = 0
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                kept = None if cut.rows is None else cut.rows[slice(*np.searchsorted(cut.rows, (start, start + rows)))]
                if kept is None or len(kept):
                    table = file.read_row_group(group, use_threads=False)
                    out.write_table(_chosen(table, kept, start, schema, places, cut))
                start += rows
        _check_unchanged(file, target, places, name)
        return count


def _chosen(
    table: pa.Table,
    kept: npt.NDArray[np.int64] | None,
    start: int,
    schema: pa.Schema,
    places: Sequence[int],
    cut: Cut,
) -> pa.Table:
    columns = [table.column(place) for place in places]
    if cut.row_ids is not None:
        ids = from_numpy(np.arange(table.num_rows, dtype=np.int64) + (cut.row_ids.first + start))
        own = None if cut.row_ids.place is None else table.column(cut.row_ids.place)
        columns.append(pa.chunked_array([ids]) if own is None else pc.coalesce(own, ids))
    typed = [column.cast(wanted.type) for column, wanted in zip(columns, schema, strict=True)]
    if cut.mask is not None:
        for index, place in enumerate(places):
            typed[index] = cut.mask.column(typed[index]) if place in cut.masked else typed[index]
    chosen = pa.Table.from_arrays(typed, schema=schema)
    return chosen if kept is None else chosen.take(from_numpy(kept - start))


def _schema(file: pq.ParquetFile, stored: pa.Schema, places: Sequence[int], cut: Cut, name: str) -> pa.Schema:
    """Of the new file: as the old one's, in which INT96, which nobody writes any more, says what it means."""
    int96 = {
        column.path.split(".", 1)[0] if "." in column.path else column.path
        for column in map(file.schema.column, range(len(file.schema.names)))
        if column.physical_type == "INT96"
    }
    fields = []
    for place in places:
        column = stored.field(place)
        if column.name in int96:
            if not pa.types.is_timestamp(column.type) or OLD_INT96 in (stored.metadata or {}):
                raise UnsupportedError(
                    f"Cannot rewrite column {column.name}: it holds INT96 in a nested type, or in the old calendar; "
                    "pull whole files",
                    file=name,
                    field=column.name,
                )
            column = column.with_type(pa.timestamp("us", "UTC" if place in cut.instants else None))
        fields.append(column)
    if cut.row_ids is not None:
        id_ = cut.row_ids.field_id
        marks = {} if id_ is None else {"PARQUET:field_id": str(id_)}
        fields.append(pa.field(cut.row_ids.name, pa.int64(), metadata=marks))
    return pa.schema(fields, metadata=stored.metadata)


def _masked_schema(stored: pa.Schema, schema: pa.Schema, cut: Cut, name: str) -> pa.Schema:
    """Without texts that a writer left; refuses what has no other values."""
    check_calendar(stored.metadata, file=name)
    for place, column in cut.masked.items():
        check_stored(column, stored.field(place), file=name)
    return schema.remove_metadata()


def _settings(file: pq.ParquetFile) -> dict[str, Any]:
    """Compression, and how decimals are stored, as in the file."""
    columns = [file.schema.column(i) for i in range(len(file.schema.names))]
    decimals = [c for c in columns if c.logical_type.type == "DECIMAL"]
    codec = "snappy"
    if file.num_row_groups and columns:
        codec = _CODECS.get(file.metadata.row_group(0).column(0).compression, codec)
    return {
        "compression": codec,
        "store_decimal_as_integer": any(c.physical_type in ("INT32", "INT64") for c in decimals),
    }


def _check_unchanged(old: pq.ParquetFile, target: Path, places: Sequence[int], name: str) -> None:
    """Refuses what the library does not write as it has read it, such as an annotation that it does not know."""
    with open_parquet(target) as new:
        before, after = _blocks(old.schema), _blocks(new.schema)
        for place, (column, block) in zip(places, zip(new.schema_arrow, after, strict=False), strict=False):
            then = before[place]
            same = sorted(_ANNOTATION.findall(then)) == sorted(_ANNOTATION.findall(block))
            if then != block and "int96" not in then and not same:
                raise UnsupportedError(
                    f"Cannot rewrite column {column.name}: {' '.join(then.split())} would become "
                    f"{' '.join(block.split())}; pull whole files",
                    file=name,
                    field=column.name,
                )


def _blocks(schema: pq.ParquetSchema) -> list[str]:
    """What the schema says of each top-level column, as text."""
    blocks: list[str] = []
    for line in str(schema).splitlines()[2:]:
        if line.startswith("  ") and not line.startswith(("   ", "  }")):
            blocks.append(line)
        elif blocks:
            blocks[-1] += f"\n{line}"
    return blocks
