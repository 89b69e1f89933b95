"""Histories of statements that Delta Lake runs; `{t}` is the table, `{path}` its folder."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class History:
    """SQL statements in order; the first creates the table. oldest: the first version whose files are still there."""

    name: str
    statements: tuple[str, ...]
    oldest: int = 0


HISTORIES = (
    History(
        "deletion-vectors",
        (
            "CREATE TABLE {t} (id BIGINT, s STRING) USING delta TBLPROPERTIES ('delta.enableDeletionVectors'='true')",
            "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, NULL), (4, 'd')",
            "DELETE FROM {t} WHERE id = 2",
            "UPDATE {t} SET s = 'changed' WHERE id >= 3",
            "MERGE INTO {t} USING (SELECT 1 AS id, 'm' AS s UNION ALL SELECT 9, 'new') u ON {t}.id = u.id "
            "WHEN MATCHED THEN UPDATE SET s = u.s WHEN NOT MATCHED THEN INSERT *",
            "OPTIMIZE {t}",
            "DELETE FROM {t} WHERE s IS NULL OR id = 9",
        ),
    ),
)
