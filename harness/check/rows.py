"""Rules about the rows of data files, for both formats: order, row ids, and constraints."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from duckdb.func import PythonUDFType
from sqlglot import exp

from harness.check.files import FileRows
from harness.check.rules import Breach, Place, Reads, Severity, rule
from harness.engines.data_files import FileName, map_files
from harness.engines.duckdb import relations
from harness.engines.duckdb.instance import DuckDBFiles, cursor
from harness.engines.duckdb.leaves import SINGLE, internal_value, rows_of, single_columns
from harness.engines.duckdb.relations import naming_table
from harness.engines.footers import read_footers
from harness.engines.row_groups import ColumnChunk, column_chunks, damaged_pages, has_checksum
from harness.errors import EngineError
from harness.metadata.filters import sqltext
from harness.metadata.iceberg.model import Direction, PartitionField
from harness.metadata.iceberg.transforms import Bucket, Identity, Transform, Truncate, buckets_of, is_defined
from harness.metadata.model import schema as dt
from harness.metadata.model.schema import value_text
from harness.metadata.plan.projection import stored_name
from harness.metadata.plan.scan_plan import DeltaRules
from harness.metadata.planned_scan import PlannedScan
from harness.storage.paths import PhysicalPath
from harness.storage.threads import phase


def _query_rows(plan: PlannedScan, relation: duckdb.DuckDBPyRelation, text: str) -> list[tuple[Any, ...]]:
    """Run a query on a relation of a plan and return the rows. The query refers to the relation as `rows`."""
    with naming_table(plan):
        result = relation.query("rows", text)
        return [] if result is None else result.fetchall()


@rule("ICE-507", Severity.WARNING, Reads.ROWS, "iceberg 1.18")
def sorted_rows(rows: FileRows) -> Iterator[Breach]:
    """The rows of a file are in the sort order of its entry, as far as DuckDB can order the keys.

    Hurts: Engines that merge sorted files without sorting: they return rows out of order, or miss matches.
    Mends: manifest: sort_order_id of the entry; or rewrite the file in order
    """
    for order_id, paths in rows.by(lambda entry: entry.sort_order_id).items():
        keys = list(_keys(rows, order_id))
        if not keys:
            continue
        tops = list({top.id: top for top, _ in keys}.values())
        relation = relations.relation(rows_of(rows.plan, paths, ["_file", "_pos"], tops))
        for path, at in unsorted(rows.plan, relation, ", ".join(key for _, key in keys)):
            yield rows.breach(path, "sort_order_id", str(order_id), f"not in order from row {at}")


def unsorted(plan: PlannedScan, relation: duckdb.DuckDBPyRelation, keys: str) -> list[tuple[str, int]]:
    """Return the files whose rows are not sorted, with the position of the first row that is out of order.

    While the rows stream by, each row is compared with the previous row. If DuckDB does not return the rows of a file
    in the order of their positions, they are first sorted by position.

    Args:
        plan: The plan of the files.
        relation: The rows, with `_file` and `_pos`.
        keys: Arguments of `create_sort_key`.
    """

    def text(source: str, over: str) -> str:
        before = ", ".join(f"lag({name}) OVER ({over}) AS b_{at}" for at, name in enumerate(("f", "p", "k")))
        return (
            f'WITH keyed AS (SELECT "_file" AS f, "_pos" AS p, create_sort_key({keys}) AS k FROM {source}), '
            f"pairs AS (SELECT f, p, k, {before} FROM keyed) SELECT f, "
            "min(p) FILTER (b_0 = f AND b_1 = p - 1 AND b_2 > k), count(*) FILTER (b_0 = f AND b_1 = p - 1) + 1 "
            "= count(*) FROM pairs GROUP BY f ORDER BY f"
        )

    rows_ = _query_rows(plan, relation, text("rows", ""))
    misplaced = [path for path, _, is_whole in rows_ if not is_whole]
    if misplaced:
        misplaced_rows = f'(SELECT * FROM rows WHERE "_file" IN ({", ".join(map(sqltext.text, misplaced))}))'
        rows_ = [row for row in rows_ if row[2]] + _query_rows(
            plan, relation, text(misplaced_rows, "PARTITION BY f ORDER BY p")
        )
    return [(path, at) for path, at, _ in rows_ if at is not None]


def _keys(rows: FileRows, order_id: int) -> Iterator[tuple[dt.Field, str]]:
    """Yield the first keys of a sort order, up to the first key that DuckDB cannot order.

    Each key consists of the column to read and the arguments for `create_sort_key`.
    """
    order, columns = rows.statements.orders.get(order_id), single_columns(rows.plan.schema)
    for key in () if order is None else order.fields:
        top, field, value = columns.get(key.source_id or -1, (None, None, ""))
        # Java writers compare the halves of UUIDs as signed numbers.
        has_order = field is not None and isinstance(field.type, SINGLE) and not isinstance(field.type, dt.UuidType)
        sql = _ordered_value(key.transform, value, field.type) if field is not None and has_order else None
        if sql is None or top is None:
            return
        direction = "ASC" if key.direction is Direction.ASCENDING else "DESC"
        yield top, f"{sql}, '{direction} NULLS {key.null_order.value.rpartition('-')[2].upper()}'"


def _ordered_value(transform: Transform, value: str, type_: dt.Type) -> str | None:
    """Return SQL that has the same order as a transform of `value`, or None for buckets and unknown transforms."""
    if not is_defined(transform, type_) or isinstance(transform, Bucket):
        return None
    match transform, type_:
        case Identity(), _:
            return value
        case Truncate(width=width), dt.StringType():
            return f"left({value}, {width})"
        case Truncate(width=width), dt.IntegerType():
            number = f"{value}::HUGEINT"
            return f"{number} - (({number} % {width}) + {width}) % {width}"
        case _, dt.DateType() | dt.TimestampType(unit="us") if str(transform) in ("year", "month", "day", "hour"):
            # Always in UTC, independent of the session's time zone.
            moment = value if isinstance(type_, dt.DateType) else f"make_timestamp(epoch_us({value}))"
            return f"date_trunc('{transform}', {moment})"
        case _:
            return None


@rule("ICE-510", Severity.ERROR, Reads.ROWS, "iceberg 3.11")
def buckets(rows: FileRows) -> Iterator[Breach]:
    """The values of a column belong to the bucket of their file.

    Hurts: Readers that skip files by partition: they lose the rows of other buckets, without an error.
    Mends: manifest: partition of the entry; or rewrite the file into its buckets
    """
    columns = single_columns(rows.plan.schema)
    for spec_id, paths in rows.by(lambda entry: entry.spec_id).items():
        spec = rows.statements.specs.get(spec_id)
        for part in () if spec is None else spec.fields:
            column = columns.get(part.source_id or -1)
            if column is not None and isinstance(part.transform, Bucket) and is_defined(part.transform, column[1].type):
                yield from _other_buckets(rows, paths, part, part.transform, *column)


def _other_buckets(
    rows: FileRows,
    paths: Sequence[str],
    part: PartitionField,
    bucket: Bucket,
    top: dt.Field,
    field: dt.Field,
    value: str,
) -> Iterator[Breach]:
    connection, (bucket_input, type_) = cursor(), _bucket_input(value, field.type)
    function, run = f"harness_bucket_{next(_numbers)}", buckets_of(bucket, field.type)

    def buckets_in(values: pa.ChunkedArray | pa.Array) -> pa.Array:
        return run(values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values)

    relations.relation(rows_of(rows.plan, paths, ["_file"], [top]), connection, name="bucketed_rows")
    text = f'SELECT "_file", {function}({bucket_input}) AS b, count(*), any_value({value}::VARCHAR) FROM bucketed_rows'
    connection.create_function(function, buckets_in, [type_], "INTEGER", type=PythonUDFType.ARROW)
    try:
        with naming_table(rows.plan):
            counts = connection.execute(f"{text} GROUP BY ALL ORDER BY ALL").fetchall()
    finally:
        connection.remove_function(function)
    for path, actual, number, example in counts:
        recorded = rows.statements.entries[path].partition.get(part.field_id)
        if actual != recorded:
            actual_text = f"{number:,} rows are in bucket {actual}, for example {example}"
            yield rows.breach(path, f"partition.{part.name}", repr(recorded), actual_text, field.name)


_numbers = itertools.count()


def _bucket_input(value: str, type_: dt.Type) -> tuple[str, str]:
    """Return a value in the form that `buckets_of` takes, as SQL, and its DuckDB type."""
    match type_:
        case dt.UuidType():
            return f"unhex(replace({value}::VARCHAR, '-', ''))", "BLOB"
        case dt.StringType():
            return value, "VARCHAR"
        case dt.BinaryType() | dt.FixedType():
            return value, "BLOB"
        case dt.DecimalType(precision=precision, scale=scale):
            return value, f"DECIMAL({precision}, {scale})"
        case dt.TimestampType(unit="ns", utc=True):
            return f"epoch_us({value}) * 1000", "BIGINT"  # DuckDB reads these as microseconds
        case _:
            return f"({internal_value(value, type_)})::BIGINT", "BIGINT"


@rule("ICE-508", Severity.ERROR, Reads.ROWS, "iceberg 2.11", "iceberg 5.18")
@rule("DEL-508", Severity.ERROR, Reads.ROWS, "delta W2", "delta W5")
def unique_ids(rows: FileRows) -> Iterator[Breach]:
    """Row ids are unique among live rows, and no stored id or version is from a later commit than the file.

    Hurts: Readers of row lineage: they assign changes to the wrong row.
    Mends: the files: rewrite them without the stored ids; or first_row_id and baseRowId of their entries
    """
    plan = rows.plan
    if isinstance(plan.rules, DeltaRules):
        plan = replace(plan, rules=replace(plan.rules, materialized=rows.statements.materialized))
    if not rows.paths or plan.files.column("first_row_id").null_count == len(plan.files):
        return
    number = "_last_updated_sequence_number" if plan.format == "iceberg" else "_row_commit_version"
    columns = (dt.METADATA["_file"], dt.METADATA["_row_id"], dt.METADATA[number])
    relation = relations.relation(replace(plan, columns=columns))
    text = f"""SELECT "_file", min("_row_id"), max("_row_id"), count("_row_id"), max("{number}") FROM rows GROUP BY ALL
        ORDER BY 2, 3"""
    ranges = _query_rows(plan, relation, text)
    files = {row["path"]: row for row in plan.files.to_pylist()}
    # Rows without a stored version have the file's own. If that is above the snapshot's version, the entry is wrong,
    # not the file.
    file_version = "sequence_number" if plan.format == "iceberg" else "commit_version"
    ids = rows.statements.next_row_id
    for path, _, greatest, _, latest in ranges:
        of_file = [files[path][file_version], plan.snapshot if plan.format == "delta" else None]
        limit = max((each for each in of_file if each is not None), default=None)
        # Larger ids are stored in the file.
        first_stored = (files[path]["first_row_id"] or 0) + (files[path]["record_count"] or 0)
        if ids is not None and greatest is not None and greatest >= max(ids, first_stored):
            yield rows.breach(path, "_row_id", f"row id {greatest}", f"{ids} is the next id to be assigned")
        if latest is not None and limit is not None and latest > limit:
            yield rows.breach(path, number, str(latest), f"the version of the file is {limit}")
    counts = {path: file["record_count"] or 0 for path, file in files.items()}
    doubtful = sorted(_doubtful_files(counts, [row[:4] for row in ranges]))
    if not doubtful:
        return
    text = (
        'SELECT "_row_id", count(*), min("_file"), max("_file") FROM rows WHERE "_row_id" IS NOT NULL '
        f'AND "_file" IN ({", ".join(map(sqltext.text, doubtful))}) '
        'GROUP BY "_row_id" HAVING count(*) > 1 ORDER BY ALL LIMIT 20'
    )
    for id_, times, first, last in _query_rows(plan, relation, text):
        yield rows.breach(first, "first_row_id", f"row id {id_}", f"{times} rows have it, one in {last}")


def _doubtful_files(counts: Mapping[str, int], ranges: Sequence[tuple[Any, ...]]) -> set[str]:
    """Return the files whose row ids may not be unique.

    These are files whose ranges overlap another range, have gaps, or have fewer ids than rows. Only their ids are then
    counted, because counting the ids of the whole table would take too much memory.

    Args:
        counts: Recorded rows by path.
        ranges: Path, least id, greatest id, and number of rows, by ascending ids.
    """
    overlapping: set[str] = set()
    end, owner = -1, ""
    for path, least, greatest, rows in ranges:
        if least is None:
            continue
        size = greatest - least + 1
        if rows > size or size > counts[path]:
            overlapping.add(path)
        if least <= end:
            overlapping |= {path, owner}
        if greatest > end:
            end, owner = greatest, path
    return overlapping


@rule("DEL-507", Severity.ERROR, Reads.ROWS, "delta T3")
def constraints(rows: FileRows) -> Iterator[Breach]:
    """CHECK constraints, invariants, and expressions of generated columns are not false for any live row.

    Hurts: Queries planned with the constraint, and writers that trust it.
    Mends: log: the constraint; or a new version without the rows
    """
    if not rows.paths or not rows.statements.constraints:
        return
    relation = relations.relation(replace(rows.plan, columns=rows.plan.schema.fields))
    unchecked: list[str] = []
    for name, condition in rows.statements.constraints.items():
        try:
            parsed = sqlglot.parse_one(condition, read="spark")
            if not _is_same_in_duckdb(parsed, rows.plan.schema, strict=name.startswith("delta.generation")):
                raise EngineError("its value in DuckDB may differ from Spark")
            text = parsed.sql("duckdb")
            ((number,),) = _query_rows(rows.plan, relation, f"SELECT count(*) FROM rows WHERE ({text}) IS FALSE")
        except (sqlglot.errors.SqlglotError, EngineError) as error:
            reason = error.message if isinstance(error, EngineError) else error
            unchecked.append(f"Cannot evaluate {name}, {condition!r:.80}: {reason}")
            continue
        if number:
            yield Breach(Place(file=rows.plan.table, field=name), condition, f"{number:,} rows violate it")
    if unchecked:
        raise EngineError("; ".join(unchecked))


@rule("DEL-506", Severity.WARNING, Reads.ROWS, "delta V1")
def partition_columns(rows: FileRows) -> Iterator[Breach]:
    """A partition column inside a data file has the value that the log records.

    Hurts: Readers that take the column from the file, for example through Iceberg metadata beside the log: they
    return other values.
    Mends: the file: rewrite it; or log: partitionValues of the add
    """
    plan = rows.plan
    ids = {id_ for partition in plan.partitions for id_ in partition.constants}
    if not ids:
        return
    files = {row["path"]: row for row in plan.files.select(["path", "physical", "partition"]).to_pylist()}
    names = [FileName(path, files[path]["physical"]) for path in rows.paths]
    footers = read_footers(DuckDBFiles(cursor(), plan.storage), names, table=plan.table)
    bare = replace(plan, partitions=tuple(replace(partition, constants={}) for partition in plan.partitions))
    for column in (f for f in plan.schema.fields if f.id in ids):
        stored = stored_name(column)
        holds = [name.recorded for name in names if stored in {f.name for f in footers[name.physical].schema}]
        if not holds:
            continue
        relation = relations.relation(rows_of(bare, holds, ["_file"], [column]))
        value = sqltext.name(column.name)
        ends = (internal_value(f"{function}({value})", column.type) for function in ("min", "max"))
        text = f'SELECT "_file", {", ".join(ends)}, count(*) - count({value}) FROM rows GROUP BY "_file" ORDER BY ALL'
        for path, least, greatest, nulls in _query_rows(plan, relation, text):
            recorded = plan.partitions[files[path]["partition"]].constants.get(column.id)
            values = [each for each in (least, greatest) if each is not None] + [None] * bool(nulls)
            accepted = (
                (None, "", b"") if recorded is None else (recorded,)
            )  # the log has null for empty values (delta V2)
            wrong = [each for each in values if each not in accepted and (each == each or recorded == recorded)]
            if wrong:
                texts = [value_text(each, column.type) for each in (recorded, wrong[0])]
                yield rows.breach(path, "partitionValues", texts[0], f"a row has {texts[1]}", column.name)


@rule("ICE-513", Severity.WARNING, Reads.ROWS, "iceberg 4.12")
def sorted_deletes(rows: FileRows) -> Iterator[Breach]:
    """The rows of a Parquet position delete file are sorted by path and position.

    Hurts: Readers that merge deletes with rows as both stream by: they return deleted rows.
    Mends: the delete file: rewrite it in order
    """
    files = [d for d in rows.deletes if d.format == "parquet"]
    paths = {d.physical: d.path for d in files if d.physical is not None}
    if not paths:
        return
    access = DuckDBFiles(cursor(), rows.plan.storage)
    recorded_paths = {access.name(path): recorded for path, recorded in paths.items()}
    text = 'SELECT filename AS "_file", file_row_number AS "_pos", file_path, pos FROM read_parquet'
    with naming_table(rows.plan):
        relation = access.connection.sql(f"{text}({access.listed(list(paths))}, hive_partitioning=false)")
    for name, at in unsorted(rows.plan, relation, "file_path, 'ASC NULLS LAST', pos, 'ASC NULLS LAST'"):
        yield Breach(
            Place(file=recorded_paths[name], field="file_path, pos"), "in order", f"not in order from row {at}"
        )


@rule("ICE-512", Severity.ERROR, Reads.ROWS, "iceberg 7.6")
@rule("DEL-512", Severity.ERROR, Reads.ROWS, "delta E9")
def page_checksums(rows: FileRows) -> Iterator[Breach]:
    """The pages of a Parquet file match the checksums in their headers.

    Hurts: All readers: they fail if they verify checksums, or else return damaged values.
    Mends: the file: restore it, or rewrite it from another copy
    """
    storage = rows.plan.storage
    files = rows.plan.files.select(["path", "physical", "format"]).to_pylist()
    selected = set(rows.paths)
    parquet = (file for file in files if file["format"] == "parquet" and file["path"] in selected)
    physical: dict[PhysicalPath, str] = {file["physical"]: file["path"] for file in parquet}
    # The first page of a file follows the magic bytes. Either all pages have checksums or none.
    have_checksums = map_files(
        lambda path: has_checksum(storage.read(path, offset=4, length=4096)), list(physical), physical
    )
    files_ = column_chunks(
        rows.plan, [path for path, has_sums in zip(physical, have_checksums, strict=True) if has_sums]
    )
    chunks = [(path, chunk) for path, of_file in files_.items() for chunk in of_file]

    def damaged(chunk: tuple[PhysicalPath, ColumnChunk]) -> list[int]:
        return list(damaged_pages(storage.read(chunk[0], offset=chunk[1].start, length=chunk[1].size)))

    with ThreadPoolExecutor(os.cpu_count()) as pool, phase("checking pages", len(chunks), "columns") as advance:
        for (path, chunk), wrong in zip(chunks, pool.map(damaged, chunks), strict=True):
            advance(1)
            place = Place(file=physical[path], entry=physical[path], field="crc", column=chunk.column)
            for at in wrong:
                where = f"the page at byte {chunk.start + at:,}, in row group {chunk.group}"
                yield Breach(place, actual=f"the checksum does not match {where}")


_SAME_IN_BOTH = """
Column Identifier Literal Null Boolean Paren And Or Not EQ NEQ GT GTE LT LTE NullSafeEQ Is In Between Add Sub Mul Neg
DataType Cast TryCast TsOrDsToDate Year Month Day Concat Upper Lower Length
"""
"""Node classes of sqlglot whose results are the same in Spark and DuckDB."""


def _is_same_in_duckdb(parsed: exp.Expr, schema: dt.Schema, *, strict: bool) -> bool:
    """Return whether an expression has the same result in DuckDB, independent of the writer's session time zone.

    If `strict`, equal values must also be equal in the last digit.
    """
    types = {f.name.lower(): f.type for f in schema.fields}
    used = [types.get(column.name.lower()) for column in parsed.find_all(exp.Column)]
    names = [type(node).__name__ for node in parsed.walk()]
    reads_dates = bool({"Cast", "TryCast", "TsOrDsToDate", "Year", "Month", "Day"} & set(names))
    has_texts = any(literal.is_string for literal in parsed.find_all(exp.Literal))
    if (has_texts or reads_dates) and any(isinstance(type_, dt.TimestampType) and type_.utc for type_ in used):
        return False
    inexact = (dt.FloatType, dt.StringType) if reads_dates else dt.FloatType
    to_others = any(not to.is_type("date") for to in parsed.find_all(exp.DataType))
    if strict and (to_others or any(isinstance(type_, inexact) for type_ in used)):
        return False
    return not strict or set(names) <= set(_SAME_IN_BOTH.split())
