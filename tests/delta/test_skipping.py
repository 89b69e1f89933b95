import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.metadata.delta import statistics
from harness.metadata.delta.actions import FILES_STATE
from harness.metadata.delta.checkpoint_statistics import FilesStatistics
from harness.metadata.delta.partition_values import partition_tuples
from harness.metadata.delta.scan import skip_files
from harness.metadata.delta.statistics import (
    FileStats,
    StatisticsBounds,
    StatisticsColumn,
    read_statistics,
    record_counts,
    statistics_columns,
)
from harness.metadata.filters import predicate as pred
from harness.metadata.filters.parse import parse_filter
from harness.metadata.filters.skipping import bound_array, may_match
from harness.metadata.model import schema as dt
from harness.metadata.plan.scan_plan import BY_PARTITION, BY_STATISTICS, KEPT

LONG = dt.IntegerType(64)
SCHEMA = dt.Schema(
    fields=(
        dt.Field(id=1, name="i", type=LONG),
        dt.Field(id=2, name="f", type=dt.FloatType(32)),
        dt.Field(id=3, name="d", type=dt.FloatType(64)),
        dt.Field(id=4, name="n", type=dt.DecimalType(20, 2)),
        dt.Field(id=5, name="day", type=dt.DateType()),
        dt.Field(id=6, name="ts", type=dt.TimestampType(utc=True)),
        dt.Field(id=7, name="ntz", type=dt.TimestampType()),
        dt.Field(id=8, name="s", type=dt.StringType()),
        dt.Field(id=9, name="b", type=dt.BooleanType()),
        dt.Field(id=10, name="bin", type=dt.BinaryType()),
        dt.Field(
            id=11, name="st", type=dt.StructType((dt.Field(id=12, name="x.y", type=LONG, physical_name="col-1"),))
        ),
        dt.Field(id=13, name="list", type=dt.ListType(dt.Field(id=14, name="element", type=LONG))),
        dt.Field(id=20, name="p", type=dt.StringType()),
        dt.Field(id=21, name="q", type=LONG, physical_name="col-q"),
    )
)
PARTITIONED = SCHEMA.fields[-2:]


@pytest.fixture(autouse=True, scope="module")
def _texts_together():
    """Parse all texts at once. By default, few texts are parsed one by one, like damaged ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "FEW_TEXTS", 0)
        yield


def files(*stats: Any, partitions: list[Any] | None = None, structs: pa.Array | None = None) -> pa.Table:
    """Return live files with these statistics (texts, or values to dump) and partition values."""
    size = len(stats)
    columns: dict[str, Any] = {f.name: pa.nulls(size, f.type) for f in FILES_STATE}
    columns |= {name: [f"f{i}" for i in range(size)] for name in ("path", "key")}
    columns["size"] = [1] * size
    columns["stats"] = [x if x is None or isinstance(x, str) else json.dumps(x) for x in stats]
    columns["partition_values"] = partitions if partitions is not None else [[]] * size
    table = pa.table(columns, schema=FILES_STATE)
    return table if structs is None else table.append_column("stats_parsed", structs)


def stats(
    column: str, low: Any, high: Any, *, nulls: int | None = 0, rows: int | None = 10, **more: Any
) -> dict[str, Any]:
    return {
        "numRecords": rows,
        "minValues": {column: low},
        "maxValues": {column: high},
        "nullCount": {column: nulls},
        **more,
    }


def decisions(table: pa.Table, where: str) -> list[int]:
    tuples = partition_tuples(table, PARTITIONED)
    return skip_files(FilesStatistics(table, None, "t"), tuples, SCHEMA, parse_filter(where, SCHEMA).predicate).tolist()


def is_kept(recorded: Any, where: str) -> bool:
    (decision,) = decisions(files(recorded), where)
    return decision == KEPT


def only(column: str, value: Any) -> dict[str, Any]:
    return stats(column, value, value)


def nested(name: str) -> dict[str, Any]:
    return stats("st", {name: 1}, {name: 3}) | {"nullCount": {"st": {name: 0}}}


def decimals(low: str, high: str) -> str:
    return f'{{"numRecords": 1, "minValues": {{"n": {low}}}, "maxValues": {{"n": {high}}}, "nullCount": {{"n": 0}}}}'


PREFIX = "abcdefghijklmnopqrstuvwxyz012345"  # 32 characters
T123, T1850, T1970 = "2024-01-01T00:00:00.123", "1850-01-01T00:00:00.000Z", "1970-01-01T00:00:00Z"


def match_cases(recorded: Any, excluding: str = "", matching: str = "") -> list[tuple[Any, str, bool]]:
    """Return cases of filters that one file's statistics rule out, and of filters that they do not rule out."""
    return [
        (recorded, where, matches)
        for matches, text in ((False, excluding), (True, matching))
        for where in text.split("; ")
        if where
    ]


CASES = [
    # F2, F3
    *(
        (each, "i > 100", True)
        for each in (
            None,
            "",
            "{",
            "[]",
            "null",
            {},
            stats("other", 1, 9),
            stats("i", 1, 9, nulls=None),
            stats("i", 1, 9, rows=None),
            stats("i", 1, 9, rows=-1),
            stats("i", 1, 9, nulls=11),
            stats("i", 1, 9, nulls="0"),
            stats("i", "1", "9"),
            stats("i", 1.5, 9.5),
            stats("i", None, None, nulls=9),
        )
    ),
    # all rows are null, and there are bounds: neither is trusted
    *match_cases(stats("i", 1, 9, nulls=10), matching="i = 5; i IS NOT NULL; i IS NULL; i > 100"),
    *match_cases(stats("s", "a", "b", nulls=10), matching="s = 'a'; s IS NOT NULL"),
    (stats("i", 1, 9), "i > 100", False),
    (stats("i", None, None, nulls=10), "i > 100", False),
    *match_cases({"numRecords": 10, "nullCount": {"i": 10}}, "i = 5 OR i <> 5; i IS NOT NULL", "i IS NULL"),
    ({"numRecords": 10, "nullCount": {"i": 3}, "tightBounds": False}, "i IS NULL", True),
    # F4
    *match_cases(
        stats("i", 1, 9),
        "i = 10; i < 1; i >= 10; i IN (0, 10); NOT (i < 10); i > 100 AND s = 'x'; i + 1 > 100",
        "i = 9; i <= 1; i IN (0, 5); i > 100 OR s = 'x'; i * 2 > 100",
    ),
    (only("i", 7), "i <> 7", False),
    (stats("i", 7, 8), "i <> 7", True),
    (stats("i", 9, 1), "i = 5", True),
    (only("i", 2**53 + 1), f"i = {2**53}", False),
    (only("i", 2**53 + 1), f"i = {2**53 + 1}", True),
    (stats("i", 2**70, 2**71), "i = 5", True),
    # F5
    (stats("b", False, False), "b = true", True),
    (stats("bin", "a", "b"), "bin = 'z'::BLOB", True),
    ({"numRecords": 10, "nullCount": {"b": 10}}, "b = true", False),
    (nested("col-1"), 'st."x.y" > 3', False),
    (nested("x.y"), 'st."x.y" > 3', True),
    # F6
    (stats("s", "a", PREFIX), "s = 'b'", False),
    (stats("s", "a", PREFIX + "\x7f"), f"s = '{PREFIX}\U0010ffff'", True),
    (stats("s", "a", PREFIX[:-1]), f"s = '{PREFIX}'", False),
    (stats("s", "a", "\U0010ffff" * 32), "s = 'z'", True),
    (stats("s", "a", "\ud7ff" * 32), "s > '\U0010ffff'", False),
    (stats("s", PREFIX, "z"), f"s = '{PREFIX[:31]}'", False),
    (stats("s", PREFIX, "z"), f"s = '{PREFIX}0'", True),
    *match_cases(stats("s", "b", "c"), "s LIKE 'a%'; s LIKE 'd%'", "s LIKE 'bcd%'"),
    (only("s", "\uffff"), "s < '\U00010000'", True),  # not so in UTF-16
    # F7: cut to milliseconds
    (only("ts", T123 + "Z"), "ts > TIMESTAMPTZ '2024-01-01 00:00:00.124Z'", False),
    (only("ts", "2024-01-01T01:00:00.000+01:00"), "ts > TIMESTAMPTZ '2024-01-01 00:30:00Z'", False),
    (only("ts", "2024-01-01T01:00:00.000-01:00"), "ts > TIMESTAMPTZ '2024-01-01 00:30:00Z'", True),
    (only("ts", "2024-01-01 00:00:00"), "ts > TIMESTAMPTZ '2025-01-01 00:00:00Z'", True),
    # before 1901: offsets cut to minutes, and days in the old calendar (T20)
    (only("ts", T1850), "ts = TIMESTAMPTZ '1901-01-01 00:00:01Z'", False),
    (only("ts", "1901-01-01T00:00:00.000Z"), "ts < TIMESTAMPTZ '1900-12-31 23:59:59Z'", False),
    (only("ntz", "0100-01-01T00:00:00"), "ntz = TIMESTAMP '0099-12-30 00:00:00'", True),
    *match_cases(only("day", "0100-01-01"), "day > DATE '1901-01-01'", "day = DATE '0099-12-30'"),
    (only("day", "0099-12-30"), "day = DATE '0100-01-01'", True),
    (only("day", "1900-12-31"), "day = DATE '1582-10-04'", True),
    (only("day", "1901-01-01"), "day < DATE '1901-01-01'", False),
    (stats("ts", "1960-01-01T00:00:00.123Z", T1970), "ts = TIMESTAMPTZ '1960-01-01 00:00:00.122500Z'", True),
    (only("ntz", T123), "ntz = TIMESTAMP '2024-01-01 00:00:00.125'", False),
    (only("ntz", T123 + "Z"), "ntz = TIMESTAMP '2025-01-01 00:00:00'", True),
    (only("ntz", "2024-01-01"), "ntz = TIMESTAMP '2025-01-01 00:00:00'", False),  # widened from date (T24)
    *match_cases(stats("day", "2024-01-01", "2024-02-01"), "day = DATE '2024-02-02'", "day = DATE '2024-02-01'"),
    (stats("day", "+12024-01-01", "+12024-02-01"), "day = DATE '2024-02-02'", True),
    (stats("day", 19723, 19754), "day = DATE '2030-01-01'", True),
    # F8
    *match_cases(stats("d", 1.0, 2.0), "d < 1; d <= 0.5; d = 2.5", "d > 5; d >= 5; d = 'NaN'::DOUBLE; NOT (d < 5)"),
    (stats("d", "NaN", "Infinity"), "d < 0", True),
    ('{"numRecords": 1, "minValues": {"d": NaN}, "maxValues": {"d": Infinity}, "nullCount": {"d": 0}}', "d < 0", True),
    (stats("d", 1, 2), "d = 3", False),
    (only("f", 3.5), "f < 3.5::FLOAT", False),
    (only("f", 3.4), "f = 3.5::FLOAT", False),
    (only("d", 3.4), "d = 3.4000000953674316::DOUBLE", True),  # widened from float (T24)
    (only("d", 3.4), "d = 3.5", False),
    # decimals, with the error that doubles may have
    *match_cases(decimals("12345678.01", "12345678.01"), "n = 12345678.02; n <> 12345678.01"),
    (decimals("123456789012345678.01", "123456789012345678.01"), "n = 123456789012345678.02", True),
    (decimals("123456789012345678.01", "123456789012345678.01"), "n = 123456789012360000.00", False),
    (decimals("900719925474099.4", "900719925474099.4"), "n < 900719925474000", False),
    (decimals("1.0000000000000002", "1.0000000000000002"), "n <= 1", True),
    (decimals("92233720368547758.07", "92233720368547758.07"), "n > 99999999999999999", True),
    (decimals("1E40", "1E999999999"), "n = 1", True),
    # integers are exact, unless they were written as another type
    (only("i", 1e18), "i = 5", True),
    ('{"numRecords": 1, "minValues": {"i": 9.007199254740993E15}, "nullCount": {"i": 0}}', "i = 5", True),
    *match_cases(decimals("1E+3", "1000"), "n > 1000.00", "n = 1000.00"),
]


@pytest.mark.parametrize(("recorded", "where", "expected"), CASES)
def test_statistics_decide(recorded, where, expected):
    """A text that is not JSON makes all texts be parsed one by one, with the same results."""
    assert is_kept(recorded, where) is expected
    first, second = decisions(files(recorded, '{"numRecords": 10, "minValues": {"i": tru'), where)
    assert (first == KEPT) is expected
    assert second == KEPT


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param('{"numRecords":12,"minValues":{}}', 12, id="first"),
        pytest.param('{"minValues":{"numRecords":7},"numRecords":12}', 12, id="after a column of that name"),
        pytest.param('{"minValues":{"numRecords":7}}', -1, id="only a column of that name"),
        pytest.param('{"numRecords":0}', 0, id="none"),
        pytest.param('{"numRecords":0', -1, id="none, damaged"),
        pytest.param('{"numRecords":-3}', -1, id="negative"),
        pytest.param('{"numRecords":1.0}', -1, id="no whole number"),
        pytest.param('{"numRecords":"1"}', -1, id="a text"),
        pytest.param(None, -1, id="no statistics"),
    ],
)
@pytest.mark.parametrize("few_texts", [0, 16])
def test_record_counts(monkeypatch, text, count, few_texts):
    monkeypatch.setattr(statistics, "FEW_TEXTS", few_texts)
    assert record_counts(files(text, '{"numRecords":5}')).tolist() == [count, 5]


def struct(low: Any, high: Any, type_: pa.DataType, *, nulls: int | None = 0, rows: int | None = 10) -> pa.Array:
    value = {"numRecords": rows, "minValues": {"c": low}, "maxValues": {"c": high}, "nullCount": {"c": nulls}}
    bounds = pa.struct([("c", type_)])
    return pa.array(
        [value],
        pa.struct(
            [
                ("numRecords", pa.int64()),
                ("minValues", bounds),
                ("maxValues", bounds),
                ("nullCount", pa.struct([("c", pa.int64())])),
            ]
        ),
    )


def row_bounds(structs: pa.Array, type_: Any, text: str | None = None) -> tuple[Any, Any]:
    column = dt.Field(id=1, name="c", type=type_)
    table = files(text, structs=structs)
    found = read_statistics(table, statistics_columns(dt.Schema(fields=(column,)), [1])).bounds(column)
    assert found is not None
    return found.lower[0].as_py(), found.upper[0].as_py()


EPOCH_2024 = 1704067200 * 10**6


@pytest.mark.parametrize(
    ("structs", "type_", "bounds"),
    [
        pytest.param(struct(1, 5, pa.int32()), LONG, (1, 5), id="widened integer"),
        (struct(1, 5, pa.int32()), dt.DecimalType(12, 2), (Decimal(1), Decimal(5))),
        pytest.param(struct(1, 5, pa.int32()), dt.FloatType(64), (1.0, 5.0), id="integer to double"),
        pytest.param(struct("a", "b", pa.string()), LONG, (None, None), id="another type"),
        pytest.param(struct(1, 2, pa.int64()), dt.StringType(), (None, None), id="no text"),
        pytest.param(struct(1.5, 2.5, pa.float64()), dt.FloatType(32), (1.5, 2.5), id="float"),
        pytest.param(struct(math.nan, math.inf, pa.float64()), dt.FloatType(64), (None, None), id="no numbers"),
        pytest.param(
            struct(Decimal("1.10"), Decimal("2.20"), pa.decimal128(5, 2)),
            dt.DecimalType(7, 3),
            (Decimal("1.1"), Decimal("2.2")),
            id="decimal of another scale",
        ),
        pytest.param(
            struct(datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC), pa.timestamp("ms", "UTC")),
            dt.TimestampType(utc=True),
            (EPOCH_2024, EPOCH_2024 + 1000),
            id="instant, cut to milliseconds",
        ),
        (struct(-(2**62), 2**62, pa.timestamp("ms")), dt.TimestampType(), (None, None)),  # beyond 64 bits
        (struct(-1, 2**62 + 1, pa.timestamp("ns")), dt.TimestampType(), (-1001, 2**62 // 1000 + 1000)),
        (struct(19723, 19723, pa.date32()), dt.TimestampType(), (EPOCH_2024, EPOCH_2024 + 1000)),
        pytest.param(struct(19723, 19724, pa.date32()), dt.DateType(), (19723, 19724), id="date"),
        pytest.param(struct(19723, 19724, pa.date32()), LONG, (None, None), id="date is no number"),
        pytest.param(struct(1, 5, pa.int64(), nulls=None), LONG, (None, None), id="no null count"),
        pytest.param(struct(1, 5, pa.int64(), rows=None), LONG, (None, None), id="no row count"),
    ],
)
def test_struct_statistics(structs, type_, bounds):
    assert row_bounds(structs, type_) == bounds


@pytest.mark.parametrize(
    ("value", "type_", "bounds"),
    [
        pytest.param(3.4, dt.FloatType(32), (3.4000000953674316,) * 2, id="shortest text of a float (F8)"),
        pytest.param(1e300, dt.FloatType(32), (None, None), id="no float"),
        pytest.param(3.4, dt.FloatType(64), (3.3999998569488525, 3.4000003337860107), id="widened from float (T24)"),
        pytest.param(1e300, dt.FloatType(64), (1e300, 1e300), id="double"),
        pytest.param(2.5, dt.FloatType(64), (2.5, 2.5), id="exact in both widths"),
        pytest.param(300, dt.IntegerType(8), (None, None), id="out of range"),
        pytest.param(-(2**63), LONG, (-(2**63),) * 2, id="smallest long"),
        pytest.param(True, LONG, (None, None), id="no number"),
    ],
)
@pytest.mark.parametrize("neighbor", ["{}", "{damaged"])
def test_bounds_in_text(value, type_, bounds, neighbor):
    column = dt.Field(id=1, name="c", type=type_)
    table = files(stats("c", value, value), neighbor)
    found = read_statistics(table, statistics_columns(dt.Schema(fields=(column,)), [1])).bounds(column)
    assert found is not None
    assert (found.lower[0].as_py(), found.upper[0].as_py()) == bounds


def test_text_has_priority_over_struct_unless_it_is_damaged():
    structs = struct(1, 5, pa.int64())
    assert row_bounds(structs, LONG, json.dumps(stats("c", 2, 3))) == (2, 3)
    assert row_bounds(structs, LONG, "{broken") == (1, 5)
    assert row_bounds(structs, LONG, "{}") == (None, None)


def test_struct_that_lags_behind_the_schema():
    structs = pa.array([{"numRecords": 3, "minValues": {"old": 1}}])
    assert row_bounds(structs, LONG) == (None, None)
    assert record_counts(files(None, structs=structs)).tolist() == [3]


def test_partition_tuples_do_not_depend_on_where_chunks_end():
    """Among names that differ in case, the exact one has priority, then the last one of a file (V8)."""
    maps = [
        [("P", "x"), ("P", "a")],
        [("p", "b"), ("P", "x")],
        [("P", "a")],
        [("P", "c"), ("p", "b")],
        [],
        [("p", "a")],
    ]
    whole = files(*[None] * len(maps), partitions=maps)
    for ends in ([6], [1, 6], [3, 4, 6], [1, 2, 3, 4, 5, 6]):
        chunks = [whole.slice(start, end - start) for start, end in pairwise([0, *ends])]
        found = partition_tuples(pa.concat_tables(chunks), PARTITIONED[:1])
        assert found.indexes.tolist() == [0, 1, 0, 1, 2, 0]
        assert found.tuples == ({20: "a"}, {20: "b"}, {20: None})


def test_floats_are_compared_by_bits():
    column = dt.Field(id=1, name="x", type=dt.FloatType(64))
    table = files(*[None] * 5, partitions=[[("x", text)] for text in ("0.0", "-0.0", "NaN", "nan", "0")])
    assert partition_tuples(table, (column,)).indexes.tolist() == [0, 1, 2, 2, 0]


LISTED = ", ".join(f"'{number}'" for number in range(300))


@pytest.mark.parametrize(
    ("where", "value", "decision"),
    [
        # The file has values of i from 1 to 9.
        pytest.param("p = 'a'", "a", KEPT, id="true"),
        pytest.param("p = 'a'", "b", BY_PARTITION, id="false"),
        pytest.param("p = 'a'", None, BY_PARTITION, id="unknown keeps no row"),
        pytest.param("i > 9", "a", BY_STATISTICS, id="another column"),
        pytest.param("p = 'a' AND i > 9", "a", BY_STATISTICS, id="and, true"),
        pytest.param("p = 'a' AND i > 9", "b", BY_PARTITION, id="and, false"),
        pytest.param("p = 'a' OR i > 9", "a", KEPT, id="or, true"),
        pytest.param("p = 'a' OR i > 9", "b", BY_STATISTICS, id="or, false"),
        pytest.param("p = 'a' OR p = 'c'", "b", BY_PARTITION, id="or, all false"),
        pytest.param("p = 'a' AND upper(s) = 'X'", "a", KEPT, id="undecided"),
        pytest.param("NULL OR p = 'a' AND NULL", "a", BY_PARTITION, id="unknown"),
        pytest.param("(p = 'a' AND i > 9) OR p IS NULL", None, KEPT, id="nested"),
        pytest.param(f"p IN ({LISTED})", "299", KEPT, id="long list"),
        pytest.param(f"p IN ({LISTED})", "300", BY_PARTITION, id="not in long list"),
        pytest.param(f"p NOT IN ({LISTED})", "299", BY_PARTITION, id="not in"),
        pytest.param("p <> 'a long value of partition p'", "a long value of partition p", BY_PARTITION, id="exact"),
        pytest.param("p NOT LIKE 'ab%'", "abc", BY_PARTITION, id="not like"),
    ],
)
def test_partition_values_and_statistics_decide(where, value, decision):
    partition = [] if value is None else [("p", value)]
    assert decisions(files(stats("i", 1, 9), partitions=[partition]), where) == [decision]


NUMBERS = st.one_of(st.none(), st.integers(-3, 3))
TEXTS = st.one_of(st.none(), st.sampled_from(["", "a", "ab", "b", "\U0010ffff", "a" * 20, "a" * 31 + "b"]))
OPS = st.sampled_from(list(pred.Op))


@st.composite
def file_stats(draw: st.DrawFn) -> FileStats:
    size = draw(st.integers(1, 6))

    def column(values: Any) -> list[Any]:
        return draw(st.lists(values, min_size=size, max_size=size))

    rows = column(st.one_of(st.none(), st.integers(0, 3)))
    columns = {}
    for number, values in ((1, NUMBERS), (8, TEXTS), (3, st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5])))):
        nulls = [None if n is None or r is None or n > r else n for n, r in zip(column(NUMBERS), rows, strict=True)]
        nulls = [None if n is not None and n < 0 else n for n in nulls]
        type_ = next(f.type for f in SCHEMA.fields if f.id == number)
        bounds = [bound_array(column(values), type_) for _ in range(2)]
        columns[number] = StatisticsBounds(*bounds, pa.array(nulls, pa.int64()))
    return FileStats(pa.array(rows, pa.int64()), columns)


I_, S_, D_ = SCHEMA.fields[0], SCHEMA.fields[7], SCHEMA.fields[2]
LEAVES = st.one_of(
    st.builds(pred.Comparison, st.just(I_), OPS, st.none() | st.integers(-4, 4)),
    st.builds(pred.Comparison, st.just(S_), OPS, TEXTS.filter(lambda v: v is not None)),
    st.builds(pred.Comparison, st.just(D_), OPS, st.sampled_from([0.0, 1.5, math.nan])),
    st.builds(pred.In, st.just(I_), st.lists(st.integers(-4, 4), min_size=1, max_size=3).map(tuple), st.booleans()),
    st.builds(pred.IsNull, st.sampled_from([I_, S_, D_]), st.booleans()),
    st.builds(pred.StartsWith, st.just(S_), st.sampled_from(["", "a", "ab", "b"]), st.booleans()),
    st.builds(pred.Constant, st.sampled_from([True, False, None])),
    st.just(pred.Undecided()),
)
PREDICATES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(tuple).flatmap(lambda p: st.sampled_from([pred.And(p), pred.Or(p)]))
    ),
)


@given(file_stats(), PREDICATES)
def test_many_files_at_once(statistics, predicate):
    def file_statistics_at(place: int) -> FileStats:
        columns = {
            id_: StatisticsBounds(each.lower[place:][:1], each.upper[place:][:1], each.nulls[place:][:1])
            for id_, each in statistics.columns.items()
        }
        return FileStats(statistics.rows[place:][:1], columns)

    size = len(statistics.rows)
    expected = [may_match(predicate, file_statistics_at(place).bounds, 1)[0] for place in range(size)]
    assert may_match(predicate, statistics.bounds, size).tolist() == expected


@pytest.mark.parametrize(("rows", "few_texts"), [(1, 0), (2, 0), (3, 0), (100, 0), (100, 16)])
def test_texts_are_parsed_in_slices_with_the_same_values(monkeypatch, rows, few_texts):
    monkeypatch.setattr(statistics, "FEW_TEXTS", few_texts)
    monkeypatch.setattr(statistics, "SLICE_ROWS", rows)
    texts = [
        '{"numRecords": 3,\n"minValues": {"id": 1}, "maxValues": {"id": 9}, "nullCount": {"id": 0}}',
        None,
        '{"numRecords": 4, "minValues": {"id": 2}',  # cut
        '{"numRecords": 5, "minValues": {"id": 7}, "nullCount": {"id": 5}}',
        "[]",
    ]
    leaf = StatisticsColumn(dt.Field(id=1, name="id", type=dt.IntegerType(64)), ("id",))
    found = read_statistics(pa.table({"path": list("abcde"), "stats": pa.array(texts, pa.string())}), [leaf])
    assert found.rows.to_pylist() == [3, None, None, 5, None]
    bounds = found.columns[1]
    assert bounds.lower.to_pylist() == [1, None, None, 7, None]
    assert bounds.upper.to_pylist() == [9, None, None, None, None]
    assert bounds.nulls.to_pylist() == [0, None, None, 5, None]
