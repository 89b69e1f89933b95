"""Columns by field id through every change of a schema, on DuckDB (iceberg section 5)."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from reading import arrow, column, rows

import harness
from harness.engines.duckdb import scans
from harness.errors import SchemaMismatchError
from harness.metadata.model.schema import Field, Schema, StringType
from harness.testing.writing.iceberg import evolution
from harness.testing.writing.iceberg.builder import IcebergTable

FORMATS = ("parquet", "avro", "orc")
UTC = dt.UTC


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., IcebergTable]:
    return lambda schema, **more: IcebergTable.create(tmp_path / "t", schema, **{"format_version": 3, **more})


# -- top level ---------------------------------------------------------------------------------------------------------


def test_renamed_columns_are_found_by_id(make):  # 5.1
    t = make({"id": "long", "a": "string", "b": "string"})
    t.append(*(t.write_data([{"id": i, "a": "x", "b": "y"}], format=format) for i, format in enumerate(FORMATS)))
    t.rename_column("a", "c")
    t.rename_column("b", "a")
    t.append(t.write_data([{"id": 3, "c": "p", "a": "q"}]))
    assert arrow(t).column_names == ["id", "c", "a"]
    assert rows(t) == [(0, "x", "y"), (1, "x", "y"), (2, "x", "y"), (3, "p", "q")]
    assert rows(t, columns=["a"], where="c = 'x'") == [("y",)] * 3


def test_columns_of_a_file_in_any_order(make):  # 7.1
    t = make({"id": "long", "a": "string", "b": "string"})
    t.append(t.write_data([{"id": 1, "a": "x", "b": "y"}], columns=["b", "id", "a"]))
    t.append(t.write_data([{"id": 2, "a": "p"}], columns=["a", "id"]))
    assert rows(t) == [(1, "x", "y"), (2, "p", None)]


@pytest.mark.filterwarnings("ignore:Data file .* has no column of:harness.errors.HarnessWarning")
def test_every_column_of_the_file_gone(make):  # 5.2
    t = make({"id": "long"})
    t.append(t.write_data([{"id": 1}, {"id": 2}]))
    t.drop_column("id")
    t.add_column("a", "string", initial_default="d")
    t.add_column("b", "int")
    assert rows(t) == [("d", None), ("d", None)]
    assert rows(t, where="a = 'd' AND b IS NULL") == [("d", None), ("d", None)]
    assert rows(t, where="a <> 'd'") == []


def test_a_required_column_that_files_lack_is_an_error(make):  # 5.2 (6)
    t = make({"id": "long"})
    t.append(t.write_data([{"id": 1}]))
    t.add_column("need", "string not null")
    with pytest.raises(harness.SchemaMismatchError, match="MissingRequiredField") as caught:
        arrow(t)
    assert (caught.value.field, caught.value.rule) == ("need", "iceberg 5.2")
    assert rows(t, columns=["id"]) == [(1,)]


def test_required_made_optional_holds_old_and_null_values(make):  # 5.13
    t = make({"id": "long not null", "a": "string not null"})
    t.append(t.write_data([{"id": 1, "a": "x"}]))
    t.make_optional("a")
    t.append(t.write_data([{"id": 2}]))
    assert rows(t) == [(1, "x"), (2, None)]
    assert arrow(t).schema.field("a").nullable


# -- defaults (5.2, 5.15, 5.16) -------------------------------------------------------------------------------------

MICROS = 1_577_934_245_123_456  # 2020-01-02 03:04:05.123456
DEFAULTS: list[tuple[str, Any, Any]] = [
    ("boolean", True, True),
    ("boolean", False, False),
    ("int", -7, -7),
    ("long", 2**62 + 1, 2**62 + 1),
    ("float", 1.5, 1.5),
    ("double", -0.1, -0.1),
    ("decimal(9, 2)", "-1.50", Decimal("-1.50")),
    ("decimal(38, 10)", "1234567890123456789012345678.0000000001", Decimal("1234567890123456789012345678.0000000001")),
    ("date", dt.date(1969, 12, 31), dt.date(1969, 12, 31)),
    ("time", dt.time(23, 59, 59, 999999), dt.time(23, 59, 59, 999999)),
    ("timestamp", dt.datetime(2020, 1, 2, 3, 4, 5, 123456), dt.datetime(2020, 1, 2, 3, 4, 5, 123456)),
    (
        "timestamptz",
        dt.datetime(1960, 1, 2, 3, 4, 5, 123456, UTC),
        dt.datetime(1960, 1, 2, 3, 4, 5, 123456, UTC),
    ),
    ("string", 'it\'s "ü" 🦆', 'it\'s "ü" 🦆'),
    ("string", "", ""),
    ("uuid", "F79C3E09-677C-4BBD-A479-3F349CB785E7", uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")),
    ("fixed[3]", b"\x00\xff'", b"\x00\xff'"),
    ("binary", b"\x00\x01", b"\x00\x01"),
    ("binary", b"", b""),
    ("list<int>", [1, None, 3], [1, None, 3]),
    ("list<int>", [], []),
    ("map<string, int>", {"k": 1, "l": None}, [("k", 1), ("l", None)]),
    ("struct<x: int, y: string>", {"x": 1, "y": "z"}, {"x": 1, "y": "z"}),
]


def test_the_initial_default_of_each_type(make):
    t = make({"id": "long"})
    t.append(*(t.write_data([{"id": i}], format=format) for i, format in enumerate(FORMATS)))
    for i, (type_, default, _) in enumerate(DEFAULTS):
        t.add_column(f"{type_}-{i}", type_, initial_default=default)
    t.append(t.write_data([{"id": 3}]))
    expected = {f"{type_}-{i}": shown for i, (type_, _, shown) in enumerate(DEFAULTS)}
    *old, new = arrow(t).sort_by("id").to_pylist()
    assert old == [{"id": i, **expected} for i in range(3)]
    assert new == {"id": 3, **dict.fromkeys(expected)}


@pytest.mark.parametrize(
    ("type_", "default", "nanos"),
    [
        ("timestamp_ns", MICROS * 1000 + 789, MICROS * 1000 + 789),
        ("timestamptz_ns", -1, -1),
    ],
)
def test_the_initial_default_in_nanos(make, type_, default, nanos):
    t = make({"id": "long"})
    t.append(t.write_data([{"id": 1}]))
    t.add_column("v", type_, initial_default=default)
    assert rows(t) == [(1, nanos)]


def test_filters_see_the_default(make):  # 5.16
    t = make({"id": "long"})
    t.append(t.write_data([{"id": 1}, {"id": 2}]))
    t.add_column("v", "int", initial_default=5)
    t.append(t.write_data([{"id": 3, "v": 6}, {"id": 4, "v": None}]))
    for where, ids in {
        "v = 5": [1, 2],
        "v > 5": [3],
        "v <> 5": [3],
        "v IS NULL": [4],
        "v IS NOT NULL": [1, 2, 3],
        "v IN (5, 6)": [1, 2, 3],
        "NOT v = 5": [3],
        "v = 5 AND id = 2": [2],
    }.items():
        assert rows(t, columns=["id"], where=where) == [(i,) for i in ids], where


# -- nested ------------------------------------------------------------------------------------------------------------

PLACES: dict[str, tuple[str, str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "struct": ("struct<a: int, b: string>", "", lambda v: v, lambda v: v),
    "list": ("list<struct<a: int, b: string>>", ".element", lambda v: [v, None], lambda v: [v, None]),
    "map": ("map<string, struct<a: int, b: string>>", ".value", lambda v: {"k": v}, lambda v: [("k", v)]),
    "struct in struct": ("struct<in: struct<a: int, b: string>>", ".in", lambda v: {"in": v}, lambda v: {"in": v}),
    "list in list": (
        "list<list<struct<a: int, b: string>>>",
        ".element.element",
        lambda v: [[v], []],
        lambda v: [[v], []],
    ),
    "list in map": (
        "map<string, list<struct<a: int, b: string>>>",
        ".value.element",
        lambda v: {"k": [v]},
        lambda v: [("k", [v])],
    ),
}
"""Where a struct is: the column's type, the struct's path in it, how its value is written there, and how it is read."""
PATHS = [name + path for name, (_, path, _, _) in PLACES.items()]


@pytest.fixture
def nested(make) -> IcebergTable:
    """Of each format a file: a struct, a struct of nulls, a null in its place, and null for the whole column."""
    t = make({"id": "long", **{name: type_ for name, (type_, _, _, _) in PLACES.items()}})
    values = [{"a": 1, "b": "x"}, {"a": None, "b": None}, None]
    for n, format in enumerate(FORMATS, 1):
        content = [{"id": 10 * n + i, **everywhere(value)} for i, value in enumerate(values)]
        t.append(t.write_data([*content, {"id": 10 * n + 3}], format=format))
    return t


def everywhere(value: Any) -> dict[str, Any]:
    """A row, but for its id, with the struct in each place."""
    return {name: wrap(value) for name, (_, _, wrap, _) in PLACES.items()}


def assert_read(t: IcebergTable, first: Any, second: Any, *new: Any) -> None:
    """new: the structs of rows that were written since."""
    for name, (_, _, _, shown) in PLACES.items():
        old = [shown(first), shown(second), shown(None), None]
        assert column(t, name) == [*old * len(FORMATS), *map(shown, new)], name


def test_nested_values_as_written(nested):
    assert_read(nested, {"a": 1, "b": "x"}, {"a": None, "b": None})


def test_nested_rename_and_reorder(nested):  # 5.1, 5.8, T22
    for path in PATHS:
        nested.rename_column(f"{path}.a", "t")
        nested.rename_column(f"{path}.b", "a")
        nested.rename_column(f"{path}.t", "b")
        nested.move_column(f"{path}.a", 0)
    nested.append(nested.write_data([{"id": 50, **everywhere({"a": "new", "b": 9})}]))
    assert_read(nested, {"a": "x", "b": 1}, {"a": None, "b": None}, {"a": "new", "b": 9})


def test_nested_drop_and_add_again_by_name(nested):  # 5.11
    for path in PATHS:
        nested.drop_column(f"{path}.b")
        nested.add_column("b", "string", parent=path)
    assert_read(nested, {"a": 1, "b": None}, {"a": None, "b": None})


def test_nested_add_with_default_leaves_null_parents_null(nested):  # 5.9, T22
    for path in PATHS:
        nested.add_column("c", "int", initial_default=7, parent=path)
    new = {"a": 1, "b": "y", "c": None}
    nested.append(nested.write_data([{"id": 50, **everywhere(new)}]))
    assert_read(nested, {"a": 1, "b": "x", "c": 7}, {"a": None, "b": None, "c": 7}, new)


def test_nested_fields_all_absent_keep_the_null_mask(nested):  # 5.9, 11.2
    for path in PATHS:
        nested.add_column("c", "int", parent=path)
        nested.add_column("d", "string", initial_default="d", parent=path)
        nested.drop_column(f"{path}.a")
        nested.drop_column(f"{path}.b")
    assert_read(nested, {"c": None, "d": "d"}, {"c": None, "d": "d"})


def test_nested_widening(nested):  # 5.12
    for path in PATHS:
        nested.widen_column(f"{path}.a", "long")
    nested.append(nested.write_data([{"id": 50, **everywhere({"a": 2**40, "b": "y"})}]))
    assert_read(nested, {"a": 1, "b": "x"}, {"a": None, "b": None}, {"a": 2**40, "b": "y"})


def test_nested_struct_added_inside(nested):  # 5.9
    for path in PATHS:
        nested.add_column("e", "struct<p: int, q: list<int>>", parent=path)
    new = {"a": 1, "b": "y", "e": {"p": 2, "q": []}}
    nested.append(nested.write_data([{"id": 50, **everywhere(new)}]))
    assert_read(nested, {"a": 1, "b": "x", "e": None}, {"a": None, "b": None, "e": None}, new)


@pytest.mark.parametrize("format", FORMATS)
def test_null_and_empty_survive_a_rebuilt_element(make, format):  # 5.10
    t = make({"id": "long", "l": "list<struct<a: int>>", "m": "map<int, struct<a: int>>"})
    content = [
        {"id": 1, "l": None, "m": None},
        {"id": 2, "l": [], "m": {}},
        {"id": 3, "l": [None], "m": {1: None}},
        {"id": 4, "l": [{"a": None}], "m": {1: {"a": None}}},
        {"id": 5, "l": [{"a": 1}, None, {"a": 2}], "m": {2: {"a": 1}, 1: {"a": 2}}},
    ]
    t.append(t.write_data(content, format=format))
    t.rename_column("l.element.a", "z")
    t.rename_column("m.value.a", "z")
    assert column(t, "l") == [None, [], [None], [{"z": None}], [{"z": 1}, None, {"z": 2}]]
    assert [None if m is None else sorted(m, key=repr) for m in column(t, "m")] == [
        None,
        [],
        [(1, None)],
        [(1, {"z": None})],
        [(1, {"z": 2}), (2, {"z": 1})],
    ]


def test_a_list_element_of_another_id_is_refused(make):  # 5.1
    t = make({"id": "long", "l": "list<int>"})
    t.append(t.write_data([{"id": 1, "l": [1]}]))
    old = t.schema
    t.drop_column("l")
    t.add_column("l", "list<int>")
    assert column(t, "l") == [None]
    assert rows(t, columns=["id"]) == [(1,)]
    assert old.fields[1].id != t.schema.fields[1].id


def test_struct_defaults(make):  # 5.9, 5.15
    t = make({"id": "long"})
    t.append(t.write_data([{"id": 1}]))
    t.add_column("s", "struct<a: int>")
    t.add_column("b", "string", initial_default="inner", parent="s")
    assert column(t, "s") == [None]  # no default of the struct itself: a null struct, not one of defaults
    schema = t.schema.fields[1]
    assert schema.name == "s"
    t.edit_metadata(lambda doc: doc["schemas"][-1]["fields"][1].update({"initial-default": {}}))
    assert column(t, "s") == [{"a": None, "b": "inner"}]
    t.edit_metadata(lambda doc: doc["schemas"][-1]["fields"][1].update({"initial-default": {"3": 4}}))
    assert column(t, "s") == [{"a": 4, "b": "inner"}]


def test_reading_one_column_never_touches_a_broken_one(make):  # 1.22, 5.12
    t = make({"id": "long", "v": "string"})
    t.append(t.write_data([{"id": 1, "v": "x"}]))
    t.widen_column("v", "int")
    assert rows(t, columns=["id"]) == [(1,)]
    with pytest.raises(harness.SchemaMismatchError, match="IncompatibleType"):
        arrow(t)


def test_required_fields_below_a_null_parent(make):  # 5.9, 5.13
    t = make({"id": "long", "s": "struct<a: int not null, l: list<int not null>>"})
    t.append(
        t.write_data([{"id": 1, "s": None}, {"id": 2, "s": {"a": 1, "l": [1]}}, {"id": 3, "s": {"a": 2, "l": None}}])
    )
    t.add_column("q", "int not null", parent="s", initial_default=4)
    assert column(t, "s") == [None, {"a": 1, "l": [1], "q": 4}, {"a": 2, "l": None, "q": 4}]


def test_required_fields_that_hold_nulls(make):  # 5.13: nulls come back, at every level
    t = make({"id": "long", "v": "int", "s": "struct<a: int>", "l": "list<int>", "m": "map<string, int>"})
    t.append(t.write_data([{"id": 1, "v": None, "s": {"a": None}, "l": [None], "m": {"k": None}}]))
    for path in ("v", "s.a", "l.element", "m.value"):
        t.set_schema(evolution.change(t.schema, path, lambda f: dataclasses.replace(f, required=True)))
    assert arrow(t).to_pylist() == [{"id": 1, "v": None, "s": {"a": None}, "l": [None], "m": [("k", None)]}]


# -- promotions (5.12) -----------------------------------------------------------------------------------------------

PROMOTIONS: list[tuple[str, str, Any, Any]] = [
    ("int", "long", -(2**31), -(2**31)),
    ("float", "double", 0.10000000149011612, 0.10000000149011612),
    ("decimal(4, 2)", "decimal(9, 2)", "-99.99", Decimal("-99.99")),
    ("decimal(9, 2)", "decimal(18, 2)", "1234567.89", Decimal("1234567.89")),
    ("decimal(18, 2)", "decimal(38, 2)", "-1.00", Decimal("-1.00")),
    ("date", "timestamp", dt.date(1969, 12, 31), dt.datetime(1969, 12, 31)),
    ("date", "timestamp", dt.date(2020, 2, 29), dt.datetime(2020, 2, 29)),
]


def test_promotions(make):
    names = [f"{old} to {new}, {value}" for old, new, value, _ in PROMOTIONS]
    t = make({"id": "long", **{name: p[0] for name, p in zip(names, PROMOTIONS, strict=True)}})
    content = {name: p[2] for name, p in zip(names, PROMOTIONS, strict=True)}
    for i, format in enumerate(FORMATS, 1):
        t.append(t.write_data([{"id": i, **content}, {"id": i + 4}], format=format))
    for name, (_, new, _, expected) in zip(names, PROMOTIONS, strict=True):
        t.widen_column(name, new)
        assert column(t, name) == [expected] * 3 + [None] * 3, name
        assert column(t, name, where=f'"{name}" IS NOT NULL') == [expected] * 3, name


def test_date_to_timestamp_ns(make):
    t = make({"id": "long", "v": "date"})
    t.append(t.write_data([{"id": 1, "v": dt.date(1969, 12, 31)}]))
    t.widen_column("v", "timestamp_ns")
    assert rows(t) == [(1, -86_400_000_000_000)]


def test_date_out_of_the_range_of_nanos_is_an_error(make):  # 5.12
    t = make({"id": "long", "v": "date"})
    t.append(t.write_data([{"id": 1, "v": dt.date(3000, 1, 1)}]))
    t.widen_column("v", "timestamp_ns")
    with pytest.raises(harness.HarnessError):
        arrow(t)


def test_micros_out_of_the_range_of_nanos_are_an_error(make):  # 6.10
    t = make({"id": "long", "v": "timestamp"})
    t.append(t.write_data([{"id": 1, "v": dt.datetime(3000, 1, 1)}]))
    t.widen_column("v", "timestamp_ns")
    with pytest.raises(harness.HarnessError):
        arrow(t)


NO_PROMOTIONS = [
    ("long", "int", 1),
    ("double", "float", 1.0),
    ("decimal(9, 2)", "decimal(9, 3)", "1.00"),
    ("decimal(9, 2)", "decimal(8, 2)", "1.00"),
    ("date", "timestamptz", dt.date(2020, 1, 1)),
    ("string", "int", "1"),
    ("int", "string", 1),
    ("int", "boolean", 1),
    ("long", "timestamp", 1),
    ("fixed[3]", "fixed[4]", b"abc"),
    ("int", "double", 1),
    ("int", "decimal(9, 0)", 1),
]


@pytest.mark.parametrize("format", FORMATS)
def test_no_other_change_of_type_is_read(make, format):
    changes = {f"{old} to {new}": (old, new, value) for old, new, value in NO_PROMOTIONS}
    t = make({name: old for name, (old, _, _) in changes.items()})
    t.append(t.write_data([{name: value for name, (_, _, value) in changes.items()}], format=format))
    for name, (_, new, _) in changes.items():
        t.widen_column(name, new)
    for name in changes:
        with pytest.raises(harness.SchemaMismatchError, match="IncompatibleType") as caught:
            arrow(t, columns=[name])
        assert caught.value.field == name
        assert caught.value.file is not None


def test_unknown_becomes_any_type(make):  # 5.12, 5.14
    t = make({"id": "long", "u": "unknown"})
    t.append(t.write_data([{"id": 1}]))
    assert rows(t) == [(1, None)]
    t.widen_column("u", "string")
    t.append(t.write_data([{"id": 2, "u": "now"}]))
    assert rows(t) == [(1, None), (2, "now")]


# -- partition constants (5.2, 5.4, 5.5, T17) ------------------------------------------------------------------------

CONSTANTS: dict[str, tuple[Any, Any]] = {
    "boolean": (True, False),
    "int": (-1, 2),
    "long": (2**60, -(2**60)),
    "float": (1.5, -2.25),
    "double": (1e300, -1e-300),
    "decimal(9, 2)": (Decimal("-1.50"), Decimal("0.01")),
    "decimal(30, 5)": (Decimal("-1.50000"), Decimal("1234567890123456789012345.00001")),
    "date": (dt.date(1969, 12, 31), dt.date(2020, 2, 29)),
    "time": (dt.time(1, 2, 3, 4), dt.time(0)),
    "timestamp": (dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2020, 1, 1)),
    "timestamptz": (dt.datetime(1960, 1, 1, 12, tzinfo=UTC), dt.datetime(2020, 7, 1, tzinfo=UTC)),
    "string": ("it's", ""),
    "uuid": (uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), uuid.UUID(int=1)),
    "fixed[2]": (b"\x00\xff", b"\x80'"),
    "binary": (b"\x00", b""),
}


def test_identity_partition_constants(make):
    t = make(
        {"id": "long", **{type_: type_ for type_ in CONSTANTS}}, partition_spec=[(t, "identity") for t in CONSTANTS]
    )
    tuples = [{type_: values[i] for type_, values in CONSTANTS.items()} for i in (0, 1)] + [dict.fromkeys(CONSTANTS)]
    files = [(format, values) for format in FORMATS for values in tuples]
    for i, (format, values) in enumerate(files):
        given = {k: str(v) if isinstance(v, uuid.UUID | Decimal) else v for k, v in values.items()}
        t.append(t.write_data([{"id": i, **given}], partition=given, columns=["id"], format=format))
    assert arrow(t).sort_by("id").to_pylist() == [{"id": i, **values} for i, (_, values) in enumerate(files)]
    for joined in (" AND ", " OR "):  # by both, each is null where it should
        null, known = (joined.join(f'"{type_}" IS {test}' for type_ in CONSTANTS) for test in ("NULL", "NOT NULL"))
        assert rows(t, columns=["id"], where=null) == [(2,), (5,), (8,)]
        assert rows(t, columns=["id"], where=f"({known}) AND id < 4") == [(0,), (1,), (3,)]


@pytest.mark.parametrize("type_", ["timestamp_ns", "timestamptz_ns"])
def test_identity_partition_constants_in_nanos(make, type_):
    t = make({"id": "long", "p": type_}, partition_spec=[("p", "identity")])
    stamps = [-1, MICROS * 1000 + 789, None]
    t.append(*(t.write_data([{"id": i, "p": v}], columns=["id"]) for i, v in enumerate(stamps)))
    assert rows(t) == [(0, -1), (1, MICROS * 1000 + 789), (2, None)]


def test_identity_partition_constants_of_special_floats(make):
    t = make({"id": "long", "f": "float", "d": "double"}, partition_spec=[("f", "identity"), ("d", "identity")])
    special = [float("nan"), -0.0, 0.0, float("inf"), float("-inf")]
    t.append(*(t.write_data([{"id": i, "f": v, "d": v}], columns=["id"]) for i, v in enumerate(special)))
    for name in ("f", "d"):
        assert [repr(v) for v in column(t, name)] == [repr(v) for v in special]


def test_constants_follow_a_promotion(make):  # 5.5
    t = make({"id": "long", "i": "int", "d": "decimal(4, 2)"}, partition_spec=[("i", "identity"), ("d", "identity")])
    t.append(t.write_data([{"id": 1, "i": 5, "d": "1.25"}], columns=["id"]))
    t.append(t.write_data([{"id": 2, "i": -6, "d": "-1.25"}], columns=["id"]))
    t.widen_column("i", "long")
    t.widen_column("d", "decimal(20, 2)")
    assert rows(t) == [(1, 5, Decimal("1.25")), (2, -6, Decimal("-1.25"))]
    assert rows(t, where="i = 5 AND d > 1", columns=["id"]) == [(1,)]


def test_date_constant_of_a_column_that_is_now_a_timestamp(make):  # 5.5
    t = make({"id": "long", "d": "date"}, partition_spec=[("d", "identity")])
    t.append(t.write_data([{"id": 1, "d": dt.date(1969, 12, 30)}], columns=["id"]))
    t.append(t.write_data([{"id": 2, "d": dt.date(2020, 1, 2)}], columns=["id"]))
    t.widen_column("d", "timestamp")
    assert column(t, "d") == [dt.datetime(1969, 12, 30), dt.datetime(2020, 1, 2)]


def test_constant_inside_a_struct(make):  # 5.2
    t = make({"id": "long", "s": "struct<p: string, q: int>"}, partition_spec=[("s.p", "identity", "p")])
    q = Schema(fields=(t.schema.fields[0], *_without(t.schema.fields[1], "p")))
    for i, value in enumerate(("eu", "us")):
        t.append(t.write_data([{"id": i, "s": {"q": i}}], partition={"p": value}, schema=q))
    assert column(t, "s") == [{"p": "eu", "q": 0}, {"p": "us", "q": 1}]


def _without(field: Field, name: str) -> tuple[Field, ...]:
    inner = tuple(f for f in field.type.fields if f.name != name)
    return (dataclasses.replace(field, type=dataclasses.replace(field.type, fields=inner)),)


# -- files without ids (5.6, 5.7) -------------------------------------------------------------------------------------


def mapped(t: IcebergTable, mapping: list[dict[str, Any]]) -> None:
    t.set_properties(**{"schema.name-mapping.default": json.dumps(mapping)})


def test_name_mapping(make):
    t = make({"id": "long", "a": "string", "b": "string"})
    mapped(t, [{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["a", "x"]}, {"names": ["b"]}])
    for format in FORMATS:
        bare = {"field_ids": False, "format": format}
        t.append(t.write_data([{"id": 1, "a": "p", "b": "hidden"}], **bare))
        t.append(t.write_data([{"id": 2, "a": "q", "b": "h"}], **bare, names={"a": "x", "b": "A"}))
        t.append(t.write_data([{"id": 3, "a": "r", "b": "ids"}], format=format, names={"a": "b", "b": "a"}))
    assert rows(t) == [(1, "p", None)] * 3 + [(2, "q", None)] * 3 + [(3, "r", "ids")] * 3


def test_name_mapping_of_nested_fields(make):
    t = make({"id": "long", "s": "struct<a: int, b: int>", "l": "list<struct<c: int>>", "m": "map<string, int>"})
    ids = {path: f.id for path, f in t.schema.walk()}

    def entry(path: str, name: str = "", *fields: dict[str, Any]) -> dict[str, Any]:
        *_, last = parts = tuple(path.split("."))
        return {"field-id": ids[parts], "names": [name or last], **({"fields": [*fields]} if fields else {})}

    of_list = entry("l", "", entry("l.element", "", entry("l.element.c")))
    of_map = entry("m", "", entry("m.key"), entry("m.value"))
    mapped(t, [entry("id"), entry("s", "", entry("s.a", "b"), entry("s.b", "a")), of_list, of_map])
    content = [{"id": 1, "s": {"a": 1, "b": 2}, "l": [{"c": 3}, None], "m": {"k": 4}}]
    t.append(*(t.write_data(content, field_ids=False, format=format) for format in FORMATS))
    assert rows(t) == [(1, {"a": 2, "b": 1}, [{"c": 3}, None], [["k", 4]])] * 3


def test_without_mapping_parquet_columns_go_by_position(make):
    t = make({"id": "long", "a": "string"})
    t.append(t.write_data([{"id": 1, "a": "x"}], field_ids=False, names={"id": "a", "a": "id"}))
    with pytest.warns(harness.HarnessWarning, match=r"are taken by their positions, .* has no name mapping"):
        assert rows(t) == [(1, "x")]


@pytest.mark.parametrize("format", ["avro", "orc"])
def test_without_mapping_avro_and_orc_columns_go_by_name(make, format):
    t = make({"id": "long", "a": "string"})
    t.append(t.write_data([{"id": 1, "a": "x"}], field_ids=False, columns=["a", "id"], format=format))
    t.append(t.write_data([{"id": 2, "a": "x"}], field_ids=False, names={"a": "A"}, format=format))
    assert rows(t) == [(1, "x"), (2, None)]


@pytest.mark.filterwarnings("ignore:Columns of files without field ids")
def test_nested_by_position_is_refused(make):
    t = make({"id": "long", "s": "struct<a: int>"})
    t.append(t.write_data([{"id": 1, "s": {"a": 1}}], field_ids=False))
    assert rows(t, columns=["id"]) == [(1,)]
    with pytest.raises(harness.UnsupportedError, match=r"schema\.name-mapping\.default") as caught:
        arrow(t)
    assert (caught.value.field, caught.value.rule) == ("s", "iceberg 5.6")


def test_in_a_file_without_ids_the_partition_tuple_beats_the_column(make):  # 5.2 (2) before (3)
    t = make({"id": "long", "p": "string"}, partition_spec=[("p", "identity")])
    mapped(t, [{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["p"]}])
    t.append(t.write_data([{"id": 1, "p": "stale"}], partition={"p": "eu"}, field_ids=False))
    assert rows(t) == [(1, "eu")]


def test_id_less_columns_beside_columns_with_ids_are_invisible(make):  # 5.6
    t = make({"id": "long", "a": "string"})
    mapped(t, [{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["a"]}])
    t.append(t.write_data(pa.table({"id": pa.array([1], pa.int64()), "b": ["x"]}), names={"a": "zzz"}))
    assert rows(t) == [(1, None)]


def test_files_with_and_without_ids_of_one_layout_do_not_share_a_scan(make):  # 11.4
    t = make({"id": "long", "a": "string"})
    mapped(t, [{"field-id": 1, "names": ["a"]}, {"field-id": 2, "names": ["id"]}])
    plain = pa.table({"id": pa.array([1], pa.int64()), "a": ["x"]})
    t.append(t.write_data(plain))
    t.append(t.write_data(pa.table({"id": ["y"], "a": pa.array([2], pa.int64())}), field_ids=False, statistics=[]))
    assert rows(t) == [(1, "x"), (2, "y")]


# -- many shapes at once ---------------------------------------------------------------------------------------------


def test_files_of_every_age_in_one_scan(make):
    t = make({"id": "int", "a": "string", "s": "struct<x: int>"})
    t.append(t.write_data([{"id": 1, "a": "one", "s": {"x": 1}}]))
    t.rename_column("a", "b")
    t.append(t.write_data([{"id": 2, "b": "two", "s": {"x": 2}}], format="avro"))
    t.widen_column("id", "long")
    t.append(t.write_data([{"id": 3, "b": "three", "s": {"x": 3}}], format="orc"))
    t.add_column("y", "string", initial_default="dy", parent="s")
    t.append(t.write_data([{"id": 4, "b": "four", "s": {"x": 4, "y": "w"}}]))
    t.drop_column("b")
    t.add_column("b", "date", initial_default=dt.date(2000, 1, 1))
    t.append(t.write_data([{"id": 2**40, "b": None, "s": None}]))
    assert column(t, "s") == [
        {"x": 1, "y": "dy"},
        None,
        {"x": 2, "y": "dy"},
        {"x": 3, "y": "dy"},
        {"x": 4, "y": "w"},
    ]
    assert column(t, "b") == [dt.date(2000, 1, 1), None, *[dt.date(2000, 1, 1)] * 3]


def test_schema_of_an_empty_table(make):  # 1.24
    t = make({"id": "long", "s": "struct<a: list<int>>"})
    assert arrow(t).num_rows == 0
    assert arrow(t).column_names == ["id", "s"]


def test_a_user_field_may_use_any_id(make):  # 5.7: id 0 is a valid id
    t = make(Schema(fields=(Field(id=0, name="z", type=StringType()), Field(id=1000, name="y", type=StringType()))))
    t.append(t.write_data([{"z": "a", "y": "b"}]))
    t.rename_column("z", "q")
    assert rows(t) == [("a", "b")]


def test_a_struct_that_duckdb_sees_flat_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = IcebergTable.create(tmp_path / "t", {"s": "struct<a:int,b:string>"})
    table.append(table.write_data([{"s": {"a": 1, "b": "x"}}], format="orc"))
    table.rename_column("s.b", "c")  # so that the struct is built anew
    seen = scans.exposed
    monkeypatch.setattr(scans, "exposed", lambda label, type_: dataclasses.replace(seen(label, type_), parts=()))
    with pytest.raises(SchemaMismatchError, match="Cannot read column 'a': DuckDB sees what holds it"):
        harness.open_table(str(tmp_path / "t")).snapshot().to_arrow()
