"""ORC data files written by pyarrow: ids at every level, attributes, zones, and damage."""

import datetime
import io

import pyarrow as pa
import pyarrow.orc
import pytest

from harness.errors import CorruptFileError, UnsupportedError
from harness.metadata.files.orc import read_orc
from harness.metadata.model import schema as dt


def column(name, type_, field_id=None, *, nullable=True, **attributes):
    metadata = {f"iceberg.{key.replace('_', '-')}": value for key, value in attributes.items()}
    if field_id is not None:
        metadata["iceberg.id"] = str(field_id)
    return pa.field(name, type_, nullable, metadata or None)


def orc(table):
    raw = io.BytesIO()
    pa.orc.write_table(table, raw)
    return raw.getvalue()


def read_column(field, values):
    fields, table = read_orc(orc(pa.table([pa.array(values, field.type)], pa.schema([field]))), file="f")
    return fields[0].type, table.column(0)


@pytest.mark.parametrize(
    ("field", "values", "stored_type", "expected"),
    [
        (column("c", pa.binary(), 1), [b"ab"], dt.BinaryType(), [b"ab"]),
        (column("c", pa.binary(), 1, binary_type="UUID"), [bytes(16), None], dt.FixedType(16), [bytes(16), None]),
        (column("c", pa.binary(), 1, binary_type="FIXED", length="2"), [b"ab"], dt.FixedType(2), [b"ab"]),
        (column("c", pa.binary(), 1, binary_type="GEOMETRY"), [b"\x01"], dt.GeometryType(), [b"\x01"]),
        (column("c", pa.int64(), 1, long_type="TIME"), [1_000_000], dt.TimeType("us"), [datetime.time(0, 0, 1)]),
        (column("c", pa.int64(), 1, long_type="LONG"), [3], dt.IntegerType(64), [3]),
        (column("c", pa.decimal128(38, 4), 1), [None], dt.DecimalType(38, 4), [None]),
    ],
    ids=["binary", "uuid", "fixed", "geometry", "time", "long", "decimal"],
)
def test_attributes_say_what_a_column_holds(field, values, stored_type, expected):
    type_, read = read_column(field, values)
    assert (type_, read.to_pylist()) == (stored_type, expected)


def test_wrong_fixed_length_is_refused():
    with pytest.raises(CorruptFileError):
        read_column(column("c", pa.binary(), 1, binary_type="FIXED", length="3"), [b"ab"])


def test_timestamp_outside_nanos_is_refused():
    with pytest.raises(UnsupportedError) as caught:
        read_column(column("c", pa.timestamp("us"), 1), [datetime.datetime(1500, 1, 1)])
    assert str(caught.value) == (
        "Cannot read ORC file: it has a timestamp outside the years 1677 to 2262; rewrite it as Parquet "
        "[UnsupportedType; file f, rule iceberg 7.4]"
    )


def test_same_name_twice_is_refused():
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(CorruptFileError, match="two of its columns have the same name"):
        read_orc(orc(table), file="f")
