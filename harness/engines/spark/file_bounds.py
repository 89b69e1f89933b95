"""Bounds of stored columns per file, in the types that Spark uses for the columns, for `java/FileBounds.java`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.engines.column_values import StoredColumn
from harness.engines.footers import is_legacy
from harness.metadata.filters.skipping import ColumnBounds, bound_array
from harness.metadata.model import schema as dt
from harness.metadata.model.arrow_values import Indices, from_numpy, scalar_of, to_numpy
from harness.metadata.planned_scan import PlannedScan
from harness.storage.records import dataclass

_MOST_CELLS = 2_000_000
"""The most bounds, as files times columns, that are passed for a plan.

A bound takes 16 bytes, or the bytes of its text.
"""


@dataclass(frozen=True, slots=True)
class FileBounds:
    """The bounds of a plan's columns, from the table's metadata.

    Attributes:
        columns: The bounds by field id and type, one entry per file of the plan, in internal values of the type. The
            type is part of the key because a key of equality deletes may read the same column as another type.
    """

    columns: Mapping[tuple[int, dt.Type], ColumnBounds]

    @staticmethod
    def from_plan(plan: PlannedScan, fields: Sequence[dt.Field]) -> FileBounds:
        """Return the bounds of the primitive columns among `fields`, up to a limit.

        A plan with a single file has none, because the file's row group statistics are more precise.
        """
        files = plan.files.num_rows
        if plan.statistics is None or files < 2:
            return FileBounds({})
        field_ids = {f.id for f in plan.schema.fields}
        single = [f for f in fields if f.id in field_ids and not dt.children(f.type)][: _MOST_CELLS // files]
        bounds = dict(plan.statistics.bounds(single)) if single else {}
        for f in single:
            if any(f.id in partition.constants for partition in plan.partitions):
                bounds[f.id] = _with_partition_values(plan, f, bounds.get(f.id))
        return FileBounds({(f.id, f.type): bounds[f.id] for f in single if f.id in bounds})

    def table(
        self, stored: Sequence[StoredColumn], places: Sequence[int], members: Indices, legacy: frozenset[str]
    ) -> pa.Table | None:
        """Return the bounds in the form that `java/FileBounds.java` reads. None if no bounds are known.

        Args:
            stored: The columns that are read.
            places: The indexes of the columns in the files, in Spark's read order.
            members: The ordinals of the files.
            legacy: As in `file_groups.FileForm`.
        """
        columns: dict[str, pa.Array] = {}
        for column in stored:
            bounds, source = self.columns.get((column.field.id, column.field.type)), column.source
            if bounds is None or source.place not in places or is_legacy(source.physical, legacy):
                continue
            number = places.index(source.place)
            columns[f"nulls {number}"] = from_numpy(bounds.has_nulls[members])
            columns[f"values {number}"] = from_numpy(bounds.has_values[members])
            convert = _bounds_converter(column.field.type, source.physical.type)
            if convert is None:
                continue
            lower, upper = (side.take(from_numpy(members)) for side in (bounds.lower, bounds.upper))
            if isinstance(column.field.type, dt.FloatType):  # Spark orders NaN above all other numbers
                nan = scalar_of(math.nan, pa.float64())
                upper = pc.if_else(from_numpy(bounds.has_nans[members]), nan, upper)
            columns[f"lower {number}"], columns[f"upper {number}"] = convert(lower), convert(upper)
        return pa.table(columns) if columns else None


def _with_partition_values(plan: PlannedScan, column: dt.Field, bounds: ColumnBounds | None) -> ColumnBounds:
    """Replace a column's bounds by its partition value in files whose partition has one. These bounds are exact."""
    numbers = to_numpy(plan.files.column("partition")).astype(np.int64)
    has_value = np.array([column.id in partition.constants for partition in plan.partitions], dtype=np.bool_)
    exact = ColumnBounds.exact(column.type, [partition.constants.get(column.id) for partition in plan.partitions])
    if bounds is None:
        unknown = bound_array([None] * len(numbers), column.type)
        bounds = ColumnBounds.from_statistics(column.type, lower=unknown, upper=unknown)
    return exact.take(numbers).where(has_value[numbers], bounds)


def _bounds_converter(field_type: dt.Type, stored: dt.Type) -> Callable[[pa.Array], pa.Array] | None:
    """Return a function that converts bounds to the type that Spark uses for a stored column.

    Bounds that this type cannot hold become null. Returns None if bounds of these types are not used.
    """
    match field_type, stored:
        case dt.IntegerType(), dt.IntegerType(bits=bits):
            return _exact({8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits])
        case dt.DateType(), dt.DateType():
            return lambda values: _exact(pa.int32())(values).cast(pa.date32())
        case dt.FloatType(), dt.FloatType(bits=32 | 64 as bits):
            return _exact(pa.float64()) if bits == 64 else _floats
        case dt.DecimalType(), dt.DecimalType(precision=precision, scale=scale):
            return _exact(pa.decimal128(precision, scale))
        case dt.TimestampType(unit="us", utc=utc), dt.TimestampType(unit="us" | "ms", utc=stored_utc) if (
            utc == stored_utc
        ):
            return lambda values: _exact(pa.int64())(values).cast(pa.timestamp("us", "UTC" if utc else None))
        case dt.TimestampType(unit="us", utc=True), dt.Int96Type():
            return lambda values: _exact(pa.int64())(values).cast(pa.timestamp("us", "UTC"))
        case (dt.TimestampType(unit="ns"), dt.TimestampType(unit="ns")) | (dt.TimeType(), dt.TimeType(unit="us")):
            return _exact(pa.int64())
        case dt.StringType(), dt.StringType():
            return _exact(pa.string())
        case (dt.BinaryType(), dt.BinaryType()) | (dt.FixedType(), dt.FixedType()):
            return _exact(pa.binary())
        case dt.BooleanType(), dt.BooleanType():
            return _exact(pa.bool_())
        case _:
            return None


def _exact(type_: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    def convert(values: pa.Array) -> pa.Array:
        try:
            return values.cast(type_)
        except (pa.ArrowException, OverflowError):
            return pa.concat_arrays([_cast_or_null(values.slice(place, 1), type_) for place in range(len(values))])

    return convert


def _cast_or_null(value: pa.Array, type_: pa.DataType) -> pa.Array:
    try:
        return value.cast(type_)
    except (pa.ArrowException, OverflowError):
        return pa.nulls(len(value), type_)


def _floats(values: pa.Array) -> pa.Array:
    floats = values.cast(pa.float32(), safe=False)
    is_exact = pc.or_(pc.equal(floats.cast(pa.float64()), values), pc.is_nan(values))
    return pc.if_else(is_exact, floats, pa.nulls(1, pa.float32())[0])
