"""How stored columns become the columns of a table on Spark: by id and by name, nested, widened, converted, refused."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from stored_on_spark import plain, wanted_rows, write

import harness
from harness.engines.spark.engine import to_arrow
from harness.metadata.model.schema import (
    BinaryType,
    DateType,
    DecimalType,
    Field,
    FixedType,
    FloatType,
    GeometryType,
    IntegerType,
    ListType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    Type,
    UnknownType,
    UuidType,
)
from harness.metadata.plan.projection import ColumnLookup
from harness.testing.writing.iceberg.builder import IcebergTable

BY_NAME, BY_ID = ColumnLookup.DELTA_NAME, ColumnLookup.ICEBERG
INT, LONG, TEXT, DOUBLE = IntegerType(32), IntegerType(64), StringType(), FloatType(64)
TS, TZ, NS, NSTZ = TimestampType(), TimestampType(utc=True), TimestampType("ns"), TimestampType("ns", utc=True)
DAY = 86_400_000_000
U = UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


@pytest.fixture(scope="module")
def foreign(spark: Any) -> Any:
    """A user's session with other ideas: not ANSI, another zone, the last of equal map keys wins, any letter case."""
    session = spark.newSession()
    for key, value in {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
        "spark.sql.caseSensitive": "false",
        "spark.sql.legacy.parquet.nanosAsLong": "false",
    }.items():
        session.conf.set(key, value)
    return session


@pytest.fixture(scope="module", params=["plain session", "foreign session"])
def session(request: pytest.FixtureRequest, spark: Any) -> Any:
    return spark if request.param == "plain session" else request.getfixturevalue("foreign")


def field(id_: int, name: str, type_: Type, **more: Any) -> Field:
    return Field(id=id_, name=name, type=type_, **more)


def stored(name: str, type_: pa.DataType, id_: int) -> pa.Field:
    return pa.field(name, type_, name != "key", metadata={"PARQUET:field_id": str(id_)})


def one(session: Any, path: Path, array: pa.Array, type_: Type, *, by: ColumnLookup = BY_NAME, **how: Any) -> list[Any]:
    """A column of a table of type `type_` from a file that stores `array`."""
    columns = pa.table([array], schema=pa.schema([stored("v", array.type, 1)]))
    options = how.pop("options", {})
    written = write(path / "f.parquet", columns, **options)
    return plain(wanted_rows(session, written, [field(1, "v", type_)], lookup=by, **how).column(0))


# -- conversions of single values -------------------------------------------------------------------------------------

MICROS = [-1, 0, 1_600_000_000_000_001, None]
NANOS = [-1, -1000, -1001, 0, 999, 1000, -(2**63), 2**63 - 1, None]
FLOORED = [-1, -1, -2, 0, 0, 1, -9_223_372_036_854_776, 9_223_372_036_854_775, None]
FLOATS = [0.10000000149011612, -0.0, math.inf, 1.401298464324817e-45, None]


def ts(values: list[Any], unit: str = "us", zone: str | None = None) -> pa.Array:
    return pa.array(values, pa.timestamp(unit, zone))


def days(values: list[Any]) -> pa.Array:
    return pa.array(values, pa.int32()).cast(pa.date32())


CONVERSIONS: list[tuple[pa.Array, Type, ColumnLookup, list[Any]]] = [
    (pa.array([-(2**31), None], pa.int32()), LONG, BY_ID, [-(2**31), None]),
    (pa.array([255, None], pa.uint8()), INT, BY_ID, [255, None]),
    (pa.array([2**32 - 1, None], pa.uint32()), LONG, BY_ID, [2**32 - 1, None]),
    (pa.array([127, -128], pa.int32()), IntegerType(8), BY_NAME, [127, -128]),
    (pa.array([-128, None], pa.int8()), IntegerType(16), BY_NAME, [-128, None]),
    (pa.array(FLOATS, pa.float32()), DOUBLE, BY_ID, FLOATS),
    (pa.array([2**31 - 1, None], pa.int32()), DOUBLE, BY_NAME, [2147483647.0, None]),
    (pa.array([2**31 - 1, None], pa.int32()), DecimalType(12, 2), BY_NAME, [Decimal("2147483647.00"), None]),
    (pa.array([-(2**63), None], pa.int64()), DecimalType(20, 0), BY_NAME, [Decimal(-(2**63)), None]),
    (pa.array([Decimal("-99.99")], pa.decimal128(4, 2)), DecimalType(38, 2), BY_ID, [Decimal("-99.99")]),
    (pa.array([Decimal("-99.99")], pa.decimal128(4, 2)), DecimalType(10, 5), BY_NAME, [Decimal("-99.99000")]),
    (pa.array([Decimal("-99.99")], pa.decimal128(9, 2)), DecimalType(4, 2), BY_NAME, [Decimal("-99.99")]),
    (pa.array([-1, 2**31 - 1], pa.int32()), DateType(), BY_ID, [-1, 2**31 - 1]),
    (days([-1, -800_000, 106_751_990, None]), TS, BY_ID, [-DAY, -800_000 * DAY, 106_751_990 * DAY, None]),
    (days([-1, None, 106_751]), NS, BY_ID, [-DAY * 1000, None, 106_751 * DAY * 1000]),
    (pa.array([0, 86_399_999, None], pa.time32("ms")), TimeType(), BY_ID, [0, 86_399_999_000, None]),
    (pa.array([86_399_999_999], pa.time64("us")), TimeType(), BY_ID, [86_399_999_999]),
    *[(ts(MICROS, "us", z), t, BY_ID, MICROS) for z in (None, "UTC") for t in (TS, TZ)],
    *[(ts([-(2**63), 2**63 - 1], "us", z), t, BY_ID, [-(2**63), 2**63 - 1]) for z in (None, "UTC") for t in (TS, TZ)],
    *[(ts([-1, 10**14, None], "ms", z), t, BY_ID, [-1000, 10**17, None]) for z in (None, "UTC") for t in (TS, TZ)],
    *[(ts(NANOS, "ns", z), t, BY_ID, FLOORED) for z in (None, "UTC") for t in (TS, TZ)],
    *[(ts(NANOS, "ns", z), t, BY_ID, NANOS) for z in (None, "UTC") for t in (NS, NSTZ)],
    *[
        (ts(MICROS, "us", z), t, BY_ID, [-1000, 0, 1_600_000_000_000_001_000, None])
        for z in (None, "UTC")
        for t in (NS, NSTZ)
    ],
    (pa.array([b"a\0b", "ü".encode(), None]), TEXT, BY_ID, ["a\0b", "ü", None]),
    (pa.array(["ü", "", None]), BinaryType(), BY_NAME, ["ü".encode(), b"", None]),
    (pa.array([b"ab", None], pa.binary(2)), BinaryType(), BY_NAME, [b"ab", None]),
    (pa.array([b"ab", None], pa.binary(2)), FixedType(2), BY_ID, [b"ab", None]),
    (pa.array([b"\x01", None]), GeometryType(), BY_ID, [b"\x01", None]),
    (pa.array([U.bytes, None, bytes(16)], pa.binary(16)), UuidType(), BY_ID, [U, None, UUID(int=0)]),
    (
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([None, U.bytes], pa.binary(16))),
        UuidType(),
        BY_ID,
        [None, U],
    ),
    (
        pa.array([str(U), str(U).upper(), U.hex, f"{{{U}}}", "f7-9c3e09677c4bbda4793f349cb785e7-", None]),
        UuidType(),
        BY_ID,
        [U, U, U, U, U, None],
    ),
    (pa.nulls(2), UnknownType(), BY_ID, [None, None]),
    (pa.array([1, 2], pa.int32()), UnknownType(), BY_ID, [None, None]),
]


@pytest.mark.parametrize("by", [BY_ID, BY_NAME], ids=["by id", "by name"])
def test_conversions(session: Any, tmp_path: Path, by: ColumnLookup) -> None:
    cases = [(array, type_, expected) for array, type_, lookup, expected in CONVERSIONS if lookup is by]
    count = max(len(array) for array, _, _ in cases)
    columns = [pa.concat_arrays([array, pa.nulls(count - len(array), array.type)]) for array, _, _ in cases]
    schema = pa.schema([stored(f"v{i}", column.type, i) for i, column in enumerate(columns, 1)])
    path = write(tmp_path / "f.parquet", pa.table(columns, schema=schema))
    fields = [field(i, f"v{i}", type_) for i, (_, type_, _) in enumerate(cases, 1)]
    found = wanted_rows(session, path, fields, lookup=by)
    for (array, type_, expected), column in zip(cases, found.columns, strict=True):
        wanted = [*expected, *[None] * (count - len(array))]
        assert list(map(repr, plain(column))) == list(map(repr, wanted)), f"{array.type} to {type_}"  # tells -0.0


UNFIT: list[tuple[pa.Array, Type, ColumnLookup]] = [
    (pa.array([128], pa.int32()), IntegerType(8), BY_NAME),
    (pa.array([Decimal("100.00")], pa.decimal128(9, 2)), DecimalType(4, 2), BY_NAME),
    (pa.array([b"\xff\xfe"]), TEXT, BY_ID),
    (pa.array(["no uuid"]), UuidType(), BY_ID),
    (pa.array(["{" + U.hex]), UuidType(), BY_ID),
    (days([2**31 - 1]), TS, BY_ID),
    (days([106_752]), NS, BY_ID),
    (ts([2**63 - 1]), NS, BY_ID),
    (ts([2**60], "ms"), TS, BY_ID),
]


@pytest.mark.parametrize(("array", "type_", "by"), UNFIT, ids=[f"{c[0].type} to {c[1]}" for c in UNFIT])
def test_values_that_do_not_fit_fail(
    session: Any, tmp_path: Path, array: pa.Array, type_: Type, by: ColumnLookup
) -> None:
    with pytest.raises((PySparkException, Py4JError)):
        one(session, tmp_path, array, type_, by=by)


# -- nested -----------------------------------------------------------------------------------------------------------


def inner(*fields: Field) -> StructType:
    return StructType(fields)


A = field(2, "a", INT)


def test_float_keys_keep_their_sign(session: Any, tmp_path: Path) -> None:
    kind = pa.map_(stored("key", pa.float32(), 5), stored("value", pa.int32(), 6))
    array = pa.array([[(-0.0, 1), (0.5, 2)]], kind)
    for key, value in ((FloatType(32), INT), (DOUBLE, INT), (FloatType(32), LONG), (DOUBLE, LONG)):
        wanted = MapType(field(5, "key", key), field(6, "value", value))
        assert repr(one(session, tmp_path, array, wanted, by=BY_ID)) == "[[(-0.0, 1), (0.5, 2)]]"


def test_keys_that_become_equal_fail(session: Any, tmp_path: Path) -> None:
    kind = pa.map_(stored("key", pa.timestamp("ns"), 5), stored("value", pa.int32(), 6))
    wanted = MapType(field(5, "key", TS), field(6, "value", INT))
    assert len(one(session, tmp_path, pa.array([[(0, 1), (1000, 2)]], kind), wanted, by=BY_ID)[0]) == 2
    with pytest.raises(PySparkException, match=r"become equal|DUPLICATED_MAP_KEY"):
        one(session, tmp_path, pa.array([[(0, 1), (1, 2)]], kind), wanted, by=BY_ID)


# -- whole columns ----------------------------------------------------------------------------------------------------


def test_a_struct_with_two_fields_of_one_name_is_refused(session: Any, tmp_path: Path) -> None:
    kind = pa.struct([stored("a", pa.int32(), 2), stored("a", pa.int32(), 3)])
    array = pa.StructArray.from_arrays([pa.array([1]).cast(pa.int32())] * 2, fields=list(kind))
    with pytest.raises(harness.HarnessError, match="two"):
        one(session, tmp_path, array, inner(field(3, "x", INT)), by=BY_ID)


# -- old calendars (delta T20) ----------------------------------------------------------------------------------------

BOTH = frozenset({"dates and timestamps", "int96 timestamps"})
OLD_DAY, OLD_TIME = -141_428, -2_208_988_800_000_001
CALENDARS: list[tuple[pa.DataType, Type, list[int], int, dict[str, Any]]] = [
    (pa.date32(), DateType(), [OLD_DAY + 1, 0], OLD_DAY, {}),
    (pa.date32(), TS, [(OLD_DAY + 1) * DAY, 0], OLD_DAY, {}),
    (pa.timestamp("us"), TS, [OLD_TIME + 1, 0], OLD_TIME, {}),
    (pa.timestamp("us", "UTC"), TZ, [OLD_TIME + 1, 0], OLD_TIME, {}),
    (pa.timestamp("us", "UTC"), TS, [OLD_TIME + 1, 0], OLD_TIME, {}),
    (pa.timestamp("us"), TZ, [OLD_TIME + 1, 0], OLD_TIME, {"use_deprecated_int96_timestamps": True}),
]


@pytest.mark.parametrize(("kind", "type_", "expected", "old", "options"), CALENDARS, ids=range(len(CALENDARS)))
@pytest.mark.parametrize("nested", [False, True], ids=["top", "nested"])
@pytest.mark.parametrize("spark_version", [b"2.4.8", None], ids=["spark-2", "unmarked"])
def test_old_values_fail_and_others_are_as_they_are(
    session: Any,
    tmp_path: Path,
    kind: pa.DataType,
    type_: Type,
    expected: list[int],
    old: int,
    options: Any,
    nested: bool,
    spark_version: bytes | None,
) -> None:
    def read(number: int, legacy: frozenset[str]) -> list[Any]:
        array = pa.array([number, 0], pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind)
        if nested:
            array = pa.ListArray.from_arrays([0, 1, 2], array)
        meta = {} if spark_version is None else {b"org.apache.spark.version": spark_version}
        path = write(tmp_path / "f.parquet", pa.table({"v": array}).replace_schema_metadata(meta), **options)
        wanted = ListType(field(2, "element", type_)) if nested else type_
        column = wanted_rows(session, path, [field(1, "v", wanted)], lookup=BY_NAME, legacy=legacy).column(0)
        return plain(column.combine_chunks().values if nested else column)

    assert read(old + 1, BOTH) == expected
    if kind == pa.timestamp("us") and not options:  # without a zone, which no old writer had
        assert read(old, BOTH) == [old, 0]
        return
    with pytest.raises(PySparkException, match="in the calendar of an old writer"):
        read(old, BOTH)
    if spark_version is None:
        assert read(old, frozenset())[1] == 0


# -- text -------------------------------------------------------------------------------------------------------------


def test_stored_text_that_is_no_utf8_is_an_error(session: Any, tmp_path: Path) -> None:  # iceberg 6.11
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(struct.pack("<2i", 0, 2)), pa.py_buffer(b"\xff\xfe")]
    )
    with pytest.raises(harness.EngineError, match="UTF"):
        one(session, tmp_path, bad, TEXT)


# -- names that differ by case alone -----------------------------------------------------------------------------------


def test_stored_names_that_differ_by_case_alone(session: Any, tmp_path: Path) -> None:
    # Under a session that ignores case, rules of Spark 4.3's optimizer fail, and its row reader gives nulls.
    t = IcebergTable.create(
        tmp_path / "t",
        {"a": "int", "A": "long", "s": "struct<x: int, X: int>", "l": "list<struct<x: int, X: int>>"},
        format_version=3,
    )
    t.append(t.write_data([{"a": 1, "A": 2, "s": {"x": 3, "X": 4}, "l": [{"x": 5, "X": 6}]}]))
    t.rename_column("s.X", "y")
    t.rename_column("l.element.X", "y")
    snapshot = harness.open_table(str(tmp_path / "t")).snapshot()
    found = to_arrow(snapshot.plan(), session)
    assert found.to_pylist() == [{"a": 1, "A": 2, "s": {"x": 3, "y": 4}, "l": [{"x": 5, "y": 6}]}]
    (row,) = snapshot.to_spark(session, columns=["a", "s", "l"], where="A = 2 AND a = 1").collect()
    assert row.asDict(recursive=True) == {"a": 1, "s": {"x": 3, "y": 4}, "l": [{"x": 5, "y": 6}]}
