"""Writes fixtures/reference anew: small tables by a reference implementation, and the rows that it reads of them.

    python tests/reference/make_tables.py iceberg

runs where `nox -s reference` runs its tests of the format. Each table is a folder `<name>/table`;
`<name>/expected.json` has every read of it as columns and rows, a value that JSON has not as Python's text of it.
`versions.json` says who wrote. The paths in an Iceberg table are of a file system `viewfs://reference`, so that whoever
reads it must see that it moved.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from delta_histories import VECTORS
from iceberg_equality import equality_delete
from iceberg_histories import KEYS_OF_PARTITIONS, ON_READ, create
from reference_session import QUICK_DELTA, start
from written_tables import Step

from harness.testing.conformance.readers import PINNED
from harness.testing.scenarios.loading import fixtures_directory

PLACE = fixtures_directory() / "reference"

ICEBERG: dict[str, tuple[Step, ...]] = {
    "position-deletes": (
        create("id bigint, region string", 2, ON_READ, partitioned="region"),
        "INSERT INTO {t} SELECT id, CASE id % 3 WHEN 0 THEN 'eu' WHEN 1 THEN 'a/b =%' END FROM range(30)",
        "DELETE FROM {t} WHERE id % 4 = 0",
        "UPDATE {t} SET region = 'eu' WHERE id IN (1, 2)",
        "CALL ice.system.rewrite_position_delete_files(table => '{ref}', options => map('rewrite-all', 'true'))",
        "DELETE FROM {t} WHERE id = 3 OR region IS NULL",
    ),
    "deletion-vectors": (
        create("id bigint, s string", 3, ON_READ),
        "INSERT INTO {t} SELECT /*+ REPARTITION(2) */ id, concat('s', id) FROM range(40)",
        "DELETE FROM {t} WHERE id % 5 = 0",
        "UPDATE {t} SET s = NULL WHERE id IN (7, 8)",
        "DELETE FROM {t} WHERE id > 30",
    ),
    "equality-deletes": (
        *KEYS_OF_PARTITIONS,
        equality_delete("p", "id", where="d", equals=5.0, whole=True, format="AVRO"),
        equality_delete("p", where="p", equals=None, whole=True, format="ORC"),
        "INSERT INTO {t} VALUES (5, NULL, 7)",
    ),
    "evolution": (
        create("id int, s string, st struct<a: int, b: string>, at timestamp", 1, partitioned="s"),
        "INSERT INTO {t} VALUES (1, 'a', named_struct('a', 1, 'b', 'x'), TIMESTAMP'2024-01-01 00:00:00Z'), "
        "(2, NULL, NULL, NULL)",
        "ALTER TABLE {t} DROP PARTITION FIELD s",
        "ALTER TABLE {t} ADD PARTITION FIELD days(at)",
        "INSERT INTO {t} VALUES (3, 'a', NULL, TIMESTAMP'1969-12-31 23:59:59.5Z')",
        f"ALTER TABLE {{t}} SET TBLPROPERTIES ('format-version'='2', {ON_READ})",
        "ALTER TABLE {t} ALTER COLUMN id TYPE bigint",
        "ALTER TABLE {t} RENAME COLUMN st.a TO c",
        "ALTER TABLE {t} DROP COLUMN st.b",
        "ALTER TABLE {t} RENAME COLUMN s TO part",
        "ALTER TABLE {t} ADD COLUMNS (day date FIRST, st.a array<int>, st.b int)",
        "ALTER TABLE {t} ADD PARTITION FIELD bucket(4, id)",
        "INSERT INTO {t} VALUES (DATE'2024-02-29', 3000000000, 'a', "
        "named_struct('c', 4, 'a', array(1, NULL), 'b', 7), TIMESTAMP'2024-03-01 12:00:00Z')",
        "DELETE FROM {t} WHERE id IN (2, 3)",
    ),
    "branches": (
        create("id bigint, s string", 2, ON_READ, "'write.metadata.compression-codec'='gzip'"),
        "INSERT INTO {t} VALUES (1, 'a'), (2, 'b')",
        "ALTER TABLE {t} CREATE TAG first",
        "ALTER TABLE {t} CREATE BRANCH audit",
        "INSERT INTO {t}.branch_audit VALUES (3, 'audit')",
        "DELETE FROM {t}.branch_audit WHERE id = 1",
        "INSERT INTO {t} VALUES (4, 'main')",
        "ALTER TABLE {t} ADD COLUMN n int",
        "INSERT INTO {t} VALUES (5, 'last', 5)",
    ),
    "avro-and-orc": (
        create(
            "id bigint, li array<struct<x: int>>, m map<string, double>, d decimal(12, 3), y binary", 2, ON_READ
        ).replace("TBLPROPERTIES (", "TBLPROPERTIES ('write.format.default'='avro', "),
        "INSERT INTO {t} VALUES (1, array(named_struct('x', 1), NULL), map('k', 0.5D), -1.5, X'00FF'), "
        "(2, NULL, map(), NULL, NULL)",
        "ALTER TABLE {t} SET TBLPROPERTIES ('write.format.default'='orc')",
        "ALTER TABLE {t} ADD COLUMN li.element.z string",
        "INSERT INTO {t} VALUES (3, array(named_struct('x', 3, 'z', 'new')), map('n', NULL), 123456789.125, X'')",
        "DELETE FROM {t} WHERE id IN (1)",
    ),
}

_V2 = "'delta.checkpointPolicy'='v2', 'delta.checkpointInterval'='2'"

DELTA: dict[str, tuple[str, ...]] = {
    "deletion-vectors": (
        f"CREATE TABLE {{t}} (id BIGINT, s STRING) USING delta TBLPROPERTIES ({VECTORS})",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, concat('s', id) FROM range(40)",
        "DELETE FROM {t} WHERE id % 5 = 0",
        "UPDATE {t} SET s = NULL WHERE id IN (7, 8)",
        "DELETE FROM {t} WHERE id > 30",
    ),
    "v2-checkpoint-json": (
        "SET spark.databricks.delta.checkpointV2.topLevelFileFormat=json",
        f"CREATE TABLE {{t}} (id BIGINT, p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES ({_V2}, {VECTORS})",
        "INSERT INTO {t} VALUES (1, 'a b'), (2, 'a b'), (3, NULL)",
        "DELETE FROM {t} WHERE id = 2",
        "INSERT INTO {t} VALUES (4, 'ü/%')",
    ),
    "v2-checkpoint-parquet": (
        "SET spark.databricks.delta.checkpointV2.topLevelFileFormat=parquet",
        "SET spark.databricks.delta.checkpoint.partSize=1",
        f"CREATE TABLE {{t}} (id BIGINT, s STRING) USING delta TBLPROPERTIES ({_V2})",
        "INSERT INTO {t} SELECT /*+ REPARTITION(2) */ id, 'x' FROM range(4)",
        "INSERT INTO {t} VALUES (10, NULL)",
        "RESET spark.databricks.delta.checkpoint.partSize",
        "RESET spark.databricks.delta.checkpointV2.topLevelFileFormat",
    ),
    "column-mapping": (
        "CREATE TABLE {t} (id BIGINT, s STRING, n STRUCT<a: INT, b: ARRAY<STRUCT<c: STRING>>>) USING delta",
        "INSERT INTO {t} VALUES (1, 'x', named_struct('a', 1, 'b', array(named_struct('c', 'p'))))",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode'='name', 'delta.minReaderVersion'='2', "
        "'delta.minWriterVersion'='5')",
        "ALTER TABLE {t} RENAME COLUMN n.b.element.c TO `d e`",
        "ALTER TABLE {t} DROP COLUMN s",
        "ALTER TABLE {t} ADD COLUMNS (s DATE AFTER id)",
        "INSERT INTO {t} VALUES (2, DATE'2024-02-29', named_struct('a', NULL, 'b', array(named_struct('d e', 'q'))))",
    ),
    "type-widening": (
        "CREATE TABLE {t} (b TINYINT, i INT, f FLOAT, d DECIMAL(5, 2), t DATE, n STRUCT<a: SMALLINT>) USING delta "
        "TBLPROPERTIES ('delta.enableTypeWidening'='true', 'delta.feature.timestampNtz'='supported')",
        "INSERT INTO {t} VALUES (-128, 2147483647, 0.1, -999.99, DATE'1969-12-31', named_struct('a', 5))",
        "ALTER TABLE {t} ALTER COLUMN b TYPE INT",
        "ALTER TABLE {t} ALTER COLUMN i TYPE BIGINT",
        "ALTER TABLE {t} ALTER COLUMN f TYPE DOUBLE",
        "ALTER TABLE {t} ALTER COLUMN d TYPE DECIMAL(20, 4)",
        "ALTER TABLE {t} ALTER COLUMN t TYPE TIMESTAMP_NTZ",
        "ALTER TABLE {t} ALTER COLUMN n.a TYPE INT",
        "INSERT INTO {t} VALUES (70000, 9223372036854775807, 0.1, 1.2345, TIMESTAMP_NTZ'2024-01-01 12:00:00.5', NULL)",
    ),
    "change-data-feed": (
        "CREATE TABLE {t} (id BIGINT, s STRING) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed'='true', "
        "'delta.enableDeletionVectors'='false')",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, 'a' FROM range(4)",
        "UPDATE {t} SET s = 'b' WHERE id >= 2",
        "DELETE FROM {t} WHERE id = 0",
        "DELETE FROM {t}",
    ),
    "row-tracking": (
        f"CREATE TABLE {{t}} (id BIGINT, s STRING) USING delta TBLPROPERTIES ('delta.enableRowTracking'='true', "
        f"{VECTORS})",
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, 'a' FROM range(4)",
        "UPDATE {t} SET s = 'b' WHERE id = 2",
        "OPTIMIZE {t}",
        "INSERT INTO {t} VALUES (10, 'c')",
    ),
}

LINEAGE = {
    "iceberg": "*, _row_id, _last_updated_sequence_number",
    "delta": "*, _metadata.row_id AS _row_id, _metadata.row_commit_version AS _row_commit_version",
}
WITH_LINEAGE = ("iceberg/deletion-vectors", "delta/row-tracking")


def write_iceberg() -> Any:
    """Writes the tables of Iceberg; the session."""
    with tempfile.TemporaryDirectory() as directory:
        catalog = {
            "spark.hadoop.fs.viewfs.mounttable.reference.link./warehouse": f"file://{directory}",
            "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice.type": "hadoop",
            "spark.sql.catalog.ice.warehouse": "viewfs://reference/warehouse",
            "spark.sql.catalog.ice.cache-enabled": "false",
        }
        spark = start("iceberg", catalog)
        for name, steps in ICEBERG.items():
            below = f"small/{name.replace('-', '_')}"
            table, place = f"ice.{below.replace('/', '.')}", PLACE / "iceberg" / name
            for step in steps:
                if callable(step):
                    step(spark, table)
                else:
                    spark.sql(str(step).format(t=table, ref=table.removeprefix("ice.")))
            ignored = shutil.ignore_patterns(".*.crc")
            shutil.copytree(Path(directory, below), place / "table", ignore=ignored)
            _write_reads(place, _reads_of_iceberg(spark, _select("iceberg", name), table))
    return spark


def _reads_of_iceberg(spark: Any, select: str, table: str) -> Iterator[tuple[dict[str, Any], pa.Table]]:
    yield {"at": {}}, spark.sql(f"{select} FROM {table}").toArrow()
    for row in spark.sql(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at").collect():
        rows = spark.sql(f"{select} FROM {table} VERSION AS OF {row.snapshot_id}").toArrow()
        yield {"at": {"snapshot_id": row.snapshot_id}}, rows
    for row in spark.sql(f"SELECT name FROM {table}.refs ORDER BY name").collect():
        yield {"at": {"ref": row.name}}, spark.sql(f"{select} FROM {table} VERSION AS OF '{row.name}'").toArrow()


def write_delta() -> Any:
    """Writes the tables of Delta; the session."""
    spark = start("delta", QUICK_DELTA)
    for name, statements in DELTA.items():
        location = PLACE / "delta" / name / "table"
        for statement in statements:
            spark.sql(statement.format(t=f"delta.`{location}`"))
        _write_reads(location.parent, _reads_of_delta(spark, name, location))
        for hadoops in location.rglob(".*.crc"):
            hadoops.unlink()
    return spark


def _reads_of_delta(spark: Any, name: str, location: Path) -> Iterator[tuple[dict[str, Any], pa.Table]]:
    last = max(row.version for row in spark.sql(f"DESCRIBE HISTORY delta.`{location}`").collect())
    for version in range(last + 1):
        select = f"{_select('delta', name)} FROM delta.`{location}` VERSION AS OF {version}"
        yield {"at": {"version": version}}, spark.sql(select).toArrow()
    if name == "change-data-feed":
        feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
        yield {"changes": [0, last]}, feed.load(str(location)).drop("_commit_timestamp").toArrow()


def _select(format: str, name: str) -> str:
    return f"SELECT {LINEAGE[format] if f'{format}/{name}' in WITH_LINEAGE else '*'}"


def _write_reads(place: Path, reads: Iterator[tuple[dict[str, Any], pa.Table]]) -> None:
    said = [
        {**read, "columns": rows.schema.names, "rows": [list(row.values()) for row in rows.to_pylist()]}
        for read, rows in reads
    ]
    lines = ",\n ".join(json.dumps(read, default=str, ensure_ascii=False) for read in said)
    (place / "expected.json").write_text(f"[{lines}]\n", encoding="utf-8")


def main(format: str) -> None:
    """Writes every table of a format, what was read, and the versions of Spark and the jars."""
    shutil.rmtree(PLACE / format, ignore_errors=True)
    spark = {"iceberg": write_iceberg, "delta": write_delta}[format]()
    packages = PINNED[format]["packages"]
    said = {"pyspark": spark.version, "packages": packages, "script": "tests/reference/make_tables.py"}
    (PLACE / format / "versions.json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
