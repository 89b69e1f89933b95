"""How stored columns become the columns of a table on Spark: by id and by name, nested, widened, converted, refused."""

from __future__ import annotations

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
from harness.metadata.model.schema import (
    DateType,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    ListType,
    MapType,
    StringType,
    TimestampType,
    Type,
    UuidType,
)
from harness.metadata.plan.projection import ColumnLookup

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


def ts(values: list[Any], unit: str = "us", zone: str | None = None) -> pa.Array:
    return pa.array(values, pa.timestamp(unit, zone))


def days(values: list[Any]) -> pa.Array:
    return pa.array(values, pa.int32()).cast(pa.date32())


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


A = field(2, "a", INT)


def test_keys_that_become_equal_fail(session: Any, tmp_path: Path) -> None:
    kind = pa.map_(stored("key", pa.timestamp("ns"), 5), stored("value", pa.int32(), 6))
    wanted = MapType(field(5, "key", TS), field(6, "value", INT))
    assert len(one(session, tmp_path, pa.array([[(0, 1), (1000, 2)]], kind), wanted, by=BY_ID)[0]) == 2
    with pytest.raises(PySparkException, match=r"become equal|DUPLICATED_MAP_KEY"):
        one(session, tmp_path, pa.array([[(0, 1), (1, 2)]], kind), wanted, by=BY_ID)


# -- whole columns ----------------------------------------------------------------------------------------------------


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
