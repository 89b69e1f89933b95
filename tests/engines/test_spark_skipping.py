"""Filters added after `to_spark`: they skip files by the plan's metadata, but never a file with a matching row."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import harness
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

NAN = float("nan")
COLUMNS = """
n long; i int; x double; f float; de decimal(10, 2); s string; d date; t timestamptz; w timestamp; b boolean; by binary;
e long
"""
TYPES = dict(column.split(" ", 1) for column in COLUMNS.strip().replace("\n", " ").split("; "))
LONG = "long text " * 8


ON_DELTA = {
    "int": "integer",
    "decimal(10, 2)": "decimal(10,2)",
    "timestamptz": "timestamp",
    "timestamp": "timestamp_ntz",
}


def row(n: int, **other: Any) -> dict[str, Any]:
    """Return the values of each column for n. `e` is null."""
    moment = datetime(2020, 1, 1 + n // 10, n % 24)
    values = {"n": n, "i": -n, "x": n / 4, "f": n / 4, "de": Decimal(n) / 4, "s": f"{n:03}", "b": n % 20 < 10}
    return {**values, "d": moment.date(), "t": moment.replace(tzinfo=UTC), "w": moment, "by": bytes([n]), **other}


# File k below 6 has the rows 10 k to 10 k + 9. Further files have unusual values.
FILES = [[row(n) for n in range(10 * k, 10 * k + 10)] for k in range(6)]
FILES += [
    [row(200, x=NAN, f=NAN), row(201)],
    [row(210, x=-0.0, f=0.0), row(211, x=0.0, f=-0.0)],
    [{"n": n} for n in (220, 221)],  # all other values are null
    [row(230, s=LONG + "a", by=LONG.encode() + b"a"), row(231, s=LONG + "b\U0010ffff", by=LONG.encode() + b"\xff")],
    [row(240, e=1, d=date(1582, 10, 10)), row(241, e=None, d=date(1, 1, 1))],
]
# Each filter, the number of files left in an Iceberg table, whose writer records all statistics, and in a Delta table,
# which has no NaN counts and no bounds of Booleans and bytes. None means the same number.
EVERY = len(FILES)
FILTERS: list[tuple[str, int, int | None]] = [
    ("n = 25", 1, None),
    ("n <=> 25", EVERY, None),
    ("n IN (5, 45)", 2, None),
    (f"n IN ({', '.join(map(str, range(300, 700)))})", EVERY, None),
    ("n NOT IN (5, 45)", EVERY, None),
    ("n < 10", 1, None),
    ("n >= 49 AND n < 60", 2, None),
    ("n < 10 OR i = -45", 2, None),
    ("n < 10 OR length(s) = 7", EVERY, None),
    ("NOT (n >= 10)", 1, None),
    ("n + 1 = 26", EVERY, None),
    ("n = i", EVERY - 1, None),  # not the file with nulls
    ("i = -25L", 1, None),
    ("i < -5000000000", 0, None),
    ("cast(i as decimal(20, 2)) = -25.00", 1, None),
    ("cast(n as string) = '25'", EVERY, None),
    ("x = 6.25", 1, 4),  # if NaN is possible, there is no upper bound
    ("x = double('nan')", 1, EVERY - 1),
    ("isnan(x)", EVERY, None),
    ("x = 0.0", 2, None),
    ("x < -0.0", 0, None),
    ("f < 0.1", 2, None),
    ("de = 6.25", 1, None),
    ("de = 6.255", 0, None),
    ("s = '025'", 1, None),
    ("s LIKE '02%'", 1, None),
    (f"s = '{LONG}a'", 1, None),
    (f"s > '{LONG}a'", 1, None),
    (f"s LIKE '{LONG}%'", 1, None),
    ("d < DATE '1970-01-01'", 1, None),
    ("d >= DATE '1582-10-10' AND d < DATE '1582-10-15'", 1, None),
    ("t = TIMESTAMP '2020-01-03 01:00:00Z'", 1, None),
    ("t < TIMESTAMP '2020-01-02 02:00:00+02:00'", 1, None),
    ("w = TIMESTAMP_NTZ '2020-01-03 01:00:00'", 1, None),
    ("b", 5, EVERY - 1),
    ("b = false", 5, EVERY - 1),
    ("by = X'19'", 1, EVERY - 1),
    ("by > X'DC'", 1, EVERY - 1),
    ("e IS NOT NULL", 1, None),
    ("e IS NULL", EVERY, None),
    ("s IS NULL OR n = 25", 2, None),
]


@pytest.fixture(scope="module", params=["iceberg", "delta"])
def read(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: Any) -> tuple[str, Any, Any]:
    """Return the format, a frame of the table, and for each filter the matching rows without skipping."""
    folder = tmp_path_factory.mktemp(request.param) / "t"
    made: Any = (
        IcebergTable.create(folder, TYPES)
        if request.param == "iceberg"
        else DeltaTable.create(folder, {name: ON_DELTA.get(type_, type_) for name, type_ in TYPES.items()})
    )
    made.append(*(made.write_data(rows) for rows in FILES))
    frame = harness.open_table(str(folder)).snapshot().to_spark(spark)
    unpruned = spark.createDataFrame(frame.collect(), frame.schema)
    kept = unpruned.select("n", *[F.expr(where).alias(where) for where, *_ in FILTERS]).collect()
    return request.param, frame, kept


def files_of(frame: DataFrame) -> int:
    """Return the number of files in the scans of a frame."""
    leaves = frame._jdf.queryExecution().sparkPlan().collectLeaves()
    scans = [leaves.apply(i) for i in range(leaves.size())]
    scans = [scan for scan in scans if scan.getClass().getName().endswith("FileSourceScanExec")]
    return sum(s.relation().location().listFiles(s.partitionFilters(), s.dataFilters()).size() for s in scans)


@pytest.mark.parametrize(("where", "on_iceberg", "on_delta"), FILTERS, ids=[where[:40] for where, *_ in FILTERS])
def test_a_later_filter_skips_files_and_no_wanted_row(read, where, on_iceberg, on_delta):
    format_, frame, kept = read
    narrowed = frame.where(where).select("n")
    assert sorted(row.n for row in narrowed.collect()) == sorted(row.n for row in kept if row[where])
    assert files_of(narrowed) == (on_iceberg if on_delta is None or format_ == "iceberg" else on_delta)


def test_a_failing_condition_fails_on_the_rows(read):
    with pytest.raises(Exception, match="not true"):
        read[1].where("n < 10 OR assert_true(n < 0) IS NULL").collect()


def iceberg(folder: Path, spark: Any, **types: str) -> tuple[IcebergTable, Any]:
    """Return a table, and a function that returns its newest rows as a frame."""
    table = IcebergTable.create(folder / "t", types)
    return table, lambda: harness.open_table(str(folder / "t")).snapshot().to_spark(spark)


def test_unknown_statistics_keep_a_file(tmp_path, spark):
    table, frame = iceberg(tmp_path, spark, n="long", m="long")
    handles = [table.write_data([{"n": k, "m": k}]) for k in range(4)]
    for handle, names in zip(
        handles, (["lower_bounds"], ["upper_bounds"], ["lower_bounds", "upper_bounds"]), strict=False
    ):
        handle.data_file.update(dict.fromkeys(names))
    table.append(*handles)
    assert files_of(frame().where("n = 1")) == 2  # that file, and the file without bounds
    assert files_of(frame().where("n = 0")) == 2
    assert files_of(frame().where("n = 3")) == 3  # and the file without an upper bound
    assert [row.n for row in frame().where("n = 2").collect()] == [2]


def test_columns_that_came_or_changed_later(tmp_path, spark):
    table, frame = iceberg(tmp_path, spark, a="int", b="long")
    table.append(table.write_data([{"a": 1, "b": 2}]), table.write_data([{"a": 2, "b": 1}]))
    table.rename_column("a", "x")
    table.rename_column("b", "a")
    table.rename_column("x", "b")
    table.widen_column("b", "long")
    table.add_column("c", "long")
    table.append(table.write_data([{"b": 2**40, "a": 7, "c": 3}]))
    for where, files, rows in (
        ("b = 1", 1, [(1, 2)]),
        ("a = 1", 1, [(2, 1)]),
        ("b > 5000000000", 1, [(2**40, 7)]),
        ("c = 3", 1, [(2**40, 7)]),
        ("c IS NULL AND b = 2", 1, [(2, 1)]),
    ):
        narrowed = frame().where(where).select("b", "a")
        assert sorted(tuple(row) for row in narrowed.collect()) == rows, where
        assert files_of(narrowed) == files, where


def test_partition_values_skip_files_without_bounds(tmp_path, spark):
    table = IcebergTable.create(tmp_path / "t", {"p": "string", "n": "long"}, partition_spec=[("p", "identity")])
    rows = [{"p": p, "n": n} for n, p in enumerate(("a", "b", "c", None))]
    table.append(*(table.write_data([row], statistics=[]) for row in rows))
    frame = harness.open_table(str(tmp_path / "t")).snapshot().to_spark(spark)
    for where, files, rows in (("p = 'b'", 1, [1]), ("p > 'a'", 2, [1, 2]), ("p IS NULL", 1, [3]), ("n = 2", 4, [2])):
        assert sorted(row.n for row in frame.where(where).collect()) == rows, where
        assert files_of(frame.where(where)) == files, where


def test_a_join_skips_partitions_by_what_the_other_side_holds(tmp_path, spark):
    made = DeltaTable.create(tmp_path / "t", {"p": "integer", "n": "long"}, partition_columns=["p"])
    made.append(*made.write_partitioned([{"p": n % 20, "n": n} for n in range(100)]))
    facts = harness.open_table(str(tmp_path / "t")).snapshot().to_spark(spark)
    small = spark.createDataFrame([(k, 2 * k) for k in range(20)], "p int, twice int").where("twice = 14")
    joined = facts.join(F.broadcast(small), "p")
    assert sorted(row.n for row in joined.collect()) == [7, 27, 47, 67, 87]
    assert "dynamicpruning" in joined._jdf.queryExecution().executedPlan().toString()


def test_the_file_index_answers_spark(tmp_path, spark):
    table, frame = iceberg(tmp_path, spark, n="long")
    handles = [table.write_data([{"n": k}]) for k in range(3)]
    table.append(*handles)
    paths = [Path(table.file_of(handle.path)) for handle in handles]
    read = frame()
    assert sorted(read.inputFiles()) == sorted(spark.read.parquet(*map(str, paths)).inputFiles())
    size = sum(path.stat().st_size for path in paths)
    leaves = read._jdf.queryExecution().optimizedPlan().collectLeaves()
    assert int(leaves.apply(0).stats().sizeInBytes()) == size  # which determines the joins that are broadcast
    location = leaves.apply(0).relation().location()
    assert str(location.rootPaths().apply(0).toUri().getPath()) == str(tmp_path / "t")
