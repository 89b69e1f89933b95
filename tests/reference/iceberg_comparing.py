"""A table of the reference writer, read by it and by harness."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from iceberg_history import Written, loaded
from reference_rows import assert_same_rows

import harness


@dataclass(frozen=True, slots=True)
class Compared:
    """Compares reads of a table, and counts them.

    columns: what is selected besides all columns. texts: columns of type variant, or fields of structs.
    """

    written: Written
    counted: Counter[str]
    columns: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    def current(self) -> None:
        """The rows that are current."""
        self._compare({}, self.written.table)

    def every_snapshot(self) -> None:
        """The rows of every snapshot that the table still has."""
        for snapshot in self.written.live_snapshots():
            self._compare({"snapshot_id": snapshot}, f"{self.written.table} VERSION AS OF {snapshot}")

    def every_ref(self) -> None:
        """The rows of every branch and tag, and that there are no others."""
        theirs = dict(loaded(self.written.spark, self.written.table).refs())
        ours = {name: ref["snapshot_id"] for name, ref in harness.open_table(self.written.location).refs().items()}
        assert ours == {name: ref.snapshotId() for name, ref in theirs.items()}
        for name in ours:
            self._compare({"ref": name}, f"{self.written.table} VERSION AS OF '{name}'")

    def every_moment(self) -> None:
        """Which snapshot is read of the moment at which each became current."""
        opened = harness.open_table(self.written.location)
        for entry in loaded(self.written.spark, self.written.table).history():
            found = opened.snapshot(timestamp=entry.timestampMillis())
            assert found.id == entry.snapshotId(), f"timestamp {entry.timestampMillis()}"
            self.counted["Iceberg moments"] += 1

    def _compare(self, at: dict[str, Any], source: str) -> None:
        theirs = self._theirs(source)
        columns = theirs.schema.names if self.columns else None
        self.counted["Iceberg reads"] += assert_same_rows(self.written.location, at, theirs, columns=columns)

    def _theirs(self, source: str) -> pa.Table:
        frame = self.written.spark.sql(f"SELECT {', '.join(('*', *self.columns))} FROM {source}")
        for path in self.texts:
            top, _, rest = path.partition(".")
            if top in frame.columns:
                frame = frame.withColumn(top, _text(frame, top, rest))
        return frame.toArrow()


def _text(frame: Any, top: str, rest: str) -> Any:
    from pyspark.sql import functions

    column = frame[top]
    return column.withField(rest, functions.to_json(column[rest])) if rest else functions.to_json(column)
