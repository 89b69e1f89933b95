"""ORC files that Spark's own reader reads: the rows are exactly those of harness's reader.

Other files are not passed to it.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

pytest.importorskip("pyspark")

from as_compared import comparable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType as SparkStruct

from harness.engines.data_files import FileName
from harness.engines.spark.arrow_scan import arrow_frame, reads_natively
from harness.engines.spark.arrow_worker import ArrowFile, read_head, read_orc_traits
from harness.engines.spark.file_opener import ClientTraits
from harness.engines.spark.gateway import DiskFile, Gateway, PlannedRead
from harness.engines.spark.types import physical_column
from harness.metadata.model.schema import Field, UnknownType
from harness.metadata.plan.projection import FileColumn
from harness.storage.stores import Storage

NONE = pa.table({})
NAN, INFINITY = float("nan"), float("inf")


def dates(*days: int | None) -> pa.Array:
    return pa.array(days, pa.int32()).view(pa.date32())


PLAIN: Mapping[str, pa.Array] = {
    "flag": pa.array([True, False, None]),
    "i8": pa.array([-(2**7), 2**7 - 1, None], pa.int8()),
    "i16": pa.array([-(2**15), 2**15 - 1, None], pa.int16()),
    "i32": pa.array([-(2**31), 2**31 - 1, None], pa.int32()),
    "i64": pa.array([-(2**63), 2**63 - 1, None], pa.int64()),
    "f32": pa.array([NAN, -0.0, INFINITY, 1e-45, None], pa.float32()),
    "f64": pa.array([NAN, -0.0, -INFINITY, 5e-324, None], pa.float64()),
    "dec9": pa.array([Decimal("-1234567.89"), Decimal("0.00"), None], pa.decimal128(9, 2)),
    "dec18": pa.array([Decimal("-123456789012345.678"), None], pa.decimal128(18, 3)),
    "dec38": pa.array([Decimal("9" * 28 + "." + "9" * 10), Decimal("-1"), None], pa.decimal128(38, 10)),
    "text": pa.array(["", " a ", "tëxt\0\U0001f600", None]),
    "bytes": pa.array([b"", b"\0\xff ", None]),
    "struct": pa.array([{"a": 1, "A": "x"}, {"a": None, "A": None}, None], pa.struct([("a", "i4"), ("A", "str")])),
    "list": pa.array([[{"e": 1}, None, {"e": None}], [], None], pa.list_(pa.struct([("e", pa.int64())]))),
    "map": pa.array([[("k", [1]), ("", None)], [], None], pa.map_(pa.string(), pa.list_(pa.int32()))),
}
OTHERS: Mapping[str, pa.Array] = {
    "date": dates(0, -200_000, 2_932_896, None),
    "timestamp": pa.array([0, 999, -1, None], pa.timestamp("ns")),
    "instant": pa.array([0, 999, -1, None], pa.timestamp("ns", "UTC")),
    "dates within": pa.StructArray.from_arrays([dates(0, -200_000)], names=["d"]),
    "instants within": pa.array([[0, None]], pa.list_(pa.timestamp("us", "UTC"))),
}


def write(path: Path, table: pa.Table) -> FileName:
    orc.write_table(table, path)
    return FileName(str(path), str(path))


def question(file: FileName) -> dict[str, Any]:
    """Return the arguments for reading all columns."""
    schema, _ = read_head(file, "orc", Storage(), table="t")
    return {
        "schema": schema,
        "fields": [Field(id=i, name=f.name, type=UnknownType()) for i, f in enumerate(schema)],
        "sources": [FileColumn(f, place=i) for i, f in enumerate(schema)],
    }


CLIENT = ClientTraits(Storage(), is_brotli=lambda file: False)


def is_native(file: FileName, *, positions: bool = False) -> bool:
    return reads_natively("orc", **question(file), positions=positions, files=[file], traits=CLIENT)


def through_arrow(session: SparkSession, file: FileName) -> DataFrame:
    rows = arrow_frame(
        session,
        files=[ArrowFile(name=file)],
        file_format="orc",
        **question(file),
        constants=NONE,
        storage=Storage(),
        table="t",
        table_format="iceberg",
    )
    return rows.drop("pos", "deleted")


def natively(gateway: Gateway, file: FileName) -> DataFrame:
    schema = question(file)["schema"]
    return gateway.planned_frame(
        PlannedRead(
            file_format="orc",
            read_schema=SparkStruct([physical_column(stored) for stored in schema]),
            files=[DiskFile(file.physical, Path(file.physical).stat().st_size)],
            constants=pa.table({"none": pa.nulls(1, pa.int32())}),
            positions=False,
        )
    ).drop("none")


@pytest.fixture(params=["true", "false"], ids=["vectorised", "by row"])
def gateway(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[Gateway]:
    found = Gateway.for_session(spark)
    key = "spark.sql.orc.enableVectorizedReader"
    before = found.session.conf.get(key)
    found.session.conf.set(key, request.param)
    yield found
    found.session.conf.set(key, before)


def test_native_and_arrow_reads_are_equal(gateway, spark, tmp_path):
    size = max(len(values) for values in PLAIN.values())
    padded = {
        name: pa.concat_arrays([values, pa.nulls(size - len(values), values.type)]) for name, values in PLAIN.items()
    }
    file = write(tmp_path / "plain.orc", pa.table(padded))
    assert is_native(file)
    own, ours = natively(gateway, file), through_arrow(spark, file)
    assert own.schema == ours.schema
    assert comparable(own.toArrow()) == comparable(ours.toArrow())
    assert len(comparable(own.toArrow())) == size


def test_filters_keep_rows_with_nan(gateway, tmp_path):
    file = write(tmp_path / "f.orc", pa.table({"x": [NAN, 1.0], "i": [1, 2]}))
    rows = natively(gateway, file)
    assert [row.p1 for row in rows.where("p0 > 5").collect()] == [1]
    assert [row.p1 for row in rows.where("p0 = double('NaN')").collect()] == [1]
    file = write(tmp_path / "g.orc", pa.table({"x": [0.0, 0.0], "i": [1, 2]}))
    assert natively(gateway, file).where("p0 = -0.0").count() == 2


def test_other_types_are_not_native(tmp_path):
    for name, values in OTHERS.items():
        assert not is_native(write(tmp_path / "f.orc", pa.table({"c": values}))), name
    for kind in ("UUID", "FIXED"):
        field = pa.field("c", pa.binary(), metadata={"iceberg.binary-type": kind, "iceberg.length": "16"})
        assert not is_native(write(tmp_path / "f.orc", pa.table([pa.array([b"x" * 16])], schema=pa.schema([field]))))


@pytest.mark.parametrize(
    ("names", "expected"),
    [(["_col0", "_col1"], False), (["_col0", "x"], True), (["a b", "c"], False), (["ä", "c"], False)],
)
def test_names_that_spark_would_understand_otherwise(tmp_path, names, expected):
    assert is_native(write(tmp_path / "f.orc", pa.table({name: [1] for name in names}))) is expected


def test_without_a_storage_the_answer_is_careful(tmp_path):
    text = question(write(tmp_path / "f.orc", pa.table({"c": ["x"]})))
    number = question(write(tmp_path / "g.orc", pa.table({"c": [1]})))
    assert not reads_natively("orc", **text, positions=False)
    assert reads_natively("orc", **number, positions=False)


def write_in_java(spark: SparkSession, path: Path, *, proleptic: bool) -> FileName:
    """Write a file with columns of type char(5), varchar(5), date, and string, some of which pyarrow cannot write."""
    from py4j.java_gateway import get_field, set_field

    jvm: Any = spark._jvm
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    schema = jvm.org.apache.orc.TypeDescription.fromString("struct<c:char(5),v:varchar(5),d:date,s:string>")
    options = jvm.org.apache.orc.OrcFile.writerOptions(conf).setSchema(schema).setProlepticGregorian(proleptic)
    writer = jvm.org.apache.orc.OrcFile.createWriter(jvm.org.apache.hadoop.fs.Path(str(path)), options)
    batch = schema.createRowBatch()
    columns = list(get_field(batch, "cols"))
    for place in (0, 1, 3):
        columns[place].setVal(0, b"ab ")
    columns[2].changeCalendar(proleptic, False)
    get_field(columns[2], "vector")[0] = -200_000
    set_field(batch, "size", 1)
    writer.addRowBatch(batch)
    writer.close()
    return FileName(str(path), str(path))


@pytest.mark.parametrize(("place", "proleptic"), [(3, False), (2, False), (2, True)])
def test_text_beside_char_and_dates_are_not_native(spark, tmp_path, place, proleptic):
    file = write_in_java(spark, tmp_path / "f.orc", proleptic=proleptic)
    assert read_orc_traits(file, Storage()).pads_text
    asked = question(file)
    asked |= {name: asked[name][place : place + 1] for name in ("fields", "sources")}
    assert not reads_natively("orc", **asked, positions=False, files=[file], traits=CLIENT)
