"""Harness's own engines as readers under test: they run in this process, without a time limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_never

import pyarrow as pa

from harness.conformance.engines import At, TableAt
from harness.engine import find_engine
from harness.table import Snapshot, Table, open_table

NAMES = ("duckdb", "spark", "oracle")


@dataclass(frozen=True, slots=True)
class OwnReader:
    """Harness's planner and one of its engines; a `ReaderUnderTest`."""

    name: str

    def version(self) -> str:
        """The version of the library that runs the plans."""
        return find_engine(self.name).version()

    def capabilities(self) -> frozenset[str] | None:
        """None: what harness does not read, it refuses."""
        return None

    def read(self, table: TableAt, *, columns: tuple[str, ...] | None, where: str | None) -> pa.Table:
        """The rows.

        Raises:
            HarnessError: whatever opening, planning and reading raise.
        """
        opened = open_table(table.metadata_path or table.location, format_hint=table.format)
        plan = snapshot_of(opened, table.at).plan(columns, where)
        return find_engine(self.name).to_arrow(plan)


def snapshot_of(table: Table, at: At | None) -> Snapshot:
    """The snapshot that a selector means.

    Raises:
        SnapshotNotFoundError: there is none.
    """
    chosen: dict[str, Any] = {}
    if at is not None:
        match at.kind:
            case "snapshot_id" | "version":
                chosen["snapshot_id"] = at.value
            case "timestamp_ms":
                chosen["timestamp"] = at.value
            case "ref":
                chosen["ref"] = at.value
            case _:
                assert_never(at.kind)
    return table.snapshot(**chosen)
