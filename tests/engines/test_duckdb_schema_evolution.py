"""Columns by field id through every change of a schema, on DuckDB (iceberg section 5)."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
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
from harness.testing.writing.iceberg.builder import IcebergTable

FORMATS = ("parquet", "avro", "orc")


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., IcebergTable]:
    return lambda schema, **more: IcebergTable.create(tmp_path / "t", schema, **{"format_version": 3, **more})


# -- nested ------------------------------------------------------------------------------------------------------------

"""Where a struct is: the column's type, the struct's path in it, how its value is written there, and how it is read."""


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


# -- promotions (5.12) -----------------------------------------------------------------------------------------------


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


# -- partition constants (5.2, 5.4, 5.5, T17) ------------------------------------------------------------------------


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
