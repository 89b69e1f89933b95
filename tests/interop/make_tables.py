"""Rewrite fixtures/interop: small tables written by a reference implementation, with the rows that it reads.

    python tests/interop/make_tables.py iceberg

Run this in the environment of `nox -s interop` for the format. Each table is a folder `<name>/table`;
`<name>/expected.json` contains every read of it as columns and rows, and values that JSON lacks as Python's text.
`versions.json` contains the versions of the writers. The paths in an Iceberg table are in a file system
`viewfs://reference`, so that readers must detect that it was moved.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from iceberg_equality import equality_delete
from iceberg_histories import ON_READ
from interop_session import QUICK_DELTA, start
from written_tables import histories

from harness.suite.readers import PINNED
from harness.suite.scenarios.loading import fixtures_directory

PLACE = fixtures_directory() / "interop"

ICEBERG = histories("made_iceberg.txt", {"on_read": ON_READ}, {"equality_delete": equality_delete})
DELTA = histories("made_delta.txt", {}, {})
LINEAGE = {
    "iceberg": "*, _row_id, _last_updated_sequence_number",
    "delta": "*, _metadata.row_id AS _row_id, _metadata.row_commit_version AS _row_commit_version",
}
WITH_LINEAGE = ("iceberg/deletion-vectors", "delta/row-tracking")


def write_iceberg() -> Any:
    """Write the Iceberg tables and return the session."""
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
    """Write the Delta tables and return the session."""
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
    """Write every table of a format, the reads, and the versions of Spark and the jars."""
    shutil.rmtree(PLACE / format, ignore_errors=True)
    spark = {"iceberg": write_iceberg, "delta": write_delta}[format]()
    packages = PINNED[format]["packages"]
    said = {"pyspark": spark.version, "packages": packages, "script": "tests/interop/make_tables.py"}
    (PLACE / format / "versions.json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
