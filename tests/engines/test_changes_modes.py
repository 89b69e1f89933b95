"""Changes from rows with lifetimes: each mode, on both engines. The expected rows are worked out by hand."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from lifetimes import ENGINES, History, changes, read_changes

from harness.metadata.model.schema import SNAPSHOT_CHANGES
from harness.metadata.plan.lifetimes import BEFORE, EQUALITY, Span, delete_number

pytestmark = pytest.mark.parametrize("engine", ENGINES)

SCHEMA = {"id": "long", "v": "string"}
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
