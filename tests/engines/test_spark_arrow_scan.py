"""Files that Spark's executors read through Arrow have the columns, positions, and errors of a read in one process."""

import pickle
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, SparkSession

from harness import errors
from harness.engines.data_files import FileName, load
from harness.engines.spark import engine
from harness.engines.spark.arrow_scan import reads_natively
from harness.engines.spark.arrow_worker import read_head, reshape, worker_error
from harness.engines.spark.executor_python import unwrap
from harness.errors import CorruptFileError, EncryptedTableError, HarnessError, MissingFileError
from harness.metadata.model.schema import Field, IntegerType, OpaqueType, StructType, VariantType
from harness.metadata.plan.projection import FileColumn
from harness.storage.stores import Storage
from harness.table import open_table
from harness.writing.iceberg.builder import IcebergTable

FORMATS = ("avro", "orc")


def frame(session: SparkSession, table: IcebergTable) -> DataFrame:
    """Return rows with their positions, because Spark's own reader reads no ORC file then."""
    return engine.dataframe(open_table(table.location).snapshot().plan(columns=["id", "_pos"]), session)


# -- errors ------------------------------------------------------------------------------------------------------------


def failed(rows: DataFrame) -> HarnessError:
    with pytest.raises(Exception, match="harness") as caught:
        rows.collect()
    error = unwrap(caught.value)
    assert error is not None
    return error


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize(
    ("damage", "kind", "cause"),
    [
        pytest.param(lambda file: file.unlink(), MissingFileError, "MissingFile", id="missing"),
        pytest.param(lambda file: file.write_bytes(b""), MissingFileError, "MissingFile", id="empty"),
        pytest.param(lambda file: file.write_bytes(b"AGS1" + b"x" * 99), EncryptedTableError, None, id="encrypted"),
        (lambda file: file.write_bytes(file.read_bytes()[:-5]), CorruptFileError, "CorruptDataFile"),
    ],
)
def test_damaged_files_raise_the_errors_of_a_local_read(spark, make, file_format, damage, kind, cause):
    t = make({"id": "long"})
    handles = [t.write_data([{"id": i}], format=file_format) for i in range(2)]
    t.append(*handles)
    rows = frame(spark, t)
    damage(handles[1].file)
    error = failed(rows)
    with pytest.raises(kind) as local:
        load(FileName(handles[1].path, str(handles[1].file)), file_format, Storage(), table=error.table)
    assert type(error) is type(local.value) is kind
    assert str(error) == str(local.value)
    assert error.file == handles[1].path
    assert cause is None or error.cause == cause


def test_a_file_that_was_replaced_meanwhile(spark, make):
    t = make({"id": "long"})
    handle = t.write_data([{"id": 1}], format="orc")
    t.append(handle)
    rows = frame(spark, t)
    pyarrow.orc.write_table(pa.table({"id": ["text"]}), handle.file)
    assert "its columns changed" in failed(rows).message


KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, HarnessError)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_errors_keep_all_parts_through_text_and_pickle(kind):
    error = kind("tëxt [x]", cause="C", table="t", snapshot=7, file="f\nx", field="a.b", rule="iceberg 1")
    text = RuntimeError(f"Job aborted.\n  File x\nWorkerError: {worker_error(error)}\n\tat org.apache.spark")
    around = ValueError("outside")
    around.__cause__ = text
    for again in (unwrap(text), unwrap(around), pickle.loads(pickle.dumps(error))):
        assert type(again) is kind
        assert vars(again) == vars(error)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ModuleNotFoundError: No module named 'harness'", "no module 'harness'; install lakeharness there"),
        ("ModuleNotFoundError: No module named 'pyarrow.lib'", "no module 'pyarrow'; install lakeharness there"),
        (
            'java.io.IOException: Cannot run program "/x/python": error=2',
            "no Python '/x/python'; set an existing Python",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11",
            "their Python is 3.9, the driver's is 3.11; set a Python of the driver's version",
        ),
    ],
    ids=["harness", "pyarrow", "python", "version"],
)
def test_missing_software_of_workers_is_named(text, message):
    error = unwrap(RuntimeError(text))
    assert isinstance(error, errors.EngineError)
    assert message in error.message
    assert "in PYSPARK_PYTHON before you create the session" in error.message


# -- heads -------------------------------------------------------------------------------------------------------------


def test_an_avro_header_of_any_length(make):
    columns = {f"a_rather_long_name_of_a_column_{i:05}": "long" for i in range(2_000)}
    t = make(columns)
    handle = t.write_data([{}] * 50, format="avro", compression="null")
    schema, _ = read_head(FileName(handle.path, str(handle.file)), "avro", Storage(), table="t")
    assert [f.name for f in schema] == list(columns)


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("content", [b"x", b"x" * 100, b"Obj\x01" + b"\x02" * 100, b"ORC" + b"\xff" * 200])
def test_a_head_that_is_damaged(tmp_path, file_format, content):
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(CorruptFileError) as caught:
        read_head(FileName("f", str(tmp_path / "f")), file_format, Storage(), table="t")
    assert (caught.value.table, caught.value.file) == ("t", f"f ({tmp_path / 'f'})")


# -- values ------------------------------------------------------------------------------------------------------------


def test_parts_of_slices_stay_with_their_rows():
    stored_as, wanted = (
        pa.struct([("l", pa.list_(number)), ("m", pa.map_(pa.string(), number))]) for number in (pa.int32(), pa.int64())
    )
    rows = [{"l": [i] * i, "m": [(f"k{i}", i)]} if i % 3 else None for i in range(10)]
    array = pa.array(rows, stored_as).slice(4, 5)
    assert reshape(array, wanted, None).to_pylist() == rows[4:9]
    assert reshape(array, wanted, {1: None}).to_pylist() == [row and {**row, "l": None} for row in rows[4:9]]


# -- Parquet files that Spark's own reader may read
# -----------------------------------------------------------------------


def stored(name: str, type_: Any, *children: Any) -> Any:
    from harness.metadata.model.file_schema import PhysicalField

    return PhysicalField(name=name, id=None, type=type_, children=children)


LONG = IntegerType(64)


@pytest.mark.parametrize(
    ("schema", "requested_type", "expected"),
    [
        pytest.param((stored("a", LONG), stored("A", LONG)), LONG, True, id="names that differ by case"),
        pytest.param((stored("a", LONG), stored("a", LONG)), LONG, False, id="two columns of one name"),
        pytest.param((stored("_tmp_metadata_row_index", LONG),), LONG, False, id="a name that Spark keeps"),
        pytest.param((stored("a", LONG), stored("b", OpaqueType("x"))), LONG, True, id="an unread unknown type"),
        pytest.param((stored("a", StructType(()), stored("m", LONG)),), VariantType(), False, id="variant"),
    ],
)
def test_parquet_that_spark_reads_itself(schema, requested_type, expected):
    sources = (FileColumn(schema[0], place=0),)
    assert (
        reads_natively("parquet", schema, (Field(id=1, name="a", type=requested_type),), sources, positions=True)
        is expected
    )
    assert (
        reads_natively("avro", schema, (Field(id=1, name="a", type=requested_type),), sources, positions=False) is False
    )
