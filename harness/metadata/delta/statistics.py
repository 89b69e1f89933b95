"""File statistics from the log, as one array for each column.

The log stores statistics as JSON text, and checkpoints also as structs. Only the columns that a filter uses are read. A
value that is damaged, missing, or of another type is unknown, and unknown values never skip a file (delta F2).

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
# Spark writes the row count first. Texts in another form are parsed as JSON.
_LEADING_ROWS = r'^[ \t\n\r]*\{[ \t\n\r]*"numRecords"[ \t\n\r]*:[ \t\n\r]*(?P<rows>[1-9][0-9]{0,17})[ \t\n\r]*[,}]'
_BLOCK_BYTES = 1 << 22
FEW_TEXTS = 16
"""The number of texts that are parsed faster one by one than by pyarrow, which takes longer to start."""
SLICE_ROWS = 1 << 15
"""The number of texts parsed at a time. A copy of all texts would be the largest object in memory."""


def _data_of(texts: pa.Array, offsets: type[np.int32 | np.int64]) -> pa.Buffer:
    """Return the data buffer of a string array, which holds the texts back to back."""
    _, bounds, data = texts.buffers()
    start, end = np.frombuffer(bounds, offsets)[[texts.offset, texts.offset + len(texts)]].tolist()
    return data.slice(start, end - start)


@dataclass(frozen=True, slots=True)
class StatisticsColumn:
    """A column that may have statistics: not a list or map, at the top level or within structs (delta F5).

    Attributes:
        field: The column.
        path: Its physical names from the top level down, as used in the log (delta T12).
    """

    field: dt.Field
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StatisticsBounds:
    """Statistics of one column as arrays, with one value for each file. Null means unknown.

    Attributes:
        lower: Lower bounds of all values except nulls and NaN, of `bound_type`.
        upper: Upper bounds of all values except nulls and NaN, of `bound_type`.
        nulls: The number of null rows, at least 0 and at most all rows. Null if the file's row count is unknown.
    """

    lower: pa.Array
    upper: pa.Array
    nulls: pa.Array


@dataclass(frozen=True, slots=True)
class FileStats:
    """Statistics of some files, in the order of the files that were read.

    Attributes:
        rows: The number of physical rows. Null: unknown.
        columns: The statistics of each column, by field id.
    """

    rows: pa.Array
    columns: Mapping[int, StatisticsBounds]

    def bounds(self, column: dt.Field) -> ColumnBounds | None:
        """Return the facts about a column, or None if its statistics were not read.

        If the null count of a column is unknown, so are all facts about it (delta F3). Writers do not count NaN.
        """
        bounds = self.columns.get(column.id)
        if bounds is None:
            return None
        return ColumnBounds.from_statistics(
            column.type,
            lower=bounds.lower,
            upper=bounds.upper,
            values=self.rows,
            nulls=bounds.nulls,
            usable=to_numpy(bounds.nulls.is_valid()),
        )


def statistics_columns(schema: dt.Schema, ids: Iterable[int]) -> tuple[StatisticsColumn, ...]:
    """Return the columns with these field ids that may have statistics."""
    wanted_ids = frozenset(ids)
    return tuple(leaf for f in schema.fields for leaf in _leaf_columns(f, ()) if leaf.field.id in wanted_ids)


def record_counts(files: pa.Table) -> npt.NDArray[np.int64]:
    """Return the physical row count of each file in a `FILES_STATE` table, with -1 for unknown.

    A count of 0 is only returned if the complete statistics confirm it.
    """
    counts = np.full(files.num_rows, -1, dtype=np.int64)
    if "stats" in files.column_names and 0 < files.num_rows <= FEW_TEXTS:
        matches = [re.match(_LEADING_ROWS, text or "") for text in files.column("stats").to_pylist()]
        counts[:] = [-1 if match is None else int(match["rows"]) for match in matches]
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
    """Read the statistics of files in a `FILES_STATE` table, from the JSON text or else from the struct.

    Args:
        files: The files.
        leaf_columns: The columns whose bounds are read.
        indices: The indices of the files to read. None: all of them.

    Spec: rule delta F10.
    """
    files = files.select(
        [name for name in ("stats", "stats_parsed") if name in files.column_names] or files.column_names
    )
    if indices is not None and len(indices) < files.num_rows:
        files = files.take(from_numpy(indices))
    starts = range(0, max(files.num_rows, 1), SLICE_ROWS)
    parts = [_read_slice(files.slice(start, SLICE_ROWS), leaf_columns) for start in starts]
    counts, *bounds = (pa.concat_arrays(pieces) for pieces in zip(*(part.columns for part in parts), strict=True))
    row_counts = to_numpy(pc.fill_null(counts, scalar_of(-1, pa.int64())))
    rows = null_where(counts, row_counts < 0)
    columns: dict[int, StatisticsBounds] = {}
    for leaf, lower, upper, nulls in zip(leaf_columns, bounds[0::3], bounds[1::3], bounds[2::3], strict=True):
        null_counts = to_numpy(pc.fill_null(nulls, scalar_of(-1, pa.int64())))
        columns[leaf.field.id] = StatisticsBounds(
            lower_bounds(lower, leaf.field.type),
            upper_bounds(upper, leaf.field.type),
            from_numpy(null_counts, missing=(null_counts < 0) | (null_counts > row_counts)),
        )
    return FileStats(rows, columns)


@dataclass(frozen=True, slots=True)
class _RecordedStatistics:
    """Statistics of files as recorded.

    Attributes:
        is_recorded: A mask of the files that have statistics.
        columns: The row count, followed by the lower bound, upper bound, and null count of each column.
    """

    is_recorded: Mask
    columns: Sequence[pa.Array]


def _read_slice(files: pa.Table, leaf_columns: Sequence[StatisticsColumn]) -> _RecordedStatistics:
    texts = _read_texts(files, leaf_columns)
    if "stats_parsed" not in files.column_names or texts.is_recorded.all():
        return texts
    structs, has_text = _read_structs(files.column("stats_parsed"), leaf_columns), from_numpy(texts.is_recorded)
    pairs = zip(texts.columns, structs.columns, strict=True)
    return _RecordedStatistics(
        texts.is_recorded | structs.is_recorded, [pc.if_else(has_text, text, struct) for text, struct in pairs]
    )


def _leaf_columns(field: dt.Field, above: tuple[str, ...]) -> Iterable[StatisticsColumn]:
    path = (*above, stored_name(field))
    if isinstance(field.type, dt.StructType):
        for inner in field.type.fields:
            yield from _leaf_columns(inner, path)
    elif not dt.children(field.type):
        yield StatisticsColumn(field, path)


def _read_texts(files: pa.Table, leaf_columns: Sequence[StatisticsColumn]) -> _RecordedStatistics:
    """Return the statistics in JSON texts. A damaged text counts as missing."""
    size = files.num_rows
    texts = files.column("stats").combine_chunks() if "stats" in files.column_names else pa.nulls(size, pa.string())
    if isinstance(texts, pa.ChunkedArray):  # the array has no rows
        texts = pa.nulls(0, pa.string())
    # The bytes under null texts are searched too: searching each text separately takes 10 times as long.
    whole = _data_of(texts, np.int32).to_pybytes() if len(texts) > texts.null_count else b""
    lines = texts
    for separator in ("\n", "\r"):
        if separator.encode() in whole:
            lines = pc.replace_substring(lines, pattern=separator, replacement=" ")
    present = pc.fill_null(pc.starts_with(lines, "{"), scalar_of(False, pa.bool_()))
    if pc.sum(present).as_py() != size - lines.null_count:
        # A text that is not an object has no statistics. Also, pyarrow 26 crashes if all texts are `null`.
        lines = pc.utf8_ltrim_whitespace(lines)
        present = pc.fill_null(pc.starts_with(lines, "{"), scalar_of(False, pa.bool_()))
    indices = np.flatnonzero(to_numpy(present))
    compact = lines if indices.size == size else lines.filter(present)
    parsed = _parse_all(compact, leaf_columns) if indices.size > FEW_TEXTS else None
    recorded = _parse_each(compact.to_pylist(), leaf_columns) if parsed is None else parsed
    if indices.size == size:
        return recorded
    index, is_recorded = np.full(size, -1, dtype=np.int64), np.zeros(size, dtype=np.bool_)
    index[indices], is_recorded[indices] = np.arange(indices.size), recorded.is_recorded
    spread = from_numpy(index, missing=index < 0)
    return _RecordedStatistics(is_recorded, [column.take(spread) for column in recorded.columns])


def _parse_all(lines: pa.Array, leaf_columns: Sequence[StatisticsColumn]) -> _RecordedStatistics | None:
    """Parse all texts at once; return None if any text has an unexpected form."""
    # With exponents like these, pyarrow 26 reads beyond its table: it parses 1e-77 as 0, and 1e-999999999 ends the
    # process.
    long_decimal = r"[0-9][eE][+-]?[0-9]{2}|\.[0-9]{29}"
    has_decimals = any(isinstance(leaf.field.type, dt.DecimalType) for leaf in leaf_columns)
    if has_decimals and pc.any(pc.match_substring_regex(lines, long_decimal)).as_py():
        return None
    # A text that breaks off before a value would continue in the next text. A text with two objects could then hide the
    # wrong number of rows.
    if not pc.all(pc.ends_with(pc.utf8_rtrim_whitespace(lines), "}")).as_py():
        return None
    import pyarrow.json

    string = pa.large_string()
    ended = pc.binary_join_element_wise(lines.cast(string), pa.scalar("", string), pa.scalar("\n", string))
    longest = 2 * int(pc.max(pc.binary_length(lines)).as_py()) + 2  # more bytes than the longest line
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
    """Parse each value of each text separately, so that a damaged value affects only itself."""
    documents = [parse_document(line) for line in lines]
    columns = [_counts(documents, (_ROWS,))]
    for leaf in leaf_columns:
        for bound in _BOUNDS:
            columns.append(from_json([value_at(stats, (bound, *leaf.path)) for stats in documents], leaf.field.type))
        columns.append(_counts(documents, (_NULLS, *leaf.path)))
    return _RecordedStatistics(np.array([stats is not None for stats in documents], dtype=np.bool_), columns)


def parse_document(line: str) -> Any:
    """Parse the JSON object with a file's statistics; return None if it is invalid.

    Numbers that JSON does not allow, for example NaN, are returned as None.
    """
    try:
        value = json.loads(line, parse_float=Decimal, parse_constant=lambda _: None)
    except (ValueError, ArithmeticError, RecursionError):  # Decimal does not support exponents of 20 digits
        return None
    return value if isinstance(value, dict) else None


def value_at(value: Any, path: tuple[str, ...]) -> Any:
    """Return the value at a path of keys, or None if the path does not exist."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _counts(documents: Sequence[Any], path: tuple[str, ...]) -> pa.Array:
    values = [value_at(stats, path) for stats in documents]
    is_count = [type(value) is int and -(1 << 63) <= value < 1 << 63 for value in values]
    return array_of([value if fits else None for value, fits in zip(values, is_count, strict=True)], pa.int64())


def _read_structs(column: pa.ChunkedArray, leaf_columns: Sequence[StatisticsColumn]) -> _RecordedStatistics:
    """Return the statistics in structs, which may be older than the schema or have other types (delta F10)."""
    array = _combine(column)
    columns = [from_struct(_field_or_nulls(array, (_ROWS,)), dt.IntegerType(64))]
    for leaf in leaf_columns:
        columns += (from_struct(_field_or_nulls(array, (bound, *leaf.path)), leaf.field.type) for bound in _BOUNDS)
        columns.append(from_struct(_field_or_nulls(array, (_NULLS, *leaf.path)), dt.IntegerType(64)))
    return _RecordedStatistics(to_numpy(array.is_valid()), columns)


def _field_or_nulls(array: pa.Array, path: tuple[str, ...]) -> pa.Array:
    """Return the values at a path, with nulls if a struct on the path is null or lacks the field."""
    values = field_at(array, path)
    return pa.nulls(len(array)) if values is None else values
