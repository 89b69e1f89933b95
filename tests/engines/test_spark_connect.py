"""Sessions without a gateway to their JVM read files through harness's source on the server, or by plain paths.

Most tests use the test run's own session and ignore its gateway; its JVM has the classes of the source. Others use a
real session of Spark Connect in a separate process.
"""

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pyspark
import pytest
from as_compared import agreed, snapshot_of
from lifetimes import RANGE, make_range
from pyspark.errors import PySparkException

import harness
from harness.engines.spark import engine as spark_engine
from harness.engines.spark.compiled import _own_jars, compile_client_jar
from harness.engines.spark.connect import PlainPaths, _spellings, reader_for, reader_of
from harness.engines.spark.gateway import Gateway
from harness.engines.spark.planned_source import PlannedSource
from harness.testing.demo import build_demo_tables
from harness.writing.iceberg.builder import IcebergTable


@pytest.fixture(params=[PlainPaths, PlannedSource], ids=["plain", "source"])
def plain(request: pytest.FixtureRequest, spark: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the session, read as if it had no gateway."""
    Gateway.for_session(spark)  # loads the classes that a client sends
    monkeypatch.setattr(spark_engine, "reader_of", request.param)
    return spark


@contextmanager
def settings(spark: Any, values: dict[str, str]) -> Iterator[None]:
    """Change settings of the session, whose names follow `spark.sql.`."""
    before = {f"spark.sql.{name}": spark.conf.get(f"spark.sql.{name}") for name in values}
    for name, value in values.items():
        spark.conf.set(f"spark.sql.{name}", value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def test_a_pattern_reads_no_other_file(tmp_path, plain):
    table = IcebergTable.create(tmp_path / "t", {"a": "long"})
    for name in ("x?.parquet", "x1.parquet", "[ab].parquet", "a.parquet"):
        handle = table.write_data([{"a": ord(name[0])}], path=f"{table.location}/data/{name}")
        if name in ("x?.parquet", "[ab].parquet"):
            table.append(handle)
    found = agreed(snapshot_of(table), plain, columns=["a", "_file"])
    assert sorted(found.column("a").to_pylist()) == [ord("["), ord("x")]


def test_a_file_that_is_planned_twice_gives_its_rows_twice(tmp_path, plain):
    table = IcebergTable.create(tmp_path / "t", {"a": "long"})
    handle = table.write_data([{"a": 1}, {"a": 2}])
    table.append(handle)
    table.append(handle)
    opened = harness.open_table(str(table.store.directory), allow_duplicate_files=True)
    for columns in (["a"], [], ["a", "_pos", "_file"]):
        assert agreed(opened.snapshot(), plain, columns=columns).num_rows == 4


def frame_of(reader: PlainPaths, paths: list[str], **how: Any) -> Any:
    from pyspark.sql.types import LongType, StructField, StructType

    constants = pa.table({"v0": pa.array(range(len(paths)), pa.int64())})
    given = {"positions": True, "deleted": None, "constants": constants} | how
    schema = StructType([StructField("a", LongType())])
    return reader.planned_frame(file_format="parquet", read_schema=schema, paths=paths, **given)


def data_files(folder: Path, count: int = 2) -> list[str]:
    import pyarrow.parquet as pq

    paths = [folder / f"{i}.parquet" for i in range(count)]
    for i, path in enumerate(paths):
        pq.write_table(pa.table({"a": [10 * i, 10 * i + 1]}), path)
    return [str(path) for path in paths]


def test_a_row_of_an_unknown_file_is_an_error(tmp_path, spark, monkeypatch):
    """If Spark ever spells a path in an unknown way, the join must not lose rows."""
    paths = data_files(tmp_path)
    monkeypatch.setattr(
        "harness.engines.spark.connect._spellings", lambda at: _spellings(at) if "0.parquet" in at else {"other:" + at}
    )
    frame = frame_of(PlainPaths(spark), paths)
    kept = frame.where("v0 = 0")
    for asked in (frame, frame.groupBy().count(), frame.select("p0"), kept, kept.select("p0")):
        with pytest.raises(Exception, match="a row of a file that was not planned"):
            asked.collect()


def test_a_file_that_spark_leaves_out_is_an_error(tmp_path, spark):
    paths = data_files(tmp_path)
    hidden = tmp_path / "_hidden.parquet"
    Path(paths[1]).rename(hidden)
    with pytest.raises(harness.EngineError, match="Spark does not find it there") as caught:
        frame_of(PlainPaths(spark), [paths[0], str(hidden)])
    assert caught.value.file is not None
    assert caught.value.file.endswith("_hidden.parquet")


HOSTILE: dict[str, dict[str, str]] = {
    "binaryAsString": {"parquet.binaryAsString": "true"},
    "no ntz": {"parquet.inferTimestampNTZ.enabled": "false"},
    "field ids": {"parquet.fieldId.read.enabled": "true"},
    "ntz by default": {"timestampType": "TIMESTAMP_NTZ"},
    "row reader": {"parquet.enableVectorizedReader": "false"},
    "flat row reader": {"parquet.enableNestedColumnVectorizedReader": "false"},
    "rebase": {"parquet.datetimeRebaseModeInRead": "LEGACY", "parquet.int96RebaseModeInRead": "LEGACY"},
    "ignored files": {"files.ignoreCorruptFiles": "true", "files.ignoreMissingFiles": "true"},
    "merging": {"parquet.mergeSchema": "true"},
    "case": {"caseSensitive": "true"},
    "nanos": {"legacy.parquet.nanosAsLong": "true"},
    "no pushdown": {"parquet.filterPushdown": "false"},
    "record filter": {"parquet.recordLevelFilter.enabled": "true", "parquet.enableVectorizedReader": "false"},
    "second source": {"sources.useV1SourceList": ""},
    "inferred partitions": {"sources.partitionColumnTypeInference.enabled": "false"},
    "no broadcast": {"autoBroadcastJoinThreshold": "-1"},
}


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> IcebergTable:
    """Return a table with all types of Iceberg up to version 3, with extreme values."""
    types = {
        "id": "long",
        "flag": "boolean",
        "small": "int",
        "ratio": "float",
        "exact": "double",
        "price": "decimal(9, 2)",
        "big": "decimal(38, 10)",
        "day": "date",
        "at": "time",
        "local": "timestamp",
        "instant": "timestamptz",
        "nanos": "timestamp_ns",
        "text": "string",
        "key": "uuid",
        "code": "fixed[3]",
        "bytes": "binary",
        "place": "struct<x: double, when: timestamptz>",
        "tags": "list<string>",
        "by_name": "map<string, long>",
    }
    table = IcebergTable.create(tmp_path_factory.mktemp("rich") / "t", types, format_version=3)
    values = {
        "flag": True,
        "small": -5,
        "ratio": -0.0,
        "exact": float("nan"),
        "price": Decimal("1234567.89"),
        "big": Decimal("-0.0000000001"),
        "day": -200000,
        "at": 86_399_999_999,
        "local": -62_135_596_800_000_000,
        "instant": -14_000_000_000_000_000,
        "nanos": -1,
        "text": "naïve",
        "key": bytes(range(16)),
        "code": b"abc",
        "bytes": b"\xff\x00",
        "place": {"x": 1.5, "when": 253_402_300_799_999_999},
        "tags": ["a", None],
        "by_name": {"k": 1},
    }
    handle = table.write_data([{"id": 1, **values}, {"id": 2}, {"id": 3, "text": ""}])
    table.append(handle)
    table.append(table.write_data([{"id": 4, "small": 7}]))
    table.commit(add=table.write_deletion_vectors({handle: [2]}))
    return table


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE.keys())
def test_settings_change_nothing(rich, plain, hostile):
    with settings(plain, hostile):
        assert agreed(snapshot_of(rich), plain).num_rows == 3


SIMPLE = {"id": "long", "s": "struct<a: long>"}
TIMES = {"id": "long", "t": "timestamptz"}


@pytest.mark.parametrize(
    ("schema", "where", "setting", "value", "needed"),
    [
        (SIMPLE, None, "ansi.enabled", "false", "true"),
        (TIMES, None, "session.timeZone", "Asia/Tokyo", "UTC"),
        (SIMPLE, "id > 0", "timestampType", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ"),
        (SIMPLE, "id > 0", "parser.escapedStringLiterals", "true", "false"),
    ],
)
def test_a_setting_under_which_rows_would_be_wrong_is_refused(tmp_path, plain, schema, where, setting, value, needed):
    table = IcebergTable.create(tmp_path / "t", schema)
    table.append(table.write_data([{"id": 1}]))
    message = f"spark.sql.{setting} is {value}, but must be {needed}"
    with settings(plain, {setting: value}), pytest.raises(harness.RequestError, match=message):
        snapshot_of(table).to_spark(plain, where=where)
    with settings(plain, {setting: needed}):
        assert agreed(snapshot_of(table), plain, where=where).num_rows == 1


def test_fields_that_differ_only_in_case_need_a_case_sensitive_session(tmp_path, plain):
    table = IcebergTable.create(tmp_path / "t", {"id": "long", "s": "struct<a: long, A: long>", "ID": "long"})
    table.append(table.write_data([{"id": 1, "s": {"a": 2, "A": 3}, "ID": 4}]))
    table.drop_column("s.a")
    table.drop_column("ID")
    assert agreed(snapshot_of(table), plain, columns=["id"]).to_pylist() == [{"id": 1}]  # irrelevant at the top level
    with pytest.raises(harness.RequestError, match="caseSensitive is false, but must be true"):
        snapshot_of(table).to_spark(plain)
    with settings(plain, {"caseSensitive": "true"}):
        assert agreed(snapshot_of(table), plain).to_pylist() == [{"id": 1, "s": {"A": 3}}]


@pytest.mark.parametrize("what", [None, 5, "spark"], ids=repr)
def test_an_object_that_is_not_a_session_is_refused(what):
    with pytest.raises(harness.RequestError, match=f"of type {type(what).__name__}: expected a SparkSession"):
        reader_of(what)


def test_a_filter_that_comes_later_skips_files_of_the_source(tmp_path, spark, monkeypatch):
    """Bounds in the metadata leave one of three files that may hold the id."""
    Gateway.for_session(spark)
    monkeypatch.setattr(spark_engine, "reader_of", PlannedSource)
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    table.append(*[table.write_data([{"id": 10 * i}, {"id": 10 * i + 5}]) for i in range(3)])
    frame = snapshot_of(table).to_spark(spark)
    text = frame.where("id = 15")._jdf.queryExecution()
    assert text.toRdd().getNumPartitions() == 1
    assert len(frame.inputFiles()) == 3
    assert [row.id for row in frame.where("id = 15").collect()] == [15]


def server_of(version: str, takes: bool = True) -> Any:
    """A fake session of Connect with the members that `PlannedSource` uses."""
    server = MagicMock(version=version)
    server.addArtifacts.side_effect = None if takes else PySparkException("artifacts are not taken")
    server.read.format.return_value.options.return_value.load.return_value.collect.return_value = [(b"\1",)]
    return server


@pytest.mark.parametrize(
    ("server", "serves"),
    [
        (server_of(pyspark.__version__), True),
        (server_of("3.5.1"), False),
        (server_of(pyspark.__version__, takes=False), False),
    ],
    ids=["the client's Spark", "another Spark", "no artifacts"],
)
def test_the_source_is_sent_once_where_the_server_can_load_it(server, serves, tmp_path, monkeypatch):
    monkeypatch.setattr("harness.engines.spark.planned_source.compile_client_jar", lambda: tmp_path / "classes.jar")
    assert [PlannedSource.for_session(server) is not None for _ in range(2)] == [serves] * 2
    if serves:
        server.addArtifacts.assert_called_once_with(str(tmp_path / "classes.jar"))


@pytest.mark.parametrize("home", [None, "empty"], ids=["nowhere", "in a SPARK_HOME of another Spark"])
def test_a_client_without_jars_or_with_those_of_another_spark_reads_plain_paths(home, tmp_path, monkeypatch):
    """The client of `pip install pyspark-client`; PySpark itself would end the process.

    The client's own jars come first.
    """
    assert _own_jars() == Path(pyspark.__file__).parent / "jars"
    (tmp_path / "empty" / "jars").mkdir(parents=True)
    (tmp_path / "empty" / "jars" / "spark-catalyst_2.13-3.5.1.jar").touch()
    monkeypatch.delenv("SPARK_HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("SPARK_HOME", str(tmp_path / home))
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "site" / "packages" / "pyspark" / "__init__.py"))
    compile_client_jar.cache_clear()
    server = server_of(pyspark.__version__)
    assert PlannedSource.for_session(server) is None
    server.addArtifacts.assert_not_called()


def test_options_of_a_store_are_not_sent_to_a_server(tmp_path, spark):
    """The server would log them. So these tables are read by plain paths, or not at all."""
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    plan, source = snapshot_of(table).plan(), PlannedSource(spark)
    secret = replace(plan.storage, options={"access_key_id": "a", "secret_access_key": "b"})
    remote = replace(plan, table="s3://bucket/t", storage=secret)
    assert reader_for(replace(plan, storage=secret), source) is source  # local files need none
    assert reader_for(replace(remote, storage=plan.storage), source) is source
    assert reader_for(remote, source) == PlainPaths(spark)
    with pytest.raises(harness.RequestError, match="Cannot pass store options to Spark Connect"):
        source.read_ends(["s3://bucket/f.parquet"], {"fs.s3a.access.key": "a"}, most=1)


def needs_connect() -> None:
    for module, package in {"grpc": "grpcio", "grpc_status": "grpcio-status", "zstandard": "zstandard"}.items():
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"Spark Connect wants {package}: pip install 'pyspark[connect]'")


@pytest.mark.external
def test_a_real_session_of_spark_connect(tmp_path):
    needs_connect()
    demo = build_demo_tables(tmp_path / "demo")
    avro = IcebergTable.create(tmp_path / "avro", {"id": "long", "at": "timestamptz"})
    avro.append(avro.write_data([{"id": 1, "at": 0}], format="avro"))
    orders, clicks = str(demo.orders.location), str(demo.clicks.location)
    # Hadoop's checksums of other contents, which must be ignored
    for file in demo.orders.location.glob("**/*.parquet"):
        file.with_name(f".{file.name}.crc").write_bytes(b"crc\0" + (512).to_bytes(4, "big") + bytes(400))
    requests = [
        {"location": orders, "compare": True},
        {"location": orders, "reader": "PlainPaths"},
        {"location": orders, "columns": ["id", "_file", "_pos", "_deleted"], "where": "region = 'eu' AND total > 1"},
        {"location": orders, "columns": [], "where": "total > 100"},
        {"location": str(demo.events.location), "columns": ["id", "_row_id"]},
        {"location": clicks, "columns": ["_file", "_pos"], "where": "market = 'de'"},
        {"location": str(avro.store.directory)},
        {"location": str(avro.store.directory), "settings": {"spark.sql.session.timeZone": "Asia/Tokyo"}},
    ]
    changed = make_range(tmp_path, 3)
    requests += [
        {"location": changed, "changes": mode, **reader} for mode in RANGE for reader in ({}, {"reader": "PlainPaths"})
    ]
    (tmp_path / "request.json").write_text(json.dumps(requests), encoding="utf-8")
    answers = [json.loads(line) for line in on_connect(tmp_path / "request.json") if line.startswith("{")]
    assert answers[0] == {"session": "pyspark.sql.connect.session.SparkSession", "reader": "PlannedSource"}
    assert answers[1:3] == [{"rows": len(demo.orders.expected)}] * 2
    assert all(answer.get("rows") for answer in answers[3:8]), answers  # the rows of DuckDB
    assert answers[8]["error"] == "RequestError"
    assert "spark.sql.session.timeZone is Asia/Tokyo, but must be UTC" in answers[8]["message"]
    assert answers[9:15] == [{"rows": len(RANGE[mode])} for mode in RANGE for _ in range(2)]
    assert answers[15] == {"settings": "false"}


def on_connect(request: Path) -> list[str]:
    """Return the lines that the process prints. The process and its JVM end afterwards, however long they take."""
    script = Path(__file__).with_name("reading_on_connect.py")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), str(script.parent)])}
    process = subprocess.Popen(
        [sys.executable, str(script), str(request)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=300)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert process.returncode == 0, err[-3000:]
    return out.splitlines()
