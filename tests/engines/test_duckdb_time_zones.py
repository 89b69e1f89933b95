"""Instants with the time zone of a connection, in values and in filters, on DuckDB (iceberg 6.8, 11.5)."""

import datetime as dt
from pathlib import Path

import duckdb
import pytest

import harness
from harness.engines.duckdb.instance import connect
from harness.engines.duckdb.relations import relation
from harness.writing.iceberg.builder import IcebergTable

UTC = dt.UTC


def year(y: int) -> int:
    """Return the days from 1970-01-01 to January 1 of a year, in the proleptic Gregorian calendar."""
    before = y - 1
    return before * 365 + before // 4 - before // 100 + before // 400 - 719162


DAY = 86_400_000_000


@pytest.mark.parametrize("format", ["parquet", "avro", "orc"])
@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata", "UTC"])
def test_the_time_zone_of_the_connection_changes_no_value(make, zone, format):
    t = make({"id": "long", "ts": "timestamp", "tz": "timestamptz", "p": "timestamptz", "d": "date"})
    micros = 1_583_650_800_000_001  # 2020-03-08 07:00 UTC, when New York puts its clocks forward
    t.set_partition_spec([("p", "identity")])
    row = {"id": 1, "ts": micros, "tz": micros, "p": micros, "d": dt.date(2020, 3, 8)}
    for shift in (0, 1):
        more = {"columns": ["id", "ts", "tz", "d"], "format": format}
        t.append(t.write_data([{**row, "id": shift, "p": micros + shift}], **more))
    t.add_column("q", "timestamptz", initial_default=dt.datetime(1960, 7, 1, tzinfo=UTC))
    t.add_column("r", "timestamp", initial_default=dt.datetime(1960, 7, 1))
    connection = duckdb.connect()
    connection.execute(f"SET TimeZone = '{zone}'")
    relation = harness.open_table(str(t.store.directory)).snapshot().to_duckdb(connection)
    got = relation.project("id, epoch_us(ts), epoch_us(tz), epoch_us(p), d, epoch_us(q), epoch_us(r)").fetchall()
    q = -3471 * DAY  # 9 years of 365 days, 2 leap days and 184 days before 1970
    assert sorted(got) == [(i, micros, micros, micros + i, dt.date(2020, 3, 8), q, q) for i in (0, 1)]
    assert connection.execute("SELECT current_setting('TimeZone')").fetchone() == (zone,)


HOURS = range(-30, 31, 3)
"""Around 2024-03-10 00:00 UTC, seven hours before New York puts its clocks forward."""
MIDNIGHT = 1_710_028_800_000_000


@pytest.fixture(scope="module")
def by_hours(tmp_path_factory):
    """Return a table with one file per hour, and a file of 2020 that does not exist and so must be skipped."""
    schema = {"id": "long", "v": "timestamptz", "s": "struct<v: timestamptz>", "w": "timestamp", "d": "date"}
    t = IcebergTable.create(tmp_path_factory.mktemp("by-hours") / "t", schema, format_version=3)
    stamps = [(hour, MIDNIGHT + hour * 3_600_000_000) for hour in HOURS] + [(99, year(2020) * DAY)]
    files = [t.write_data([{"id": i, "v": v, "s": {"v": v}, "w": v, "d": v // DAY}]) for i, v in stamps]
    t.append(*files)
    Path(files[-1].path).unlink()
    return harness.open_table(str(t.store.directory)).snapshot()


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        # New York was at UTC-5 until 07:00 UTC, and at UTC-4 then
        ("v >= '2024-03-10'", range(6, 31, 3)),  # 05:00 UTC
        ("v < '2024-03-10' AND v > '2021-01-01'", range(-30, 4, 3)),
        ("NOT (v < '2024-03-10')", range(6, 31, 3)),
        ("v = TIMESTAMP '2024-03-10 14:00:00'", [18]),
        ("v IN ('2024-03-10 01:00:00', '2024-03-10 05:00:00')", [6, 9]),
        ("v NOT IN ('2024-03-10 01:00:00') AND v > '2021-01-01'", [hour for hour in HOURS if hour != 6]),
        ("v::DATE = DATE '2024-03-10'", range(6, 28, 3)),  # until 04:00 UTC of the next day
        ("v BETWEEN DATE '2024-03-10' AND DATE '2024-03-11'", range(6, 28, 3)),
        ("s.v >= '2024-03-10'", range(6, 31, 3)),
        ("v >= TIMESTAMPTZ '2024-03-10 05:00:00Z'", range(6, 31, 3)),
        ("w >= TIMESTAMPTZ '2024-03-10 05:00:00Z'", range(0, 31, 3)),  # 2024-03-10 00:00 there
        ("w = '2024-03-10'", [0]),
        ("d = DATE '2024-03-10'", range(0, 22, 3)),
    ],
)
def test_instants_are_filtered_in_the_time_zone_of_the_connection(by_hours, where, rows):
    with connect() as connection:
        connection.execute("SET TimeZone = 'America/New_York'")
        found = by_hours.to_duckdb(connection, columns=["id"], where=where)
        assert sorted(found.fetchall()) == [(hour,) for hour in rows]
        query = harness.sql(
            f"SELECT id FROM t WHERE {where} ORDER BY id LIMIT 4", {"t": by_hours}, connection=connection
        )
        assert query.fetchall() == [(hour,) for hour in [*rows][:4]]
        harness.detach(connection)


def test_days_beside_instants_skip_nothing_in_another_zone(make):
    """In New York 2024-03-10 begins at 05:00 UTC, which is not the beginning of a day in UTC."""
    t = make({"d": "date"})
    t.append(*(t.write_data([{"d": day}]) for day in (dt.date(2024, 3, 9), dt.date(2024, 3, 10))))
    snapshot = harness.open_table(str(t.store.directory)).snapshot()
    with connect() as connection:
        connection.execute("SET TimeZone = 'America/New_York'")
        found = snapshot.to_duckdb(connection, where="d = TIMESTAMPTZ '2024-03-10 05:00:00Z'")
        assert found.fetchall() == [(dt.date(2024, 3, 10),)]
        connection.execute("SET TimeZone = 'Asia/Tokyo'")
        found = snapshot.to_duckdb(connection, where="d <= TIMESTAMPTZ '2024-03-09 15:00:00Z'")
        assert len(found.fetchall()) == 2


def test_a_plan_for_utc_is_not_run_in_another_zone(by_hours):
    plan = by_hours.plan(where="v >= '2024-03-10'")
    with connect() as connection:
        connection.execute("SET TimeZone = 'America/New_York'")
        with pytest.raises(harness.RequestError, match="plan the filter for the connection"):
            relation(plan, connection)
