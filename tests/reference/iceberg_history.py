"""A history of statements, and running it by Apache Iceberg's Spark runtime.

Statements are formatted with the names of the table:

    {t}           the table, in SQL                      {ref}     the same, for procedures: namespace and name
    {elsewhere}   a directory beside the table           {s[0]}    the id of its first snapshot, and so on, as made
    {now}         a timestamp after every snapshot
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

ON_READ = "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read'"
"""Properties of a table whose deletes are files."""

Step: TypeAlias = str | tuple[str, ...] | Callable[[Any, str], None]


@dataclass(frozen=True, slots=True)
class History:
    """What the reference writer does.

    steps: a statement, several of them between which nothing is compared, or a call of Iceberg's Java interface, which
        is given the session and the table's name. The first creates the table.
    columns: what is selected besides all columns.
    texts: columns of type variant, which harness gives as the text of JSON.
    """

    name: str
    steps: tuple[Step, ...]
    columns: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(slots=True)
class Written:
    """A table of the reference writer. snapshots: their ids in the order in which they came to be."""

    spark: Any
    warehouse: Path
    namespace: str
    name: str
    snapshots: list[int] = field(default_factory=list)
    statements: int = 0

    @property
    def table(self) -> str:
        """Its name in SQL."""
        return f"ice.{self.namespace}.{self.name}"

    @property
    def location(self) -> str:
        """Its directory."""
        return str(self.warehouse / self.namespace / self.name)

    def run(self, step: Step) -> None:
        """Run a step, and see which snapshots it made."""
        statements = (step,) if isinstance(step, str) or callable(step) else step
        for statement in statements:
            self.statements += 1
            if callable(statement):
                statement(self.spark, self.table)
            else:
                self.spark.sql(self._named(statement))
        self.snapshots += [found for found in self.live_snapshots() if found not in self.snapshots]

    def _named(self, statement: str) -> str:
        if "{now}" in statement:
            time.sleep(0.01)  # a clock's tick, so that the last snapshot lies before
        return statement.format(
            t=self.table,
            ref=f"{self.namespace}.{self.name}",
            elsewhere=self.warehouse / f"{self.name}_elsewhere",
            s=self.snapshots,
            now=datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f"),
        )

    def live_snapshots(self) -> list[int]:
        """The snapshots that it still has, oldest first."""
        java = loaded(self.spark, self.table).snapshots()
        return [snapshot.snapshotId() for snapshot in sorted(java, key=lambda each: each.timestampMillis())]


def loaded(spark: Any, table: str) -> Any:
    """The table as Iceberg's own interface has it."""
    return spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table)


def create(columns: str, version: int, *properties: str, partitioned: str = "") -> str:
    """CREATE TABLE with a format version and properties."""
    by = f"PARTITIONED BY ({partitioned}) " if partitioned else ""
    named = ", ".join((f"'format-version'='{version}'", *properties))
    return f"CREATE TABLE {{t}} ({columns}) USING iceberg {by}TBLPROPERTIES ({named})"
