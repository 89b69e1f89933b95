"""File statistics from the log, column by column: JSON text, or the structs of a checkpoint, to stored-form values.

Only the columns that a filter mentions are read. A value that is damaged, of another type or absent is
unknown. Unknown values never skip a file (delta F2).

Spec: Delta, "Per-file Statistics".
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.metadata.delta.bounds import from_json, from_struct, has_bounds, lower_bounds, upper_bounds
from harness.metadata.model.arrow_values import listed, scalar_of, to_numpy
from harness.metadata.model.column_stats import ColumnBounds, ColumnStats
from harness.metadata.model.schema import (
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    Schema,
    StringType,
    StructType,
    TimestampType,
    Type,
    children,
)
from harness.metadata.plan.projection import stored_name
from harness.storage.records import dataclass

# Many JSON texts in one piece, a line each, as pyarrow reads them: line breaks are only white space in JSON.


def without_line_breaks(texts: pa.Array) -> pa.Array:
    """The texts with spaces for line breaks; a string array, as it is given."""
    # What stands in null texts is looked at too: a search in each text takes ten times as long.
    whole = _data_of(texts, np.int32).to_pybytes() if len(texts) > texts.null_count else b""
    for separator in ("\n", "\r"):
        if separator.encode() in whole:
            texts = pc.replace_substring(texts, pattern=separator, replacement=" ")
    return texts


def as_lines(texts: pa.Array) -> pa.Buffer:
    """The texts with a line break after each."""
    text = pa.large_string()
    ended = pc.binary_join_element_wise(texts.cast(text), pa.scalar("", text), pa.scalar("\n", text))
    return _data_of(ended, np.int64)


def longest_line(texts: pa.Array) -> int:
    """More bytes than the longest of the texts and its line break have."""
    return 2 * int(pc.max(pc.binary_length(texts)).as_py()) + 2


def _data_of(texts: pa.Array, offsets: type[np.int32 | np.int64]) -> pa.Buffer:
    """String arrays hold their text in one piece."""
    _, bounds, data = texts.buffers()
    start, end = np.frombuffer(bounds, offsets)[[texts.offset, texts.offset + len(texts)]].tolist()
    return data.slice(start, end - start)


Bound: TypeAlias = Literal["minValues", "maxValues"]

_ROWS, _NULLS = "numRecords", "nullCount"
_BOUNDS: tuple[Bound, Bound] = ("minValues", "maxValues")
# Spark writes the row count first; anything else goes the long way.
_LEADING_ROWS = r'^[ \t\n\r]*\{[ \t\n\r]*"numRecords"[ \t\n\r]*:[ \t\n\r]*(?P<rows>[1-9][0-9]{0,17})[ \t\n\r]*[,}]'
_BLOCK_BYTES = 1 << 22
_FEW_TEXTS = 16
"""So many texts are parsed one by one in less time than pyarrow takes to begin."""
_SLICE_ROWS = 1 << 15
"""Texts are parsed so many at a time: a copy of all of them would be the largest thing in memory."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column that may have statistics: a single value, at the top or in structs (delta F5).

    path: physical names from the top, under which the log knows it (delta T12).
    """

    field: Field
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StatisticsBounds:
    """Statistics of one column, per file as internal values; None is unknown. All lists, or all Arrow arrays.

    lower, upper: bounds that all values but nulls and NaN lie within.
    nulls: rows that are null, at least 0 and at most all; None where the file's row count is unknown.
    """

    lower: Sequence[Any] | pa.Array
    upper: Sequence[Any] | pa.Array
    nulls: Sequence[int | None] | pa.Array


@dataclass(frozen=True, slots=True)
class FileStats:
    """Statistics of some files, by their place in the list that was read.

    rows: physical rows; None is unknown.
    columns: by field id.
    """

    rows: Sequence[int | None] | pa.Array
    columns: Mapping[int, StatisticsBounds]

    def as_arrays(self, wanted: Sequence[Leaf]) -> FileStats | None:
        """The same as Arrow arrays; None: values of the columns are not held in such, or a value does not fit."""
        columns: dict[int, StatisticsBounds] = {}
        try:
            for leaf in wanted:
                type_, bounds = array_type(leaf.field.type), self.columns[leaf.field.id]
                if type_ is None:
                    return None
                lower, upper = as_array(bounds.lower, type_), as_array(bounds.upper, type_)
                columns[leaf.field.id] = StatisticsBounds(lower, upper, as_array(bounds.nulls, pa.int64()))
            return FileStats(as_array(self.rows, pa.int64()), columns)
        except (pa.ArrowException, OverflowError, UnicodeError):
            return None

    def of(self, place: int) -> Callable[[Field], ColumnStats | None]:
        """The statistics of each field in one file, as `harness.metadata.filters.predicate.may_match` takes them."""

        def stats(field: Field) -> ColumnStats | None:
            column = self.columns.get(field.id)
            nulls = None if column is None else _value(column.nulls, place)
            if column is None or nulls is None:  # bounds of a file that may be all null mean nothing (delta F3)
                return None
            return ColumnStats(
                lower=_value(column.lower, place),
                upper=_value(column.upper, place),
                null_count=nulls,
                value_count=_value(self.rows, place),
            )

        return stats

    def of_column(self, leaf: Leaf) -> ColumnBounds:
        """The bounds of a column in every file. Nobody counts NaN. Bounds need a null count (delta F3)."""
        found = self.columns[leaf.field.id]
        rows, nulls = listed(self.rows), listed(found.nulls)
        bounds = [
            (None, None) if null is None or (low is not None and high is not None and low > high) else (low, high)
            for low, high, null in zip(listed(found.lower), listed(found.upper), nulls, strict=True)
        ]
        counted = [
            None if null is None or not count else (null, count) for null, count in zip(nulls, rows, strict=True)
        ]
        return ColumnBounds(
            lower=[low for low, _ in bounds],
            upper=[high for _, high in bounds],
            has_nulls=np.array([known is None or known[0] > 0 for known in counted], dtype=np.bool_),
            has_nans=np.full(len(bounds), isinstance(leaf.field.type, FloatType)),
            has_values=np.array([known is None or known[0] < known[1] for known in counted], dtype=np.bool_),
        )


def array_type(type_: Type) -> pa.DataType | None:
    """The Arrow type that holds bounds of a type as internal values; None: they stay Python objects."""
    match type_:
        case IntegerType() | DateType() | TimestampType():
            return pa.int64()
        case StringType():
            return pa.string()
        case _:
            return None


def as_array(values: Sequence[Any] | pa.Array, type_: pa.DataType) -> pa.Array:
    """The values of `Bounds` as an array; ArrowException, OverflowError or UnicodeError where one does not fit."""
    return values if isinstance(values, pa.Array) else pa.array(values, type_)


def leaves(schema: Schema, ids: Iterable[int]) -> tuple[Leaf, ...]:
    """The columns with these field ids that may have statistics."""
    wanted = frozenset(ids)
    return tuple(leaf for f in schema.fields for leaf in _leaves(f, ()) if leaf.field.id in wanted)


def record_counts(files: pa.Table) -> npt.NDArray[np.int64]:
    """Physical rows per file of a `FILES_STATE` table; -1 is unknown. A count of 0 has been looked at twice."""
    counts = np.full(files.num_rows, -1, dtype=np.int64)
    if "stats" in files.column_names and 0 < files.num_rows <= _FEW_TEXTS:
        found = [re.match(_LEADING_ROWS, text or "") for text in files.column("stats").to_pylist()]
        counts[:] = [-1 if match is None else int(match["rows"]) for match in found]
    elif "stats" in files.column_names and files.num_rows:
        rows = pc.struct_field(pc.extract_regex(files.column("stats"), _LEADING_ROWS), "rows").cast(pa.int64())
        counts = to_numpy(rows.fill_null(scalar_of(-1, pa.int64()))).copy()
    unknown = np.flatnonzero(counts < 0)
    if unknown.size:
        read = read_statistics(files, (), places=unknown).rows
        counts[unknown] = [-1 if count is None else count for count in read]
    return counts


def read_statistics(
    files: pa.Table, wanted: Sequence[Leaf], *, places: npt.NDArray[np.int64] | None = None
) -> FileStats:
    """Statistics of files of a `FILES_STATE` table: the JSON text, where there is none the struct (delta F10).

    places: the files; None: all of them.
    """
    files = files.select(
        [name for name in ("stats", "stats_parsed") if name in files.column_names] or files.column_names
    )
    if places is not None and len(places) < files.num_rows:
        files = files.take(places)
    starts = range(0, max(files.num_rows, 1), _SLICE_ROWS)
    raw = _Raw.joined([_read_slice(files.slice(start, _SLICE_ROWS), wanted) for start in starts])
    rows = [count if count is not None and count >= 0 else None for count in raw.rows]
    return FileStats(
        rows,
        {
            leaf.field.id: StatisticsBounds(
                lower_bounds(lower, leaf.field.type), upper_bounds(upper, leaf.field.type), _null_counts(nulls, rows)
            )
            for leaf, (lower, upper, nulls) in zip(wanted, raw.columns, strict=True)
        },
    )


def _value(values: Sequence[Any] | pa.Array, place: int) -> Any:
    found = values[place]
    return found.as_py() if isinstance(found, pa.Scalar) else found


def _read_slice(files: pa.Table, wanted: Sequence[Leaf]) -> _Raw:
    raw = _read_texts(files, wanted)
    if "stats_parsed" in files.column_names and not all(raw.known):
        return raw.completed(_read_structs(files.column("stats_parsed"), wanted))
    return raw


def _null_counts(nulls: Sequence[int | None], rows: Sequence[int | None]) -> list[int | None]:
    return [
        null if null is not None and count is not None and 0 <= null <= count else None
        for null, count in zip(nulls, rows, strict=True)
    ]


_Values: TypeAlias = list[Any]


@dataclass(frozen=True, slots=True)
class _Raw:
    """Per file the row count, and per wanted column lower bounds, upper bounds and null counts, internal values."""

    rows: _Values
    columns: list[tuple[_Values, _Values, _Values]]
    known: list[bool]

    @staticmethod
    def joined(parts: Sequence[_Raw]) -> _Raw:
        """The values of all parts, one part after the other."""
        if len(parts) == 1:
            return parts[0]

        def values(of: Callable[[_Raw], _Values]) -> _Values:
            return list(chain.from_iterable(map(of, parts)))

        def column(number: int) -> tuple[_Values, _Values, _Values]:
            lower, upper, nulls = (
                list(chain.from_iterable(part.columns[number][kind] for part in parts)) for kind in range(3)
            )
            return lower, upper, nulls

        return _Raw(
            values(lambda part: part.rows),
            [column(number) for number in range(len(parts[0].columns))],
            values(lambda part: part.known),
        )

    def completed(self, other: _Raw) -> _Raw:
        """These values, and those of `other` for the files of which nothing is known."""

        def merged(mine: _Values, others: _Values) -> _Values:
            return [m if known else o for m, o, known in zip(mine, others, self.known, strict=True)]

        columns = [
            (merged(mine[0], others[0]), merged(mine[1], others[1]), merged(mine[2], others[2]))
            for mine, others in zip(self.columns, other.columns, strict=True)
        ]
        known = [mine or others for mine, others in zip(self.known, other.known, strict=True)]
        return _Raw(merged(self.rows, other.rows), columns, known)


def _leaves(field: Field, above: tuple[str, ...]) -> Iterable[Leaf]:
    path = (*above, stored_name(field))
    if isinstance(field.type, StructType):
        for inner in field.type.fields:
            yield from _leaves(inner, path)
    elif not children(field.type):
        yield Leaf(field, path)


def _read_texts(files: pa.Table, wanted: Sequence[Leaf]) -> _Raw:
    """The statistics in JSON texts. Damaged texts are as good as none."""
    size = files.num_rows
    texts = files.column("stats").combine_chunks() if "stats" in files.column_names else pa.nulls(size, pa.string())
    if isinstance(texts, pa.ChunkedArray):  # no rows
        texts = pa.array([], pa.string())
    lines = without_line_breaks(texts)
    present = pc.fill_null(pc.starts_with(lines, "{"), False)
    if pc.sum(present).as_py() != size - lines.null_count:
        # What is no object says nothing; pyarrow 26 also crashes on texts that are all `null`.
        lines = pc.utf8_ltrim_whitespace(lines)
        present = pc.fill_null(pc.starts_with(lines, "{"), False)
    places = np.flatnonzero(to_numpy(present))
    if not places.size:
        return _nothing(size, len(wanted))
    compact = lines if places.size == size else lines.filter(present)
    parsed = _parse_all(compact, wanted) if places.size > _FEW_TEXTS else None
    found = _parse_each(compact.to_pylist(), wanted) if parsed is None else parsed
    return found if places.size == size else _spread(found, places, size)


def _nothing(size: int, columns: int) -> _Raw:
    nothing: _Values = [None] * size
    return _Raw(nothing, [(nothing, nothing, nothing)] * columns, [False] * size)


def _spread(found: _Raw, places: npt.NDArray[np.int64], size: int) -> _Raw:
    """Values of some files at their places among all."""
    index = places.tolist()

    def spread(values: _Values, empty: Any = None) -> _Values:
        result = [empty] * size
        for place, value in zip(index, values, strict=True):
            result[place] = value
        return result

    columns = [(spread(lower), spread(upper), spread(nulls)) for lower, upper, nulls in found.columns]
    return _Raw(spread(found.rows), columns, spread(found.known, False))


def _parse_all(lines: pa.Array, wanted: Sequence[Leaf]) -> _Raw | None:
    """All texts in one go; None if any of them is not as expected."""
    if any(isinstance(leaf.field.type, DecimalType) for leaf in wanted) and _has_long_decimals(lines):
        return None
    # A text that breaks off before a value goes on in the next one, and another of two objects would make up for it.
    if not pc.all(pc.ends_with(pc.utf8_rtrim_whitespace(lines), "}")).as_py():
        return None
    text = pa.BufferReader(as_lines(lines))
    import pyarrow.json

    blocks = pyarrow.json.ReadOptions(block_size=max(_BLOCK_BYTES, longest_line(lines)))
    parsing = pyarrow.json.ParseOptions(explicit_schema=_json_schema(wanted), unexpected_field_behavior="ignore")
    try:
        table = pyarrow.json.read_json(text, read_options=blocks, parse_options=parsing)
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(lines):
        return None
    columns = []
    for leaf in wanted:
        bounds = [
            from_json(_at(table.column(bound), leaf.path), leaf.field.type)
            if has_bounds(leaf.field.type)
            else [None] * len(lines)
            for bound in _BOUNDS
        ]
        columns.append((bounds[0], bounds[1], _at(table.column(_NULLS), leaf.path).to_pylist()))
    return _Raw(table.column(_ROWS).to_pylist(), columns, [True] * len(lines))


def _has_long_decimals(lines: pa.Array) -> bool:
    """True if a number may have a scale for which pyarrow 26 looks beyond its table.

    1e-77 is 0 to it, and 1e-999999999 ends the process.
    """
    return bool(pc.any(pc.match_substring_regex(lines, r"[0-9][eE][+-]?[0-9]{2}|\.[0-9]{29}")).as_py())


def _json_schema(wanted: Sequence[Leaf]) -> pa.Schema:
    """The schema for pyarrow's parser. Other fields are passed over without a look at their values."""
    bounds = [(leaf.path, _json_type(leaf.field.type)) for leaf in wanted if has_bounds(leaf.field.type)]
    counts = [(leaf.path, pa.int64()) for leaf in wanted]
    fields = [pa.field(_ROWS, pa.int64())]
    for name, columns in ((_BOUNDS[0], bounds), (_BOUNDS[1], bounds), (_NULLS, counts)):
        fields.append(pa.field(name, _nested(columns)))
    return pa.schema(fields)


def _nested(columns: Sequence[tuple[tuple[str, ...], pa.DataType]]) -> pa.DataType:
    groups: dict[str, list[tuple[tuple[str, ...], pa.DataType]]] = {}
    for path, type_ in columns:
        groups.setdefault(path[0], []).append((path[1:], type_))
    return pa.struct(
        [pa.field(name, members[0][1] if members[0][0] == () else _nested(members)) for name, members in groups.items()]
    )


def _json_type(type_: Type) -> pa.DataType:
    match type_:
        case IntegerType():
            return pa.int64()
        case FloatType():
            return pa.float64()
        case DecimalType(scale=scale):
            return pa.decimal128(38, scale)
        case _:
            return pa.string()


def _at(column: pa.ChunkedArray, path: tuple[str, ...]) -> pa.Array:
    """The values at a path of struct fields."""
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    for name in path:
        array = pc.struct_field(array, [array.type.get_field_index(name)])
    return array


def _parse_each(lines: Sequence[str], wanted: Sequence[Leaf]) -> _Raw:
    """Text by text, each value for itself: one that is damaged costs only what it says."""
    found = _Raw([], [([], [], []) for _ in wanted], [])
    for line in lines:
        stats = _document(line)
        found.known.append(stats is not None)
        found.rows.append(_count(stats, (_ROWS,)))
        for leaf, (lower, upper, nulls) in zip(wanted, found.columns, strict=True):
            lower.append(_dig(stats, ("minValues", *leaf.path)))
            upper.append(_dig(stats, ("maxValues", *leaf.path)))
            nulls.append(_count(stats, (_NULLS, *leaf.path)))
    columns = [
        (from_json(lower, leaf.field.type), from_json(upper, leaf.field.type), nulls)
        for leaf, (lower, upper, nulls) in zip(wanted, found.columns, strict=True)
    ]
    return _Raw(found.rows, columns, found.known)


def _document(line: str) -> Any:
    try:
        found = json.loads(line, parse_float=Decimal, parse_constant=lambda _: None)
    except (ValueError, ArithmeticError, RecursionError):  # Decimal has no exponents of twenty digits
        return None
    return found if isinstance(found, dict) else None


def _dig(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _count(stats: Any, path: tuple[str, ...]) -> int | None:
    value = _dig(stats, path)
    return value if type(value) is int and -(1 << 63) <= value < 1 << 63 else None


def _read_structs(column: pa.ChunkedArray, wanted: Sequence[Leaf]) -> _Raw:
    """The statistics in structs, which may lag behind the schema or have other types (delta F10)."""
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    known = pc.is_valid(array).to_pylist()

    def values(path: tuple[str, ...], type_: Type) -> _Values:
        return from_struct(_below(array, path), type_)

    columns = [
        (
            values(("minValues", *leaf.path), leaf.field.type) if has_bounds(leaf.field.type) else [None] * len(array),
            values(("maxValues", *leaf.path), leaf.field.type) if has_bounds(leaf.field.type) else [None] * len(array),
            values((_NULLS, *leaf.path), IntegerType(64)),
        )
        for leaf in wanted
    ]
    return _Raw(values((_ROWS,), IntegerType(64)), columns, known)


def _below(array: pa.Array, path: tuple[str, ...]) -> pa.Array:
    """The values at a path; nulls where a struct on the way is null or has no such field."""
    for name in path:
        index = array.type.get_field_index(name) if pa.types.is_struct(array.type) else -1
        if index < 0:
            return pa.nulls(len(array))
        array = pc.struct_field(array, [index])
    return array
