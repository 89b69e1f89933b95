"""Parts of nested values in a comparison: columns, exclusions and tolerances by path, and differences by path."""

import json
import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from test_tolerances import both_ways

from harness.cli import main
from harness.diff.compare import compare
from harness.diff.result import ComparisonResult, PartDifference
from harness.errors import RequestError
from harness.writing.iceberg.builder import IcebergTable

S = pa.struct([("x", pa.float64()), ("y", pa.string()), ("in", pa.struct([("a", pa.int64()), ("b", pa.int64())]))])
TYPES = pa.schema(
    [("k", pa.int64()), ("s", S), ("l", pa.list_(S)), ("m", pa.map_(pa.string(), S)), ("f", pa.list_(pa.float64()))]
)
SAME = {"x": 1.0, "y": "v", "in": {"a": 1, "b": 2}}
ROW = {"k": 1, "s": SAME, "l": [SAME, None, SAME], "m": [("p", SAME), ("q", None)], "f": [1.0, None]}


def rows(**changes: object) -> pa.Table:
    """Return a few rows: the second has other values, and one is null except for its key."""
    changed = {**ROW, "k": 2, **changes}
    return pa.Table.from_pylist([ROW, changed, dict.fromkeys(TYPES.names) | {"k": 3}], TYPES)


def near(value: dict | None = None, **changes: object) -> dict:
    return {**(SAME if value is None else value), **changes}


OTHER_X, OTHER_B = near(x=1.25), near(**{"in": {"a": 1, "b": 3}})
CHANGES = {
    "field": ({"s": OTHER_X}, "s.x", ("s.x", "1.0", "1.25")),
    "field-of-a-field": ({"s": OTHER_B}, "s.in.b", ("s.in.b", "2", "3")),
    "in-a-list": ({"l": [SAME, None, OTHER_X]}, "l.element.x", ("l[3].x", "1.0", "1.25")),
    "in-a-map": ({"m": [("q", None), ("p", OTHER_X)]}, "m.value.x", ("m['p'].x", "1.0", "1.25")),
}


def parts(comparison: ComparisonResult) -> list[tuple[str, str | None, str | None]]:
    return [(part.path, part.left, part.right) for row in comparison.rows for part in row.parts]


@pytest.mark.parametrize(("changes", "path", "part"), CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize(
    "wrap",
    [lambda table: table, pytest.param(duckdb.from_arrow, marks=pytest.mark.slow)],
    ids=["arrow", "duckdb"],
)
def test_a_difference_is_shown_by_path_and_left_out_by_path(changes: dict, path: str, part: tuple, wrap) -> None:
    left, right = wrap(rows()), wrap(rows(**changes))
    found = both_ways(left, right, keys=["k"])
    assert (found.changed, parts(found)) == (1, [part])
    (column,) = found.by_column
    assert (column.paths, column.examples) == ((part[0],), (part[1:],))
    assert f"{part[0]}: {part[1]} → {part[2]}" in found.to_text()
    for how in ({"keys": ["k"]}, {}):
        without = both_ways(left, right, exclude=[path], **how)
        assert without.equal
        assert without.relaxations == (f"left out: {path}",)
    assert not both_ways(left, right, exclude=["s.y", "l.element.y", "m.value.y"]).equal


@pytest.mark.parametrize(
    ("columns", "is_equal"),
    [
        (["k", "s.y"], True),
        (["k", "s.in.a", "s.y"], True),
        (["k", "s.x"], False),
        (["s.in"], True),
        (["s", "s.y"], False),
        (["l.element.y", "m.value.x", "k"], True),
    ],
)
def test_only_some_fields_are_compared(columns: list[str], is_equal: bool) -> None:
    found = both_ways(rows(), rows(s=OTHER_X), columns=columns)
    assert found.equal is is_equal
    assert found.columns == tuple(dict.fromkeys(column.partition(".")[0] for column in columns))


def test_columns_are_left_out_of_chosen_ones() -> None:
    found = both_ways(rows(), rows(s=OTHER_X), columns=["k", "s", "l", "f"], exclude=["s.x", "l"])
    assert found.equal
    assert found.columns == ("k", "s", "f")


def test_a_field_of_one_side_alone_is_left_out() -> None:
    left = pa.table({"k": [1, 2], "s": [{"x": 1, "new": 5}, None]})
    right = pa.table({"k": [1, 2], "s": [{"x": 1}, None]})
    assert not compare(left, right).equal
    assert both_ways(left, right, exclude=["s.new"]).equal
    assert both_ways(right, left, exclude=["s.new"]).equal


def test_a_column_whose_whole_name_is_the_path_comes_first() -> None:
    left, right = (pa.table({"s.x": [value], "s": [{"x": 1}]}) for value in (1, 2))
    assert both_ways(left, right, exclude=["s.x"]).columns == ("s",)
    assert both_ways(left, right, columns=["s.x"]).columns == ("s.x",)
    dotted = pa.table({"s": pa.array([], pa.struct([("a.b", pa.int64()), ("a", pa.struct([("b", pa.int64())]))]))})
    with pytest.raises(RequestError, match=r"'s\.a\.b'.*2 parts have that name"):
        compare(dotted, dotted, exclude=["s.a.b"])


WITHIN = {
    "field": ({"s": OTHER_X}, {"s.x": 0.25}, True),
    "field-beyond": ({"s": OTHER_X}, {"s.x": 0.2}, False),
    "another-field-differs": ({"s": near(x=1.25, y="w")}, {"s.x": 0.25}, False),
    "null-struct": ({"s": None}, {"s.x": 100}, False),
    "null-field": ({"s": near(x=None)}, {"s.x": 100}, False),
    "integer-below": ({"s": OTHER_B}, {"s.in.b": 1}, True),
    "element": ({"f": [1.25, None]}, {"f.element": 0.25}, True),
    "longer-list": ({"f": [1.0, None, 1.0]}, {"f.element": 100}, False),
    "element-moved": ({"f": [None, 1.0]}, {"f.element": 100}, False),
    "in-a-list": ({"l": [OTHER_X, None, near(x=0.75)]}, {"l.element.x": 0.25}, True),
    "in-a-list-another-field": ({"l": [OTHER_X, None, OTHER_B]}, {"l.element.x": 0.25}, False),
    "in-a-map": ({"m": [("q", None), ("p", OTHER_X)]}, {"m.value.x": 0.25}, True),
    "in-a-map-beyond": ({"m": [("q", None), ("p", OTHER_X)]}, {"m.value.x": 0.2}, False),
    "another-key": ({"m": [("p", SAME), ("r", None)]}, {"m.value.x": 100}, False),
    "all-floats": ({"s": OTHER_X, "f": [1.25, None], "l": [SAME, None, OTHER_X]}, {"floats": 0.25}, True),
    "all-floats-but-one": ({"s": OTHER_X, "f": [1.25, None]}, {"floats": 0.25, "f.element": 0}, False),
}


@pytest.mark.parametrize(("changes", "tolerance", "is_close"), WITHIN.values(), ids=WITHIN)
def test_a_tolerance_reaches_into_nested_values(changes: dict, tolerance: dict, is_close: bool) -> None:
    found = both_ways(rows(), rows(**changes), keys=["k"], tolerance=tolerance)
    assert (found.equal, found.allowed) == (is_close, int(is_close))


def test_parts_within_a_tolerance_are_not_shown() -> None:
    changed = [near(x=1.25), None, near(x=9.0, y="w")]
    found = both_ways(rows(), rows(l=changed), keys=["k"], tolerance={"l.element.x": 0.5})
    assert parts(found) == [("l[3].x", "1.0", "9.0"), ("l[3].y", "'v'", "'w'")]


DIFFERING = {
    "null": (None, "s", "{x: 1.0, y: 'v', in: {a: 1, b: 2}}", "NULL"),
    "null-field": (near(**{"in": None}), "s.in", "{a: 1, b: 2}", "NULL"),
}


@pytest.mark.parametrize(("value", "path", "left", "right"), DIFFERING.values(), ids=DIFFERING)
def test_a_null_differs_as_a_whole(value: dict | None, path: str, left: str, right: str) -> None:
    assert parts(both_ways(rows(), rows(s=value), keys=["k"])) == [(path, left, right)]


def test_lists_of_other_lengths_and_entries_of_one_side_are_shown() -> None:
    found = both_ways(rows(), rows(f=[1.0], m=[("p", OTHER_X), ("r", None)]), keys=["k"])
    assert found.rows[0].parts == (
        PartDifference("m", "m['p'].x", "1.0", "1.25"),
        PartDifference("m", "m['q']", "NULL", None),
        PartDifference("m", "m['r']", None, "NULL"),
        PartDifference("f", "f", "[1.0, NULL]", "[1.0]"),
    )


def test_many_differing_parts_are_cut() -> None:
    left, right = (pa.table({"k": [1], "l": [[i] * 3_000]}) for i in (1, 2))
    (row,) = both_ways(left, right, keys=["k"]).rows
    assert row.has_more_parts
    assert row.parts[0] == PartDifference("l", "l[1]", "1", "2")
    assert len(row.parts) < 100


WIDE = [{f"field_{i}": f"value {i}" for i in range(40)}, {f"field_{i}": f"value {i}" for i in range(40)}]
WIDE[1]["field_20"] = "another value 20"


@pytest.mark.parametrize("keys", [[], ["k"]], ids=["without-keys", "by-keys"])
def test_a_field_of_a_wide_struct_is_shown_in_every_format(keys: list[str]) -> None:
    left, right = (pa.table({"k": [1], "s": [value]}) for value in WIDE)
    found = both_ways(left, right, keys=keys)
    line = "s.field_20: 'value 20' → 'another value 20'"
    assert line in found.to_text()
    assert line in found.to_junit()
    part = {"column": "s", "path": "s.field_20", "left": "'value 20'", "right": "'another value 20'"}
    assert json.loads(found.to_json())["rows"][0]["parts"] == [part]
    page = re.sub(r"<(?!/?mark)[^>]*>", "", found.to_html())
    assert "s.field_20 <mark>&#x27;value 20&#x27;</mark>" in page
    assert "s.field_20 <mark>&#x27;another value 20&#x27;</mark>" in page
    assert line in compare(left.select(["s"]), right.select(["s"])).to_text()


def test_rows_that_print_alike_face_each_other() -> None:
    left, right = (pa.table({"t": ["a" * 500 + middle + "a" * 500]}) for middle in "xy")
    found = both_ways(left, right)
    assert [row.partner for row in found.rows] == [1, 0]
    assert found.rows[0].left != found.rows[1].right


WRONG = {
    "excluded": ({"exclude": ["nosuch"]}, "Cannot leave out 'nosuch'"),
    "excluded-in-another-case": ({"exclude": ["S"]}, "did you mean 's'"),
    "excluded-field": ({"exclude": ["s.z"]}, r"Cannot leave out 's\.z'.*did you mean 's\.[xy]'"),
    "excluded-element": ({"exclude": ["f.element"]}, "only 'f.element'"),
    "excluded-key": ({"exclude": ["m.key"]}, "only 'm.key'"),
    "everything-excluded": ({"exclude": list(rows().column_names)}, "all columns of the left side are left out"),
    "all-fields": ({"exclude": ["s.in.a", "s.in.b"]}, r"leave out 's\.in'"),
    "column": ({"columns": ["sx"]}, "Cannot compare 'sx'.*did you mean 's'"),
    "column-field": ({"columns": ["s.in.c"]}, r"Cannot compare 's\.in\.c'.*did you mean 's\.in\."),
    "tolerance": ({"keys": ["k"], "tolerance": {"s.z": 1}}, r"a tolerance of 's\.z'.*did you mean"),
    "tolerance-of-text": ({"keys": ["k"], "tolerance": {"s.y": 1}}, r"'s\.y'.*not numbers or times"),
    "tolerance-of-map-keys": ({"keys": ["k"], "tolerance": {"m.key": 1}}, r"'m\.key': it is part of a key"),
    "tolerance-in-a-key": ({"keys": ["s"], "tolerance": {"s.x": 1}}, r"'s\.x': it is part of a key"),
    "tolerance-of-schemas": (
        {"keys": ["k"], "tolerance": {"nosuch": 1}, "schema_only": True},
        "a tolerance of 'nosuch'",
    ),
    "keys": ({"keys": ["K"]}, "Cannot pair rows by 'K'.*did you mean 'k'"),
    "tolerance-without-keys": ({"tolerance": {"nosuch": "1"}}, "a tolerance of 'nosuch'"),
    "engine": ({"engines": ("duckdb", "sparkk")}, "sparkk"),
}


@pytest.mark.parametrize(("how", "sentence"), WRONG.values(), ids=WRONG)
def test_an_unknown_name_is_an_error_with_a_suggestion(how: dict, sentence: str) -> None:
    with pytest.raises(RequestError, match=sentence):
        compare(rows(), rows(), **how)


@pytest.mark.smoke
@pytest.mark.parametrize("direct_rows", [50_000, 0], ids=["in-memory", "by-hashes"])
def test_both_engines_take_paths(direct_rows: int, spark) -> None:
    left, right = (
        spark.createDataFrame(rows()),
        rows(s=near(x=1.25, **{"in": {"a": 1, "b": 3}}), m=[("q", None), ("p", OTHER_X)]),
    )
    how = {"keys": ["k"], "direct_rows": direct_rows}
    differing = [("s.x", "1.0", "1.25"), ("s.in.b", "2", "3"), ("m['p'].x", "1.0", "1.25")]
    assert parts(compare(left, right, **how)) == differing
    assert parts(compare(left, right, exclude=["s.x", "m"], **how)) == differing[1:2]
    assert compare(left, right, exclude=["s.x", "s.in.b", "m.value.x"], **how).equal
    assert compare(left, right, exclude=["s.in.b"], tolerance={"floats": 0.25}, **how).equal
    assert not compare(left, right, exclude=["s.in.b"], tolerance={"s.x": 0.25}, **how).equal


def table_of(root: Path, total: float, note: str) -> str:
    table = IcebergTable.create(root, {"id": "long", "s": "struct<x: double, note: string>"})
    table.append(
        table.write_data([{"id": 1, "s": {"x": 1.0, "note": "a"}}, {"id": 2, "s": {"x": total, "note": note}}])
    )
    return str(table.location)


@pytest.mark.parametrize("engines", ["duckdb", pytest.param("spark,duckdb", marks=pytest.mark.smoke)])
def test_the_command_takes_paths_and_names_the_files_of_what_is_left(request, tmp_path, capfd, engines) -> None:
    if "spark" in engines:
        request.getfixturevalue("spark")
    sides = table_of(tmp_path / "a", 1.5, "a"), table_of(tmp_path / "b", 1.75, "b")
    command = ["diff", *sides, "--keys", "id", "--engines", engines]
    assert main([*command, "--exclude", "s.x,s.note"]) == 2
    assert main([*command, "--exclude", "s.note", "--tolerance", "s.x=0.25"]) == 0
    assert main([*command, "--columns", "id,s.note"]) == 1
    out = capfd.readouterr().out
    assert "s.note: 'a' → 'b'" in out
    assert re.search(r"left: \S+\.parquet, row 1", out)
    assert main([*command, "--exclude", "nosuch"]) == 2
    assert main([*command, "--tolerance", "s.x=1", "--tolerance", "s.x=2"]) == 2
