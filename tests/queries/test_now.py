"""Conditions on the moment of a query: what they say from now on. Two days less than the moment, by the margin."""

import datetime
from pathlib import Path

import duckdb
import pytest

import harness
from harness.metadata.model.schema import DateType, Field, Schema, TimestampType
from harness.queries.rewrite import rewrite
from harness.testing.writing.iceberg.builder import IcebergTable

TABLES = {
    "t": Schema(
        fields=(
            Field(id=1, name="d", type=DateType()),
            Field(id=2, name="w", type=TimestampType()),
            Field(id=3, name="i", type=TimestampType(utc=True)),
        )
    )
}
NOON = datetime.datetime(2024, 3, 17, 12)


def where(condition: str) -> str | None:
    (reference,) = rewrite(f"FROM t WHERE {condition}", TABLES, now=lambda: NOON).references
    return None if reference.where is None else reference.where.sql


@pytest.mark.parametrize(
    ("condition", "column", "moment"),
    [
        ("d >= current_date - 30", "d", "2024-02-14 00:00:00"),
        ("today() - 30 < d", "d", "2024-02-14 00:00:00"),
        ("d = current_date()", "d", "2024-03-15 00:00:00"),
        ("d BETWEEN current_date - 7 AND current_date", "d", "2024-03-08 00:00:00"),
        ("w > now() - INTERVAL 36 HOUR", "w", "2024-03-14 00:00:00"),
        ("w > localtimestamp - INTERVAL '1 month'", "w", "2024-02-15 12:00:00"),
        ("w >= date_trunc('month', now())", "w", "2024-03-01 00:00:00"),
        ("i >= current_timestamp::DATE - INTERVAL 1 WEEK", "i", "2024-03-08 00:00:00"),
        ("i >= get_current_timestamp()", "i", "2024-03-15 12:00:00"),
    ],
)
def test_a_column_is_not_before_the_moment(condition: str, column: str, moment: str) -> None:
    assert where(condition) == f"(\"{column}\" >= CAST('{moment}' AS TIMESTAMP))"


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param("d <= current_date - 30", id="moves-on"),
        pytest.param("NOT d >= current_date", id="not"),
        pytest.param("d <> current_date", id="other-than"),
        pytest.param("d BETWEEN SYMMETRIC current_date AND DATE '2024-01-01'", id="either-way"),
        pytest.param("d >= current_date OR random() < 0.5", id="or-anything"),
        pytest.param("d + 1 >= current_date", id="computed"),
        pytest.param("d >= current_date - (current_date - DATE '2024-01-01')::INT", id="twice"),
    ],
)
def test_what_does_not_hold_from_now_on_is_left_alone(condition: str) -> None:
    assert where(condition) is None


def test_a_connection_in_another_zone_has_the_rows_of_its_moment(tmp_path: Path) -> None:
    today = (datetime.datetime.now(datetime.UTC).date() - datetime.date(1970, 1, 1)).days
    table = IcebergTable.create(tmp_path, {"day": "date", "moment": "timestamptz"}, format_version=2)
    days = (today - 90, today - 3, today, today + 1)
    table.append(*(table.write_data([{"day": day, "moment": day * 86_400_000_000}]) for day in days))
    found = harness.open_table(str(tmp_path))
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'Pacific/Kiritimati'; BEGIN")
        for column, since in (("day", "current_date - 14"), ("moment", "now() - INTERVAL 14 DAY")):
            rows = harness.sql(f"SELECT 1 FROM t WHERE {column} > {since}", connection=connection, t=found)
            assert len(rows.fetchall()) == 3
        harness.release(connection)
