"""Every type in every physical form, through files of every format, on DuckDB (iceberg section 6)."""

from __future__ import annotations

import datetime as dt
import math
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from on_spark import on_duckdb_alone
from reading import arrow, bits, column, rows

import harness
from harness.engines.duckdb.instance import connect
from harness.engines.registry import duckdb_engine
from harness.testing.writing.iceberg.builder import IcebergTable

UTC = dt.UTC
POINT = struct.pack("<BIdd", 1, 1, 1.0, -2.0)
POINT_Z = struct.pack("<BIddd", 1, 1001, 1.0, -2.0, 3.0)
VARIANT = {"metadata": b"\x01\x00\x00", "value": b"\x0c\x2a"}  # the byte 42


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., IcebergTable]:
    return lambda schema, **more: IcebergTable.create(tmp_path / "t", schema, **{"format_version": 3, **more})


def year(y: int) -> int:
    """Days from 1970-01-01 to the first of January of a year of the proleptic Gregorian calendar."""
    before = y - 1
    return before * 365 + before // 4 - before // 100 + before // 400 - 719162


DAY = 86_400_000_000
FAR_DAYS = [year(1), year(1) - 1, year(-4712), year(1582) + 286, year(9999) + 364, year(10000), year(5_000_000)]
FAR_MICROS = [year(y) * DAY + 1 for y in (-4712, 0, 1, 1582, 1677, 2262, 3332, 9999, 10000, 200_000)] + [-1, 0]

VALUES: dict[str, tuple[list[Any], list[Any]]] = {
    "boolean": ([True, False], [True, False]),
    "int": ([0, -(2**31), 2**31 - 1], [0, -(2**31), 2**31 - 1]),
    "long": ([0, -(2**63), 2**63 - 1, 2**53 + 1], [0, -(2**63), 2**63 - 1, 2**53 + 1]),
    "decimal(1, 0)": (["9", "-9"], [Decimal(9), Decimal(-9)]),
    "decimal(9, 2)": (["-0.01", "9999999.99"], [Decimal("-0.01"), Decimal("9999999.99")]),
    "decimal(18, 18)": (["-0.999999999999999999"], [Decimal("-0.999999999999999999")]),
    "decimal(38, 0)": (["9" * 38, "-" + "9" * 38], [Decimal("9" * 38), Decimal("-" + "9" * 38)]),
    "date": (FAR_DAYS, FAR_DAYS),
    "time": ([0, 86_399_999_999], [0, 86_399_999_999]),
    "timestamp": (FAR_MICROS, FAR_MICROS),
    "timestamptz": (FAR_MICROS, FAR_MICROS),
    "timestamp_ns": ([-1, 0, 2**63 - 2**30, -(2**62) - 1], [-1, 0, 2**63 - 2**30, -(2**62) - 1]),
    "timestamptz_ns": ([-1, 0, 2**63 - 2**30, -(2**62) - 1], [-1, 0, 2**63 - 2**30, -(2**62) - 1]),
    "string": (["", "a\0b", "ü🦆", "NULL", "\\x41"], ["", "a\0b", "ü🦆", "NULL", "\\x41"]),
    "uuid": (
        [str(uuid.UUID(int=2**127 + 5)), str(uuid.UUID(int=0)), str(uuid.UUID(int=2**128 - 1))],
        [uuid.UUID(int=2**127 + 5), uuid.UUID(int=0), uuid.UUID(int=2**128 - 1)],
    ),
    "fixed[3]": ([b"\0\0\0", b"\xff\\x"], [b"\0\0\0", b"\xff\\x"]),
    "binary": ([b"", b"\0", b"\xff\xfe'\\"], [b"", b"\0", b"\xff\xfe'\\"]),
    "geometry": ([POINT, POINT_Z], [POINT, POINT_Z]),
    "geography": ([POINT], [POINT]),
}
ORC_YEARS = {"timestamp", "timestamptz"}


@pytest.mark.parametrize("format", ["parquet", "avro", "orc"])
def test_values_come_back_as_written(make, format):
    # ORC timestamps outside 1677 to 2262 are refused, see test_orc_years.
    types = [type_ for type_ in VALUES if not (format == "orc" and type_ in ORC_YEARS)]
    t = make({"id": "long", **{type_: type_ for type_ in types}})
    count = max(len(VALUES[type_][0]) for type_ in types) + 1
    given, expected = (
        [{type_: VALUES[type_][side][i] for type_ in types if i < len(VALUES[type_][side])} for i in range(count)]
        for side in (0, 1)
    )
    t.append(t.write_data([{"id": i, **row} for i, row in enumerate(given)], format=format))
    assert rows(t) == sorted(((i, *map(row.get, types)) for i, row in enumerate(expected)), key=repr)
    assert rows(t, where=" AND ".join(f'"{type_}" IS NULL' for type_ in types), columns=["id"]) == [(count - 1,)]


@pytest.mark.parametrize("format", ["parquet", "avro"])
def test_values_inside_lists_structs_and_maps(make, format):
    near = {
        type_: [v for v in given if not isinstance(v, int) or isinstance(v, bool) or abs(v) < 700_000][:2]
        for type_, (given, _) in VALUES.items()
        if type_ not in ("timestamp_ns", "timestamptz_ns")
    }
    nested = {"l": "list<{}>", "s": "struct<x: {}>", "m": "map<int, {}>"}
    shapes = {f"{kind} {type_}": shape.format(type_) for type_ in near for kind, shape in nested.items()}
    t = make({"id": "long", **{type_: type_ for type_ in near}, **shapes})
    rest = [{"id": i, **{type_: given[i] for type_, given in near.items() if i < len(given)}} for i in (0, 1)]
    for type_, given in near.items():
        rest[0][f"l {type_}"] = [*given, None]
        rest[0][f"s {type_}"] = {"x": given[0]}
        rest[0][f"m {type_}"] = {1: given[0], 2: None}
    t.append(t.write_data(rest, format=format))
    first, second = arrow(t).sort_by("id").to_pylist()
    for type_, given in near.items():
        plain = [first[type_], second[type_]][: len(given)]
        assert first[f"l {type_}"] == [*plain, None], type_
        assert first[f"s {type_}"] == {"x": plain[0]}, type_
        assert first[f"m {type_}"] == [(1, plain[0]), (2, None)], type_


@pytest.mark.parametrize("type_", ["timestamp_ns", "timestamptz_ns"])
@pytest.mark.parametrize("format", ["parquet", "avro", "orc"])
def test_nanos_inside_lists_and_structs(make, type_, format):
    t = make({"l": f"list<{type_}>", "s": f"struct<x: {type_}>"})
    t.append(t.write_data([{"l": [-1, None, 2**62], "s": {"x": -1001}}], format=format))
    found = harness.open_table(str(t.store.directory)).snapshot().to_arrow()
    inner = (found["l"].combine_chunks().values, found["s"].combine_chunks().field("x"))
    assert [a.view(pa.int64()).to_pylist() for a in inner] == [[-1, None, 2**62], [-1001]]


ARROW_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(9, 2)": pa.decimal128(9, 2),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
    "string": pa.string(),
    "uuid": pa.uuid(),
    "fixed[3]": pa.binary(3),
    "binary": pa.binary(),
    "geometry": pa.binary(),
    "variant": pa.string(),
    "unknown": pa.int32(),
    "list<int>": pa.list_(pa.field("element", pa.int32())),
    "map<string, uuid>": pa.map_(pa.string(), pa.uuid()),
    "struct<a: boolean, b: fixed[2]>": pa.struct([("a", pa.bool_()), ("b", pa.binary(2))]),
}


@pytest.mark.parametrize("filled", ["rows", "no rows"])
def test_the_arrow_types_of_columns(make, filled):
    t = make({f"c{i}": type_ for i, type_ in enumerate(ARROW_TYPES)})
    if filled == "rows":
        t.append(t.write_data([{}]))
    assert [f.type for f in arrow(t).schema] == list(ARROW_TYPES.values())


# -- floats (6.4) -----------------------------------------------------------------------------------------------------

SPECIAL = [math.nan, -0.0, 0.0, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 0.1]


@pytest.mark.parametrize("format", ["parquet", "avro", "orc"])
def test_doubles_bit_by_bit(make, format):
    t = make({"id": "long", "v": "double"})
    t.append(t.write_data([{"id": i, "v": v} for i, v in enumerate(SPECIAL)], format=format))
    got = column(t, "v")
    assert math.isnan(got[0])
    assert [bits(v) for v in got[1:]] == [bits(v) for v in SPECIAL[1:]]


@pytest.mark.parametrize("format", ["parquet", "avro", "orc"])
def test_floats_become_doubles_exactly(make, format):  # 5.12, 6.4
    given = [math.nan, -0.0, math.inf, 1.401298464324817e-45, 3.4028234663852886e38, 0.10000000149011612]
    t = make({"id": "long", "v": "float"})
    t.append(t.write_data([{"id": i, "v": v} for i, v in enumerate(given)], format=format))
    t.widen_column("v", "double")
    got = column(t, "v")
    assert math.isnan(got[0])
    assert [bits(v) for v in got[1:]] == [bits(v) for v in given[1:]]


NAN_FILTERS = {
    "v > 3": {1, 5},
    "v >= 3": {0, 1, 2, 3, 5},
    "v <> 3": {1, 4, 5},
    "v = 'NaN'::DOUBLE": {1, 5},
    "isnan(v)": {1, 5},
    "v <= 3": {0, 2, 3, 4},
    "v < 3": {4},
    "NOT v < 3": {0, 1, 2, 3, 5},
    "v = 3": {0, 2, 3},
    "v IN (3, 'NaN'::DOUBLE)": {0, 1, 2, 3, 5},
    "v BETWEEN 3 AND 4": {0, 2, 3},
    "v IS NOT NULL": {0, 1, 2, 3, 4, 5},
}


@pytest.mark.parametrize("type_", ["double", "float"])
@pytest.mark.parametrize("statistics", ["all", "no counts of NaN", "none"])
def test_nan_is_the_greatest_and_survives_statistics(make, type_, statistics):  # 3.21, T15
    t = make({"id": "long", "v": type_})
    hidden = t.write_data([{"id": 0, "v": 3.0}, {"id": 1, "v": math.nan}, {"id": 2, "v": 3.0}])  # bounds [3, 3]
    files = [
        hidden,
        t.write_data([{"id": 3, "v": 3.0}]),
        t.write_data([{"id": 4, "v": -1.0}, {"id": 6, "v": None}]),
        t.write_data([{"id": 5, "v": math.nan}]),
    ]
    for f in files:
        if statistics != "all":
            f.data_file["nan_value_counts"] = None
        if statistics == "none":
            f.data_file["lower_bounds"] = f.data_file["upper_bounds"] = None
    t.append(*files)
    for where, ids in NAN_FILTERS.items():
        typed = where.replace("DOUBLE", type_.upper())
        assert {i for (i,) in rows(t, columns=["id"], where=typed)} == ids, where


def test_nan_in_some_row_groups_of_one_file(make):  # T15 inside a file
    t = make({"id": "long", "v": "double"})
    content = [{"id": i, "v": math.nan if i in (5, 25) else float(i // 10)} for i in range(30)]
    t.append(t.write_data(content, row_group_size=10))
    for where, expected in [
        ("v > 1", {5, *range(20, 30)}),
        ("v <= 0", set(range(10)) - {5}),
        ("v <> 2", set(range(20)) | {25}),
        ("isnan(v)", {5, 25}),
        ("NOT (v <= 1)", {5, *range(20, 30)}),
    ]:
        assert {i for (i,) in rows(t, columns=["id"], where=where)} == expected, where


def test_filters_added_to_a_relation_see_nan(make):
    t = make({"id": "long", "v": "double"})
    t.append(t.write_data([{"id": 0, "v": 3.0}, {"id": 1, "v": math.nan}, {"id": 2, "v": 3.0}]))
    relation = harness.open_table(str(t.store.directory)).snapshot().to_duckdb()
    for where, expected in [("v > 3", [1]), ("v <> 3", [1]), ("v <= 3", [0, 2]), ("isnan(v)", [1])]:
        assert sorted(i for (i,) in relation.filter(where).project("id").fetchall()) == expected, where
    assert math.isnan(relation.aggregate("max(v)").fetchall()[0][0])


def test_the_two_zeros_are_equal(make):  # 3.19
    t = make({"id": "long", "v": "double"})
    t.append(t.write_data([{"id": 0, "v": -0.0}]), t.write_data([{"id": 1, "v": 0.0}]))
    for where in ("v = 0", "v = -0.0", "v >= 0", "v <= 0", "v IN (0)"):
        assert rows(t, columns=["id"], where=where) == [(0,), (1,)], where


# -- physical forms -----------------------------------------------------------------------------------------------


def stored_as(make, type_: str, array: pa.Array, **options: Any) -> list[Any]:
    """The values of a column of a table type that a Parquet file stores as `array`."""
    t = make({"id": "long", "v": type_})
    table = pa.table({"id": pa.array(range(len(array)), pa.int64()), "v": array})
    t.append(t.write_data(table, statistics=[1], writer_options=options))
    found = arrow(t).sort_by("id").column("v").combine_chunks()
    if pa.types.is_timestamp(found.type) or pa.types.is_time(found.type):
        return found.view(pa.int64()).to_pylist()
    return found.to_pylist()


@pytest.mark.parametrize(
    ("type_", "array"),
    [
        ("int", pa.array([-128, 127], pa.int8())),
        ("int", pa.array([-32768, 32767], pa.int16())),
        ("int", pa.array([0, 255], pa.uint8())),
        ("int", pa.array([0, 65535], pa.uint16())),
        ("long", pa.array([-(2**31), 2**31 - 1], pa.int32())),
        ("long", pa.array([0, 2**32 - 1], pa.uint32())),
        ("long", pa.array([-128, 127], pa.int8())),
        ("double", pa.array([1.5, -2.5], pa.float32())),
        ("string", pa.array([b"a\0b", "ü".encode()], pa.binary())),
        ("string", pa.array(["a", "b"], pa.large_string())),
        ("string", pa.array(["a", "b"]).dictionary_encode()),
        ("binary", pa.array([b"\xff", b""], pa.large_binary())),
    ],
    ids=str,
)
def test_narrower_and_looser_forms(make, type_, array):  # 6.2, 6.3, 6.4, 6.11
    expected = [v.decode() if isinstance(v, bytes) and type_ == "string" else v for v in array.to_pylist()]
    assert stored_as(make, type_, array) == expected


@pytest.mark.parametrize(
    ("type_", "array"),
    [
        ("int", pa.array([1], pa.uint32())),
        ("long", pa.array([1], pa.uint64())),
        ("fixed[3]", pa.array([b"abcd"], pa.binary(4))),
        ("binary", pa.array(["text"])),
        ("uuid", pa.array([b"abcd"], pa.binary(4))),
        ("time", pa.array([1], pa.time64("ns"))),
        ("decimal(9, 2)", pa.array([Decimal("1.234")], pa.decimal128(9, 3))),
        ("float", pa.array([1.0], pa.float64())),
    ],
    ids=str,
)
def test_forms_that_could_lose_something_are_refused(make, type_, array):  # 6.2, 6.3, 6.13
    with pytest.raises(harness.SchemaMismatchError, match="IncompatibleType"):
        stored_as(make, type_, array)


@pytest.mark.parametrize("as_integer", [True, False])
@pytest.mark.parametrize(("p", "s"), [(4, 2), (9, 0), (9, 9), (10, 2), (18, 2), (19, 2), (38, 10)])
def test_decimals_as_integers_and_bytes(make, p, s, as_integer):  # 6.5
    greatest = Decimal((0, (9,) * p, -s))
    values = [greatest, greatest.copy_negate(), Decimal((0, (0,), -s)), None]
    array = pa.array(values, pa.decimal128(p, s))
    for table_type in (f"decimal({p}, {s})", f"decimal(38, {s})"):
        assert stored_as(make, table_type, array, store_decimal_as_integer=as_integer) == values


def test_filters_on_decimals_stored_as_integers(make):  # 6.5: statistics are little-endian there
    t = make({"id": "long", "v": "decimal(9, 2)"})
    for start in (-300, 300):
        content = [{"id": i, "v": str(Decimal(i).scaleb(-2))} for i in range(start, start + 3)]
        t.append(t.write_data(content, writer_options={"store_decimal_as_integer": True}))
    assert rows(t, where="v < 0", columns=["id"]) == [(-298,), (-299,), (-300,)]
    assert rows(t, where="v > 3", columns=["id"]) == [(301,), (302,)]
    assert rows(t, where="v = -2.99", columns=["id"]) == [(-299,)]


@pytest.mark.parametrize("type_", ["timestamp", "timestamptz"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_the_zone_flag_of_the_file_never_shifts_a_value(make, type_, zone):  # 6.8
    assert stored_as(make, type_, pa.array([-1, 0, 1_600_000_000_000_001], pa.timestamp("us", zone))) == [
        -1,
        0,
        1_600_000_000_000_001,
    ]


@pytest.mark.parametrize("type_", ["timestamp", "timestamptz"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_millis(make, type_, zone):
    assert stored_as(make, type_, pa.array([-1, 0, 10**12], pa.timestamp("ms", zone))) == [-1000, 0, 10**15]


@pytest.mark.parametrize("type_", ["timestamp", "timestamptz"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_nanos_in_files_of_a_table_of_micros_are_floored(make, type_, zone):
    array = pa.array([-1, -1000, -1001, 0, 999, 1000, None], pa.timestamp("ns", zone))
    assert stored_as(make, type_, array) == [-1, -1, -2, 0, 0, 1, None]


@pytest.mark.parametrize("type_", ["timestamp_ns", "timestamptz_ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_micros_in_files_of_a_table_of_nanos(make, type_, zone):  # 6.10
    array = pa.array([-1, 0, 1_600_000_000_000_001, None], pa.timestamp("us", zone))
    assert stored_as(make, type_, array) == [-1000, 0, 1_600_000_000_000_001_000, None]


@pytest.mark.parametrize("type_", ["timestamp", "timestamptz"])
def test_int96(make, type_):  # 6.9, T21
    stamps = [year(y) * DAY + 123_456 for y in (1, 1582, 1677, 1970, 2020, 3332)] + [-1]
    got = stored_as(make, type_, pa.array(stamps, pa.timestamp("us")), use_deprecated_int96_timestamps=True)
    assert got == stamps


def test_time_in_millis(make):  # 6.7
    assert stored_as(make, "time", pa.array([0, 86_399_999], pa.time32("ms"))) == [0, 86_399_999_000]


def test_uuid_as_fixed_bytes_and_as_text(make):  # 6.12
    value = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
    assert stored_as(make, "uuid", pa.array([value.bytes, None], pa.binary(16))) == [value, None]
    assert stored_as(make, "uuid", pa.array([str(value), str(value).upper()])) == [value, value]


def test_text_that_is_no_uuid_is_an_error(make):  # 6.12
    with pytest.raises(harness.HarnessError):
        stored_as(make, "uuid", pa.array(["no uuid"]))


def test_text_that_is_no_utf8_is_an_error(make):  # 6.11
    with pytest.raises(harness.HarnessError):
        stored_as(make, "string", pa.array([b"\xff\xfe"], pa.binary()))


@pytest.mark.parametrize("compliant", [True, False])
def test_lists_and_maps_under_any_inner_names(make, compliant):  # 6.14
    lists = pa.array([[1, None], [], None], pa.list_(pa.field("anything", pa.int32())))
    assert stored_as(make, "list<int>", lists, use_compliant_nested_type=compliant) == [[1, None], [], None]
    assert stored_as(make, "list<long>", lists, use_compliant_nested_type=compliant) == [[1, None], [], None]


def test_maps_with_keys_of_other_types(make):  # 6.14
    t = make({"id": "long", "d": "map<date, string>", "s": "map<struct<a: int, b: string>, int>"})
    content = {"id": 1, "d": {dt.date(2020, 1, 1): "x"}, "s": [({"a": 1, "b": "k"}, 5), ({"a": None, "b": "l"}, None)]}
    t.append(t.write_data([content]))
    (row,) = arrow(t).to_pylist()
    assert row["d"] == [(dt.date(2020, 1, 1), "x")]
    assert row["s"] == [({"a": 1, "b": "k"}, 5), ({"a": None, "b": "l"}, None)]
    t.rename_column("s.key.a", "z")
    assert arrow(t).to_pylist()[0]["s"] == [({"z": 1, "b": "k"}, 5), ({"z": None, "b": "l"}, None)]


# -- variant (6.15) -----------------------------------------------------------------------------------------------


def test_variants(make):
    t = make({"id": "long", "v": "variant", "l": "list<variant>", "s": "struct<v: variant, w: int>"})
    null = {"metadata": b"\x01\x00\x00", "value": b"\x00"}
    content = [
        {"id": 1, "v": VARIANT, "l": [VARIANT, None], "s": {"v": VARIANT, "w": 1}},
        {"id": 2, "v": null, "l": [null], "s": {"v": null, "w": 2}},
        {"id": 3, "v": None, "l": None, "s": None},
    ]
    t.append(t.write_data(content))
    assert rows(t) == [
        (1, "42", ["42", None], {"v": "42", "w": 1}),
        (2, "null", ["null"], {"v": "null", "w": 2}),
        (3, None, None, None),
    ]
    assert rows(t, columns=["id"], where="v = '42'") == [(1,)]
    assert rows(t, columns=["id"], where="v IS NULL") == [(3,)]


def test_shredded_variants(make):
    t = make({"id": "long", "v": "variant"})
    group = pa.struct([("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", pa.int64())])
    metadata = b"\x01\x00\x00"
    array = pa.array(
        [
            {"metadata": metadata, "value": None, "typed_value": 7},
            {"metadata": metadata, "value": b"\x0c\x2a", "typed_value": None},
            {"metadata": metadata, "value": None, "typed_value": None},
            None,
        ],
        group,
    )
    table = pa.table({"id": pa.array(range(4), pa.int64()), "v": array})
    t.append(t.write_data(table, statistics=[]))
    assert rows(t) == [(0, "7"), (1, "42"), (2, "null"), (3, None)]


def test_variants_of_a_file_without_ids(make):  # 5.6, by position: a variant is not a nested field
    t = make({"id": "long", "v": "variant"}, properties={"schema.name-mapping.default": MAPPING})
    t.append(t.write_data([{"id": 1, "v": VARIANT}], field_ids=False))
    assert rows(t) == [(1, "42")]


MAPPING = '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["v"]}]'


def test_a_variant_with_deletes_keeps_its_positions(make):
    t = make({"id": "long", "v": "variant"})
    first = t.write_data([{"id": i, "v": VARIANT} for i in range(5)])
    second = t.write_data([{"id": i, "v": VARIANT} for i in range(5, 8)])
    t.append(first, second)
    t.commit(add=t.write_deletion_vectors({first: [0, 4], second: [1]}))
    assert rows(t, columns=["id", "v"]) == [(i, "42") for i in (1, 2, 3, 5, 7)]


# -- unknown and unreadable types ------------------------------------------------------------------------------------


def test_unknown_is_null(make):  # 5.14, 6.17
    t = make({"id": "long", "u": "unknown", "s": "struct<u: unknown, a: int>"})
    t.append(t.write_data([{"id": 1, "s": {"a": 2}}]))
    assert rows(t) == [(1, None, {"u": None, "a": 2})]


def test_a_type_from_the_future_harms_only_its_column(make):  # 1.22
    t = make({"id": "long", "f": "float128"})
    t.append(t.write_data([{"id": 1}], columns=["id"]))
    assert rows(t, columns=["id"]) == [(1,)]
    with pytest.raises(harness.UnsupportedError, match="float128") as caught:
        arrow(t)
    assert (caught.value.cause, caught.value.field) == ("UnsupportedType", "f")


# -- the session's time zone (11.5, 11.10) -----------------------------------------------------------------------------


EDGES = {
    "date": [2**31 - 1, -(2**31) + 1, -(2**31)],
    "timestamp": [2**63 - 1, -(2**63) + 1, -(2**63)],
    "timestamptz": [2**63 - 1, -(2**63) + 1, -(2**63)],
    "timestamp_ns": [2**63 - 1, -(2**63) + 1, -(2**63)],
    "timestamptz_ns": [2**63 - 1, -(2**63) + 1, -(2**63)],
}


@pytest.mark.parametrize("format", ["parquet", "avro"])
@pytest.mark.parametrize("type_", EDGES)
def test_the_outermost_values_are_no_infinities(make, type_, format):  # DuckDB has infinities there
    t = make({"id": "long", "v": type_})
    t.append(t.write_data([{"id": i, "v": v} for i, v in enumerate(EDGES[type_])], format=format))
    assert rows(t) == list(enumerate(EDGES[type_]))


@pytest.mark.parametrize(
    ("table", "file", "value"),
    [
        ("timestamp", pa.date32(), 2**31 - 1),
        ("timestamp", pa.date32(), -(2**31) + 1),
        ("timestamp_ns", pa.date32(), 2**31 - 1),
        ("timestamp_ns", pa.timestamp("us"), 2**63 - 1),
        ("timestamptz_ns", pa.timestamp("us", "UTC"), -(2**63) + 1),
        ("timestamp", pa.timestamp("ns", "UTC"), -(2**63) + 1),
    ],
    ids=str,
)
def test_infinities_never_come_from_a_conversion(make, table, file, value):  # 5.12, 6.10
    array = pa.array([value], pa.int32() if pa.types.is_date32(file) else pa.int64()).view(file)
    with pytest.raises(harness.HarnessError), on_duckdb_alone("DuckDB takes the outermost values for infinities"):
        stored_as(make, table, array)


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


def test_int96_and_millis_under_another_time_zone(make):
    t = make({"id": "long", "v": "timestamptz"})
    options = {"use_deprecated_int96_timestamps": True}
    t.append(t.write_data([{"id": 1, "v": year(2020) * DAY + 7}], writer_options=options))
    t.append(t.write_data(pa.table({"id": [2], "v": pa.array([-1], pa.timestamp("ms", "UTC"))})))
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'America/New_York'")
    relation = harness.open_table(str(t.store.directory)).snapshot().to_duckdb(connection)
    assert sorted(relation.project("id, epoch_us(v)").fetchall()) == [(1, year(2020) * DAY + 7), (2, -1000)]


def test_far_instants_as_partition_constants(make):  # T21: no calendar of an engine comes between
    t = make({"id": "long", "v": "timestamptz"}, partition_spec=[("v", "identity")])
    t.append(*(t.write_data([{"id": i, "v": v}], columns=["id"]) for i, v in enumerate(FAR_MICROS)))
    assert rows(t) == sorted(enumerate(FAR_MICROS), key=repr)


HOURS = range(-30, 31, 3)
"""Around 2024-03-10 00:00 UTC, seven hours before New York puts its clocks forward."""
MIDNIGHT = 1_710_028_800_000_000


@pytest.fixture(scope="module")
def by_hours(tmp_path_factory):
    """A file for each of the hours, and one of 2020, which is gone: it must be skipped."""
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
        query = harness.sql(f"SELECT id FROM t WHERE {where} ORDER BY id LIMIT 4", connection=connection, t=by_hours)
        assert query.fetchall() == [(hour,) for hour in [*rows][:4]]
        harness.release(connection)


def test_days_beside_instants_skip_nothing_in_another_zone(make):
    """In New York 2024-03-10 begins at 05:00 UTC, which is the beginning of no day in UTC."""
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
            duckdb_engine().relation(plan, connection)


@pytest.mark.parametrize("type_", ["timestamp", "timestamptz"])
def test_orc_years(make, type_):  # pyarrow gives ORC timestamps in nanos: what does not fit is refused, never wrong
    t = make({"id": "long", "v": type_})
    near = [year(1678) * DAY, -1, 0, year(2262) * DAY + 1]
    t.append(t.write_data([{"id": i, "v": v} for i, v in enumerate(near)], format="orc"))
    assert rows(t) == sorted(enumerate(near), key=repr)
    t.append(t.write_data([{"id": 9, "v": year(3332) * DAY}], format="orc"))
    with pytest.raises(harness.UnsupportedError, match="1677 to 2262"):
        arrow(t)
