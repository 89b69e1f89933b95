"""Rules about column values in data files, for both formats: values are compared with the metadata."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pyarrow as pa

from harness.check.rules import Breach, Place, Reads, Severity, rule
from harness.check.values import ColumnValues
from harness.engines.duckdb.leaves import GroupValues
from harness.metadata.delta.bounds import PREFIX_LENGTH, has_bounds, lower_bounds, upper_bounds, value_from_json
from harness.metadata.filters.skipping import bound_array
from harness.metadata.iceberg.transforms import Bucket, Day, Hour, Month, Year, apply, is_defined
from harness.metadata.model import schema as dt


@rule("ICE-501", Severity.ERROR, Reads.COLUMN, "iceberg 3.20", "iceberg 3.22")
@rule("DEL-501", Severity.ERROR, Reads.COLUMN, "delta F4", "delta F6", "delta F7")
def within_bounds(column: ColumnValues) -> Iterator[Breach]:
    """Every value of a column is within the recorded bounds.

    Hurts: Readers that skip files by statistics: they lose the rows beyond the bound, without an error.
    Mends: manifest: lower_bounds, upper_bounds; log: minValues, maxValues; or rewrite the file
    """
    if column.recorded is None or column.path in column.statements.stats:
        return  # DEL-503 checks the text of Delta's statistics
    lower, upper = (_at(values, column.at) for values in (column.recorded.lower, column.recorded.upper))
    spans = column.spans(lower, upper)
    for field, recorded, actual in _beyond(column, column, lower, upper, ("lower_bounds", "upper_bounds")):
        yield column.breach(field, recorded, actual, spans)


def _beyond(
    column: ColumnValues, values: ColumnValues | GroupValues, lower: object, upper: object, names: tuple[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield each bound that a value exceeds, as a triple: the name of the bound's field, the bound, and the value.

    `names` are the names of the fields for the lower and the upper bound.
    """
    if lower is not None and values.least is not None and values.least < lower:
        yield names[0], column.text(lower), f"the least is {column.text(values.least)}"
    if upper is not None and values.greatest is not None and values.greatest > upper:
        yield names[1], column.text(upper), f"the greatest is {column.text(values.greatest)}"


@rule("ICE-502", Severity.ERROR, Reads.COLUMN, "iceberg 3.19")
@rule("DEL-502", Severity.ERROR, Reads.COLUMN, "delta F3", "delta F5")
def nulls(column: ColumnValues) -> Iterator[Breach]:
    """A column only has nulls, and only has values, if the recorded counts allow them.

    Hurts: Readers that skip files by counts: IS NULL, or any comparison, loses rows without an error.
    Mends: manifest: value_counts, null_value_counts; log: nullCount, numRecords
    """
    if column.recorded is None or column.in_orc_list:
        return
    if column.nulls > column.gaps and not column.recorded.has_nulls[column.at]:
        actual = f"{column.nulls:,} of {column.rows:,} values are null"
        yield column.breach("null_value_counts", "no null", actual)
    if column.nulls < column.rows and not column.recorded.has_values[column.at]:
        yield column.breach("value_counts", "nulls only", f"{column.rows - column.nulls:,} values are not null")


@rule("ICE-503", Severity.ERROR, Reads.COLUMN, "iceberg 3.21")
def nans(column: ColumnValues) -> Iterator[Breach]:
    """A column only has NaN if the recorded count allows NaN.

    Hurts: Readers that skip files by statistics: they lose NaN, which engines order above all numbers.
    Mends: manifest: nan_value_counts
    """
    if column.recorded is not None and column.nans and not column.recorded.has_nans[column.at]:
        yield column.breach("nan_value_counts", "no NaN", f"{column.nans:,} values are NaN")


@rule("ICE-504", Severity.ERROR, Reads.COLUMN, "iceberg 5.2")
@rule("DEL-504", Severity.ERROR, Reads.COLUMN, "delta T3")
def required(column: ColumnValues) -> Iterator[Breach]:
    """A required column has no nulls.

    Hurts: Readers that omit null checks: they fail, or return arbitrary values.
    Mends: the file: rewrite it; or make the column optional
    """
    if column.field.required and column.nulls > column.gaps:
        actual = f"{column.nulls - column.gaps:,} of {column.rows:,} values are null"
        yield column.breach("required", "required", actual)


@rule("ICE-505", Severity.WARNING, Reads.COLUMN, "iceberg 2.8")
@rule("DEL-505", Severity.WARNING, Reads.COLUMN, "delta F3")
def exact_counts(column: ColumnValues) -> Iterator[Breach]:
    """The recorded counts of values, nulls, and NaN match the column.

    Hurts: Readers that answer counts from metadata, and optimizers.
    Mends: manifest: value_counts, null_value_counts, nan_value_counts; log: nullCount in the statistics of the add
    """
    entry, id_ = column.statements.entries.get(column.path), column.field.id
    counts: list[tuple[str, object, int, int]] = []
    if column.in_orc_list:
        return
    if entry is not None:
        counts.append(("value_counts", (entry.value_counts or {}).get(id_), column.rows, column.gaps))
        counts.append(("null_value_counts", (entry.null_value_counts or {}).get(id_), column.nulls, column.gaps))
        if isinstance(column.field.type, dt.FloatType):
            counts.append(("nan_value_counts", (entry.nan_value_counts or {}).get(id_), column.nans, 0))
    elif (recorded_nulls := column.in_stats("nullCount")) in (0, column.rows) or column.in_stats(
        "tightBounds", ()
    ) is not False:
        # Wide counts may be older than the deletion of rows (delta F12).
        counts.append(("nullCount", recorded_nulls, column.nulls, column.gaps))
    for name, recorded, actual, open_ in counts:
        if type(recorded) is int and not actual - open_ <= recorded <= actual:
            yield column.breach(name, f"{recorded:,}", f"{actual:,}")


@rule("ICE-506", Severity.ERROR, Reads.COLUMN, "iceberg 3.11", "iceberg 3.12", "iceberg 3.13", "iceberg 5.3")
def partitions(column: ColumnValues) -> Iterator[Breach]:
    """The values of a column match the partition value of their file.

    Hurts: Readers that skip files by partition: they lose the rows of other partitions, without an error.
    Mends: manifest: partition of the entry; or rewrite the file into its partitions
    """
    entry = column.statements.entries.get(column.path)
    spec = None if entry is None else column.statements.specs.get(entry.spec_id)
    if entry is None or spec is None:
        return
    for part in spec.fields:
        # ICE-510 checks buckets, which the least and greatest value do not determine.
        is_judged = is_defined(part.transform, column.field.type) and not isinstance(part.transform, Bucket)
        if part.source_id != column.field.id or not is_judged:
            continue
        function, recorded = apply(part.transform, column.field.type), entry.partition.get(part.field_id)
        allowed = {recorded}
        if isinstance(part.transform, Year | Month | Day | Hour) and recorded is not None and recorded <= 0:
            allowed.add(recorded - 1)  # before 1970, old writers stored the value minus 1 (iceberg 3.13)
        values = [function(value) for value in (column.least, column.greatest) if value is not None]
        values += [None] if column.nulls else []
        if column.nans and not (isinstance(recorded, float) and math.isnan(recorded)):
            values.append(math.nan)
        wrong = [value for value in values if value not in allowed]
        if wrong:
            yield column.breach(f"partition.{part.name}", repr(recorded), f"a row has {wrong[0]!r}")


@rule("DEL-503", Severity.ERROR, Reads.COLUMN, "delta F4", "delta F6", "delta F7", "delta F8")
def recorded_bounds(column: ColumnValues) -> Iterator[Breach]:
    """The minimum and maximum in a file's statistics include every value exactly as written, even NaN.

    Hurts: Readers that use the recorded minimum and maximum as written: they skip the file, and lose its rows.
    Mends: log: minValues, maxValues in the statistics of the add
    """
    if not has_bounds(column.field.type):
        return
    raw = (column.in_stats(name) for name in ("minValues", "maxValues"))
    low, high = (value_from_json(value, column.field.type) for value in raw)
    if column.nans and high is not None:
        yield column.breach("maxValues", column.text(high), f"{column.nans:,} values are NaN")
    if isinstance(column.field.type, dt.FloatType):  # the text may be of a 32-bit float that was widened (T24)
        ends = (bound_array([end], column.field.type) for end in (low, high))
        widened = zip((lower_bounds, upper_bounds), ends, strict=True)
        low, high = (widen(bounds, column.field.type)[0].as_py() for widen, bounds in widened)
    if isinstance(column.field.type, dt.TimestampType) and high is not None:
        high += 999  # writers truncate to milliseconds, and readers know it (delta F7)
    # a prefix stands for all texts that begin with it (delta F6)
    if isinstance(high, str) and len(high) >= PREFIX_LENGTH:
        high = max(high, f"{high[:PREFIX_LENGTH]}\U0010ffff")
    spans = column.spans(low, high)
    for field, recorded, actual in _beyond(column, column, low, high, ("minValues", "maxValues")):
        yield column.breach(field, recorded, actual, spans)


@rule("ICE-511", Severity.ERROR, Reads.COLUMN, "iceberg 7.6")
@rule("DEL-511", Severity.ERROR, Reads.COLUMN, "delta F9")
def footer_statistics(column: ColumnValues) -> Iterator[Breach]:
    """The statistics of a row group and of its pages in a data file's footer include the values of the row group.

    Hurts: Readers that skip row groups by statistics: they lose rows of the file, without an error.
    Mends: the file: rewrite it
    """
    for group in column.groups:
        for source, statistics in (("", group.stated), ("column_index/", group.pages)):
            if statistics is None:
                continue
            faults = [*_beyond(column, group, statistics.lower, statistics.upper, ("min_value", "max_value"))]
            if statistics.nulls is not None and not group.nulls - group.gaps <= statistics.nulls <= group.nulls:
                faults.append(("null_count", f"{statistics.nulls:,}", f"{group.nulls:,} values are null"))
            for name, recorded, actual in faults:
                place = Place(file=column.path, entry=column.path, field=f"{source}{name}", column=column.name)
                yield Breach(place, recorded, actual, detail=f"row group {group.number}")


def _at(values: Sequence[object] | pa.Array, place: int) -> object:
    value = values[place]
    value = value.as_py() if isinstance(value, pa.Scalar) else value
    return None if isinstance(value, float) and math.isnan(value) else value
