"""The oracle's filters against DuckDB's own evaluation of the same conditions on the same values."""

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from harness.engines.duckdb.instance import connect
from harness.engines.oracle_conditions import filter_of
from harness.engines.oracle_filters import parse
from harness.errors import EngineError, RequestError, UnsupportedError
from harness.testing.oracle.files import values_of
from harness.testing.oracle.types import (
    BINARY,
    BOOLEAN,
    DATE,
    STRING,
    UUID,
    DecimalType,
    Field,
    FloatType,
    IntegerType,
    Schema,
    StructType,
    TimestampType,
    TimeType,
    Type,
    arrow_type,
    named,
)

NAN, INF = float("nan"), float("inf")
COLUMNS: dict[str, tuple[Type, list[Any]]] = {
    "i": (IntegerType(32), [1, -5, 2147483647, None, 16777217]),
    "l": (IntegerType(64), [1, 9007199254740993, -(2**63), None, 0]),
    "s8": (IntegerType(8), [1, 127, -128, None, 0]),
    "f": (FloatType(32), [1.5, NAN, -0.0, None, INF]),
    "d": (FloatType(64), [1.1, NAN, 0.0, None, -INF]),
    "n": (DecimalType(9, 2), [Decimal("1.10"), Decimal("-9999999.99"), Decimal("0.00"), None, Decimal("2.50")]),
    "t": (STRING, ["a", "", "ä%", None, "z_\n"]),
    "b": (BOOLEAN, [True, False, True, None, False]),
    "day": (DATE, [dt.date(2020, 1, 1), dt.date(1969, 12, 31), dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
    "ts": (
        TimestampType(),
        [dt.datetime(2020, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(1, 1, 1), None, None],
    ),
    "tz": (TimestampType("us", utc=True), [dt.datetime(2020, 1, 1), None, dt.datetime(1600, 1, 1), None, None]),
    "ns": (TimestampType("ns"), [1_577_836_800_000_000_001, -1, None, 0, 10**9]),
    "clock": (TimeType(), [dt.time(10), dt.time(0), dt.time(23, 59, 59, 999999), None, None]),
    "u": (UUID, [uuid.UUID(int=1).bytes, uuid.UUID(int=2**127).bytes, None, None, None]),
    "x": (BINARY, [b"", b"\x00", b"\xff", None, b"a"]),
}
SCHEMA = Schema(
    fields=(
        *(Field(id=i, name=name, type=type_) for i, (name, (type_, _)) in enumerate(COLUMNS.items(), 1)),
        Field(id=50, name="r", type=StructType((Field(id=51, name="k", type=IntegerType(32)),))),
    )
)
STRUCTS = [{"k": 1}, {"k": None}, None, {"k": 7}, {"k": -1}]

CONDITION_TEXT = """
    i = 1; i <> 1; i > 1.5; i = 16777216.0; i = CAST(16777216 AS FLOAT); l = CAST(9007199254740992 AS DOUBLE);
    l = 9007199254740993; l < -9223372036854775807; l > 99999999999999999999; l > -99999999999999999999;
    l < -9223372036854775809; i = '1'; i IN (1, -5); i NOT IN (1, NULL); i IN (NULL); i IN (1, 2.5);
    i BETWEEN 0 AND 16777217; i NOT BETWEEN 0 AND 1.5; s8 = 1000; s8 < l; i = s8; i IS NULL; i IS NOT NULL;
    i IS DISTINCT FROM 1; i IS NOT DISTINCT FROM NULL; i IS NOT DISTINCT FROM l; i = NULL; NULL; NOT (i = 1);
    i = 1 OR l IS NULL; i = 1 AND l = 0; NOT (b AND i > 0); b; NOT b; b = true; b IS TRUE; b IS NOT TRUE; b IS FALSE;
    (i = 1) IS FALSE; b < true; b = 'true'; f = 1.5; f = CAST('nan' AS FLOAT); f > 1e30; f < 0; f = 0; f <= 'inf';
    f = d; f >= d; isnan(f); NOT isnan(d); isinf(d); d = 1.1; d = CAST(1.1 AS FLOAT); d > 'inf'; d IN (1.1, 'nan');
    d BETWEEN 0 AND 2; d IS DISTINCT FROM f; d = n; n = 1.1; n = 1.10; n > 1; n = '1.1'; n < 1e0; n IN (1.1, 2.5);
    n = i; n = CAST(1.1 AS FLOAT); n BETWEEN -1 AND 2.4999; n > CAST(2.5 AS DECIMAL(38, 10)); t = 'a'; t < 'ä';
    t >= ''; t LIKE '%'; t LIKE '_'; t LIKE 'ä%'; t NOT LIKE 'a%'; t LIKE '%!%' ESCAPE '!'; t LIKE 'z!__' ESCAPE '!';
    t LIKE '%\\%'; t IN ('a', 'z'); starts_with(t, 'a'); prefix(t, ''); day = DATE '2020-01-01'; day = '2020-01-01';
    day < TIMESTAMP '1970-01-01 00:00:00'; day > '9999-01-01'; day = ts; day >= tz; ts = TIMESTAMP '2020-01-01';
    ts = '2020-01-01 00:00:00'; ts < DATE '1970-01-01'; ts = tz; tz = TIMESTAMPTZ '2020-01-01 01:00:00+01';
    tz < '1700-01-01'; tz = '2020-01-01 00:00:00'; tz > DATE '1900-01-01'; CAST(ts AS DATE) = DATE '1969-12-31';
    ns = TIMESTAMP_NS '2020-01-01 00:00:00.000000001'; ns < '1970-01-01'; clock = TIME '10:00:00'; clock > '10:00:00';
    u = '00000000-0000-0000-0000-000000000001'; u > UUID '00000000-0000-0000-0000-000000000001'; x = '';
    x > '\\x00'::BLOB; x = BLOB '\\xFF'; x < 'b'; r.k = 1; r.k IS NULL; r.k + 1 = 8; r.k IN (7, NULL); r IS NULL;
    s8 + 0 = 1; s8 * 2000 = 2000; t NOT LIKE '%!%' ESCAPE '!'; i - 2 = -1; i * 0.5 = 0.5; n + 1 = 2.1; n * n = 1.21;
    -n < 0; -i = 5; -d > 0; f * 2 = 3; d + 1 = 2.1; f + d > 0; 1 + 1 = 2; n - i > 0;
    CAST(i AS BIGINT) * 2 > 4294967293; CAST(i AS DOUBLE) = 1; CAST(n AS DOUBLE) = 1.1; CAST(n AS FLOAT) = 1.1;
    CASE WHEN b THEN i = 1 END; CASE t WHEN 'a' THEN 1 WHEN '' THEN l ELSE i END < 2; coalesce(l, i, 0) = 1;
    CASE WHEN i > 0 THEN 'x' END IS NULL; coalesce(NULL, n) = 2.5; upper(CASE WHEN b THEN 'ab' END) = 'AB';
    lower('AB') = 'ab'; NOT CASE WHEN NULL THEN true ELSE b END;
    CAST(i AS DECIMAL(12, 2)) = 1.00; true OR CAST(l AS SMALLINT) = 1; i = 1 OR (l = 0 AND NOT (d < 0))
"""
CONDITIONS = [text.strip() for text in CONDITION_TEXT.split(";")]

REFUSED_TEXT = """
    t || 'x' = 'ax'; b BETWEEN SYMMETRIC true AND false; (i, l) = (1, 1); TRY_CAST(t AS INTEGER) = 1; abs(i) = 5;
    CASE WHEN b THEN i ELSE t END = 1; coalesce(day, t) = t; upper(t) = 'A';
    length(t) = 1; i / 2 = 1; t = i; t GLOB 'a*'; t ILIKE 'A'
"""
REFUSED = [text.strip() for text in REFUSED_TEXT.split(";")]


def arrays() -> dict[str, pa.Array]:
    made = {}
    for name, (type_, values) in COLUMNS.items():
        if type_ == UUID:
            made[name] = pa.ExtensionArray.from_storage(pa.uuid(), pa.array(values, pa.binary(16)))
        else:
            made[name] = pa.array(values, arrow_type(type_))
    return made | {"r": pa.array(STRUCTS, pa.struct([pa.field("k", pa.int32())]))}


def stored_rows() -> list[dict[int, Any]]:
    columns = []
    for f, array in zip(SCHEMA.fields, arrays().values(), strict=True):
        values = values_of(array)
        if f.type == STRING:
            values = [None if v is None else v.decode() for v in values]
        if isinstance(f.type, StructType):
            values = [None if v is None else {51: v[0]} for v in values]
        columns.append(values)
    return [{f.id: v for f, v in zip(SCHEMA.fields, row, strict=True)} for row in zip(*columns, strict=True)]


def compiled(where: str) -> Any:
    def find(name: str) -> Field:
        found = named(name, SCHEMA.fields)
        assert found is not None
        return found

    return filter_of(parse(where), find).evaluate


@pytest.fixture(scope="module")
def connection() -> Any:
    connection = connect()
    connection.register("rows", pa.table(arrays()))
    return connection


@pytest.mark.parametrize("where", CONDITIONS)
def test_conditions_mean_what_they_mean_on_duckdb(connection: Any, where: str) -> None:
    condition = compiled(where)
    expected = connection.execute(f"SELECT CAST({where} AS BOOLEAN) FROM rows").fetchall()
    assert [condition(row) for row in stored_rows()] == [value for (value,) in expected]


@pytest.mark.parametrize(
    "where",
    [
        "CAST(l AS SMALLINT) = i",  # DuckDB 1.5 would compare with a constant as BIGINT
        "i + i > 0",
        "ts <= ns",
        "ns > ts",
        "i - l = 0",
        "s8 + s8 = 0",
        "ns > TIMESTAMP '0001-01-01'",
    ],
)
def test_what_fails_on_duckdb_fails(connection: Any, where: str) -> None:
    condition = compiled(where)
    with pytest.raises(duckdb.Error):
        connection.execute(f"SELECT {where} FROM rows").fetchall()
    with pytest.raises(EngineError, match="Cannot evaluate the filter"):
        [condition(row) for row in stored_rows()]


@pytest.mark.parametrize("where", REFUSED)
def test_what_the_oracle_does_not_know_it_refuses(where: str) -> None:
    with pytest.raises(UnsupportedError, match="Cannot evaluate the filter: the oracle does not"):
        list(map(compiled(where), stored_rows()))


@pytest.mark.parametrize(
    "where", ["", "i =", "i = 1)", "(i = 1", "i = 'a", "CAST(i AS", "CASE b END", "count(*) > 1", "i = ?", "NOT"]
)
def test_what_is_no_condition_on_a_row_is_an_error_of_the_request(where: str) -> None:
    with pytest.raises(RequestError):
        compiled(where)
