"""Hashes of rows on Spark equal those of DuckDB, computed in Java and by DuckDB on the executors."""

import base64
from contextlib import ExitStack
from decimal import Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from nasty import CARRIED, SHARED
from pyspark.sql import functions
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import from_arrow_schema
from test_compared_rows import AS_THEY_ARE, BY_HASHES, counts, printed_differences

import harness
from harness.diff import spark_side
from harness.diff.compare import compare
from harness.diff.hashing import hash_form
from harness.diff.opening import SideOpening
from harness.diff.sides import BITS, Hashing
from harness.diff.spark_side import SparkSide, hash_with_duckdb
from harness.engines.spark.types import ARROW_METADATA

ODD = "it's {}\\n"
"""A text that an engine's SQL may need to escape."""


def spread(arrays: dict[str, pa.Array]) -> pa.Table:
    """Return all arrays side by side, each repeated, so that every pair of neighbors occurs."""
    length = 2 * max(map(len, arrays.values())) + 1
    return pa.table(
        {name: values.take(pa.array([i % len(values) for i in range(length)])) for name, values in arrays.items()}
    )


def frame_of(spark, rows: pa.Table):
    """Return the rows as a DataFrame. Spark would turn naive timestamps into instants without its types."""
    return spark.createDataFrame(rows, from_arrow_schema(rows.schema, prefer_timestamp_ntz=True))


def carried_frame(spark):
    """Return the columns of CARRIED as harness writes them: in other types, with the logical types in the metadata."""
    rows = spread(CARRIED)
    columns = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        match name:
            case "uuid":
                columns[name] = pa.array([None if v is None else str(v) for v in column.to_pylist()], pa.string())
            case "fixed":
                columns[name] = column.cast(pa.binary())
            case "list-of-times":
                columns[name] = column.combine_chunks().cast(pa.list_(pa.int64()))
            case _:
                columns[name] = column.combine_chunks().view(pa.int64())
    frame = spark.createDataFrame(pa.table(columns))
    for name in columns:
        exact = base64.b64encode(pa.schema([rows.schema.field(name)]).serialize().to_pybytes()).decode("ascii")
        frame = frame.withMetadata(name, {ARROW_METADATA: exact})
    return rows, frame


def side_of(data: object) -> SparkSide:
    opening = SideOpening(data=data, label="left", name=None, engine="spark", columns=None, where=None, spark=None)
    return opening.open(0, ExitStack())


def test_each_value_that_differs_is_found(spark) -> None:
    rows = spread(SHARED).slice(0, 10)
    rows = pa.concat_tables([rows] * 3).append_column("id", pa.array(range(30)))
    moved, changed = rows, {}
    for name in SHARED:
        place = next(i for i, v in enumerate(rows.column(name).to_pylist()) if v is not None and i not in changed)
        changed[place] = name
        emptied = pa.array([i == place for i in range(30)])
        nulls = pa.nulls(30, rows.schema.field(name).type)
        values = [nulls[i : i + 1] if emptied[i].as_py() else rows.column(name)[i : i + 1].chunk(0) for i in range(30)]
        moved = moved.set_column(rows.column_names.index(name), name, pa.concat_arrays(values))
    found, exact = (
        compare(duckdb.connect().from_arrow(rows), frame_of(spark, moved), keys=["id"], direct_rows=direct_rows)
        for direct_rows in (BY_HASHES, AS_THEY_ARE)
    )
    assert counts(found) == counts(exact) == (30, 30, 0, 0, len(SHARED))
    assert printed_differences(found) == printed_differences(exact)
    assert {row.differing for row in found.rows} == {(name,) for name in SHARED}


def test_rows_of_carried_types_hash_as_what_they_stand_for(spark) -> None:
    rows, frame = carried_frame(spark)
    found, exact = (compare(rows, frame, direct_rows=direct_rows) for direct_rows in (BY_HASHES, AS_THEY_ARE))
    assert counts(found) == counts(exact) == (rows.num_rows, rows.num_rows, 0, 0, 0)
    assert [difference for difference in found.schema if difference.counts] == []


def test_duckdb_on_the_executors_hashes_as_java_does(spark) -> None:
    for frame in (frame_of(spark, spread(SHARED)), carried_frame(spark)[1]):
        side = side_of(frame)
        forms = tuple(hash_form(type_, type_) for type_ in side.schema.types)
        hashing = Hashing(columns=tuple(side.schema.names), forms=forms, keys=tuple(side.schema.names[:2]))
        java = side.hashes(hashing, range(1 << BITS))
        workers = hash_with_duckdb(side.frame, side.schema, hashing, keep=True).select(*hashing.names).toArrow()
        signed = [column.cast(pa.uint64(), safe=False).to_pylist() for column in workers.columns]
        assert sorted(zip(*signed, strict=True)) == sorted(zip(*(c.to_pylist() for c in java.columns), strict=True))


@pytest.mark.parametrize("keys", [(), ("int64", "text")], ids=["no-keys", "keys"])
def test_sums_in_arrays_are_those_of_spark_and_duckdb(spark, monkeypatch, keys: tuple[str, ...]) -> None:
    rows = spread(SHARED)
    rows = pa.concat_tables([rows] * 30)  # sums of more than 64 bits, in several partitions
    names = tuple(SHARED)
    forms = tuple(hash_form(type_, type_) for type_ in rows.schema.types)
    hashing = Hashing(columns=names, forms=forms, keys=keys)
    arrays = side_of(frame_of(spark, rows).repartition(3)).buckets(hashing)
    assert sum(sums.rows for sums in arrays.values()) == rows.num_rows
    assert max(sums.first for sums in arrays.values()) >= 1 << 64
    assert side_of(duckdb.connect().from_arrow(rows)).buckets(hashing) == arrays
    assert side_of(frame_of(spark, rows.slice(0, 0))).buckets(hashing) == {}
    monkeypatch.setattr(spark_side, "has_gateway", lambda session: False)
    assert side_of(frame_of(spark, rows)).buckets(hashing) == arrays


def test_a_session_of_other_settings_gives_the_same(spark) -> None:
    user = spark.newSession()
    user.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    user.conf.set("spark.sql.ansi.enabled", "false")
    rows = pa.table({"t": SHARED["instant"], "n": SHARED["timestamp"].slice(0, 6), "d": SHARED["date"]})
    frame = frame_of(user, rows)
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'America/New_York'")
    connection.register("rows", rows)
    for direct_rows in (BY_HASHES, AS_THEY_ARE):
        found = compare(connection.sql("FROM rows"), frame, direct_rows=direct_rows)
        assert (found.only_left, found.only_right, found.columns) == (0, 0, ("t", "n", "d"))
    assert user.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    ((zone,),) = connection.sql("SELECT current_setting('TimeZone')").fetchall()
    assert zone == "America/New_York"


@pytest.mark.smoke
def test_a_failing_frame_is_an_outcome(spark) -> None:
    frame = spark.range(3).select(functions.expr("raise_error('no such luck')").cast("int").alias("id"))
    for direct_rows in (BY_HASHES, AS_THEY_ARE):
        found = compare(pa.table({"id": [1]}), frame, direct_rows=direct_rows)
        assert found.outcomes_differ
        assert (found.left.rows, found.right.rows) == (1, None)
        assert isinstance(found.right.error, harness.EngineError)
        assert "no such luck" in str(found.right.error)


@pytest.mark.parametrize("direct_rows", [BY_HASHES, AS_THEY_ARE], ids=["by-hashes", "as-they-are"])
def test_repeated_keys_are_refused(spark, direct_rows: int) -> None:
    once, twice = pa.table({"id": [1, 2]}), spark.sql("SELECT * FROM VALUES (1L), (1L), (2L) AS t(id)")
    with pytest.raises(harness.RequestError, match="the right side has 2 rows with id = 1"):
        compare(once, twice, keys=["id"], direct_rows=direct_rows)
    with pytest.raises(harness.RequestError, match="the left side has 2 rows with id = 1"):
        compare(twice, once, keys=["id"], direct_rows=direct_rows)
    both = pa.table({"id": [1, 1, 2]})
    with pytest.raises(harness.RequestError, match="side has 2 rows with id = 1"):
        compare(both, twice, keys=["id"], direct_rows=direct_rows)


def test_names_that_differ_by_case_only(spark) -> None:
    rows = pa.table({"a": [1], "A": [2]})
    frame = spark.createDataFrame([(1, 2)], spark_types.StructType().add("a", "long").add("A", "long"))
    for direct_rows in (BY_HASHES, AS_THEY_ARE):
        assert compare(rows, frame, direct_rows=direct_rows).only_left == 0


def test_intervals_of_spark_are_durations(spark) -> None:
    frame = spark.sql("SELECT INTERVAL '1' DAY AS d")
    assert compare(pa.table({"d": pa.array([86_400_000_000], pa.duration("us"))}), frame, direct_rows=BY_HASHES).equal


def test_types_without_values_to_compare_are_refused(spark) -> None:
    with pytest.raises(harness.UnsupportedError, match=r"column .d. of type interval"):
        compare(pa.table({"d": [1]}), spark.sql("SELECT make_interval(1) AS d"))


@pytest.mark.parametrize("direct_rows", [AS_THEY_ARE, BY_HASHES])
def test_tolerances_mean_the_same_on_spark(spark, direct_rows) -> None:
    left = {"id": range(900), "v": [1.0] * 900, "t": ["a", ODD, None] * 300}
    right = left | {"v": [1.0, 1.0 + 2**-52, 2.0] * 300, "t": ["a", None, None] + ["a", ODD, None] * 299}
    frame = frame_of(spark, pa.table(right))
    found = compare(pa.table(left), frame, keys=["id"], tolerance={"v": "1 ulps"}, direct_rows=direct_rows, max_rows=3)
    assert (found.changed, found.allowed, found.only_left, found.only_right) == (301, 299, 0, 0)
    assert [(each.column, each.rows, each.allowed) for each in found.by_column] == [("v", 300, 300), ("t", 1, 0)]


@pytest.mark.parametrize("direct_rows", [AS_THEY_ARE, BY_HASHES])
def test_values_are_converted_alike_on_spark(spark, direct_rows) -> None:
    digits = ["0.10", "-12345678901234567.89", "1.00000000000000011102", "1.00000000000000011103", "0", None]
    numbers = pa.array([None if text is None else Decimal(text) for text in digits], pa.decimal128(38, 20))
    truth = [True, False, None] * 2
    exact = pa.table({"v": numbers, "f": numbers, "b": truth})
    floats = [None if text is None else float(text) for text in digits]
    rounded = pa.table({"v": pa.array(floats, pa.float64()), "f": pa.array(np.array(floats, "f4"), from_pandas=True)})
    rounded = rounded.append_column("b", pa.array([None if each is None else int(each) for each in truth], pa.int64()))
    for left, right in ((exact, frame_of(spark, rounded)), (frame_of(spark, exact), rounded)):
        assert compare(left, right, types="by_value", direct_rows=direct_rows).equal
