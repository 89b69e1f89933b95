"""Jobs on Spark that use only names and paths: their reads, their writes, and refused statements."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from reading_forms import FIRST, FORMS, METADATA, NOW, ids, make_lake

import harness
from harness.errors import RequestError
from harness.testing import SparkJob
from harness.testing.literals import literal
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

pytestmark = pytest.mark.harness_spark


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> SimpleNamespace:
    """Create the tables of `reading_forms`."""
    return make_lake(tmp_path_factory.mktemp("warehouse"))


@pytest.fixture
def job(lake, harness_job):
    """Return a job's session with both tables, in a catalog and without one."""
    tables = {"db.orders": lake.orders, "prod.db.orders": lake.orders, "db.items": lake.items}
    harness_job.add(tables)
    return harness_job


def test_every_form_reads_what_the_plan_says(job, lake):
    """All forms run in one test and on one session, as in a job."""
    found = {name: ids(read(job.spark, lake)) for name, (read, _) in FORMS.items()}
    assert found == {name: expected for name, (_, expected) in FORMS.items()}


def test_metadata_tables_and_statements_of_delta(job, lake):
    assert {name: job.spark.table(f"db.orders.{name}").count() for name in METADATA} == METADATA
    assert job.spark.sql("SELECT count(*) FROM prod.db.orders.snapshots").first()[0] == 4
    assert [row.version for row in job.spark.sql("DESCRIBE HISTORY db.items LIMIT 2").collect()] == [3, 2]
    assert job.spark.sql(f"DESCRIBE HISTORY '{lake.items}'").count() == 4
    detail = job.spark.sql(f"DESC DETAIL delta.`{lake.items}`").first()
    assert (detail.format, detail.partitionColumns, detail.numFiles) == ("delta", ["id"], 2)
    with pytest.raises(Exception, match=r"Cannot DESCRIBE HISTORY db\.orders: it is an Iceberg table"):
        job.spark.sql("DESCRIBE HISTORY db.orders").collect()


def test_filters_and_columns_reach_the_plan(job, caplog):
    with caplog.at_level("INFO", logger="harness.plan"):
        rows = job.spark.table("db.items").where("id = 3 AND price > 0").select("price").collect()
    assert [str(row.price) for row in rows] == ["3.00"]
    assert any("1 files are read, 1 are skipped" in record.message for record in caplog.records)
    joined = job.spark.sql("SELECT o.name FROM db.orders o JOIN db.items i USING (id) WHERE o.id IN (2, 3)")
    assert sorted(row.name for row in joined.collect()) == ["b", "c"]


def test_writes_land_apart_and_are_known(job, lake):
    spark, orders = job.spark, job.spark.table("db.orders")
    orders.writeTo("db.out").append()
    orders.limit(0).writeTo("db.empty").partitionedBy("name").createOrReplace()
    orders.where("id = 2").writeTo("db.daily").overwritePartitions()
    orders.where("id = 3").write.format("delta").mode("overwrite").partitionBy("id").save(f"{lake.warehouse}/new")
    orders.where("id = 5").write.format("delta").mode("append").partitionBy("id").save(f"{lake.warehouse}/new")
    orders.write.format("delta").saveAsTable("db.saved")
    spark.sql(
        "CREATE TABLE prod.db.counts USING iceberg PARTITIONED BY (bucket(4, n)) AS SELECT count(*) n FROM db.saved"
    )
    assert sorted(job.written("db.out")["id"].to_pylist()) == NOW
    assert {
        name: [(w.mode, w.partitioned_by) for w in job.writes(name)] for name in ("db.out", "db.empty", "db.daily")
    } == {
        "db.out": [("append", ())],
        "db.empty": [("createOrReplace", ("name",))],
        "db.daily": [("overwritePartitions", ())],
    }
    assert job.written("db.empty").to_pylist() == []
    assert job.written("db.empty").schema.names == ["id", "name"]
    saved = job.written(f"{lake.warehouse}/new")
    assert saved.to_pylist() == [{"id": 3, "name": "c"}, {"id": 5, "name": None}]
    assert job.writes(f"{lake.warehouse}/new")[0].partitioned_by == ("id",)
    assert job.written("prod.db.counts").to_pylist() == [{"n": 3}]
    assert job.writes("prod.db.counts")[0].partitioned_by == ("bucket(4, n)",)
    assert ids(spark.read.format("delta").load(f"{lake.warehouse}/new")) == [3, 5]
    assert not (lake.warehouse / "new").exists()


def test_parts_that_are_overwritten_are_not_taken_for_the_whole(job, lake):
    place = f"{lake.warehouse}/parts"
    job.spark.range(3).write.format("delta").save(place)
    one = job.spark.range(1, 2)
    one.write.format("delta").mode("overwrite").option("replaceWhere", "id = 1").save(place)
    one.write.format("delta").mode("overwrite").option("partitionOverwriteMode", "dynamic").save(f"{place}2")
    assert [(w.mode, w.where) for w in job.writes(place)] == [("create", None), ("overwrite", "id = 1")]
    assert [w.mode for w in job.writes(f"{place}2")] == ["overwritePartitions"]
    assert job.writes(place)[1].rows.to_pylist() == [{"id": 1}]
    with pytest.raises(RequestError, match="the job overwrote parts of earlier writes"):
        job.written(place)
    with pytest.raises(Exception, match="the job wrote to it"):
        job.spark.read.format("delta").load(place).collect()
    with pytest.raises(Exception, match="the options overwrite part of a table"):
        one.write.format("delta").mode("overwrite").option("replaceWhere", "id = 1").saveAsTable("db.parts")


def test_sources_are_never_changed_and_never_read_stale(job, lake):
    job.spark.sql("INSERT INTO db.orders VALUES (9, 'z')")
    assert job.written("db.orders").to_pylist() == [{"id": 9, "name": "z"}]
    job.spark.sql(f"INSERT INTO iceberg.`{lake.orders}` VALUES (9, NULL)")
    assert sorted(harness.open_table(lake.orders).snapshot().to_arrow()["id"].to_pylist()) == NOW
    for read in ("db.orders", "prod.db.orders", f"iceberg.`{lake.orders}`"):
        assert ids(job.spark.table(read)) == [*NOW, 9, 9]
    with pytest.raises(Exception, match="the job wrote to it"):
        job.spark.table("db.orders.snapshots").collect()
    with pytest.raises(Exception, match="written rows have no history"):
        job.spark.sql("FROM db.orders VERSION AS OF 'audit'").collect()
    job.spark.table("db.orders").where("id = 2").writeTo("db.orders").overwritePartitions()
    for statement in ("FROM prod.db.orders", "DELETE FROM db.orders WHERE id = 2"):
        with pytest.raises(Exception, match="the job wrote to it"):
            job.spark.sql(statement).collect()
    job.spark.range(1).toDF("id").writeTo("db.orders").createOrReplace()
    assert ids(job.spark.table("prod.db.orders")) == [0]


def test_appended_rows_of_other_columns_are_not_taken_for_the_table(job, lake):
    job.spark.range(3).write.format("iceberg").mode("append").save(lake.orders)
    with pytest.raises(Exception, match="the job wrote to it"):
        job.spark.table("db.orders").collect()


@pytest.mark.harness_tables("db.orders", rows=[{"id": 1, "at": None}, {"id": 2, "at": 5}], formats="all", deletes="all")
def test_a_job_is_proved_against_all_forms_of_its_rows(harness_job, assert_same_rows):
    orders = harness_job.spark.table("db.orders")
    assert_same_rows(orders, [(1, None), (2, 5)])
    orders.groupBy().sum("id", "at").toDF("ids", "ats").writeTo("db.sums").append()
    assert_same_rows(harness_job.written("db.sums"), [{"ids": 3, "ats": 5}])


def test_tables_are_scenarios_builders_and_literals_too(harness_job, lake, tmp_path):
    scenario = """
        format: iceberg
        table: {format-version: 2, schema: {id: long}}
        history: [{append: [{data: a, rows: [[1], [2]]}]}]
        """
    builder = DeltaTable.create(tmp_path / "b", {"id": "long"})
    builder.append(builder.write_data([{"id": 7}]))
    pinned = harness.open_table(lake.orders).snapshot(lake.first)
    keys = literal([{"id": 1}, {"id": 2}, {"id": 2}], deletes=[{"id": 2}])
    harness_job.add({"s": scenario, "db.b": builder, "x.db.pinned": pinned, "db.keys": keys})
    found = {name: ids(harness_job.spark.table(name)) for name in ("s", "db.b", "x.db.pinned", "db.keys")}
    assert found == {"s": [1, 2], "db.b": [7], "x.db.pinned": FIRST, "db.keys": [1]}


def _merged_by_frame(spark) -> None:
    from pyspark.sql.functions import expr

    rows = spark.sql("SELECT * FROM VALUES (2, 'x'), (9, 'n') s(id, name)").alias("s")
    merge = rows.mergeInto("db.orders", expr("orders.id = s.id")).whenMatched().updateAll().whenNotMatched().insertAll()
    merge.whenNotMatchedBySource(expr("orders.id = 5")).delete().merge()


_CHANGES = (
    "MERGE INTO db.orders t USING (SELECT * FROM VALUES (2, 'x'), (9, 'n'), (NULL, 'q') s(id, name)) s ON t.id = s.id "
)
CHANGES = {
    "delete": (["DELETE FROM db.orders WHERE id = 2"], "3c 5-"),
    "a condition of NULL keeps": (["DELETE FROM db.orders WHERE name <> 'b'"], "2b 5-"),
    "delete all": (["DELETE FROM prod.db.orders"], ""),
    "delete by path": (["DELETE FROM iceberg.`{orders}` WHERE id = 5"], "2b 3c"),
    "delete by a query": (["DELETE FROM db.orders WHERE id IN (SELECT id FROM db.items)"], "5-"),
    "update casts": (["UPDATE db.orders SET name = id WHERE id > 2"], "2b 33 55"),
    "update by a query": (["UPDATE db.orders SET name = 'z' WHERE id IN (SELECT id FROM db.items)"], "2z 3z 5-"),
    "merge": (
        [
            f"{_CHANGES} WHEN MATCHED AND s.name = 'x' THEN UPDATE SET name = upper(s.name)"
            " WHEN NOT MATCHED THEN INSERT *"
            " WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN DELETE"
        ],
        "2X 5- 9n -q",
    ),
    "merge that inserts only": (
        [f"{_CHANGES} WHEN NOT MATCHED AND s.id > 0 THEN INSERT (id) VALUES (s.id)"],
        "2b 3c 5- 9-",
    ),
    "two deletes of a row": (["MERGE INTO db.orders t USING db.items s ON t.id > s.id WHEN MATCHED THEN DELETE"], "2b"),
    "a frame": ([_merged_by_frame], "2x 3c 9n"),
    "after one another": (
        [
            "INSERT INTO db.orders VALUES (9, 'i')",
            f"{_CHANGES} WHEN MATCHED THEN DELETE",
            "INSERT INTO db.orders VALUES (4, 'e')",
            "UPDATE prod.db.orders SET id = id + 1 WHERE id >= 4",
        ],
        "3c 5e 6-",
    ),
    "over a table that was overwritten": (
        [
            "INSERT OVERWRITE db.orders VALUES (1, 'a'), (2, 'b')",
            "DELETE FROM db.orders WHERE id = 1",
            "INSERT INTO db.orders VALUES (4, NULL)",
        ],
        "2b 4-",
    ),
}


@pytest.mark.parametrize(("statements", "expected"), CHANGES.values(), ids=CHANGES)
def test_rows_are_changed_in_the_layer_of_the_job(job, lake, statements, expected):
    for statement in statements:
        job.spark.sql(statement.format(orders=lake.orders)) if isinstance(statement, str) else statement(job.spark)
    rows = job.spark.table("db.orders").collect()
    assert sorted(f"{'-' if id is None else id}{name or '-'}" for id, name in rows) == sorted(expected.split())
    assert sorted(harness.open_table(lake.orders).snapshot().to_arrow()["id"].to_pylist()) == NOW


def test_changed_rows_are_written_as_the_table_after_the_statement(job):
    job.spark.sql("DELETE FROM db.items WHERE price > 2.5")
    job.spark.sql("UPDATE db.items SET price = 7")
    assert [(write.mode, write.rows.num_rows) for write in job.writes("db.items")] == [("delete", 1), ("update", 1)]
    assert [(row["id"], str(row["price"])) for row in job.written("db.items").to_pylist()] == [(2, "7.00")]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        (
            "MERGE INTO db.orders t USING db.items s ON t.id >= s.id WHEN MATCHED THEN UPDATE SET name = 'm'",
            "MERGE_CARDINALITY",
        ),
        ("UPDATE db.orders SET id = 'abc'", "CANNOT_SAFELY_CAST"),
        ("DELETE FROM db.nothing", "TABLE_OR_VIEW_NOT_FOUND"),
        ("ALTER TABLE db.orders ADD COLUMN more INT", r"Cannot ALTER TABLE db\.orders: .*reference='iceberg'"),
    ],
)
def test_changes_that_are_refused(job, statement, error):
    with pytest.raises(Exception, match=error):
        job.spark.sql(statement).collect()
    with pytest.raises(RequestError, match="The job wrote nothing"):
        job.written("db.orders")


@pytest.mark.parametrize("statement", ["UPDATE n SET id = NULL", "INSERT INTO n VALUES (NULL)"])
def test_nulls_do_not_enter_required_columns(harness_job, tmp_path, statement):
    builder = IcebergTable.create(tmp_path / "n", {"id": "long not null"})
    builder.append(builder.write_data([{"id": 1}]))
    harness_job.add({"n": builder})
    with pytest.raises(Exception, match="NULL value appeared"):
        harness_job.spark.sql(statement).collect()
    harness_job.spark.sql("UPDATE n SET id = id + 1")
    assert ids(harness_job.spark.table("n")) == [2]


def test_columns_are_not_dropped_from_a_merge_that_would_add_them(job):
    with pytest.raises(Exception, match=r"Cannot ALTER TABLE|SCHEMA EVOLUTION|SCHEMA_EVOLUTION"):
        job.spark.sql(
            "MERGE WITH SCHEMA EVOLUTION INTO db.orders t USING (SELECT 2L id, 'x' name, 3 more) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET *"
        )


def test_a_job_that_makes_its_own_session_gets_this_one(job):
    from pyspark.sql import SparkSession

    assert ids(SparkSession.builder.appName("mine").getOrCreate().table("db.orders")) == NOW


def test_errors_say_what_is_not_there(job, lake):
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        job.spark.table("db.nothing")
    with pytest.raises(Exception, match="Cannot find a table: there is no such directory"):
        job.spark.read.format("iceberg").load(f"{lake.warehouse}/nothing")
    for options, message in (
        ({"start-timestamp": 0}, "start-timestamp"),
        ({"end-snapshot-id": lake.first}, "pass start-snapshot-id too"),
        ({"start-snapshot-id": lake.second, "end-snapshot-id": lake.first}, "is not an ancestor"),
        ({"start-snapshot-id": lake.first, "tag": "first"}, "Cannot read at several points: tag, start-snapshot-id"),
        ({"readChangeFeed": "true"}, "Cannot read a change feed of an Iceberg table"),
    ):
        with pytest.raises(Exception, match=message):
            job.spark.read.format("iceberg").options(**options).load(lake.orders)
    with pytest.raises(Exception, match="Cannot read a Delta table with the option start-snapshot-id"):
        job.spark.read.format("delta").option("start-snapshot-id", 1).load(lake.items)
    with pytest.raises(RequestError, match=r"The job wrote nothing to db\.orders"):
        job.written("db.orders")


def test_a_warehouse_and_a_session_of_ones_own(harness_spark, lake):
    own = harness_spark.newSession()
    registered = SparkJob.on(own, warehouse=str(lake.warehouse))
    try:
        assert ids(own.table("db.orders")) == NOW
        assert ids(own.read.format("delta").load(lake.items)) == [2, 3]
        assert registered.settings["spark.sql.catalog.delta"] == "harness.jobs.NamedTables"
        assert any("createOrReplace" in form for form in registered.missing)
        own.conf.set("spark.sql.catalog.prod", "org.example.Catalog")
        with pytest.raises(RequestError, match=r"the session already has it, org\.example\.Catalog"):
            SparkJob.on(own, tables={"prod.db.orders": lake.orders})
    finally:
        registered.close()
    with pytest.raises(Exception, match="were removed when its test ended"):
        own.table("db.orders").collect()


def test_reference_sessions_say_which_pyspark_they_need(harness_spark, lake):
    import pyspark

    if pyspark.__version__.startswith("4.1"):
        pytest.skip("its jars are for this pyspark")
    with pytest.raises(RequestError, match=r"pip install 'pyspark==4\.1"):
        harness.spark_session(reference="iceberg")
    with pytest.raises(RequestError, match="expected 'iceberg' or 'delta'"):
        harness.spark_session(reference="hudi")
    with pytest.raises(RequestError, match="the real jars read only their own tables"):
        harness.spark_session(reference="iceberg", warehouse=str(Path(lake.warehouse)))
