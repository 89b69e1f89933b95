"""Traces of tables that Spark wrote with Apache Iceberg and Delta Lake.

The expected lives follow from the statements that wrote the tables, in `tests/interop/made_iceberg.txt` and
`made_delta.txt`. Commits are numbered from 0 in the order of these statements.
"""

from pathlib import Path

import pytest

import harness
from harness.trace.model import DeleteKind, EventKind, FollowedBy

TABLES = Path(__file__).parents[2] / "fixtures" / "interop"
ADDED, CARRIED, UPDATED = EventKind.ADDED, EventKind.CARRIED, EventKind.UPDATED
DELETED, REMOVED = EventKind.DELETED, EventKind.REMOVED
ROW_ID, KEYS, VALUES = FollowedBy.ROW_ID, FollowedBy.KEYS, FollowedBy.VALUES
LIVES = [
    # INSERT, DELETE id % 4 = 0, UPDATE id IN (1, 2), rewrite_position_delete_files, DELETE id = 3 OR region IS NULL
    ("iceberg/position-deletes", "id = 4", VALUES, [(ADDED, 0), (DELETED, 1)]),
    ("iceberg/position-deletes", "id = 1", KEYS, [(ADDED, 0), (UPDATED, 2)]),
    ("iceberg/position-deletes", "id = 3", VALUES, [(ADDED, 0), (DELETED, 4)]),
    ("iceberg/position-deletes", "id = 5", VALUES, [(ADDED, 0), (DELETED, 4)]),
    ("iceberg/position-deletes", "id = 6", VALUES, [(ADDED, 0)]),
    # INSERT, DELETE id % 5 = 0, UPDATE SET s = NULL WHERE id IN (7, 8), DELETE id > 30
    ("iceberg/deletion-vectors", "id = 10", ROW_ID, [(ADDED, 0), (DELETED, 1)]),
    ("iceberg/deletion-vectors", "s = 's7'", ROW_ID, [(ADDED, 0), (UPDATED, 2)]),
    ("iceberg/deletion-vectors", "id = 36", ROW_ID, [(ADDED, 0), (DELETED, 3)]),
    # INSERT, INSERT, delete by id in partition y, INSERT, delete by p and id, delete by p, INSERT
    ("iceberg/equality-deletes", "id = 1 AND d = 2", VALUES, [(ADDED, 1), (DELETED, 2)]),
    ("iceberg/equality-deletes", "id = 1 AND d = 5", VALUES, [(ADDED, 3), (DELETED, 4)]),
    ("iceberg/equality-deletes", "id = 4", VALUES, [(ADDED, 1), (DELETED, 5)]),
    ("iceberg/equality-deletes", "id = 2 AND p = 'y'", VALUES, [(ADDED, 0)]),
    # CREATE, INSERT, DELETE id % 5 = 0, UPDATE SET s = NULL WHERE id IN (7, 8), DELETE id > 30
    ("delta/deletion-vectors", "id = 10", VALUES, [(ADDED, 1), (DELETED, 2)]),
    ("delta/deletion-vectors", "id = 7", KEYS, [(ADDED, 1), (UPDATED, 3)]),
    ("delta/deletion-vectors", "id = 36", VALUES, [(ADDED, 1), (DELETED, 4)]),
    # CREATE, INSERT, UPDATE id = 2, OPTIMIZE, INSERT
    ("delta/row-tracking", "id = 2", ROW_ID, [(ADDED, 1), (UPDATED, 2), (CARRIED, 3)]),
    ("delta/row-tracking", "s = 'a' AND id > 2", ROW_ID, [(ADDED, 1), (CARRIED, 3)]),
    # CREATE, INSERT, UPDATE id >= 2, DELETE id = 0, DELETE; without vectors, each statement rewrites the file
    ("delta/change-data-feed", "id = 0", VALUES, [(ADDED, 1), (CARRIED, 2), (REMOVED, 3)]),
    ("delta/change-data-feed", "id = 1", VALUES, [(ADDED, 1), (CARRIED, 2), (CARRIED, 3), (REMOVED, 4)]),
    ("delta/change-data-feed", "id = 3", KEYS, [(ADDED, 1), (UPDATED, 2), (CARRIED, 3), (REMOVED, 4)]),
]


def traced(name, where, **options):
    return harness.open_table(TABLES / name / "table").trace(where, **options)


@pytest.mark.parametrize(("name", "where", "followed_by", "expected"), LIVES)
def test_the_life_of_a_row(name, where, followed_by, expected):
    trace = traced(name, where, keys=["id"] if followed_by is KEYS else None)
    (row,) = trace.rows
    assert [(event.kind, event.commit) for event in row.events] == expected
    assert (row.followed_by, row.is_visible) == (followed_by, expected[-1][0] not in (DELETED, REMOVED))


@pytest.mark.parametrize(
    ("where", "keys"),
    [
        ("id = 1 AND d = 2", (("id", "1"),)),
        ("id = 1 AND d = 5", (("id", "1"), ("p", "'x'"))),  # keys are in the order of their field ids
        ("id = 4", (("p", "NULL"),)),
    ],
)
def test_the_keys_of_an_equality_delete(where, keys):
    (row,) = traced("iceberg/equality-deletes", where).rows
    (version,) = row.versions
    assert (version.delete.kind, version.delete.keys) == (DeleteKind.EQUALITY, keys)
    assert version.delete.sequence_number > version.sequence_number


def test_the_writer_of_each_commit():
    trace = traced("iceberg/deletion-vectors", "id = 36")
    assert {trace.commit(event.commit).writer for event in trace.rows[0].events} == {
        "spark 4.1.4, Apache Iceberg 1.12.0"
    }
