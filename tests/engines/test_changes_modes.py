"""Changes from rows with lifetimes: each mode, on both engines. The expected rows are worked out by hand."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from lifetimes import ENGINES, History, changes, read_changes

from harness.metadata.model.schema import SNAPSHOT_CHANGES
from harness.metadata.plan.lifetimes import BEFORE, EQUALITY, Span, delete_number

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
