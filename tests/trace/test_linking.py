"""Which versions of rows belong to one row: hand-made versions, without a table."""

import pytest

from harness.metadata.plan.lifetimes import BEFORE
from harness.trace.linking import follow, with_replaced_partitions
from harness.trace.model import DeleteKind, EventKind, FollowedBy, RowDelete, RowVersion

ADDED, CARRIED, UPDATED, RESTORED = EventKind.ADDED, EventKind.CARRIED, EventKind.UPDATED, EventKind.RESTORED
DELETED, REMOVED, PRESENT = EventKind.DELETED, EventKind.REMOVED, EventKind.PRESENT
HIDDEN, NEVER = EventKind.HIDDEN, EventKind.NEVER


def version(file, position, value, added, removed=None, *, deleted=None, row_id=None, key=None, partition=None):
    """Return a version with the values (key, value), which a vector of commit `deleted` deletes."""
    return RowVersion(
        file=file,
        position=position,
        texts={"k": None if key is None else str(key), "v": value},
        match=(key, value),
        key=() if key is None else (str(key),),
        added=added,
        removed=removed,
        delete=None if deleted is None else RowDelete(kind=DeleteKind.VECTOR, path="v", commit=deleted),
        row_id=row_id,
        partition=partition,
    )


def lives(versions):
    """Return the events of each row as (kind, commit, file of the version, candidates)."""
    rows = follow(versions)
    return [[(e.kind, e.commit, row.versions[e.version].file, e.candidates) for e in row.events] for row in rows]


def test_a_row_is_carried_by_a_rewrite_and_then_deleted():
    versions = [version("b", 7, "x", 2, deleted=4), version("a", 0, "x", 0, 2)]
    assert lives(versions) == [[(ADDED, 0, "a", 0), (CARRIED, 2, "b", 0), (DELETED, 4, "b", 0)]]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # Without a key or row id, other values are another row.
        ({}, {}, [[(ADDED, 0, "a", 0), (REMOVED, 2, "a", 0)], [(ADDED, 2, "b", 0)]]),
        ({"key": 1}, {"key": 1}, [[(ADDED, 0, "a", 0), (UPDATED, 2, "b", 0)]]),
        ({"key": 1}, {"key": 2}, [[(ADDED, 0, "a", 0), (REMOVED, 2, "a", 0)], [(ADDED, 2, "b", 0)]]),
        ({"row_id": 5}, {"row_id": 5}, [[(ADDED, 0, "a", 0), (UPDATED, 2, "b", 0)]]),
        # Rows whose row ids are lost are followed by keys.
        ({"row_id": 5, "key": 1}, {"row_id": 6, "key": 1}, [[(ADDED, 0, "a", 0), (UPDATED, 2, "b", 0)]]),
        (
            {"row_id": 5},
            {"row_id": 6},
            [[(ADDED, 0, "a", 0), (REMOVED, 2, "a", 0)], [(ADDED, 2, "b", 0)]],
        ),
    ],
)
def test_an_update_needs_a_key_or_a_row_id(first, second, expected):
    assert lives([version("a", 0, "x", 0, 2, **first), version("b", 0, "y", 2, **second)]) == expected


def test_an_update_by_a_delete_and_a_new_file_is_an_update():
    versions = [version("a", 0, "x", 0, deleted=1, key=1), version("b", 0, "y", 1, key=1)]
    assert lives(versions) == [[(ADDED, 0, "a", 0), (UPDATED, 1, "b", 0)]]


def test_equal_rows_that_are_rewritten_together_are_not_guessed():
    versions = [version("a", 0, "x", 0, 1), version("a", 1, "x", 0, 1), version("b", 0, "x", 1)]
    assert lives(versions) == [
        [(ADDED, 0, "a", 0), (REMOVED, 1, "a", 1)],
        [(ADDED, 0, "a", 0), (REMOVED, 1, "a", 1)],
        [(CARRIED, 1, "b", 2)],
    ]


def test_keys_that_several_rows_have_are_not_guessed():
    versions = [version("a", 0, "x", 0, 1, key=1), version("a", 1, "y", 0, 1, key=1), version("b", 0, "z", 1, key=1)]
    assert lives(versions)[2] == [(UPDATED, 1, "b", 2)]


def test_equal_rows_are_carried_before_others_are_updated():
    versions = [
        *(version("a", 0, "x", 0, 1, key=1), version("a", 1, "y", 0, 1, key=1)),
        *(version("b", 0, "y", 1, key=1), version("b", 1, "z", 1, key=1)),
    ]
    assert lives(versions) == [
        [(ADDED, 0, "a", 0), (UPDATED, 1, "b", 0)],
        [(ADDED, 0, "a", 0), (CARRIED, 1, "b", 0)],
    ]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (1, [[(ADDED, 0, "a", 0), (DELETED, 1, "a", 0), (RESTORED, 3, "b", 0)]]),
        (None, [[(ADDED, 0, "a", 0), (DELETED, 1, "a", 0)], [(ADDED, 3, "b", 0)]]),
    ],
)
def test_a_key_that_returns_is_the_same_row_and_equal_values_are_not(key, expected):
    versions = [version("a", 0, "x", 0, deleted=1, key=key), version("b", 0, "x", 3, key=key)]
    assert lives(versions) == expected


def test_a_place_that_is_visible_again_is_the_same_row():
    versions = [version("a", 0, "x", 0, 1), version("a", 0, "x", 3)]
    assert lives(versions) == [[(ADDED, 0, "a", 0), (REMOVED, 1, "a", 0), (RESTORED, 3, "a", 0)]]


def test_a_deleted_row_is_not_repeated_if_its_file_is_listed_twice():
    # The second span of the file begins at commit 3, and the row is deleted in both.
    versions = [version("a", 0, "x", 0, 3, deleted=1), version("a", 0, "x", 3, deleted=1)]
    assert lives(versions) == [[(ADDED, 0, "a", 0), (DELETED, 1, "a", 0)]]


def test_rows_from_before_the_range():
    versions = [version("a", 0, "x", BEFORE), version("b", 0, "y", BEFORE, deleted=BEFORE)]
    assert lives(versions) == [[(PRESENT, BEFORE, "a", 0)], [(HIDDEN, BEFORE, "b", 0)]]


def test_a_row_that_came_with_its_delete_was_never_visible():
    assert lives([version("a", 0, "x", 2, deleted=2)]) == [[(NEVER, 2, "a", 0)]]


def test_row_ids_come_before_keys_and_values():
    versions = [
        *(version("a", 0, "x", 0, 1, row_id=5, key=1), version("a", 1, "y", 0, 1, row_id=6, key=2)),
        *(version("b", 0, "x", 1, row_id=6, key=1), version("b", 1, "y", 1, row_id=5, key=2)),
    ]
    assert lives(versions) == [
        [(ADDED, 0, "a", 0), (UPDATED, 1, "b", 0)],
        [(ADDED, 0, "a", 0), (UPDATED, 1, "b", 0)],
    ]
    assert [[v.position for v in row.versions] for row in follow(versions)] == [[0, 1], [1, 0]]


def test_a_rewrite_that_loses_row_ids_carries_equal_rows():
    (row,) = follow([version("a", 0, "x", 0, 1, row_id=5), version("b", 0, "x", 1, row_id=9)])
    assert ([event.kind for event in row.events], row.followed_by) == ([ADDED, CARRIED], FollowedBy.VALUES)


def test_ten_thousand_equal_rows_are_followed_in_linear_time():
    versions = [version(f, n, "x", *span) for f, span in (("a", (0, 1)), ("b", (1, None))) for n in range(5_000)]
    rows = lives(versions)
    assert (len(rows), rows[0][-1], rows[-1]) == (10_000, (REMOVED, 1, "a", 5_000), [(CARRIED, 1, "b", 5_000)])


def test_removal_of_a_whole_partition():
    rows = follow([version("a", 0, "x", 0, 1, partition="{p=1}"), version("b", 0, "y", 0, 1, partition="{p=2}")])
    replaced = with_replaced_partitions(rows, lambda commit, partition: (commit, partition) == (1, "{p=1}"))
    assert [row.events[-1].kind for row in replaced] == [EventKind.REPLACED, REMOVED]
