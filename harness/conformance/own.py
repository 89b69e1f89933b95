"""Harness's own engines as readers under test: they run in this process, without a time limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from harness.conformance.engines import At, TableAt
from harness.engines.registry import find_engine
from harness.oracle.planner import plan_unpruned
from harness.snapshot import Snapshot
from harness.storage.roots import Outside
from harness.table import Table, open_table

ORACLE = "oracle"
NAMES = ("duckdb", "spark", ORACLE)


@dataclass(frozen=True, slots=True)
class OwnReader:
    """Harness's planner and one of its engines; for the oracle, the planner that shares no code with harness's.

    A `ReaderUnderTest`.

    within: a directory that tables may read files in, and nowhere else; None: elsewhere they do with a warning.
    """

    name: str
    within: str | None = None

    def version(self) -> str:
        """The version of the library that runs the plans."""
        return find_engine(self.name).version()

    def capabilities(self) -> frozenset[str] | None:
        """None: what harness does not read, it refuses."""
        return None

    def read(
        self,
        table: TableAt,
        *,
        columns: tuple[str, ...] | None,
        where: str | None,
        opening: Mapping[str, Any] | None = None,
    ) -> pa.Table:
        """The rows. opening: further arguments of `harness.open_table`, such as a catalog's answer.

        Raises:
            HarnessError: whatever opening, planning and reading raise.
        """
        location = table.metadata_path or table.location
        if self.name == ORACLE:
            plan = plan_unpruned(
                location,
                **_arguments(table.at),
                columns=columns,
                where=where,
                **self._roots(Outside.REFUSE),
                **(opening or {}),
            )
        else:
            opened = open_table(location, format_hint=table.format, **self._roots("refuse"), **(opening or {}))
            plan = snapshot_of(opened, table.at).plan(columns, where)
        return find_engine(self.name).to_arrow(plan)

    def read_changes(
        self,
        location: str,
        versions: tuple[int, int],
        columns: tuple[str, ...] | None,
        opening: Mapping[str, Any] | None = None,
    ) -> pa.Table:
        """The change data of these versions, both included.

        Raises:
            HarnessError: as `harness.Table.changes`.
        """
        opened = open_table(location, **self._roots("refuse"), **(opening or {}))
        plan = opened.changes(*versions, columns=columns).plan
        return find_engine(self.name).to_arrow(plan)

    def _roots(self, refuse: Outside | str) -> dict[str, Any]:
        """Arguments of `open_table`, or of the oracle's planner."""
        return {} if self.within is None else {"allowed_roots": (self.within,), "outside": refuse}


def snapshot_of(table: Table, at: At | None) -> Snapshot:
    """The snapshot that a selector means.

    Raises:
        SnapshotNotFoundError: there is none.
    """
    chosen = _arguments(at)
    for name, harness_name in (("version", "snapshot_id"), ("timestamp_ms", "timestamp")):
        if name in chosen:
            chosen[harness_name] = chosen.pop(name)
    return table.snapshot(**chosen)


def _arguments(at: At | None) -> dict[str, Any]:
    return {} if at is None else {at.kind: at.value}
