"""Whether a file's stored partition column contradicts its partition tuple (iceberg 5.3).

A file imported from elsewhere may have field ids of its own that collide with the table's: then the column that the ids
lead to is another one, and its values are not the partition's. Rows would be wrong without a sign, so the statistics of
the first row group are held against the tuple, in one file of each file group: collisions come from the writer, and its
files are alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from harness.engines.shared import sqltext
from harness.engines.shared.data_files import FileName
from harness.engines.shared.duckdb_files import DuckDBFiles
from harness.errors import SchemaMismatchError
from harness.model.schema import (
    BooleanType,
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    StringType,
    TimestampType,
    Type,
)
from harness.plan.projection import ColumnSource, Stored

# Types whose statistics DuckDB prints in a form that it also reads.
_COMPARABLE = (BooleanType, DateType, DecimalType, FloatType, IntegerType, StringType, TimestampType)


def check_partition_values(
    access: DuckDBFiles,
    file: FileName,
    fields: Sequence[Field],
    sources: Sequence[ColumnSource],
    constants: Mapping[int, Any],
    *,
    table: str,
) -> None:
    """Refuses a Parquet file whose stored columns cannot hold its own partition values.

    Args:
        access: reads the file's statistics; those that are missing or unreadable say nothing.
        file: the file.
        fields, sources: the wanted top-level columns, and where they come from in this file.
        constants: the tuple's values by source field id, as internal values.
        table: for messages.

    Raises:
        SchemaMismatchError: cause `PartitionValueConflict`.
    """
    checked = {
        source.physical.name: f
        for f, source in zip(fields, sources, strict=True)
        if isinstance(source, Stored) and f.id in constants and _is_comparable(f.type, constants[f.id])
    }
    if not checked:
        return
    listed = ", ".join(map(sqltext.text, checked))
    connection = access.connection
    rows = connection.execute(
        "SELECT path_in_schema, stats_min_value, stats_max_value, stats_null_count, num_values "
        f"FROM parquet_metadata({access.listed((file.physical,))}) "
        f"WHERE row_group_id = 0 AND path_in_schema IN ({listed})"
    ).fetchall()
    for name, low, high, nulls, values in rows:
        wanted = checked[name]
        value = constants[wanted.id]
        if _contradicts(connection, wanted, value, low, high, nulls, values):
            raise SchemaMismatchError(
                f"Cannot read column {wanted.name!r}: the file's partition says {value!r}, its first rows hold "
                f"{low!r} to {high!r}; its field ids may be those of another table",
                cause="PartitionValueConflict",
                table=table,
                file=str(file),
                field=wanted.name,
                rule="iceberg 5.3",
            )


def _is_comparable(type_: Type, value: Any) -> bool:
    if isinstance(type_, TimestampType) and type_.utc:  # the text depends on the session's zone
        return False
    return isinstance(type_, _COMPARABLE) and value == value  # statistics leave NaN out


def _contradicts(
    connection: duckdb.DuckDBPyConnection,
    wanted: Field,
    value: Any,
    low: str | None,
    high: str | None,
    nulls: int | None,
    values: int,
) -> bool:
    if nulls is not None and nulls == values:
        return value is not None and values > 0
    if value is None:
        return nulls == 0 and values > 0
    if low is None or high is None:
        return False
    kind, literal = sqltext.type_name(wanted.type), sqltext.literal(value, wanted.type)
    bounds = [f"TRY_CAST({sqltext.text(text)} AS {kind})" for text in (low, high)]
    ((outside,),) = connection.execute(f"SELECT {literal} < {bounds[0]} OR {literal} > {bounds[1]}").fetchall()
    return bool(outside)
