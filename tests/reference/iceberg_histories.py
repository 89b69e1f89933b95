"""Histories of statements that Apache Iceberg's Spark runtime runs; `{t}` is the table, `{name}` its name in `ice`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class History:
    """SQL statements in order; the first creates the table."""

    name: str
    statements: tuple[str, ...]


_ON_READ = (
    "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read'"
)

HISTORIES = (
    History(
        "merge-on-read-v2",
        (
            f"CREATE TABLE {{t}} (id bigint, s string) USING iceberg TBLPROPERTIES ('format-version'='2', {_ON_READ})",
            "INSERT INTO {t} VALUES (1, 'a'), (2, 'b'), (3, NULL), (4, 'd')",
            "DELETE FROM {t} WHERE id = 2",
            "UPDATE {t} SET s = 'changed' WHERE id >= 3",
            "MERGE INTO {t} USING (SELECT 1 AS id, 'm' AS s UNION ALL SELECT 9, 'new') u ON {t}.id = u.id "
            "WHEN MATCHED THEN UPDATE SET s = u.s WHEN NOT MATCHED THEN INSERT *",
            "DELETE FROM {t} WHERE s IS NULL OR id = 9",
        ),
    ),
)
