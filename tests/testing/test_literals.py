"""Table literals: the remaining rows for every format and kind of deletes, and invalid literals."""

import datetime as dt
from decimal import Decimal

import pytest

import harness
from harness.errors import RequestError
from harness.testing.literals import SameRows, all_forms, literal, types_of

ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": None}, {"id": 2, "name": None}]
SCHEMA = {"id": "bigint", "name": "string"}
ALL = [("iceberg", kind) for kind in ("none", "position", "equality", "vector")] + [
    ("delta", "none"),
    ("delta", "vector"),
]


def read(location: str) -> list[tuple]:
    rows = harness.open_table(location).snapshot().to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


@pytest.mark.parametrize("form", ALL, ids="-".join)
def test_every_form_leaves_the_same_rows(form, tmp_path):
    table = SameRows(rows=tuple(ROWS), schema=SCHEMA, format=form[0], kind=form[1]).make(tmp_path / "t")
    assert read(table) == [(1, "a"), (2, None), (2, None)]
    plan = harness.open_table(table).snapshot().plan()
    found = {each.kind for each, _ in plan.position_hits()} | ({"equality"} if plan.equality_deletes else set())
    kinds = {
        "none": set(),
        "position": {"position delete file"},
        "vector": {"deletion vector"},
        "equality": {"equality"},
    }
    assert found == kinds[form[1]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"deletes": [0]}, [(2, None), (2, None)]),
        ({"deletes": [1], "kind": "vector"}, [(1, "a"), (2, None)]),
        ({"deletes": [{"id": 2}]}, [(1, "a")]),
        ({"deletes": [{"id": 2, "name": None}]}, [(1, "a")]),
        ({"deletes": [2], "format": "delta"}, [(1, "a"), (2, None)]),
        ({"format": "delta"}, [(1, "a"), (2, None), (2, None)]),
    ],
    ids=["position", "vector", "key", "key with null", "delta vector", "none"],
)
def test_a_literal_lists_deleted_rows(options, expected, tmp_path):
    assert read(literal(ROWS, SCHEMA, **options).make(tmp_path / "t")) == expected


def test_types_are_inferred_from_values():
    noon = dt.datetime(2024, 1, 1, 12)
    row = {"b": True, "i": 1, "f": 1.5, "s": "x", "t": noon, "z": noon.replace(tzinfo=dt.UTC), "d": Decimal("1.50")}
    assert types_of([row]) == {
        "b": "boolean",
        "i": "bigint",
        "f": "double",
        "s": "string",
        "t": "timestamp_ntz",
        "z": "timestamp",
        "d": "decimal(38,2)",
    }


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: types_of([{"a": None}]), "Cannot infer the type of 'a'"),
        (lambda: types_of([{"a": 1}, {"a": "x"}]), "Cannot infer the type of 'a'"),
        (lambda: literal(ROWS, SCHEMA, deletes=[{"id": 1}], format="delta"), "delta has no deletes of the kind"),
        (lambda: literal(ROWS, SCHEMA, deletes=[0], kind="equality"), "expected mappings"),
        (lambda: literal(ROWS, SCHEMA, deletes=[0, {"id": 1}]), "expected row indexes, got {'id': 1}"),
        (lambda: literal(ROWS, SCHEMA, deletes=1), "expected a list, got 1"),
        (lambda: literal(ROWS, SCHEMA, deletes={"id": 1}), "expected a list, got {'id': 1}"),
        (lambda: literal(ROWS, SCHEMA, deletes=[True]), "expected row indexes, got True"),
        (lambda: literal(ROWS, SCHEMA, deletes=["0"]), "expected row indexes, got '0'"),
        (lambda: literal(ROWS, SCHEMA, deletes=[0, 3]), "no row has index 3; the table has 3 rows, numbered from 0"),
        (lambda: literal(ROWS, SCHEMA, deletes=[-1], format="delta"), "no row has index -1"),
        (lambda: literal(ROWS, SCHEMA, deletes=[3], kind="vector"), "no row has index 3"),
        (lambda: literal([], SCHEMA, deletes=[0]), "no row has index 0; the table has 0"),
        (lambda: literal(ROWS, SCHEMA, deletes=[{"id": 1}, {"id": 7}]), "{'id': 7} matches no row"),
        (lambda: literal(ROWS, SCHEMA, deletes=[{"id": 1, "name": "b"}]), "{'id': 1, 'name': 'b'} matches no row"),
        (lambda: literal(ROWS, SCHEMA, deletes=[{"id": 1}, {"name": "a"}]), "has other columns than {'id': 1}"),
        (lambda: literal(ROWS, SCHEMA, deletes=[{"nr": 1}]), "names the column 'nr', which the table lacks"),
        (lambda: literal(ROWS, SCHEMA, kind="vector"), "Invalid kind 'vector': there are no deletes"),
        (lambda: literal(ROWS, SCHEMA, deletes=[0], kind="none"), "Invalid kind 'none': there are deletes"),
        (lambda: all_forms("hudi"), "Invalid format 'hudi'"),
        (lambda: all_forms("delta", "equality"), "delta tables do not have it"),
    ],
)
def test_what_cannot_be_meant_is_refused(make, message):
    with pytest.raises(RequestError, match=message):
        make()
