"""Rules about the values in data files, of both formats, held against what the metadata says of them.

The values are read as the table's, by the plan of a read without skipping and without deletes, in one pass of DuckDB
over the files. What is recorded is what reads skip by: `ScanPlan.bounds`, where truncated and wide bounds are widened.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from harness.engines.duckdb.instance import cursor
from harness.engines.duckdb.relations import about
from harness.engines.registry import duckdb_engine
from harness.errors import EngineError, UnknownColumnError
from harness.metadata.delta.bounds import PREFIX_LENGTH, from_json, has_bounds, lower_bounds, upper_bounds
from harness.metadata.filters import sqltext
from harness.metadata.iceberg.model import Direction
from harness.metadata.iceberg.transforms import Day, Hour, Identity, Month, Year, apply, is_defined
from harness.metadata.model import schema as dt
from harness.metadata.model.column_stats import ColumnBounds
from harness.metadata.model.schema import value_text
from harness.metadata.plan.projection import stored_name
from harness.metadata.plan.scan_plan import ScanPlan
from harness.storage.records import dataclass
from harness.storage.threads import phase
from harness.tools.check.files import Statements
from harness.tools.check.rules import Found, Place, Reads, Severity, rule

_SINGLE = (
    dt.BooleanType,
    dt.IntegerType,
    dt.FloatType,
    dt.DecimalType,
    dt.DateType,
    dt.TimeType,
    dt.TimestampType,
    dt.StringType,
    dt.BinaryType,
    dt.FixedType,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnValues:
    """A column in one file: recorded beside actual.

    rows: of the file. nulls, nans: rows that are null or NaN. least, greatest: of the other rows, as internal values;
    None: there is none. recorded: what reads skip by. at: the place of the file in `recorded`.
    """

    field: dt.Field
    path: str
    statements: Statements
    rows: int
    nulls: int
    nans: int
    least: Any
    greatest: Any
    recorded: ColumnBounds | None
    at: int

    def spans(self, lower: Any, upper: Any) -> tuple[tuple[float, float], tuple[float, float]] | None:
        """The recorded and the actual range, where both are numbers; an unknown bound is the actual one."""
        ends = (self.least if lower is None else lower, self.greatest if upper is None else upper)
        values = (*ends, self.least, self.greatest)
        if not all(isinstance(value, int | float | Decimal) and math.isfinite(value) for value in values):
            return None
        return (float(ends[0]), float(ends[1])), (float(self.least), float(self.greatest))

    def text(self, value: Any) -> str:
        """A value of the column for people."""
        return value_text(value, self.field.type)

    def place(self, field: str) -> Place:
        """The place of a statement about the column."""
        return Place(
            file=self.statements.says.get(self.path, self.path), entry=self.path, field=field, column=self.field.name
        )


def column_values(
    plan: ScanPlan, statements: Statements, paths: Sequence[str], names: Sequence[str] | None
) -> Iterator[ColumnValues]:
    """The columns of some files of a plan, before deletes.

    paths: of the files, as recorded. names: the columns that are wanted; None: all of single values.
    """
    known = {f.name: f for f in plan.schema.fields}
    for name in names or ():
        if name not in known:
            raise UnknownColumnError(f"Unknown column {name!r}: there are {', '.join(known)}", field=name)
    fields = [f for f in known.values() if isinstance(f.type, _SINGLE) and (names is None or f.name in names)]
    ordinals = {path: at for at, path in enumerate(plan.files.column("path").to_pylist())}
    bounds = {} if plan.bounds is None else dict(plan.bounds(fields))
    with phase("reading values"):
        table = _aggregated(_without_deletes(plan, paths), fields)
    for row in table.to_pylist():
        for place, field in enumerate(fields):
            yield ColumnValues(
                field=field,
                path=row["f"],
                statements=statements,
                rows=row["n"],
                nulls=row["n"] - row[f"c{place}"],
                nans=row[f"x{place}"],
                least=_internal(row[f"a{place}"], field.type),
                greatest=_internal(row[f"b{place}"], field.type),
                recorded=bounds.get(field.id),
                at=ordinals[row["f"]],
            )


def _without_deletes(plan: ScanPlan, paths: Sequence[str]) -> ScanPlan:
    """The plan of all rows of some files, with the path of the file beside them."""
    files = plan.files.filter(pc.is_in(plan.files.column("path"), pa.array(paths, pa.string())))
    none = {
        "delete_set": pa.array([0] * files.num_rows, pa.int32()),
        "has_positions": pa.array([False] * files.num_rows, pa.bool_()),
    }
    for name, values in none.items():
        files = files.set_column(files.schema.get_field_index(name), files.schema.field(name), values)
    return replace(
        plan,
        columns=(dt.METADATA["_file"], *plan.columns),
        files=files,
        equality_deletes=(),
        delete_sets=((),),
        position_deletes=(),
        load_positions=lambda ordinals: {},
    )


def _aggregated(plan: ScanPlan, fields: Sequence[dt.Field]) -> pa.Table:
    connection = cursor()
    duckdb_engine().relation(plan, connection, name="checked_rows")
    selected = ['"_file" AS f', "count(*) AS n"]
    for place, field in enumerate(fields):
        name = sqltext.name(field.name)
        is_float = isinstance(field.type, dt.FloatType)
        numbers = f" FILTER (NOT isnan({name}))" if is_float else ""
        stored = _comparable(name, field.type)
        selected += [
            f"count({name}) AS c{place}",
            f"{f'count(*) FILTER (isnan({name}))' if is_float else '0'} AS x{place}",
            f"min({stored}){numbers} AS a{place}",
            f"max({stored}){numbers} AS b{place}",
        ]
    text = f"SELECT {', '.join(selected)} FROM checked_rows GROUP BY ALL"
    with about(plan):
        return connection.sql(text).to_arrow_table()


def _comparable(name: str, type_: dt.Type) -> str:
    """The column as internal values: days, micros or nanos as numbers."""
    match type_:
        case dt.DateType():
            return f"date_diff('day', DATE '1970-01-01', {name})"
        case dt.TimeType():
            return f"epoch_us({name})"
        case dt.TimestampType(unit="ns", utc=True):
            return "NULL"  # DuckDB shows them in micros
        case dt.TimestampType(unit=unit):
            return f"epoch_ns({name})" if unit == "ns" else f"epoch_us({name})"
        case _:
            return name


def _internal(value: Any, type_: dt.Type) -> Any:
    return bytes(value) if isinstance(type_, dt.BinaryType | dt.FixedType) and value is not None else value


_BOUNDS = {
    "hurts": "Readers that skip files by statistics: they lose the rows beyond the bound, without an error.",
    "mends": "manifest: lower_bounds, upper_bounds; log: minValues, maxValues; or rewrite the file",
}


@rule("ICE-501", Severity.ERROR, Reads.COLUMN, breaks=("iceberg 3.20", "iceberg 3.22"), **_BOUNDS)
@rule("DEL-501", Severity.ERROR, Reads.COLUMN, breaks=("delta F4", "delta F6", "delta F7"), **_BOUNDS)
def within_bounds(column: ColumnValues) -> Iterator[Found]:
    """Every value of a column lies within the recorded bounds."""
    if column.recorded is None or column.least is None or column.path in column.statements.stats:
        return  # texts of Delta's statistics are judged as they stand, by DEL-503
    lower, upper = (_at(values, column.at) for values in (column.recorded.lower, column.recorded.upper))
    yield from _outside(column, lower, upper, ("lower_bounds", "upper_bounds"))


def _outside(column: ColumnValues, lower: Any, upper: Any, names: tuple[str, str]) -> Iterator[Found]:
    """The bounds that a value lies beyond; None: there is no bound. names: their fields."""
    spans = column.spans(lower, upper)
    if lower is not None and column.least < lower:
        actual = f"the least is {column.text(column.least)}"
        yield Found(place=column.place(names[0]), recorded=column.text(lower), actual=actual, spans=spans)
    if upper is not None and column.greatest > upper:
        actual = f"the greatest is {column.text(column.greatest)}"
        yield Found(place=column.place(names[1]), recorded=column.text(upper), actual=actual, spans=spans)


_COUNTS = {
    "hurts": "Readers that skip files by counts: IS NULL, or any comparison, loses rows without an error.",
    "mends": "manifest: value_counts, null_value_counts; log: nullCount, numRecords",
}


@rule("ICE-502", Severity.ERROR, Reads.COLUMN, breaks="iceberg 3.19", **_COUNTS)
@rule("DEL-502", Severity.ERROR, Reads.COLUMN, breaks=("delta F3", "delta F5"), **_COUNTS)
def nulls(column: ColumnValues) -> Iterator[Found]:
    """A column has nulls, and values, only where the recorded counts allow them."""
    if column.recorded is None:
        return
    if column.nulls and not column.recorded.has_nulls[column.at]:
        place = column.place("null_value_counts")
        yield Found(place=place, recorded="no null", actual=f"{column.nulls:,} of {column.rows:,} rows are null")
    if column.nulls < column.rows and not column.recorded.has_values[column.at]:
        place = column.place("value_counts")
        actual = f"{column.rows - column.nulls:,} rows have a value"
        yield Found(place=place, recorded="nulls only", actual=actual)


@rule(
    "ICE-503",
    Severity.ERROR,
    Reads.COLUMN,
    breaks="iceberg 3.21",
    hurts="Readers that skip files by statistics: they lose NaN, which engines order above all numbers.",
    mends="manifest: nan_value_counts",
)
def nans(column: ColumnValues) -> Iterator[Found]:
    """A column has NaN only where the recorded count allows NaN."""
    if column.recorded is not None and column.nans and not column.recorded.has_nans[column.at]:
        place = column.place("nan_value_counts")
        yield Found(place=place, recorded="no NaN", actual=f"{column.nans:,} rows are NaN")


_REQUIRED = {
    "hurts": "Readers that leave out checks for null: they fail, or give any value.",
    "mends": "the file: rewrite it; or make the column optional",
}


@rule("ICE-504", Severity.ERROR, Reads.COLUMN, breaks="iceberg 5.2", **_REQUIRED)
@rule("DEL-504", Severity.ERROR, Reads.COLUMN, breaks="delta T7", **_REQUIRED)
def required(column: ColumnValues) -> Iterator[Found]:
    """A required column has no null."""
    if column.field.required and column.nulls:
        place = column.place("required")
        yield Found(place=place, recorded="required", actual=f"{column.nulls:,} of {column.rows:,} rows are null")


_EXACT = {
    "hurts": "Readers that answer counts by metadata, and optimisers.",
    "mends": "manifest: value_counts, null_value_counts, nan_value_counts; log: nullCount in the statistics of the add",
}


@rule("ICE-505", Severity.WARNING, Reads.COLUMN, breaks="iceberg 2.8", **_EXACT)
@rule("DEL-505", Severity.WARNING, Reads.COLUMN, breaks="delta F3", **_EXACT)
def exact_counts(column: ColumnValues) -> Iterator[Found]:
    """The recorded counts of values, nulls and NaN are those of the column."""
    entry, id_ = column.statements.entries.get(column.path), column.field.id
    stated: list[tuple[str, Any, int]] = []
    if entry is not None:
        counts = ((entry.value_counts, column.rows), (entry.null_value_counts, column.nulls))
        names = ("value_counts", "null_value_counts")
        stated = [(name, (of or {}).get(id_), actual) for name, (of, actual) in zip(names, counts, strict=True)]
        if isinstance(column.field.type, dt.FloatType):
            stated.append(("nan_value_counts", (entry.nan_value_counts or {}).get(id_), column.nans))
    else:
        stated.append(("nullCount", _in_stats(column, "nullCount"), column.nulls))
    for name, recorded, actual in stated:
        if type(recorded) is int and recorded != actual:
            yield Found(place=column.place(name), recorded=f"{recorded:,}", actual=f"{actual:,}")


@rule(
    "ICE-506",
    Severity.ERROR,
    Reads.COLUMN,
    breaks=("iceberg 3.11", "iceberg 3.12", "iceberg 3.13", "iceberg 5.3"),
    hurts="Readers that skip files by their partition: they lose the rows of other partitions, without an error.",
    mends="manifest: partition of the entry; or rewrite the file into its partitions",
)
def partitions(column: ColumnValues) -> Iterator[Found]:
    """The values of a column have the partition value of their file."""
    entry = column.statements.entries.get(column.path)
    spec = None if entry is None else column.statements.specs.get(entry.spec_id)
    if entry is None or spec is None:
        return
    for part in spec.fields:
        if part.source_id != column.field.id or not is_defined(part.transform, column.field.type):
            continue
        function, recorded = apply(part.transform, column.field.type), entry.partition.get(part.field_id)
        allowed = {recorded}
        if isinstance(part.transform, Year | Month | Day | Hour) and recorded is not None and recorded <= 0:
            allowed.add(recorded - 1)  # old writers stored one more before 1970 (iceberg 3.13)
        values = [function(value) for value in (column.least, column.greatest) if value is not None]
        values += [None] if column.nulls else []
        wrong = [value for value in values if value not in allowed]
        if wrong:
            place = column.place(f"partition.{part.name}")
            yield Found(place=place, recorded=repr(recorded), actual=f"a row has {wrong[0]!r}")


@rule(
    "DEL-503",
    Severity.ERROR,
    Reads.COLUMN,
    breaks=("delta F4", "delta F6", "delta F7", "delta F8"),
    hurts="Readers that take the recorded minimum and maximum as they stand: they skip the file, and lose its rows.",
    mends="log: minValues, maxValues in the statistics of the add",
)
def stated_bounds(column: ColumnValues) -> Iterator[Found]:
    """The minimum and maximum in a file's statistics hold every value as they stand, NaN too."""
    stated = _stated(column)
    if stated is None or column.rows == column.nulls:
        return
    low, high = stated
    if column.nans and high is not None:
        yield Found(place=column.place("maxValues"), recorded=column.text(high), actual=f"{column.nans:,} rows are NaN")
    if isinstance(column.field.type, dt.FloatType):  # a text of 32 bits may stand for a float that was widened (T24)
        low, high = lower_bounds([low], column.field.type)[0], upper_bounds([high], column.field.type)[0]
    if isinstance(column.field.type, dt.TimestampType) and high is not None:
        high += 999  # writers cut to milliseconds, and readers know (delta F7)
    if isinstance(high, str) and len(high) >= PREFIX_LENGTH:  # a prefix stands for all texts that begin so (delta F6)
        high = max(high, f"{high[:PREFIX_LENGTH]}\U0010ffff")
    if column.least is not None:
        yield from _outside(column, low, high, ("minValues", "maxValues"))


def _stated(column: ColumnValues) -> tuple[Any, Any] | None:
    """The minimum and maximum in the JSON of a file's statistics; None: there are none."""
    if not has_bounds(column.field.type):
        return None
    raw = [_in_stats(column, name) for name in ("minValues", "maxValues")]
    low, high = (from_json([value], column.field.type)[0] for value in raw)
    return None if low is None and high is None else (low, high)


def _in_stats(column: ColumnValues, name: str) -> Any:
    """The value for the column under a name of Delta's statistics; None: there is none that a reader gets."""
    text = column.statements.stats.get(column.path)
    try:
        return None if text is None else json.loads(text, parse_float=Decimal)[name][stored_name(column.field)]
    except (ValueError, LookupError, TypeError):
        return None


@dataclass(frozen=True, slots=True)
class FileRows:
    """The rows of some files of a plan, with the words of the metadata on the files. paths: as recorded."""

    plan: ScanPlan
    statements: Statements
    paths: Sequence[str]

    def place(self, path: str, field: str, column: str | None = None) -> Place:
        """The place of a statement about a file."""
        return Place(file=self.statements.says.get(path, self.plan.table), entry=path, field=field, column=column)


@rule(
    "ICE-507",
    Severity.WARNING,
    Reads.ROWS,
    breaks="iceberg 1.18",
    hurts="Engines that merge sorted files without sorting: they give rows out of order, or miss matches.",
    mends="manifest: sort_order_id of the entry; or rewrite the file in order",
)
def sorted_rows(rows: FileRows) -> Iterator[Found]:
    """The rows of a file have the sort order that its entry names, as far as keys are columns."""
    claimed: dict[int, list[str]] = {}
    for path in rows.paths:
        entry = rows.statements.entries.get(path)
        if entry is not None and entry.sort_order_id:
            claimed.setdefault(entry.sort_order_id, []).append(path)
    for order_id, paths in claimed.items():
        keys = list(_keys(rows, order_id))
        if not keys:
            continue
        relation = _rows_of(rows.plan, paths, ["_file", "_pos"], rows.plan.schema.fields)
        order = ", ".join([*keys, '"_pos"'])
        ranked = f'SELECT "_file", "_pos", row_number() OVER (PARTITION BY "_file" ORDER BY {order}) - 1 AS r FROM rows'
        text = f'SELECT "_file", min("_pos") FROM ({ranked}) WHERE r <> "_pos" GROUP BY ALL ORDER BY ALL'
        for path, at in _asked(rows.plan, relation, text):
            yield Found(place=rows.place(path, "sort_order_id"), recorded=str(order_id), actual=f"not from row {at} on")


def _keys(rows: FileRows, order_id: int) -> Iterator[str]:
    """The leading keys of a sort order that are columns themselves, as SQL; their transforms keep no other order."""
    order, columns = rows.statements.orders.get(order_id), {f.id: f for f in rows.plan.schema.fields}
    for key in () if order is None else order.fields:
        column = columns.get(key.source_id or -1)
        if column is None or not isinstance(key.transform, Identity) or not isinstance(column.type, _SINGLE):
            return
        direction = "ASC" if key.direction is Direction.ASCENDING else "DESC"
        yield f"{sqltext.name(column.name)} {direction} NULLS {key.null_order.value.rpartition('-')[2].upper()}"


_IDS = {
    "hurts": "Readers of row lineage: changes are taken for those of another row.",
    "mends": "the files: rewrite them without the stored ids; or first_row_id and baseRowId of their entries",
}


@rule("ICE-508", Severity.ERROR, Reads.ROWS, breaks=("iceberg 2.11", "iceberg 5.18"), **_IDS)
@rule("DEL-508", Severity.ERROR, Reads.ROWS, breaks=("delta W2", "delta W5"), **_IDS)
def unique_ids(rows: FileRows) -> Iterator[Found]:
    """A row id is that of one live row."""
    if rows.plan.files.column("first_row_id").null_count == len(rows.plan.files):
        return
    columns = (dt.METADATA["_file"], dt.METADATA["_row_id"])
    relation = duckdb_engine().relation(replace(rows.plan, columns=columns))
    ranges = 'SELECT "_file", min("_row_id"), max("_row_id"), count("_row_id") FROM rows GROUP BY ALL ORDER BY 2, 3'
    doubtful = sorted(_overlapping(rows.plan, _asked(rows.plan, relation, ranges)))
    if not doubtful:
        return
    text = (
        'SELECT "_row_id", count(*), min("_file"), max("_file") FROM rows WHERE "_row_id" IS NOT NULL '
        f'AND "_file" IN ({", ".join(map(sqltext.text, doubtful))}) '
        'GROUP BY "_row_id" HAVING count(*) > 1 ORDER BY ALL LIMIT 20'
    )
    for id_, number, first, last in _asked(rows.plan, relation, text):
        place = rows.place(first, "first_row_id")
        yield Found(place=place, recorded=f"row id {id_}", actual=f"{number} rows have it, one in {last}")


def _overlapping(plan: ScanPlan, ranges: Sequence[tuple[Any, ...]]) -> set[str]:
    """The files whose row ids may repeat: ranges that meet another one, or have gaps, or fewer ids than rows.

    ranges: path, least and greatest id, and rows, by ascending ids. To count every id of a table takes its memory.
    """
    recorded = dict(
        zip(plan.files.column("path").to_pylist(), plan.files.column("record_count").to_pylist(), strict=True)
    )
    found: set[str] = set()
    end, owner = -1, ""
    for path, least, greatest, rows in ranges:
        if least is None:
            continue
        size = greatest - least + 1
        if rows > size or size > (recorded.get(path) or 0):
            found.add(path)
        if least <= end:
            found |= {path, owner}
        if greatest > end:
            end, owner = greatest, path
    return found


@rule(
    "DEL-507",
    Severity.ERROR,
    Reads.ROWS,
    breaks="delta T7",
    hurts="Queries that are planned by the constraint, and writers that trust it.",
    mends="log: the constraint; or a new version without the rows",
)
def constraints(rows: FileRows) -> Iterator[Found]:
    """No live row makes a CHECK constraint of the table false."""
    if not rows.statements.constraints:
        return
    import sqlglot

    relation = duckdb_engine().relation(replace(rows.plan, columns=rows.plan.schema.fields))
    for name, condition in rows.statements.constraints.items():
        place = Place(file=rows.plan.table, field=f"delta.constraints.{name}")
        try:
            text = sqlglot.transpile(condition, read="spark", write="duckdb")[0]
            ((number,),) = _asked(rows.plan, relation, f"SELECT count(*) FROM rows WHERE ({text}) IS FALSE")
        except sqlglot.errors.SqlglotError as error:
            raise EngineError(f"Cannot ask the constraint {name}, {condition!r:.80}: {error}") from error
        if number:
            yield Found(place=place, recorded=condition, actual=f"{number:,} rows make it false")


def _asked(plan: ScanPlan, relation: duckdb.DuckDBPyRelation, text: str) -> list[tuple[Any, ...]]:
    """The answer to a query about a relation of a plan that is called `rows` in the text."""
    with about(plan):
        found = relation.query("rows", text)
        return [] if found is None else found.fetchall()


def _rows_of(
    plan: ScanPlan, paths: Sequence[str], more: Sequence[str], fields: Sequence[dt.Field]
) -> duckdb.DuckDBPyRelation:
    """The rows of some files before deletes: metadata columns, and those of `fields` that are single values."""
    columns = (*(dt.METADATA[name] for name in more), *(f for f in fields if isinstance(f.type, _SINGLE)))
    return duckdb_engine().relation(replace(_without_deletes(plan, paths), columns=columns))


def _at(values: Sequence[Any] | pa.Array, place: int) -> Any:
    value = values[place]
    value = value.as_py() if isinstance(value, pa.Scalar) else value
    return None if isinstance(value, float) and math.isnan(value) else value
