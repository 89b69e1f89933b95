"""A table that Delta Lake writes, statement by statement, beside what harness reads of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from reference_rows import ENGINES, assert_same, assert_same_rows

import harness

_SESSION_WIDE = ("SET ", "RESET ")


@dataclass(frozen=True, slots=True)
class DeltaPair:
    """A table of Delta Lake, and both sides' reads of it.

    columns, select: what is read, in harness's words and in SQL; None and `*`: all columns.
    """

    spark: Any
    location: Path
    counted: Counter[str]
    columns: tuple[str, ...] | None = None
    select: str = "*"

    @property
    def table(self) -> str:
        """The table in SQL."""
        return f"delta.`{self.location}`"

    def run(self, statement: str) -> None:
        """One statement, by Delta Lake alone."""
        source = f"delta.`{self.location}_source`"
        self.spark.sql(statement.format(t=self.table, path=self.location, source=source))

    def step(self, statement: str) -> None:
        """One statement, and the rows after it."""
        self.run(statement)
        if statement.startswith(_SESSION_WIDE):
            return
        self.counted["Delta statements"] += 1
        if (self.location / "_delta_log").is_dir():
            self._compare({}, "")

    def compare_versions(self, oldest: int = 0) -> list[int]:
        """Every version from the oldest on, by its number and by its time; the numbers."""
        history = self.spark.sql(f"DESCRIBE HISTORY {self.table}").selectExpr("version", "unix_millis(timestamp) AS ms")
        times = {row.version: row.ms for row in history.collect() if row.version >= oldest}
        opened = harness.open_table(str(self.location))
        for version, milliseconds in sorted(times.items()):
            self._compare({"version": version}, f" VERSION AS OF {version}")
            assert opened.snapshot(timestamp=milliseconds).id == version
            self.counted["Delta versions"] += 1
        return sorted(times)

    def compare_changes(self, first: int, last: int) -> None:
        """The change data feed of a range of versions, and of each of them."""
        for start, end in [(first, last), *((version, version) for version in range(first, last + 1))]:
            feed = self.spark.read.format("delta").option("readChangeFeed", "true")
            theirs = feed.option("startingVersion", start).option("endingVersion", end).load(str(self.location))
            expected = theirs.toArrow()
            changes = harness.open_table(str(self.location)).changes(start, end)
            for engine in ENGINES:
                assert_same(expected, changes.to_arrow(engine=engine), f"changes {start} to {end} on {engine}")
                self.counted["Delta reads of changes"] += 1

    def _compare(self, at: dict[str, int], travel: str) -> None:
        theirs: pa.Table = self.spark.sql(f"SELECT {self.select} FROM {self.table}{travel}").toArrow()
        reads = assert_same_rows(str(self.location), at, theirs, columns=self.columns)
        self.counted["Delta reads"] += reads
