"""A table that Delta Lake writes, statement by statement, beside what harness reads of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from delta_history import Statement
from reference_rows import ENGINES, assert_same, assert_same_rows

import harness

_SESSION_WIDE = ("SET ", "RESET ")


@dataclass(frozen=True, slots=True)
class DeltaPair:
    """A table of Delta Lake, and both sides' reads of it.

    columns, select: what is read, in harness's words and in SQL; None and `*`: all columns.
    seen: Delta Lake's rows after each statement, by the version that was current then.
    """

    spark: Any
    location: Path
    counted: Counter[str]
    columns: tuple[str, ...] | None = None
    select: str = "*"
    seen: dict[int, pa.Table] = field(default_factory=dict)

    @property
    def table(self) -> str:
        """The table in SQL."""
        return f"delta.`{self.location}`"

    def run(self, statement: Statement) -> None:
        """One statement, by Delta Lake alone."""
        if not isinstance(statement, str):
            statement(self.spark, self.location)
            return
        source = f"delta.`{self.location}_source`"
        self.spark.sql(statement.format(t=self.table, path=self.location, source=source))

    def step(self, statement: Statement) -> None:
        """One statement, and the rows after it. Those of the engine on Spark wait for `compare_versions`."""
        self.run(statement)
        if isinstance(statement, str) and statement.startswith(_SESSION_WIDE):
            return
        self.counted["Delta statements"] += 1
        theirs = self._theirs()
        opened = harness.open_table(str(self.location))
        version = opened.snapshot().id
        assert version is not None
        self.seen[version] = theirs
        self._compare({}, theirs, opened, ("duckdb", "oracle"))

    def compare_versions(self, oldest: int = 0) -> list[int]:
        """Every version from the oldest on, by its number and by its time; the numbers."""
        history = self.spark.sql(f"DESCRIBE HISTORY {self.table}").selectExpr("version", "unix_millis(timestamp) AS ms")
        times = {row.version: row.ms for row in history.collect() if row.version >= oldest}
        opened = harness.open_table(str(self.location))
        assert max(times) == opened.snapshot().id
        for version, milliseconds in sorted(times.items()):
            theirs = self.seen.get(version)
            theirs = self._theirs(f" VERSION AS OF {version}") if theirs is None else theirs
            self._compare({"version": version}, theirs, opened, ENGINES)
            assert opened.snapshot(timestamp=milliseconds).id == version
            self.counted["Delta versions"] += 1
        return sorted(times)

    def compare_changes(self, first: int, last: int) -> None:
        """The change data feed of a range of versions."""
        feed = self.spark.read.format("delta").option("readChangeFeed", "true")
        theirs = feed.option("startingVersion", first).option("endingVersion", last).load(str(self.location)).toArrow()
        opened = harness.open_table(str(self.location))
        for engine in ENGINES:
            assert_same(theirs, opened.changes(first, last).to_arrow(engine=engine), f"changes on {engine}")
            self.counted["Delta reads of changes"] += 1

    def _theirs(self, travel: str = "") -> pa.Table:
        rows: pa.Table = self.spark.sql(f"SELECT {self.select} FROM {self.table}{travel}").toArrow()
        return rows

    def _compare(self, at: dict[str, int], theirs: pa.Table, opened: harness.Table, engines: tuple[str, ...]) -> None:
        self.counted["Delta reads"] += assert_same_rows(
            str(self.location), at, theirs, table=opened, columns=self.columns, engines=engines
        )
