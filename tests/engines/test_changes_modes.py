"""Changes from rows with lifetimes: each mode, on both engines. The expected rows are worked out by hand."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from lifetimes import ENGINES, History, changes, read_changes
from reading import in_order

from harness.engines.duckdb.instance import connect
from harness.errors import RequestError
from harness.metadata.model.schema import METADATA, SNAPSHOT_CHANGES, Schema
from harness.metadata.plan.lifetimes import BEFORE, EQUALITY, Span, delete_number
from harness.snapshot import PlannedRows

pytestmark = pytest.mark.parametrize("engine", ENGINES)

SCHEMA = {"id": "long", "v": "string"}
POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")


def variant(metadata: str, value: str) -> dict[str, bytes]:
    return {"metadata": bytes.fromhex(metadata.ljust(6, "0")), "value": bytes.fromhex(value)}


A1_B_NULL = variant("01020001026162", "020200010002030c0100")
B_NULL_A1 = variant("01020001026261", "020201000002030c0100")
"""The same object with another dictionary of names."""
CHANGES = tuple(SNAPSHOT_CHANGES)


def rows(*pairs: tuple[Any, Any]) -> list[dict[str, Any]]:
    return [{"id": id, "v": v} for id, v in pairs]


def of(*ids: int) -> list[dict[str, Any]]:
    return rows(*((id, f"v{id}") for id in ids))


def test_rows_with_lifetimes(tmp_path: Path, engine: str) -> None:
    """Every row of every file is returned once, with the first delete that applies to it."""
    h = History(tmp_path, SCHEMA)
    h.add(of(1, 2, 3, 4), BEFORE, 3, dated=[([0], Span(BEFORE)), ([0, 1], Span(0, 2)), ([1, 2], Span(1))])
    h.add(of(5, 6), 1)
    h.delete(["id"], [{"id": 6}, {"id": 3}], 2)
    h.delete(["id"], [{"id": 6}, {"id": 4}], 0, 1)
    h.add(of(6), 3)
    columns = ["id", "_added_commit", "_removed_commit", "_deleted_by"]
    plan = h.plan(None, [*columns, "_pos"])
    assert plan.lifetimes is not None
    places = {span.added: EQUALITY + i for i, span in enumerate(plan.lifetimes.equality_deletes)}
    numbers = {
        1: delete_number(BEFORE, 0),
        2: delete_number(0, 1),
        3: delete_number(1, 2),
        # the second equality delete ended before the files of its other key were added
        4: delete_number(0, places[0]),
        6: delete_number(2, places[2]),
    }
    assert read_changes(plan, engine) == sorted(
        [(i, -1, 3, numbers.get(i), i - 1) for i in (1, 2, 3, 4)]
        + [(5, 1, None, None, 0), (6, 1, None, numbers[6], 1), (6, 3, None, None, 0)],
        key=repr,
    )
    assert read_changes(h.plan(None, ["id"], "id > 4"), engine) == [(5,), (6,), (6,)]


def every_kind_of_delete(h: History) -> None:
    h.add(of(1, 2, 3, 4), BEFORE, 2, dated=[([0], Span(0)), ([0, 1], Span(1))])
    h.add(of(5, 6, 7), 0, dated=[([2], Span(0))])
    h.add(of(8, 9), 1, 3)
    h.delete(["id"], [{"id": 5}, {"id": 8}], 1)
    h.delete(["v"], [{"v": "v6"}], 3)
    h.add(of(4, 10), 2)
    h.add(of(11), 4)


EVERY_KIND = [
    (1, "delete", 0),
    (2, "delete", 1),
    (3, "delete", 2),  # 4 was carried over
    (5, "insert", 0),
    (5, "delete", 1),
    (6, "insert", 0),
    (6, "delete", 3),
    (9, "insert", 1),  # 7 and 8 were deleted by the commits that added them
    (9, "delete", 3),
    (10, "insert", 2),
    (11, "insert", 4),
]


def carried_rows_with_duplicates(h: History) -> None:
    h.add(rows((1, "a"), (1, "a"), (1, "a"), (2, "b"), (None, None), (3, None)), BEFORE, 0)
    h.add(rows((1, "a"), (2, "b"), (2, "b"), (None, None), (3, "")), 0)


def two_rewrites(h: History) -> None:
    """A row that is carried over, deleted by a rewrite, and inserted again by another one."""
    h.add(of(1, 2), BEFORE, 0)
    h.add(of(1), 0, 1)
    h.add(of(2), 1)


CASES: dict[str, tuple[Callable[[History], None], dict[str, Any], dict[str, Sequence[tuple[Any, ...]]]]] = {
    "every kind of delete": (
        every_kind_of_delete,
        {"rewrites": [2]},
        {
            "changelog": EVERY_KIND,
            "updates": EVERY_KIND,
            "net": [(1, "delete", 0), (2, "delete", 1), (3, "delete", 2), (10, "insert", 2), (11, "insert", 4)],
        },
    ),
    "carried rows with duplicates": (
        carried_rows_with_duplicates,
        {"rewrites": [0]},
        {
            "changelog": [(1, "delete", 0), (1, "delete", 0), (2, "insert", 0), (3, "delete", 0), (3, "insert", 0)],
            "net": [(1, "delete", 0), (1, "delete", 0), (2, "insert", 0), (3, "delete", 0), (3, "insert", 0)],
            "updates": [
                (1, "delete", 0),
                (1, "delete", 0),
                (2, "insert", 0),
                (3, "update_preimage", 0),
                (3, "update_postimage", 0),
            ],
        },
    ),
    "two rewrites": (
        two_rewrites,
        {"rewrites": [0, 1]},
        {
            "changelog": [(2, "delete", 0), (1, "delete", 1), (2, "insert", 1)],
            "updates": [(2, "delete", 0), (1, "delete", 1), (2, "insert", 1)],
            "net": [(1, "delete", 1)],
        },
    ),
}


@pytest.mark.parametrize(("name", "mode"), [(name, mode) for name, case in CASES.items() for mode in case[2]])
def test_changes(tmp_path: Path, engine: str, name: str, mode: str) -> None:
    build, options, expected = CASES[name]
    h = History(tmp_path, SCHEMA)
    build(h)
    plan = h.plan(mode, ["id", *CHANGES], keys=["id"], **options)
    assert read_changes(plan, engine) == changes(expected[mode])


def test_unequal_values_of_every_type_are_changes(tmp_path: Path, engine: str) -> None:
    """In a rewritten file, equal rows cancel: NaN equals NaN, and the order of map entries has no meaning."""
    different: dict[str, tuple[str, Sequence[tuple[Any, Any]]]] = {
        "b": ("boolean", [(True, False), (True, None)]),
        "i": ("int", [(0, 1)]),
        "f": ("float", [(0.0, -0.0), (math.nan, 1.0)]),
        "d": ("double", [(-0.0, 0.0), (math.nan, None), (5e-324, 0.0)]),
        "c": ("decimal(38, 10)", [(Decimal("0.1"), Decimal("0.1000000001"))]),
        "s": ("string", [("a", "A"), ("", None), ("é", "e\u0301"), ("a ", "a")]),
        "x": ("binary", [(b"\0", b""), (b"\xff", b"\xfe")]),
        "y": ("fixed[2]", [(b"ab", b"aB")]),
        "u": ("uuid", [(UUID(int=1), UUID(int=2))]),
        "t": ("time", [(time(1, 2, 3, 4), time(1, 2, 3, 5))]),
        "p": ("timestamp", [(datetime(2024, 1, 1), datetime(2024, 1, 1, microsecond=1))]),
        "n": ("timestamp_ns", [(1, 2)]),
        "l": ("list<double>", [([0.0], [-0.0]), ([], None), ([None], []), ([1.0, 2.0], [2.0, 1.0])]),
        "r": ("struct<a: double, B: string>", [({"a": -0.0, "B": "x"}, {"a": 0.0, "B": "x"}), ({"a": None}, None)]),
        "m": ("map<string, double>", [({"a": 0.0}, {"a": -0.0}), ({}, None), ({"a": None}, {})]),
        "o": ("map<double, list<string>>", [({0.0: ["a"]}, {-0.0: ["a"]}), ({1.0: ["a"]}, {1.0: ["A"]})]),
        "v": ("variant", [(variant("01", "0c01"), variant("01", "0c02")), (None, variant("01", "00"))]),
        "g": ("geometry", [(POINT, POINT[:-1] + b"\x41")]),
    }
    h = History(tmp_path, {"id": "long", **{name: type_ for name, (type_, _) in different.items()}})
    cases = [(name, pair) for name, (_, pairs) in different.items() for pair in pairs]
    before: list[dict[str, Any]] = []
    after: list[dict[str, Any]] = []
    expected: list[tuple[Any, ...]] = []
    for number, (name, pair) in enumerate(cases, start=1):
        before += [{"id": number, name: pair[0]}, *({"id": -number, name: value} for value in pair)]
        after += [{"id": number, name: pair[1]}, *({"id": -number, name: value} for value in reversed(pair))]
        expected += [(number, "delete", 0), (number, "insert", 0)]
    before.append({"id": 1000, "m": {"a": 1.0, "b": math.nan}, "l": [math.nan, -0.0], "v": A1_B_NULL})
    after.append({"id": 1000, "m": {"b": math.nan, "a": 1.0}, "l": [math.nan, -0.0], "v": B_NULL_A1})
    h.add(before, BEFORE, 0)
    h.add(after, 0)
    for mode in ("changelog", "net"):
        assert read_changes(h.plan(mode, ["id", *CHANGES], rewrites=[0]), engine) == changes(expected)


@pytest.mark.parametrize("type_", ["double", "list<float>", "struct<a: double>", "map<string, double>"])
def test_rewritten_rows_keep_negative_zeros(tmp_path: Path, engine: str, type_: str) -> None:
    """A row of a rewritten file that has no equal row is returned as it is."""
    value = {"double": -0.0, "list<float>": [-0.0], "struct<a: double>": {"a": -0.0}}.get(type_, {"a": -0.0})
    h = History(tmp_path, {"id": "long", "v": type_})
    h.add([{"id": 1, "v": value}], BEFORE, 0)
    h.add([{"id": 2, "v": value}], 0)
    read = read_changes(h.plan("changelog", ["id", "v", *CHANGES], rewrites=[0]), engine)
    assert sorted((row[0], row[2], "-0.0" in repr(row[1])) for row in read) == [
        (1, "delete", True),
        (2, "insert", True),
    ]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("list<double>", [None]),
        ("list<string>", [None]),
        ("map<string, double>", {"a": None}),
        ("map<string, string>", {"a": None}),
        ("list<list<double>>", [[None], []]),
        ("list<struct<a: double>>", [{"a": None}, None]),
    ],
)
def test_nested_nulls_alone_are_compared(tmp_path: Path, engine: str, type_: str, value: Any) -> None:
    """A column of a file may hold no value but nulls in lists and maps."""
    h = History(tmp_path, {"id": "long", "v": type_})
    h.add([{"id": 1, "v": value}, {"id": 2, "v": value}], BEFORE, 0)
    h.add([{"id": 2, "v": value}, {"id": 3, "v": value}], 0)
    read = read_changes(h.plan("changelog", ["id", "_change_type"], rewrites=[0]), engine)
    assert sorted(read) == [(1, "delete"), (3, "insert")]


def values_and_changes(h: History, engine: str, mode: str, **options: Any) -> list[tuple[Any, ...]]:
    return read_changes(h.plan(mode, ["id", "v", *CHANGES], **options), engine)


def test_updates_by_keys(tmp_path: Path, engine: str) -> None:
    """Rows of one commit with equal keys are an update, whichever kind of delete ended the old one."""
    h = History(tmp_path, SCHEMA)
    h.add(rows((1, "a"), (2, "b"), (None, "n"), (4, "d"), (5, "e"), (6, "f")), BEFORE, 2, dated=[([0], Span(0))])
    h.delete(["id"], [{"id": 2}, {"id": None}], 1)
    h.add(rows((1, "A")), 0)
    h.add(rows((2, "B"), (None, "N"), (2**62, "new")), 1)
    h.add(rows((4, "D"), (5, "e"), (7, "g")), 2)
    h.add(rows((4, "x"), (4, "y")), 3)  # keys that repeat are no problem without deletes
    pairs = [(1, "a", "A", 0), (2, "b", "B", 1), (None, "n", "N", 1), (4, "d", "D", 2)]
    expected = [(key, old, "update_preimage", commit) for key, old, _, commit in pairs]
    expected += [(key, new, "update_postimage", commit) for key, _, new, commit in pairs]
    expected += [(2**62, "new", "insert", 1), (6, "f", "delete", 2), (7, "g", "insert", 2)]
    expected += [(4, "x", "insert", 3), (4, "y", "insert", 3)]
    assert values_and_changes(h, engine, "updates", keys=["id"], rewrites=[2]) == changes(expected)
    # the filter applies after the rows were paired
    post = [row for row in expected if row[1] in ("A", "N", "g")]
    where = "v IN ('A', 'N', 'g')"
    assert values_and_changes(h, engine, "updates", keys=["id"], rewrites=[2], where=where) == changes(post)
    updated = [row for row in expected if row[2] == "update_preimage" and row[3] >= 1]
    where = "_change_type = 'update_preimage' AND _change_ordinal >= 1"
    assert values_and_changes(h, engine, "updates", keys=["id"], rewrites=[2], where=where) == changes(updated)


@pytest.mark.parametrize(("old", "new"), [((1, 1), (1,)), ((1,), (1, 1)), ((None, None), (None,))])
def test_keys_that_do_not_identify_rows(tmp_path: Path, engine: str, old: Any, new: Any) -> None:
    h = History(tmp_path, SCHEMA)
    h.add(rows(*((id, f"old{n}") for n, id in enumerate(old)), (3, "c")), BEFORE, 0)
    h.add(rows(*((id, f"new{n}") for n, id in enumerate(new)), (3, "c")), 0)
    with pytest.raises(RequestError, match="Cannot pair updates by id"):
        PlannedRows(h.plan("updates", ["v"], keys=["id"], rewrites=[0])).to_arrow(engine=engine)
    with pytest.raises(RequestError) as caught:
        PlannedRows(h.plan("updates", ["id", *CHANGES], keys=["id"], rewrites=[0])).to_arrow(engine=engine)
    assert caught.value.cause == "DuplicateKeys"
    assert caught.value.table == h.table.location
    assert str(caught.value).startswith("Cannot pair updates by id: in one commit, several deleted or inserted rows")


def test_row_ids_identify_rows(tmp_path: Path, engine: str) -> None:
    """Rows whose ids are on both sides of a rewrite are compared with each other, all others by their values."""
    h = History(tmp_path, SCHEMA)
    # row ids 0 to 5
    h.add(rows((1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e"), (5, "e")), BEFORE, 0)
    # two rows swap their values, one keeps its own, one changes, and one gets a new id
    moved = rows((2, "b"), (1, "a"), (3, "c"), (4, "D"), (5, "e"))
    schema = Schema(fields=(*h.table.schema.fields, METADATA["_row_id"]))
    h.add([{**row, "_row_id": id} for row, id in zip(moved, (0, 1, 2, 3, None), strict=True)], 0, schema=schema)
    swapped = [(1, "a", "delete", 0), (2, "b", "insert", 0), (2, "b", "delete", 0), (1, "a", "insert", 0)]
    changed = [(4, "d", "delete", 0), (4, "D", "insert", 0)]
    gone = [(5, "e", "delete", 0)]
    options: dict[str, Any] = {"row_ids": True, "rewrites": [0]}
    assert values_and_changes(h, engine, "changelog", **options) == changes([*swapped, *changed, *gone])
    where = "v IN ('a', 'D')"
    expected = changes([row for row in [*swapped, *changed] if row[1] in "aD"])
    assert values_and_changes(h, engine, "changelog", where=where, **options) == expected
    kinds = {"delete": "update_preimage", "insert": "update_postimage"}
    updates = [(id, v, kinds[kind], commit) for id, v, kind, commit in [*swapped, *changed]]
    assert values_and_changes(h, engine, "updates", **options) == changes([*updates, *gone])
    assert values_and_changes(h, engine, "net", **options) == changes([*changed, *gone])


def test_metadata_columns_of_changes(tmp_path: Path, engine: str) -> None:
    """Each change names the file and the position of its row. Filters on them do not hide carried rows."""
    h = History(tmp_path, SCHEMA)
    old = h.add(of(1, 2, 3, 3), BEFORE, 1, dated=[([1], Span(0))])
    new = h.add(of(3, 4, 1), 1)
    columns = ["_file", "_pos", "id", *CHANGES]
    expected = [(old, 1, 2, "delete", 0), (new, 1, 4, "insert", 1)]
    plan = h.plan("changelog", columns, rewrites=[1])
    got = read_changes(plan, engine)
    carried = [row for row in got if row[2] == 3]
    assert carried in (changes([(old, 2, 3, "delete", 1)]), changes([(old, 3, 3, "delete", 1)]))
    assert [row for row in got if row[2] != 3] == changes(expected)
    plan = h.plan("changelog", ["id", *CHANGES], f"_file = '{new}'", rewrites=[1])
    assert read_changes(plan, engine) == changes([(4, "insert", 1)])


def test_a_change_in_a_column_that_is_not_read(tmp_path: Path, engine: str) -> None:
    h = History(tmp_path, SCHEMA)
    h.add(rows((1, "a"), (2, "b")), BEFORE, 0)
    h.add(rows((1, "A"), (2, "b")), 0)
    expected = [(1, "delete", 0), (1, "insert", 0)]
    for mode in ("changelog", "net"):
        assert read_changes(h.plan(mode, ["id", *CHANGES], rewrites=[0]), engine) == changes(expected)
    assert read_changes(h.plan("net", ["_change_ordinal"], "v = 'A'", rewrites=[0]), engine) == [(0,)]


def test_replaced_files_show_nothing(tmp_path: Path, engine: str) -> None:
    """A commit that only rewrote files has no ordinal. Deletes of the moved rows keep theirs."""
    h = History(tmp_path, SCHEMA)
    h.add(of(1, 2), 0, 1)
    h.add(of(3), BEFORE, 1)
    h.add(of(1, 2, 3), 1, dated=[([1], Span(2))])
    plan = h.plan(
        "changelog", ["id", "_change_type", "_change_ordinal", "_commit_snapshot_id"], replaces=[1], commits=3
    )
    expected = [(1, "insert", 0, 100), (2, "insert", 0, 100), (2, "delete", 1, 102)]
    assert read_changes(plan, engine) == in_order(expected)
    plan = h.plan("net", ["id", "_change_type", "_change_ordinal", "_commit_snapshot_id"], replaces=[1], commits=3)
    assert read_changes(plan, engine) == [(1, "insert", 0, 100)]


def test_net_changes_of_equal_rows(tmp_path: Path, engine: str) -> None:
    """The last insert that brought the count of a row to a new level stays, or the last such delete."""
    h = History(tmp_path, SCHEMA)
    h.add(of(1), 0)
    h.add(of(1), 1, 2)
    h.add(of(1), 3)
    h.add(of(2), BEFORE, 0)
    h.add(of(2), 1, 2)
    h.add(of(2), BEFORE, 3)
    h.add(of(3), BEFORE, 0)
    h.add(of(3), 1)
    expected = [(1, "insert", 0), (1, "insert", 3), (2, "delete", 2), (2, "delete", 3)]
    assert read_changes(h.plan("net", ["id", *CHANGES]), engine) == changes(expected)


def test_appends_are_inserts(tmp_path: Path, engine: str) -> None:
    h = History(tmp_path, SCHEMA)
    h.add(of(1, 2), 0)
    h.add(of(2), 3)
    expected = [(1, "insert", 0), (2, "insert", 0), (2, "insert", 3)]
    assert read_changes(h.plan("appends", ["id", *CHANGES]), engine) == changes(expected)
    assert read_changes(h.plan("appends", ["id", *CHANGES], "_change_ordinal > 0"), engine) == changes(expected[2:])


def test_odd_column_names(tmp_path: Path, engine: str) -> None:
    """Names differ from those of the steps only by case, need quotes, or are those of lambda parameters."""
    names = {"C0": "long", 'a "b`.c': "struct<X0: double, G: string>", "e": "string", "died": "map<string, float>"}
    h = History(tmp_path, names)
    row = {"C0": 1, 'a "b`.c': {"X0": 1.0, "G": "g"}, "e": "e", "died": {"k": 1.0}}
    h.add([row, {**row, "C0": 2}], BEFORE, 0)
    h.add([{**row, "e": "E"}, {**row, "C0": 2}], 0)
    columns = ["C0", 'a "b`.c', "e", *CHANGES]
    rest = (1, {"X0": 1.0, "G": "g"})
    for mode, words in (("changelog", ("delete", "insert")), ("updates", ("update_preimage", "update_postimage"))):
        expected = changes([(*rest, "e", words[0], 0), (*rest, "E", words[1], 0)])
        keys = ["C0", "died"] if mode == "changelog" else ["C0"]
        assert read_changes(h.plan(mode, columns, rewrites=[0], keys=keys), engine) == expected
        where = f"\"e\" = 'E' AND _change_type = '{words[1]}'"
        assert read_changes(h.plan(mode, columns, where, rewrites=[0], keys=keys), engine) == expected[:1]


def test_a_collation_of_the_connection_does_not_compare_rows(tmp_path: Path, engine: str) -> None:
    if engine != "duckdb":
        pytest.skip("Spark reads in a session of harness")
    h = History(tmp_path, {"id": "long", "v": "string", "l": "list<string>"})
    h.add([{"id": 1, "v": "a", "l": ["a"]}, {"id": 2, "v": "a", "l": ["a"]}], BEFORE, 0)
    h.add([{"id": 1, "v": "A", "l": ["a"]}, {"id": 2, "v": "a", "l": ["A"]}], 0)
    connection = connect()
    connection.execute("SET default_collation = 'nocase'")
    for mode in ("changelog", "net"):
        relation = PlannedRows(h.plan(mode, ["id"], rewrites=[0])).to_duckdb(connection)
        assert in_order(relation.fetchall()) == [(1,), (1,), (2,), (2,)]


def test_no_files(tmp_path: Path, engine: str) -> None:
    h = History(tmp_path, SCHEMA)
    h.add(of(1), 0)
    plan = h.plan("changelog", ["id", *CHANGES], "id > 5 AND _change_ordinal = 0")
    assert read_changes(plan, engine) == []
    assert plan.lifetimes is not None
    none = replace(plan, files=plan.files.slice(0, 0), lifetimes=replace(plan.lifetimes, files=()))
    assert read_changes(none, engine) == []
