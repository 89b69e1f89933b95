"""The forms by which jobs read lake tables, with the expected result of each. Run as a program, it starts a session.

    python reading_forms.py own | classic | connect

`nox -s tests-external -- jobs` runs it on the oldest and the newest Spark. It prints each form with `ok` or the error.
It fails if a form that a user's session can support does not work, or if `missing` does not name an unsupported form.
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import harness
from harness.testing import SparkJob
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


def make_lake(warehouse: Path) -> SimpleNamespace:
    """Create tables with ids 1 to 5: 1 and 4 deleted by equality and position, and one by a Delta vector."""
    orders = IcebergTable.create(warehouse / "db/orders", {"id": "long", "name": "string"})
    first = orders.append(orders.write_data([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]))
    file = orders.write_data([{"id": 3, "name": "c"}, {"id": 4, "name": "d"}, {"id": 5, "name": None}])
    second = orders.append(file)
    orders.commit(add=[orders.write_equality_deletes(["id"], [{"id": 1}])])
    orders.commit(add=[orders.write_position_deletes([(file, 1)])])
    orders.create_branch("audit", first)
    orders.create_tag("first", first)
    items = DeltaTable.create(
        warehouse / "db/items",
        {"id": "long", "price": "decimal(9,2)"},
        partition_columns=["id"],
        configuration={"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"},
        features=["deletionVectors"],
    )
    kept = items.write_data([{"price": 1}, {"price": 2}], partition={"id": 2})
    items.append(kept)
    items.append(items.write_data([{"price": 3}], partition={"id": 3}))
    items.delete(kept, [0])
    return SimpleNamespace(
        warehouse=warehouse, orders=str(orders.location), items=str(warehouse / "db/items"), first=first, second=second
    )


def ids(frame) -> list[int]:
    return sorted(row[0] for row in frame.select("id").collect())


NOW, FIRST, BOTH = [2, 3, 5], [1, 2], [1, 2, 3, 4, 5]
FORMS = {
    "a name": (lambda spark, lake: spark.table("db.orders"), NOW),
    "a name with its catalog": (lambda spark, lake: spark.read.table("prod.db.orders"), NOW),
    "the session catalog's name": (lambda spark, lake: spark.table("spark_catalog.db.orders"), NOW),
    "a path": (lambda spark, lake: spark.read.format("iceberg").load(lake.orders), NOW),
    "a name that is loaded": (lambda spark, lake: spark.read.format("iceberg").load("db.orders"), NOW),
    "snapshot-id": (
        lambda spark, lake: spark.read.format("iceberg").option("snapshot-id", lake.second).load(lake.orders),
        BOTH,
    ),
    "snapshot-id of a name": (
        lambda spark, lake: spark.read.option("snapshot-id", lake.first).table("db.orders"),
        FIRST,
    ),
    "as-of-timestamp": (
        lambda spark, lake: spark.read.format("iceberg").option("as-of-timestamp", 1_700_000_001_500).load(lake.orders),
        FIRST,
    ),
    "branch": (lambda spark, lake: spark.read.format("iceberg").option("branch", "audit").load(lake.orders), FIRST),
    "tag": (lambda spark, lake: spark.read.format("iceberg").option("tag", "first").load(lake.orders), FIRST),
    "VERSION AS OF an id": (lambda spark, lake: spark.sql(f"FROM db.orders VERSION AS OF {lake.first}"), FIRST),
    "VERSION AS OF a branch": (lambda spark, lake: spark.sql("FROM db.orders VERSION AS OF 'audit'"), FIRST),
    "TIMESTAMP AS OF": (lambda spark, lake: spark.sql("FROM db.orders TIMESTAMP AS OF '2023-11-14 22:13:21.5'"), FIRST),
    "delta.`path`": (lambda spark, lake: spark.sql(f"SELECT * FROM delta.`{lake.items}`"), [2, 3]),
    "versionAsOf": (lambda spark, lake: spark.read.format("delta").option("versionAsOf", 1).load(lake.items), [2, 2]),
    "timestampAsOf": (
        lambda spark, lake: spark.read.format("delta").option("timestampAsOf", "2023-11-14 22:13:22").load(lake.items),
        [2, 2, 3],
    ),
    "Delta VERSION AS OF": (lambda spark, lake: spark.sql("FROM db.items VERSION AS OF 2"), [2, 2, 3]),
    "start-snapshot-id": (
        lambda spark, lake: spark.read.format("iceberg").option("start-snapshot-id", lake.first).load(lake.orders),
        [3, 4, 5],
    ),
    "start-snapshot-id of a name": (
        lambda spark, lake: (
            spark.read.option("start-snapshot-id", lake.first)
            .option("end-snapshot-id", lake.second)
            .table("db.orders")
            .where("id > 3")
        ),
        [4, 5],
    ),
    "table_changes": (lambda spark, lake: spark.sql("FROM table_changes('db.items', 3)"), [2]),
    "readChangeFeed": (
        lambda spark, lake: (
            spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2).load(lake.items)
        ),
        [2, 3],
    ),
}

METADATA = {"snapshots": 4, "history": 4, "files": 4, "manifests": 4, "partitions": 1, "refs": 3, "entries": 4}
"""For `db.orders`, counted by hand: four commits of one file each, two with data and two with deletes."""

ONLY_OWN = {
    "DESCRIBE HISTORY": (lambda spark, lake: spark.sql("DESCRIBE HISTORY db.items").count(), 4),
    "DESCRIBE DETAIL": (lambda spark, lake: spark.sql("DESCRIBE DETAIL db.items").first().numFiles, 2),
}
"""Statements that need a parser, and therefore a session that harness creates."""


def write(spark: Any, lake: SimpleNamespace) -> None:
    """Run each kind of write that any session supports."""
    orders = spark.table("db.orders")
    orders.writeTo("prod.db.made").createOrReplace()
    orders.writeTo("db.out").append()
    orders.where("id = 2").writeTo("db.daily").overwritePartitions()
    orders.write.format("delta").mode("append").save(f"{lake.warehouse}/new")


def changed(spark: Any) -> object:
    """Check the rows of `db.items` after a DELETE. The source has (2, 3)."""
    import pyspark

    try:
        spark.sql("DELETE FROM db.items WHERE id = 2").collect()
    except Exception as error:
        is_refused = pyspark.__version__.startswith("4.0") and "on Spark 4.0: use a newer pyspark" in str(error)
        return [3] if is_refused else str(error)
    return ids(spark.table("db.items"))


WRITTEN = ("prod.db.made", "db.out", "db.daily", "{warehouse}/new")


def main(kind: str) -> int:
    """Return the number of forms that fail in one kind of session."""
    lake = make_lake(Path(tempfile.mkdtemp()) / "warehouse")
    tables = {"db.orders": lake.orders, "prod.db.orders": lake.orders, "db.items": lake.items}
    started = time.monotonic()
    spark, job = session(kind, tables)
    print(f"session: {time.monotonic() - started:.1f} s", flush=True)
    wrong = sum(tell(name, lambda read=read: ids(read(spark, lake)), wanted) for name, (read, wanted) in FORMS.items())
    for name, count in METADATA.items():
        wrong += tell(f"metadata table {name}", lambda name=name: spark.table(f"db.orders.{name}").count(), count)
    for name, (read, wanted) in ONLY_OWN.items():
        if kind == "own":
            wrong += tell(name, lambda read=read: read(spark, lake), wanted)
        else:
            said = any(name in form for form in job.missing)
            print(f"{name}: {'said to be missing' if said else 'WRONG'}")
            wrong += not said
    write(spark, lake)
    for name in WRITTEN:
        place = name.format(warehouse=lake.warehouse)
        wanted = [2] if name == "db.daily" else NOW
        wrong += tell(f"written {name}", lambda place=place: sorted(job.written(place)["id"].to_pylist()), wanted)
    wrong += tell("DELETE, or its refusal by Spark 4.0", lambda: changed(spark), [3])
    return wrong


def session(kind: str, tables: dict[str, str]) -> tuple[Any, Any]:
    """Return a session of harness, or a user's session, classic or Connect, whose server runs in this process."""
    from pyspark.sql import SparkSession

    if kind == "own":
        from harness.testing.jobs.job import open_job

        job = open_job(harness.spark_session(master="local[2]"), tables=tables, catalog=None)
        return job.spark, job
    builder = SparkSession.builder.remote("local[2]") if kind == "connect" else SparkSession.builder.master("local[2]")
    for name, value in {"spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC"}.items():
        builder = builder.config(name, value)
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    return spark, SparkJob.on(spark, tables=tables)


def tell(name: str, read: Any, expected: object) -> bool:
    """Print the result of a form, and return whether it failed."""
    try:
        found = read()
    except Exception as error:  # any error is the result of this form
        found = f"{type(error).__name__}: {str(error)[:300]}"
    print(f"{name}: {'ok' if found == expected else f'WRONG, {found}, expected {expected}'}", flush=True)
    return bool(found != expected)


if __name__ == "__main__":
    failed = main(sys.argv[1])
    sys.stdout.flush()
    os._exit(1 if failed else 0)  # a Connect session would wait for its server forever
