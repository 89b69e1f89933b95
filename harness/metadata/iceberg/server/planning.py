"""Planning of a read by the server of the table's catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.metadata.filters.predicate import Filter
from harness.metadata.iceberg.server.protocol import PlanServer
from harness.metadata.iceberg.time_travel import IcebergSelection
from harness.metadata.planned_scan import PlannedScan

if TYPE_CHECKING:
    from harness.metadata.iceberg.table import IcebergTable


def plan_on_server(
    source: IcebergTable,
    server: PlanServer,
    selection: IcebergSelection,
    *,
    columns: tuple[str, ...] | None,
    where: str | Filter | None,
) -> PlannedScan:
    """Plan a read by the server. The result has the rows of `harness.metadata.iceberg.scan.plan_scan`.

    Args:
        source: The table.
        server: The server of its catalog.
        selection: The snapshot and the schema to read.
        columns: Column names in the order of the result; None for all columns of the schema.
        where: A boolean SQL expression, or a filter for the schema of `selection`; None for all rows.

    Raises:
        RequestError: A column is unknown, or `where` cannot be parsed or is for another schema.
        StorageError: The server does not answer, refuses, fails, or its plan is invalid.
        CorruptDeleteError: A delete applies to a data file of another partition.
        UnsupportedError: The table uses a feature that harness does not support.
        OutsideTableError: A file may not be read.
    """
    raise NotImplementedError
