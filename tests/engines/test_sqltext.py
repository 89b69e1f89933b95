"""SQL text of names, types and values, as text and as DuckDB understands it."""

from typing import Any

import duckdb
import pytest

from harness.engines.duckdb.columns import cast
from harness.errors import SchemaMismatchError, UnsupportedError
from harness.metadata.filters import sqltext
from harness.metadata.model.schema import BinaryType, DateType, OpaqueType, StructType, TimestampType, TimeType, Type


@pytest.fixture(scope="module")
def connection():
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'America/New_York'")
    yield connection
    connection.close()


def value_of(connection: duckdb.DuckDBPyConnection, expression: str) -> Any:
    return connection.execute(f"SELECT {expression}").fetchall()[0][0]


@pytest.mark.parametrize("name", ['a"b', '"', "a.b", " ", "🦆", "select", "a'b", "x\ny", "$1", "?"])
def test_names_survive(connection, name):
    assert connection.execute(f"SELECT 1 AS {sqltext.name(name)}").description[0][0] == name
    assert value_of(connection, sqltext.struct({name: "1"})) == {name: 1}


def test_the_empty_name_is_refused():
    with pytest.raises(UnsupportedError, match="UnsupportedName"):
        sqltext.name("")


@pytest.mark.parametrize("text", ["", "'", "''", "a\0b", "\0", "\\", "\\x00", "🦆", "\n", "--", "$$", "%s", "?"])
def test_texts_survive(connection, text):
    assert value_of(connection, sqltext.text(text)) == text


def test_paths_are_no_globs():
    assert list(map(sqltext.glob_free, ("a[b].parquet", "*?'"))) == ["a[[]b].parquet", "[*][?]'"]


def test_an_unknown_type_is_refused():
    with pytest.raises(UnsupportedError, match="float128"):
        sqltext.type_name(OpaqueType("float128"))


CASTS: list[tuple[str, str, Type, str, str]] = [
    ("'ü'", "VARCHAR", BinaryType(), "hex({})", "C3BC"),
    ("1::INTEGER", "INTEGER", DateType(), "{}", "1970-01-02"),
    ("(-5)::BIGINT", "BIGINT", TimestampType(utc=True), "epoch_us({})", "-5"),
    ("(-5)::BIGINT", "BIGINT", TimestampType("ns"), "epoch_ns({})", "-5"),
    ("7::BIGINT", "BIGINT", TimeType(), "{}", "00:00:00.000007"),
]
"""Of stored types as no file of a scenario has them."""


@pytest.mark.parametrize(
    ("value", "shown", "target", "probe", "expected"), CASTS, ids=[f"{c[1]} to {c[2]}" for c in CASTS]
)
def test_casts(connection, value, shown, target, probe, expected):
    expression = cast("x", shown, target)
    query = f"SELECT CAST({probe.format(expression)} AS VARCHAR), typeof({expression}) FROM (SELECT {value} AS x)"
    assert connection.execute(query).fetchall() == [(expected, sqltext.type_name(target))]


def test_a_cast_that_nothing_defines_is_refused():
    with pytest.raises(SchemaMismatchError, match="IncompatibleType"):
        cast("x", "INTEGER", StructType(()))
