"""Keys of equality deletes end to end (iceberg 4.23 to 4.30); expectations by hand."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from agreeing import in_order, rows

from harness.engines.duckdb.instance import connect
from harness.errors import HarnessError
from harness.table import open_table
from harness.testing.writing.iceberg.avro import int_map
from harness.testing.writing.iceberg.builder import DataFileHandle, IcebergTable

Row = tuple[Any, ...]

Make = Callable[..., IcebergTable]


def ids(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": n} for n in numbers]


PATTERNS = [(1, "a"), (1, None), (None, "a"), (None, None), (2, "a")]


@pytest.mark.parametrize(
    "deleted",
    [[(1, None)], [(None, "a")], [(None, None)], [(1, None), (None, "a")], [(1, "a"), (None, None)]],
    ids=str,
)
def test_null_keys(make: Make, deleted: list[Row]) -> None:
    """iceberg 4.26, T4, T6: null equals null and nothing else, in whatever order the ids are."""
    t = make({"a": "int", "b": "string", "other": "int"})
    t.append(t.write_data([{"a": a, "b": b, "other": n} for n, (a, b) in enumerate(PATTERNS)]))
    t.commit(add=[t.write_equality_deletes(["b", "a"], [{"a": a, "b": b} for a, b in deleted])])
    alive = [n for n, pattern in enumerate(PATTERNS) if pattern not in deleted]
    assert rows(t, ["other"]) == [(n,) for n in alive]
    assert rows(t, []) == [()] * len(alive)
    assert rows(t, ["_pos"], where="other >= 1") == [(n,) for n in alive if n]


def test_the_key_need_not_be_projected(make: Make) -> None:
    """iceberg 4.24, T6: key columns are read, used and removed."""
    t = make({"id": "long", "other": "string"})
    t.append(t.write_data([{"id": 1, "other": "x"}, {"id": 2, "other": "y"}, {"id": 3, "other": "z"}]))
    t.commit(add=[t.write_equality_deletes(["id"], ids(1))])
    for columns, where, expected in [
        (["other"], None, [("y",), ("z",)]),
        ([], None, [(), ()]),
        (["_pos"], None, [(1,), (2,)]),
        (["other"], "other <> 'y'", [("z",)]),
        (["other"], "id > 2", [("z",)]),
        (["id"], "_pos = 0", []),
        (["other", "id"], "id = 1 OR other = 'y'", [("y", 2)]),
        ([], "other = 'z'", [()]),
    ]:
        assert rows(t, columns, where) == expected, (columns, where)


def test_fifty_thousand_keys(make: Make) -> None:
    """iceberg 4.30, T8: far more than a batch."""
    t = make({"id": "long", "s": "string"})
    t.append(t.write_data([{"id": i, "s": str(i)} for i in range(60_000)], row_group_size=7_000))
    t.commit(add=[t.write_equality_deletes(["id"], ids(*range(0, 50_000)), row_group_size=3_000)])
    t.commit(add=[t.write_equality_deletes(["s"], [{"s": str(i)} for i in range(50_000, 60_000, 2)])])
    assert rows(t, ["id"]) == in_order((i,) for i in range(50_001, 60_000, 2))


def test_the_null_of_a_key_with_an_initial_default(make: Make) -> None:
    """iceberg 4.27, T7: an old file without the key holds its default, not null; explicit nulls do."""
    t = make({"id": "long"}, format_version=3)
    old = t.write_data(ids(1))
    t.add_column("note", "string", initial_default="none")
    t.append(old, t.write_data([{"id": 2, "note": "none"}, {"id": 3, "note": None}]))
    t.commit(add=[t.write_equality_deletes(["note"], [{"note": None}])])
    assert rows(t) == [(1, "none"), (2, "none")]


def test_a_dropped_required_key(make: Make) -> None:
    """iceberg 4.23: files written after the drop lack the key, whether the delete hits them or not."""
    t = make({"gone": "long not null", "n": "string"})
    t.append(t.write_data([{"gone": 1, "n": "x"}, {"gone": 2, "n": "y"}]))
    late = t.write_equality_deletes(["gone"], [{"gone": 1}])
    t.drop_column("gone")
    t.append(t.write_data([{"n": "hit by a writer that knew the old schema"}]))
    t.commit(add=[late])
    t.append(t.write_data([{"n": "after"}]))
    assert rows(t) == [("after",), ("hit by a writer that knew the old schema",), ("y",)]


@pytest.mark.parametrize(
    ("old", "new", "kept", "killed"),
    [("int", "long", 5, 7), ("decimal(9, 2)", "decimal(20, 2)", "1.50", "2.50")],
    ids=["int to long", "decimal"],
)
def test_a_widened_key(make: Make, old: str, new: str, kept: Any, killed: Any) -> None:
    """iceberg 4.28: both sides are promoted before they are compared, whichever is the narrower file."""
    t = make({"k": old, "n": "int"})
    t.append(t.write_data([{"k": kept, "n": 1}, {"k": killed, "n": 2}]))
    narrow = t.write_equality_deletes(["k"], [{"k": killed}])
    t.widen_column("k", new)
    t.append(t.write_data([{"k": kept, "n": 3}, {"k": killed, "n": 4}, {"k": None, "n": 5}]))
    t.commit(add=[narrow])
    assert rows(t, ["n"]) == [(1,), (3,), (5,)]
    t.commit(add=[t.write_equality_deletes(["k"], [{"k": kept}])])
    assert rows(t, ["n"]) == [(5,)]


def test_a_nested_key(make: Make) -> None:
    """iceberg 4.23: a key inside structs; below a null struct it is null."""
    t = make({"id": "int", "s": "struct<a: int, u: struct<b: string>>"})
    values = [
        {"a": 1, "u": {"b": "x"}},
        {"a": 1, "u": None},
        None,
        {"a": 2, "u": {"b": None}},
        {"a": 3, "u": {"b": "y"}},
    ]
    t.append(t.write_data([{"id": n, "s": value} for n, value in enumerate(values)]))
    b = next(f for f in t.schema.fields[1].type.fields if f.name == "u").type.fields[0].id  # type: ignore[union-attr]
    t.commit(add=[t.write_equality_deletes([b], [{"s": {"u": {"b": "x"}}}])])
    assert rows(t, ["id"]) == [(1,), (2,), (3,), (4,)]
    t.commit(add=[t.write_equality_deletes([b], [{"s": {"u": {"b": None}}}])])
    assert rows(t, ["id"]) == [(4,)]
    assert rows(t, ["s"]) == [({"a": 3, "u": {"b": "y"}},)]


def test_a_nested_key_renamed_and_absent(make: Make) -> None:
    """iceberg 4.23, 4.27, 5.9: nested names change, ids do not; old files hold the nested default."""
    t = make({"id": "int", "s": "struct<a: int>"}, format_version=3)
    old = t.write_data([{"id": 1, "s": {"a": 1}}, {"id": 2, "s": None}, {"id": 3, "s": {"a": 2}}])
    key = t.add_column("b", "int", parent="s", initial_default=7)
    t.rename_column("s.a", "b2")
    t.rename_column("s", "t")
    t.append(old, t.write_data([{"id": 4, "t": {"b2": 1, "b": 7}}, {"id": 5, "t": {"b2": 1, "b": 8}}]))
    t.commit(add=[t.write_equality_deletes([key], [{"t": {"b": 7}}])])
    assert rows(t, ["id"]) == [(2,), (5,)]


def test_two_nested_keys_of_one_struct_with_a_top_level_key(make: Make) -> None:
    t = make({"id": "int", "s": "struct<a: int, b: int>"})
    t.append(t.write_data([{"id": i, "s": {"a": a, "b": b}} for i in (1, 2) for a in (1, 2) for b in (1, None)]))
    a, b = (f.id for f in t.schema.fields[1].type.fields)  # type: ignore[union-attr]
    t.commit(add=[t.write_equality_deletes([b, 1, a], [{"id": 1, "s": {"a": 2, "b": None}}])])
    left = [(i, {"a": a, "b": b}) for i in (1, 2) for a in (1, 2) for b in (1, None) if (i, a, b) != (1, 2, None)]
    assert rows(t) == in_order(left)


KEYS: dict[str, tuple[str, list[Any]]] = {
    "boolean": ("boolean", [True, False, None]),
    "int": ("int", [-(2**31), 2**31 - 1, 0]),
    "long": ("long", [2**53 + 1, 2**53, -(2**63)]),
    "decimal": ("decimal(38, 10)", ["0.0000000001", "0.0000000002", "-1"]),
    "date": ("date", [dt.date(2020, 1, 1), dt.date(1969, 12, 31), dt.date(1, 1, 1)]),
    "time": ("time", [dt.time(0), dt.time(23, 59, 59, 999_999), dt.time(0, 0, 0, 1)]),
    "timestamp": ("timestamp", [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(1970, 1, 1), None]),
    "timestamptz": ("timestamptz", [dt.datetime(2020, 3, 1, 12, 0, 0, i, dt.UTC) for i in (0, 1)]),
    "string": ("string", ["a ", "a", "A", "", "a\0b", "ä", "a\u0308"]),
    "uuid": ("uuid", ["00000000-0000-0000-0000-000000000001", "80000000-0000-0000-0000-000000000001"]),
    "fixed": ("fixed[2]", [b"\0\1", b"\0\2", b"\xff\xff"]),
    "binary": ("binary", [b"", b"\0", b"\0\0", b"\xff"]),
}


@pytest.mark.parametrize("file_format", ["parquet", "avro", "orc"])
def test_keys_of_every_type(make: Make, file_format: Any) -> None:
    """iceberg 4.28: bytes are compared, without trimming, folding or normalisation."""
    t = make({"type": "string", "n": "int", **{name: type_ for name, (type_, _) in KEYS.items()}})
    content = [(name, n, value) for name, (_, values) in KEYS.items() for n, value in enumerate(values)]
    t.append(t.write_data([{"type": name, "n": n, name: value} for name, n, value in content]))
    gone = ((name, values[0]) for name, (_, values) in KEYS.items())
    t.commit(add=[t.write_equality_deletes([name], [{name: value}], format=file_format) for name, value in gone])
    assert rows(t, ["type", "n"]) == in_order((name, n) for name, n, _ in content if n)


@pytest.mark.parametrize("collation", ["nocase", "noaccent", "nocase.noaccent"])
def test_the_collation_of_the_connection_is_not_that_of_keys(make: Make, collation: str) -> None:
    """iceberg 4.28: no collation, in the join and in the pooling of keys."""
    t = make({"k": "string", "s": "struct<k: string>"})
    t.append(t.write_data([{"k": k, "s": {"k": k}} for k in ("a", "A", "á", None)]))
    t.commit(add=[t.write_equality_deletes(["k"], [{"k": "A"}])])
    t.append(t.write_data([{"k": k, "s": {"k": k}} for k in ("a", "A")]))
    t.commit(add=[t.write_equality_deletes(["k"], [{"k": "a"}]), t.write_equality_deletes([3], [{"s": {"k": "Á"}}])])
    con = connect()
    con.execute(f"SET default_collation = '{collation}'")
    relation = open_table(t.location).snapshot().to_duckdb(con, columns=["k"])
    assert in_order(relation.fetchall()) == [("A",), ("á",), (None,)]


def test_an_identity_partition_column_as_key(make: Make) -> None:
    """iceberg 4.27, 5.2, T17: files without the column hold the tuple's value, null included (5.4)."""
    t = make({"id": "long", "p": "int"}, partition_spec=[("p", "identity")])
    files = [t.write_data(ids(1, 2), columns=["id"], partition={"p": p}) for p in (1, 2, None)]
    t.append(*files)
    none = t.set_partition_spec([])
    t.commit(add=[t.write_equality_deletes(["p", "id"], [{"id": 1, "p": 2}, {"id": 2, "p": None}], spec_id=none)])
    assert rows(t) == [(1, 1), (1, None), (2, 1), (2, 2)]


def test_a_partition_column_that_the_delete_file_lacks(make: Make) -> None:
    """iceberg 4.25: the delete file's own tuple gives the key."""
    t = make({"id": "long", "p": "int"}, partition_spec=[("p", "identity")])
    t.append(*t.write_partitioned([{"id": i, "p": p} for p in (1, 2) for i in (1, 2)]))
    delete = t.write_equality_deletes(["id"], ids(1), partition={"p": 1})
    delete.data_file["equality_ids"] = [1, 2]
    t.commit(add=[delete])
    assert rows(t) == [(1, 2), (2, 1), (2, 2)]


def test_data_files_without_ids(make: Make) -> None:
    """iceberg 4.27, 5.6: keys of id-less files come by name mapping."""
    mapping = '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["n", "m"]}]'
    t = make({"id": "long", "n": "string"}, properties={"schema.name-mapping.default": mapping})
    t.append(t.write_data([{"id": 1, "n": "x"}, {"id": 2, "n": "y"}], field_ids=False, names={"n": "m"}))
    t.append(t.write_data([{"id": 3, "n": "x"}]))
    t.commit(add=[t.write_equality_deletes(["n"], [{"n": "x"}], field_ids=False)])
    assert rows(t) == [(2, "y")]


# -- refusals -------------------------------------------------------------------------------------------------------


def with_ids(*numbers: int) -> Callable[[IcebergTable], DataFileHandle]:
    def delete(t: IcebergTable) -> DataFileHandle:
        handle = t.write_equality_deletes(["id"], ids(1))
        handle.data_file["equality_ids"] = list(numbers)
        return handle

    return delete


@pytest.mark.parametrize(
    ("delete", "cause", "rule"),
    [
        (with_ids(99), "UnknownEqualityField", "iceberg 4.23"),
        (with_ids(3), "UnknownEqualityField", "iceberg 4.23"),
        (with_ids(5), "UnknownEqualityField", "iceberg 4.23"),
        (with_ids(4), "UnknownEqualityField", "iceberg 4.23"),
        (with_ids(), "CorruptManifest", "iceberg 4.23"),
        (with_ids(1, 2), "UnknownEqualityField", "iceberg 4.25"),
    ],
    ids=["unknown id", "list", "below a list", "float", "no ids", "key not in the delete file"],
)
def test_refused(make: Make, delete: Callable[[IcebergTable], DataFileHandle], cause: str, rule: str) -> None:
    t = make({"id": "long", "n": "string", "l": "list<int>", "d": "double"})
    t.append(t.write_data([{"id": 1, "n": "x"}]))
    handle = delete(t)
    t.commit(add=[handle])
    with pytest.raises(HarnessError) as caught:
        rows(t)
    assert (caught.value.cause, caught.value.rule) == (cause, rule)
    assert str(caught.value.file).startswith(handle.path)


def test_a_missing_delete_file_is_refused(make: Make) -> None:
    """iceberg 4.10: never skipped."""
    t = make({"id": "long"})
    t.append(t.write_data(ids(1)))
    delete = t.write_equality_deletes(["id"], ids(1))
    t.commit(add=[delete])
    delete.file.unlink()
    with pytest.raises(HarnessError) as caught:
        rows(t)
    assert caught.value.cause == "MissingFile"
    assert str(caught.value.file).startswith(delete.path)


def test_without_pruning_no_delete_is_held_back_by_statistics(make: Make) -> None:
    """Whoever turns pruning off does not believe the statistics, be they of data or of deletes."""
    t = make({"id": "long"})
    t.append(t.write_data(ids(1, 2)))
    delete = t.write_equality_deletes(["id"], [{"id": 1}])
    bounds = ("lower_bounds", "upper_bounds")
    delete.data_file.update({name: int_map({1: (7).to_bytes(8, "little")}) for name in bounds})
    t.commit(add=[delete])
    plans = {prune: open_table(str(t.store.directory), prune=prune).snapshot().plan() for prune in ("files", "off")}
    assert {prune: len(plan.equality_deletes) for prune, plan in plans.items()} == {"files": 0, "off": 1}
