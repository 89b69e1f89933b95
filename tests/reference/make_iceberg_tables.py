"""Writes fixtures/reference/iceberg anew: small tables by Apache Iceberg, and the rows that it reads of them.

    python tests/reference/make_iceberg_tables.py

runs where `nox -s reference` runs its tests of Iceberg. Each table is a folder `<name>/table`; `<name>/expected.json`
has every read of it as columns and rows, a value that JSON has not as Python's text of it. `versions.json` says who
wrote. The paths in a table are of a file system `viewfs://reference`, so that whoever reads it must see that it moved.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from iceberg_equality import equality_delete
from iceberg_histories import KEYS_OF_PARTITIONS
from iceberg_history import ON_READ, Step, create
from reference_session import start
from small_tables import write_reads, write_versions

from harness.testing.conformance.readers import PINNED
from harness.testing.scenarios.loading import fixtures_directory

PLACE = fixtures_directory() / "reference" / "iceberg"


@dataclass(frozen=True, slots=True)
class Small:
    """A table to write. columns: metadata columns that are read too."""

    name: str
    steps: tuple[Step, ...]
    columns: tuple[str, ...] = ()


TABLES = (
    Small(
        "position-deletes",
        (
            create("id bigint, region string", 2, ON_READ, partitioned="region"),
            "INSERT INTO {t} SELECT id, CASE id % 3 WHEN 0 THEN 'eu' WHEN 1 THEN 'a/b =%' END FROM range(30)",
            "DELETE FROM {t} WHERE id % 4 = 0",
            "UPDATE {t} SET region = 'eu' WHERE id IN (1, 2)",
            "CALL ice.system.rewrite_position_delete_files(table => '{ref}', options => map('rewrite-all', 'true'))",
            "DELETE FROM {t} WHERE id = 3 OR region IS NULL",
        ),
    ),
    Small(
        "deletion-vectors",
        (
            create("id bigint, s string", 3, ON_READ),
            "INSERT INTO {t} SELECT /*+ REPARTITION(2) */ id, concat('s', id) FROM range(40)",
            "DELETE FROM {t} WHERE id % 5 = 0",
            "UPDATE {t} SET s = NULL WHERE id IN (7, 8)",
            "DELETE FROM {t} WHERE id > 30",
        ),
        columns=("_row_id", "_last_updated_sequence_number"),
    ),
    Small(
        "equality-deletes",
        (
            *KEYS_OF_PARTITIONS,
            equality_delete("p", "id", where="d", equals=5.0, whole=True, format="AVRO"),
            equality_delete("p", where="p", equals=None, whole=True, format="ORC"),
            "INSERT INTO {t} VALUES (5, NULL, 7)",
        ),
    ),
    Small(
        "evolution",
        (
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
    ),
    Small(
        "branches",
        (
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
    ),
    Small(
        "avro-and-orc",
        (
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
    ),
)


def main() -> None:
    """Writes every table, and what was read."""
    shutil.rmtree(PLACE, ignore_errors=True)
    with tempfile.TemporaryDirectory() as directory:
        spark = _session(directory)
        for small in TABLES:
            _write(spark, small, Path(directory))
        write_versions(PLACE, spark, PINNED["iceberg"]["packages"], Path(__file__).name)
        spark.stop()


def _session(directory: str) -> Any:
    catalog = {
        "spark.hadoop.fs.viewfs.mounttable.reference.link./warehouse": f"file://{directory}",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": "viewfs://reference/warehouse",
        "spark.sql.catalog.ice.cache-enabled": "false",
    }
    return start("iceberg", catalog)


def _write(spark: Any, small: Small, directory: Path) -> None:
    name = small.name.replace("-", "_")
    for step in small.steps:
        if callable(step):
            step(spark, f"ice.small.{name}")
        else:
            spark.sql(str(step).format(t=f"ice.small.{name}", ref=f"small.{name}"))
    place = PLACE / small.name
    shutil.copytree(directory / "small" / name, place / "table", ignore=shutil.ignore_patterns(".*.crc"))
    write_reads(place, (({"at": at}, rows) for at, rows in _reads(spark, small, f"ice.small.{name}")))


def _reads(spark: Any, small: Small, table: str) -> Iterator[tuple[dict[str, Any], pa.Table]]:
    select = f"SELECT {', '.join(('*', *small.columns))} FROM {table}"
    yield {}, spark.sql(select).toArrow()
    for row in spark.sql(f"SELECT snapshot_id FROM {table}.snapshots ORDER BY committed_at").collect():
        yield {"snapshot_id": row.snapshot_id}, spark.sql(f"{select} VERSION AS OF {row.snapshot_id}").toArrow()
    for row in spark.sql(f"SELECT name FROM {table}.refs ORDER BY name").collect():
        yield {"ref": row.name}, spark.sql(f"{select} VERSION AS OF '{row.name}'").toArrow()


if __name__ == "__main__":
    main()
