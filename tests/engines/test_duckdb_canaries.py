"""What harness takes for granted about DuckDB, checked on the version at hand (iceberg section 11; measured facts).

These tests read files with DuckDB alone. When a new DuckDB fails one, the code that the test names rests on something
that is no longer so, and must change before that version is supported.
"""

from __future__ import annotations

import datetime as dt
import math
import os
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.engines.duckdb import scans
from harness.engines.duckdb.instance import DuckDBFiles, connect
from harness.storage.stores import Storage

IS_2 = int(duckdb.__version__.split(".")[0]) >= 2


def read_parquet(paths: Sequence[str]) -> str:
    """The FROM item of local files, which need no connection."""
    return scans.read_parquet(DuckDBFiles(duckdb.default_connection(), Storage()).listed(paths))


@pytest.fixture
def connection():
    connection = connect()
    yield connection
    connection.close()


def write(path: Path, *, size: int | None = None, **columns: object) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=size, store_schema=False)
    return str(path)


# -- positions and files (branch.py, scans.py) -----------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("id >= 50000", range(50_000, 60_000)),
        ("id IN (0, 9999, 10000, 59999)", [0, 9999, 10_000, 59_999]),
        ("id % 20000 = 7", [7, 20_007, 40_007]),
        ("id BETWEEN 19998 AND 20001", range(19_998, 20_002)),
    ],
)
def test_positions_stay_physical_under_pushed_filters(tmp_path, connection, threads, where, expected):  # 11.1, T1, T2
    path = write(tmp_path / "f.parquet", size=10_000, id=pa.array(range(60_000), pa.int64()))
    assert pq.read_metadata(path).num_row_groups == 6
    connection.execute(f"SET threads = {threads}")
    found = connection.execute(f"SELECT id, file_row_number FROM {read_parquet([path])} WHERE {where}").fetchall()
    assert sorted(found) == [(i, i) for i in expected]


@pytest.mark.parametrize("threads", [1, 4])
def test_file_index_is_the_place_in_the_list(tmp_path, connection, threads):
    names = ["z", "a", "m", "b", "y"]
    paths = [write(tmp_path / f"{n}.parquet", n=pa.array([n] * 3000)) for n in names]
    connection.execute(f"SET threads = {threads}")
    query = f"SELECT DISTINCT n, file_index, count(*) FROM {read_parquet(paths)} GROUP BY ALL"
    assert sorted(connection.execute(query).fetchall()) == sorted((n, i, 3000) for i, n in enumerate(names))
    one = f"SELECT DISTINCT n FROM {read_parquet(paths)} WHERE file_index = 3"
    assert connection.execute(one).fetchall() == [("b",)]


def test_the_cache_of_footers_takes_a_file_for_the_one_that_it_replaced(tmp_path, connection):
    path = tmp_path / "f.parquet"
    found: dict[tuple[str, int], int] = {}
    for cached in ("false", "true"):
        connection.execute(f"SET parquet_metadata_cache = {cached}")
        for value in (1, 2):
            write(path, v=pa.array([value] * 3, pa.int64()))
            os.utime(path, (1_000_000_000, 1_000_000_000))  # as in one tick of a clock
            query = f"SELECT count(*) FROM {read_parquet([str(path)])} WHERE v = {value}"
            found[cached, value] = connection.execute(query).fetchall()[0][0]
    assert found == {("false", 1): 3, ("false", 2): 3, ("true", 1): 3, ("true", 2): 0}  # so it is never on


def test_file_index_is_kept_when_files_are_skipped(tmp_path, connection):
    paths = [write(tmp_path / f"{i}.parquet", v=pa.array([i], pa.int64())) for i in range(6)]
    query = f"SELECT v, file_index FROM {read_parquet(paths)} WHERE v >= 3"
    assert sorted(connection.execute(query).fetchall()) == [(3, 3), (4, 4), (5, 5)]


def test_a_join_on_file_index_gives_constants(tmp_path, connection):
    paths = [write(tmp_path / f"{i}.parquet", v=pa.array([i, i + 10], pa.int64())) for i in range(3)]
    connection.register("consts", pa.table({"i": pa.array([0, 1, 2], pa.uint64()), "c": ["x", "y", "z"]}))
    query = f"SELECT f.v, g.c FROM {read_parquet(paths)} AS f JOIN consts AS g ON g.i = f.file_index"
    expected = [(0, "x"), (1, "y"), (2, "z"), (10, "x"), (11, "y"), (12, "z")]
    assert sorted(connection.execute(query).fetchall()) == expected


def test_a_file_may_be_listed_twice(tmp_path, connection):
    path = write(tmp_path / "f.parquet", v=pa.array([1], pa.int64()))
    query = f"SELECT file_index, v FROM {read_parquet([path, path])}"
    assert sorted(connection.execute(query).fetchall()) == [(0, 1), (1, 1)]


@pytest.mark.parametrize("name", ["[a]", "*", "?", "[!a]", "{a,b}", "%20", "it's", "k=v", "**", "a b", "#x"])
def test_escaped_names_are_the_very_files(tmp_path, connection, name):  # 11.7
    path = write(tmp_path / name / f"{name}.parquet", v=[1])
    write(tmp_path / "a" / "a.parquet", v=[2])
    assert connection.execute(f"SELECT v FROM {read_parquet([path])}").fetchall() == [(1,)]


def test_directories_are_no_columns(tmp_path, connection):  # 11.8
    path = write(tmp_path / "v=2" / "w=3" / "f.parquet", v=[1])
    result = connection.execute(f"SELECT * FROM {read_parquet([path])}")
    assert [d[0] for d in result.description] == ["v"]
    assert result.fetchall() == [(1,)]


def test_virtual_columns_are_not_in_a_star(tmp_path, connection):
    path = write(tmp_path / "f.parquet", v=[1])
    assert [d[0] for d in connection.execute(f"SELECT * FROM {read_parquet([path])}").description] == ["v"]


def test_a_column_hides_a_virtual_one(tmp_path, connection):  # arrow_files.needs_arrow, delta E2
    path = write(tmp_path / "f.parquet", file_row_number=pa.array([70, 80], pa.int64()))
    found = connection.execute(f"SELECT file_row_number FROM {read_parquet([path])}").fetchall()
    assert sorted(found) == [(70,), (80,)]


@pytest.mark.parametrize("n", [3000, 250_000])
def test_a_positional_join_pairs_rows_in_physical_order(tmp_path, connection, n):  # branch.by_position
    path = write(tmp_path / "f.parquet", size=20_000, id=pa.array(range(n), pa.int64()))
    connection.register("flags", pa.table({"p": pa.array(range(n), pa.int64())}))
    joined = f"{read_parquet([path])} AS f POSITIONAL JOIN flags AS m"
    query = f"SELECT count(*) FROM {joined} WHERE m.p = f.id AND m.p = f.file_row_number"
    assert connection.execute(query).fetchall() == [(n,)]


def test_bits_count_from_the_left(connection):  # branch.by_bitmap, roaring.deleted_bits
    bits = pa.array([bytes([0b10100000])], pa.large_binary())
    connection.register("b", pa.table({"b": bits}))
    query = "SELECT list(get_bit(CAST(b AS BIT), CAST(i AS INTEGER)) ORDER BY i) FROM b, range(8) r(i)"
    assert connection.execute(query).fetchall() == [([1, 0, 1, 0, 0, 0, 0, 0],)]


# -- statistics (scans.SCAN_OPTIONS) ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("v > 3", [1]),
        ("v <> 3", [1]),
        ("v = 'NaN'::DOUBLE", [1]),
        ("v <= 3", [0, 2]),
        ("isnan(v)", [1]),
        ("NOT isnan(v)", [0, 2]),
    ],
)
def test_can_have_nan_keeps_row_groups_with_hidden_nan(tmp_path, connection, where, expected):  # delta F9
    path = write(tmp_path / "f.parquet", id=[0, 1, 2], v=[3.0, math.nan, 3.0])
    query = f"SELECT id FROM {read_parquet([path])} WHERE {where} ORDER BY id"
    assert [i for (i,) in connection.execute(query).fetchall()] == expected
    ((greatest,),) = connection.execute(f"SELECT max(v) FROM {read_parquet([path])}").fetchall()
    assert math.isnan(greatest)


def test_nan_equals_nan_and_the_zeros_are_equal(connection):  # 4.23
    query = "SELECT 'NaN'::DOUBLE = 'NaN'::DOUBLE, -0.0::DOUBLE = 0.0::DOUBLE, 'NaN'::DOUBLE > 'inf'::DOUBLE"
    assert connection.execute(query).fetchall() == [(True, True, True)]


# -- names (columns.exposed) -----------------------------------------------------------------------------------------


def test_the_second_of_two_names_equal_but_for_case_is_renamed(tmp_path, connection):  # 11.9
    path = write(tmp_path / "f.parquet", a=[1], A=[2], a_1=[3])
    result = connection.execute(f"SELECT * FROM {read_parquet([path])}")
    names = [d[0] for d in result.description]
    assert result.fetchall() == [(1, 2, 3)]
    assert names[0] == "a"
    assert len({n.lower() for n in names}) == 3
    quoted = ", ".join(f'"{n}"' for n in names)
    assert connection.execute(f"SELECT {quoted} FROM {read_parquet([path])}").fetchall() == [(1, 2, 3)]


def test_struct_fields_are_extracted_by_exact_name(tmp_path, connection):  # columns._nested
    path = write(tmp_path / "f.parquet", s=pa.array([{"x.y": 1, "q'": 2, 'd"': 3}]))
    parts = "struct_extract(s, 'x.y'), struct_extract(s, 'q'''), struct_extract(s, 'd\"')"
    query = f"SELECT {parts} FROM {read_parquet([path])}"
    assert connection.execute(query).fetchall() == [(1, 2, 3)]


@pytest.mark.parametrize("alias", ["a", "🦆", "a b"])
def test_nested_values_are_rebuilt_with_nulls_in_place(connection, alias):  # columns._nested
    query = f"""SELECT CASE WHEN l IS NULL THEN NULL ELSE list_transform(l, lambda x0:
        CASE WHEN x0 IS NULL THEN NULL ELSE struct_pack("{alias}" := struct_extract(x0, 'b')) END) END
        FROM (VALUES ([{{'b': 1}}, NULL]), ([]), (NULL)) t(l)"""
    assert connection.execute(query).fetchall() == [([{alias: 1}, None],), ([],), (None,)]


def test_maps_are_rebuilt_with_nulls_in_place(connection):
    query = """SELECT CASE WHEN m IS NULL THEN NULL ELSE map_from_entries(list_transform(map_entries(m),
        lambda x0: struct_pack(k := x0.key, v := x0.value + 1))) END
        FROM (VALUES (map {'a': 1, 'b': NULL}), (map {}), (NULL)) t(m)"""
    assert connection.execute(query).fetchall() == [({"a": 2, "b": None},), ({},), (None,)]


# -- types (columns.cast) -------------------------------------------------------------------------------------------


TYPES: list[tuple[pa.Array, str]] = [
    (pa.array([1], pa.int8()), "TINYINT"),
    (pa.array([1], pa.uint32()), "UINTEGER"),
    (pa.array([1], pa.date32()), "DATE"),
    (pa.array([1], pa.time64("us")), "TIME"),
    (pa.array([1], pa.timestamp("us")), "TIMESTAMP"),
    (pa.array([1], pa.timestamp("ms")), "TIMESTAMP"),
    (pa.array([1], pa.timestamp("us", "UTC")), "TIMESTAMP WITH TIME ZONE"),
    (pa.array([1], pa.timestamp("ns")), "TIMESTAMP_NS"),
    (pa.array(["x"]), "VARCHAR"),
    (pa.array([b"x"], pa.binary(1)), "BLOB"),
    (pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0123456789abcdef"], pa.binary(16))), "UUID"),
]


@pytest.mark.parametrize(("array", "expected"), TYPES, ids=[t[1] + " " + str(t[0].type) for t in TYPES])
def test_the_types_that_files_show(tmp_path, connection, array, expected):
    path = write(tmp_path / "f.parquet", v=array)
    assert connection.execute(f"SELECT typeof(v) FROM {read_parquet([path])}").fetchall() == [(expected,)]


def test_zoned_nanos(tmp_path, connection):  # needs_arrow: before 2.0 they are read as micros
    path = write(tmp_path / "f.parquet", v=pa.array([1001], pa.timestamp("ns", "UTC")))
    expected = ("TIMESTAMPTZ_NS", 1001) if IS_2 else ("TIMESTAMP WITH TIME ZONE", 1000)
    assert connection.execute(f"SELECT typeof(v), epoch_ns(v) FROM {read_parquet([path])}").fetchall() == [expected]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize("micros", [1_583_650_800_000_001, -62_135_596_800_000_000, -12_219_292_800_000_001, 10**17])
def test_at_time_zone_utc_is_exact(connection, zone, micros):  # 11.5, T21: ICU keeps to the proleptic calendar
    connection.execute(f"SET TimeZone = '{zone}'")
    query = f"""SELECT epoch_us(make_timestamp({micros}) AT TIME ZONE 'UTC'),
        epoch_us((make_timestamp({micros}) AT TIME ZONE 'UTC') AT TIME ZONE 'UTC')"""
    assert connection.execute(query).fetchall() == [(micros, micros)]


@pytest.mark.parametrize("year", [1, 1500, 1582, 3332])
def test_int96(tmp_path, connection, year):  # 11.5
    table = pa.table({"v": pa.array([dt.datetime(year, 1, 1, 1, 2, 3, 4)], pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "f.parquet", use_deprecated_int96_timestamps=True)
    query = f"SELECT typeof(v), v FROM {read_parquet([str(tmp_path / 'f.parquet')])}"
    assert connection.execute(query).fetchall() == [("TIMESTAMP", dt.datetime(year, 1, 1, 1, 2, 3, 4))]


def test_decode_refuses_bytes_that_are_no_text(connection):  # 6.11
    assert connection.execute("SELECT decode('\\xC3\\xBC\\x00'::BLOB)").fetchall() == [("ü\0",)]
    with pytest.raises(duckdb.Error):
        connection.execute("SELECT decode('\\xFF'::BLOB)").fetchall()


def test_a_cast_out_of_the_range_of_nanos_is_an_error(connection):  # 6.10
    with pytest.raises(duckdb.Error):
        connection.execute("SELECT CAST(TIMESTAMP '3000-01-01' AS TIMESTAMP_NS)").fetchall()


def test_anti_joins_know_null(connection):  # 4.26
    query = """SELECT a FROM (VALUES (1), (NULL), (2)) s(a)
        ANTI JOIN (VALUES (NULL), (2)) d(k) ON s.a IS NOT DISTINCT FROM d.k"""
    assert connection.execute(query).fetchall() == [(1,)]


# -- footers (footers.py) --------------------------------------------------------------------------------------------


def test_footers_of_many_files_in_one_call(tmp_path, connection):
    first = write(tmp_path / "[1].parquet", a=[1, 2])
    second = write(tmp_path / "b c.parquet", b=["x"])
    escaped = [first.replace("[", "[[]"), second]
    rows = connection.execute(f"SELECT file_name, num_rows FROM parquet_file_metadata({escaped})").fetchall()
    assert sorted(rows) == sorted([(first, 2), (second, 1)])
    names = connection.execute(
        f"SELECT file_name, name FROM parquet_schema({escaped}) WHERE num_children IS NULL"
    ).fetchall()
    assert sorted(names) == sorted([(first, "a"), (second, "b")])


def test_ids_come_with_the_footer(tmp_path, connection):
    schema = pa.schema([pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "7"}), pa.field("b", pa.int64())])
    pq.write_table(pa.table({"a": [1], "b": [2]}, schema=schema), tmp_path / "f.parquet")
    query = f"SELECT name, field_id FROM parquet_schema('{tmp_path / 'f.parquet'}') WHERE num_children IS NULL"
    assert connection.execute(query).fetchall() == [("a", 7), ("b", None)]


def test_arrow_tables_keep_row_values_and_types(connection):  # arrow_files.stack
    table = pa.table(
        {"i": pa.array([2**63 - 1], pa.int64()), "n": pa.array([-1], pa.timestamp("ns")), "b": [b"\0\xff"]}
    )
    connection.register("t", table)
    query = "SELECT i, epoch_ns(n), typeof(n), b FROM t"
    assert connection.execute(query).fetchall() == [(2**63 - 1, -1, "TIMESTAMP_NS", b"\0\xff")]
