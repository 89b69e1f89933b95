"""File statistics from the log, column by column: JSON text, or the structs of a checkpoint, to stored-form values.

Only the columns that a filter mentions are read. A value that is damaged, of another type or absent is
unknown. Unknown values never skip a file (delta F2).

Spec: Delta, "Per-file Statistics".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.metadata.delta.bounds import from_json, from_struct, has_bounds, lower_bounds, upper_bounds
from harness.metadata.filters.skipping import ColumnBounds
from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import Mask, array_of, field_at, from_numpy, null_where, scalar_of, to_numpy
from harness.metadata.plan.projection import stored_name
from harness.storage.records import dataclass

_ROWS, _NULLS = "numRecords", "nullCount"
_BOUNDS = ("minValues", "maxValues")
# Spark writes the row count first; anything else goes the long way.
_LEADING_ROWS = r'^[ \t\n\r]*\{[ \t\n\r]*"numRecords"[ \t\n\r]*:[ \t\n\r]*(?P<rows>[1-9][0-9]{0,17})[ \t\n\r]*[,}]'
_BLOCK_BYTES = 1 << 22
FEW_TEXTS = 16
"""So many texts are parsed one by one in less time than pyarrow takes to begin."""
SLICE_ROWS = 1 << 15
"""Texts are parsed so many at a time: a copy of all of them would be the largest thing in memory."""


def _data_of(texts: pa.Array, offsets: type[np.int32 | np.int64]) -> pa.Buffer:
    """String arrays hold their text in one piece."""
    _, bounds, data = texts.buffers()
    start, end = np.frombuffer(bounds, offsets)[[texts.offset, texts.offset + len(texts)]].tolist()
    return data.slice(start, end - start)


@dataclass(frozen=True, slots=True)
class StatisticsColumn:
    """A column that may have statistics: a single value, at the top or in structs (delta F5).

    path: physical names from the top, under which the log knows it (delta T12).
    """

    field: dt.Field
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StatisticsBounds:
    """Statistics of one column as arrays, one value per file; null is unknown.

    lower, upper: Bounds that all values but nulls and NaN lie within, of `bound_type`.
    nulls: Rows that are null, at least 0 and at most all; null where the file's row count is unknown.
    """

    lower: pa.Array
    upper: pa.Array
    nulls: pa.Array


@dataclass(frozen=True, slots=True)
class FileStats:
    """Statistics of some files, by their place in the list that was read.

    rows: Physical rows; null is unknown. columns: By field id.
    """

    rows: pa.Array
    columns: Mapping[int, StatisticsBounds]

    def bounds(self, column: dt.Field) -> ColumnBounds | None:
        """Return the facts of a column; None: its statistics were not read.

        Nothing is known without a null count (delta F3). No writer counts NaN.
        """
        found = self.columns.get(column.id)
        if found is None:
            return None
        return ColumnBounds.from_statistics(
            column.type,
            lower=found.lower,
            upper=found.upper,
            values=self.rows,
            nulls=found.nulls,
            usable=to_numpy(found.nulls.is_valid()),
        )


def statistics_columns(schema: dt.Schema, ids: Iterable[int]) -> tuple[StatisticsColumn, ...]:
    """The columns with these field ids that may have statistics."""
    leaf_columns = frozenset(ids)
    return tuple(leaf for f in schema.fields for leaf in _leaf_columns(f, ()) if leaf.field.id in leaf_columns)


def record_counts(files: pa.Table) -> npt.NDArray[np.int64]:
    """Physical rows per file of a `FILES_STATE` table; -1 is unknown. A count of 0 has been looked at twice."""
    counts = np.full(files.num_rows, -1, dtype=np.int64)
    if "stats" in files.column_names and 0 < files.num_rows <= FEW_TEXTS:
        found = [re.match(_LEADING_ROWS, text or "") for text in files.column("stats").to_pylist()]
        counts[:] = [-1 if match is None else int(match["rows"]) for match in found]
    elif "stats" in files.column_names and files.num_rows:
        rows = pc.struct_field(pc.extract_regex(files.column("stats"), _LEADING_ROWS), "rows").cast(pa.int64())
        counts = to_numpy(rows.fill_null(scalar_of(-1, pa.int64()))).copy()
    unknown = np.flatnonzero(counts < 0)
    if unknown.size:
        read = read_statistics(files, (), indices=unknown).rows
        counts[unknown] = to_numpy(pc.fill_null(read, scalar_of(-1, pa.int64())))
    return counts


def read_statistics(
    files: pa.Table, leaf_columns: Sequence[StatisticsColumn], *, indices: npt.NDArray[np.int64] | None = None
) -> FileStats:
    """Statistics of files of a `FILES_STATE` table: the JSON text, where there is none the struct (delta F10).

    places: the files; None: all of them.
    """
    files = files.select(
        [name for name in ("stats", "stats_parsed") if name in files.column_names] or files.column_names
    )
    if indices is not None and len(indices) < files.num_rows:
        files = files.take(from_numpy(indices))
    starts = range(0, max(files.num_rows, 1), SLICE_ROWS)
    parts = [_read_slice(files.slice(start, SLICE_ROWS), leaf_columns) for start in starts]
    counts, *bounds = (pa.concat_arrays(pieces) for pieces in zip(*(part.columns for part in parts), strict=True))
    counted = to_numpy(pc.fill_null(counts, scalar_of(-1, pa.int64())))
    rows = null_where(counts, counted < 0)
    columns: dict[int, StatisticsBounds] = {}
    for leaf, lower, upper, nulls in zip(leaf_columns, bounds[0::3], bounds[1::3], bounds[2::3], strict=True):
        null_counts = to_numpy(pc.fill_null(nulls, scalar_of(-1, pa.int64())))
        columns[leaf.field.id] = StatisticsBounds(
            lower_bounds(lower, leaf.field.type),
            upper_bounds(upper, leaf.field.type),
            from_numpy(null_counts, missing=(null_counts < 0) | (null_counts > counted)),
        )
    return FileStats(rows, columns)


@dataclass(frozen=True, slots=True)
class _RecordedStatistics:
    """Statistics of files as they are recorded.

    stated: Where there are any. columns: The row count, then each wanted column's lower and upper bound and null count.
    """

    is_recorded: Mask
    columns: Sequence[pa.Array]


def _read_slice(files: pa.Table, leaf_columns: Sequence[StatisticsColumn]) -> _RecordedStatistics:
    texts = _read_texts(files, leaf_columns)
    if "stats_parsed" not in files.column_names or texts.is_recorded.all():
        return texts
    structs, chosen = _read_structs(files.column("stats_parsed"), leaf_columns), from_numpy(texts.is_recorded)
    pairs = zip(texts.columns, structs.columns, strict=True)
    return _RecordedStatistics(
        texts.is_recorded | structs.is_recorded, [pc.if_else(chosen, text, struct) for text, struct in pairs]
    )


def _leaf_columns(field: dt.Field, above: tuple[str, ...]) -> Iterable[StatisticsColumn]:
    path = (*above, stored_name(field))
    if isinstance(field.type, dt.StructType):
        for inner in field.type.fields:
            yield from _leaf_columns(inner, path)
    elif not dt.children(field.type):
        yield StatisticsColumn(field, path)


def _read_texts(files: pa.Table, leaf_columns: Sequence[StatisticsColumn]) -> _RecordedStatistics:
    """The statistics in JSON texts. Damaged texts are as good as none."""
    size = files.num_rows
    texts = files.column("stats").combine_chunks() if "stats" in files.column_names else pa.nulls(size, pa.string())
    if isinstance(texts, pa.ChunkedArray):  # no rows
        texts = pa.nulls(0, pa.string())
    # What stands in null texts is looked at too: a search in each text takes ten times as long.
    whole = _data_of(texts, np.int32).to_pybytes() if len(texts) > texts.null_count else b""
    lines = texts
    for separator in ("\n", "\r"):
        if separator.encode() in whole:
            lines = pc.replace_substring(lines, pattern=separator, replacement=" ")
    present = pc.fill_null(pc.starts_with(lines, "{"), scalar_of(False, pa.bool_()))
    if pc.sum(present).as_py() != size - lines.null_count:
        # What is no object says nothing; pyarrow 26 also crashes on texts that are all `null`.
        lines = pc.utf8_ltrim_whitespace(lines)
        present = pc.fill_null(pc.starts_with(lines, "{"), scalar_of(False, pa.bool_()))
    indices = np.flatnonzero(to_numpy(present))
    compact = lines if indices.size == size else lines.filter(present)
    parsed = _parse_all(compact, leaf_columns) if indices.size > FEW_TEXTS else None
    found = _parse_each(compact.to_pylist(), leaf_columns) if parsed is None else parsed
    if indices.size == size:
        return found
    index, stated = np.full(size, -1, dtype=np.int64), np.zeros(size, dtype=np.bool_)
    index[indices], stated[indices] = np.arange(indices.size), found.is_recorded
    spread = from_numpy(index, missing=index < 0)
    return _RecordedStatistics(stated, [column.take(spread) for column in found.columns])


def _parse_all(lines: pa.Array, leaf_columns: Sequence[StatisticsColumn]) -> _RecordedStatistics | None:
    """All texts in one go; None if any of them is not as expected."""
    # Scales for which pyarrow 26 looks beyond its table: 1e-77 is 0 to it, and 1e-999999999 ends the process.
    long_decimal = r"[0-9][eE][+-]?[0-9]{2}|\.[0-9]{29}"
    has_decimals = any(isinstance(leaf.field.type, dt.DecimalType) for leaf in leaf_columns)
    if has_decimals and pc.any(pc.match_substring_regex(lines, long_decimal)).as_py():
        return None
    # A text that breaks off before a value goes on in the next one, and another of two objects would make up for it.
    if not pc.all(pc.ends_with(pc.utf8_rtrim_whitespace(lines), "}")).as_py():
        return None
    import pyarrow.json

    string = pa.large_string()
    ended = pc.binary_join_element_wise(lines.cast(string), pa.scalar("", string), pa.scalar("\n", string))
    longest = 2 * int(pc.max(pc.binary_length(lines)).as_py()) + 2  # more bytes than any line
    blocks = pyarrow.json.ReadOptions(block_size=max(_BLOCK_BYTES, longest))
    bounds = _nested_type(
        [(leaf.path, _json_type(leaf.field.type)) for leaf in leaf_columns if has_bounds(leaf.field.type)]
    )
    counts = _nested_type([(leaf.path, pa.int64()) for leaf in leaf_columns])
    schema = pa.schema([(_ROWS, pa.int64()), *((name, bounds) for name in _BOUNDS), (_NULLS, counts)])
    parsing = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    try:
        text = pa.BufferReader(_data_of(ended, np.int64))
        table = pyarrow.json.read_json(text, read_options=blocks, parse_options=parsing)
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(lines):
        return None
    columns = [_combine(table.column(_ROWS))]
    for leaf in leaf_columns:
        for bound in _BOUNDS:
            stored = _field_or_nulls(_combine(table.column(bound)), leaf.path)
            columns.append(from_json(stored, leaf.field.type))
        columns.append(_field_or_nulls(_combine(table.column(_NULLS)), leaf.path))
    return _RecordedStatistics(np.ones(len(lines), dtype=np.bool_), columns)


def _nested_type(columns: Sequence[tuple[tuple[str, ...], pa.DataType]]) -> pa.DataType:
    groups: dict[str, list[tuple[tuple[str, ...], pa.DataType]]] = {}
    for path, type_ in columns:
        groups.setdefault(path[0], []).append((path[1:], type_))
    return pa.struct(
        [
            pa.field(name, members[0][1] if members[0][0] == () else _nested_type(members))
            for name, members in groups.items()
        ]
    )


def _json_type(type_: dt.Type) -> pa.DataType:
    match type_:
        case dt.IntegerType():
            return pa.int64()
        case dt.FloatType():
            return pa.float64()
        case dt.DecimalType(scale=scale):
            return pa.decimal128(38, scale)
        case _:
            return pa.string()


def _combine(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _parse_each(lines: Sequence[str], leaf_columns: Sequence[StatisticsColumn]) -> _RecordedStatistics:
    """Text by text, each value for itself: one that is damaged costs only what it says."""
    documents = [parse_document(line) for line in lines]
    columns = [_counts(documents, (_ROWS,))]
    for leaf in leaf_columns:
        for bound in _BOUNDS:
            columns.append(from_json([value_at(stats, (bound, *leaf.path)) for stats in documents], leaf.field.type))
        columns.append(_counts(documents, (_NULLS, *leaf.path)))
    return _RecordedStatistics(np.array([stats is not None for stats in documents], dtype=np.bool_), columns)


def parse_document(line: str) -> Any:
    """The JSON object of a file's statistics; None: it is none. Numbers that are no JSON, such as NaN, are None."""
    try:
        found = json.loads(line, parse_float=Decimal, parse_constant=lambda _: None)
    except (ValueError, ArithmeticError, RecursionError):  # Decimal has no exponents of twenty digits
        return None
    return found if isinstance(found, dict) else None


def value_at(value: Any, path: tuple[str, ...]) -> Any:
    """The value below names, from the top down; None: there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _counts(documents: Sequence[Any], path: tuple[str, ...]) -> pa.Array:
    values = [value_at(stats, path) for stats in documents]
    is_count = [type(value) is int and -(1 << 63) <= value < 1 << 63 for value in values]
    return array_of([value if fits else None for value, fits in zip(values, is_count, strict=True)], pa.int64())


def _read_structs(column: pa.ChunkedArray, leaf_columns: Sequence[StatisticsColumn]) -> _RecordedStatistics:
    """The statistics in structs, which may lag behind the schema or have other types (delta F10)."""
    array = _combine(column)
    columns = [from_struct(_field_or_nulls(array, (_ROWS,)), dt.IntegerType(64))]
    for leaf in leaf_columns:
        columns += (from_struct(_field_or_nulls(array, (bound, *leaf.path)), leaf.field.type) for bound in _BOUNDS)
        columns.append(from_struct(_field_or_nulls(array, (_NULLS, *leaf.path)), dt.IntegerType(64)))
    return _RecordedStatistics(to_numpy(array.is_valid()), columns)


def _field_or_nulls(array: pa.Array, path: tuple[str, ...]) -> pa.Array:
    """The values at a path; nulls where a struct on the way is null or has no such field."""
    found = field_at(array, path)
    return pa.nulls(len(array)) if found is None else found
