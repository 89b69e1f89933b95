"""Writes fixtures/reference/delta anew: small tables by Delta Lake, and the rows that it reads of them.

    python tests/reference/make_delta_tables.py

runs where `nox -s reference` runs its tests of Delta. Each table is a folder `<name>/table`; `<name>/expected.json` has
every read of it as columns and rows, a value that JSON has not as Python's text of it. `versions.json` says who wrote.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from reference_session import QUICK_DELTA, start
from small_tables import write_reads, write_versions

from harness.testing.conformance.readers import PINNED
from harness.testing.scenarios.loading import fixtures_directory

PLACE = fixtures_directory() / "reference" / "delta"


@dataclass(frozen=True, slots=True)
class Small:
    """A table to write. lineage: read the columns of row tracking too; feed: read the change data feed too."""

    name: str
    statements: tuple[str, ...]
    lineage: bool = False
    feed: bool = False


_VECTORS = "'delta.enableDeletionVectors'='true'"
_V2 = "'delta.checkpointPolicy'='v2', 'delta.checkpointInterval'='2'"

TABLES = (
    Small(
        "deletion-vectors",
        (
            f"CREATE TABLE {{t}} (id BIGINT, s STRING) USING delta TBLPROPERTIES ({_VECTORS})",
            "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, concat('s', id) FROM range(40)",
            "DELETE FROM {t} WHERE id % 5 = 0",
            "UPDATE {t} SET s = NULL WHERE id IN (7, 8)",
            "DELETE FROM {t} WHERE id > 30",
        ),
    ),
    Small(
        "v2-checkpoint-json",
        (
            "SET spark.databricks.delta.checkpointV2.topLevelFileFormat=json",
            "CREATE TABLE {t} (id BIGINT, p STRING) USING delta PARTITIONED BY (p) "
            f"TBLPROPERTIES ({_V2}, {_VECTORS})",
            "INSERT INTO {t} VALUES (1, 'a b'), (2, 'a b'), (3, NULL)",
            "DELETE FROM {t} WHERE id = 2",
            "INSERT INTO {t} VALUES (4, 'ü/%')",
        ),
    ),
    Small(
        "v2-checkpoint-parquet",
        (
            "SET spark.databricks.delta.checkpointV2.topLevelFileFormat=parquet",
            "SET spark.databricks.delta.checkpoint.partSize=1",
            f"CREATE TABLE {{t}} (id BIGINT, s STRING) USING delta TBLPROPERTIES ({_V2})",
            "INSERT INTO {t} SELECT /*+ REPARTITION(2) */ id, 'x' FROM range(4)",
            "INSERT INTO {t} VALUES (10, NULL)",
            "RESET spark.databricks.delta.checkpoint.partSize",
            "RESET spark.databricks.delta.checkpointV2.topLevelFileFormat",
        ),
    ),
    Small(
        "column-mapping",
        (
            "CREATE TABLE {t} (id BIGINT, s STRING, n STRUCT<a: INT, b: ARRAY<STRUCT<c: STRING>>>) USING delta",
            "INSERT INTO {t} VALUES (1, 'x', named_struct('a', 1, 'b', array(named_struct('c', 'p'))))",
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode'='name', 'delta.minReaderVersion'='2', "
            "'delta.minWriterVersion'='5')",
            "ALTER TABLE {t} RENAME COLUMN n.b.element.c TO `d e`",
            "ALTER TABLE {t} DROP COLUMN s",
            "ALTER TABLE {t} ADD COLUMNS (s DATE AFTER id)",
            "INSERT INTO {t} "
            "VALUES (2, DATE'2024-02-29', named_struct('a', NULL, 'b', array(named_struct('d e', 'q'))))",
        ),
    ),
    Small(
        "type-widening",
        (
            "CREATE TABLE {t} (b TINYINT, i INT, f FLOAT, d DECIMAL(5, 2), t DATE, n STRUCT<a: SMALLINT>) USING delta "
            "TBLPROPERTIES ('delta.enableTypeWidening'='true', 'delta.feature.timestampNtz'='supported')",
            "INSERT INTO {t} VALUES (-128, 2147483647, 0.1, -999.99, DATE'1969-12-31', named_struct('a', 5))",
            "ALTER TABLE {t} ALTER COLUMN b TYPE INT",
            "ALTER TABLE {t} ALTER COLUMN i TYPE BIGINT",
            "ALTER TABLE {t} ALTER COLUMN f TYPE DOUBLE",
            "ALTER TABLE {t} ALTER COLUMN d TYPE DECIMAL(20, 4)",
            "ALTER TABLE {t} ALTER COLUMN t TYPE TIMESTAMP_NTZ",
            "ALTER TABLE {t} ALTER COLUMN n.a TYPE INT",
            "INSERT INTO {t} "
            "VALUES (70000, 9223372036854775807, 0.1, 1.2345, TIMESTAMP_NTZ'2024-01-01 12:00:00.5', NULL)",
        ),
    ),
    Small(
        "change-data-feed",
        (
            "CREATE TABLE {t} (id BIGINT, s STRING) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed'='true', "
            "'delta.enableDeletionVectors'='false')",
            "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, 'a' FROM range(4)",
            "UPDATE {t} SET s = 'b' WHERE id >= 2",
            "DELETE FROM {t} WHERE id = 0",
            "DELETE FROM {t}",
        ),
        feed=True,
    ),
    Small(
        "row-tracking",
        (
            f"CREATE TABLE {{t}} (id BIGINT, s STRING) USING delta TBLPROPERTIES ('delta.enableRowTracking'='true', "
            f"{_VECTORS})",
            "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, 'a' FROM range(4)",
            "UPDATE {t} SET s = 'b' WHERE id = 2",
            "OPTIMIZE {t}",
            "INSERT INTO {t} VALUES (10, 'c')",
        ),
        lineage=True,
    ),
)


def main() -> None:
    """Writes every table, and what was read."""
    spark = start("delta", QUICK_DELTA)
    shutil.rmtree(PLACE, ignore_errors=True)
    for small in TABLES:
        _write(spark, small)
    write_versions(PLACE, spark, PINNED["delta"]["packages"], Path(__file__).name)
    spark.stop()


def _write(spark: Any, small: Small) -> None:
    location = PLACE / small.name / "table"
    for statement in small.statements:
        spark.sql(statement.format(t=f"delta.`{location}`"))
    write_reads(location.parent, _reads(spark, small, location))
    for hadoops in location.rglob(".*.crc"):
        hadoops.unlink()


def _reads(spark: Any, small: Small, location: Path) -> Iterator[tuple[dict[str, Any], pa.Table]]:
    columns = "*, _metadata.row_id AS _row_id, _metadata.row_commit_version AS _row_commit_version"
    last = max(row.version for row in spark.sql(f"DESCRIBE HISTORY delta.`{location}`").collect())
    for version in range(last + 1):
        select = f"SELECT {columns if small.lineage else '*'} FROM delta.`{location}` VERSION AS OF {version}"
        yield {"at": {"version": version}}, spark.sql(select).toArrow()
    if small.feed:
        feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
        yield {"changes": [0, last]}, feed.load(str(location)).drop("_commit_timestamp").toArrow()


if __name__ == "__main__":
    main()
