"""Metadata columns: where a row is, and which id it has (iceberg 5.17, 5.18; delta W2, W3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from harness.model.schema import Field, StructType
from harness.oracle.engine.columns import FileColumns
from harness.oracle.engine.stored import Row
from harness.plan.scan_plan import ScanPlan


def metadata_reader(
    plan: ScanPlan, ordinal: int, entry: Mapping[str, Any], column: Field, columns: FileColumns
) -> Callable[[Row, int], Any]:
    """From a row of a file and its position to a metadata column's value.

    Args:
        plan: what is read.
        ordinal: of the data file.
        entry: its row of `ScanPlan.files`.
        column: one of `harness.model.metadata_columns.METADATA`, but `_deleted`.
        columns: of the file.
    """
    first_row_id = entry["first_row_id"]
    stored = columns.stored_metadata(column, plan.materialized.get(column.name))

    def own(row: Row, inherited: Any) -> Any:
        """What the file holds itself, or else what it inherits."""
        value = None if stored is None else stored(row)
        return inherited if value is None else value

    match column.name:
        case "_file":
            return lambda _row, _position: entry["path"]
        case "_pos":
            return lambda _row, position: position
        case "_spec_id":
            return lambda _row, _position: entry["spec_id"]
        case "_partition":
            # The values of the file's own spec, by field id; a table whose specs have no field has no struct.
            values = dict(plan.partitions[entry["partition"]].values) if isinstance(column.type, StructType) else None
            return lambda _row, _position: values
        case "_row_id":
            return lambda row, position: None if first_row_id is None else own(row, first_row_id + position)
        case "_last_updated_sequence_number":
            return lambda row, _position: None if first_row_id is None else own(row, entry["sequence_number"])
        case "_row_commit_version":
            versions = plan.row_commit_versions
            version = None if versions is None else versions[ordinal].as_py()
            return lambda row, _position: own(row, version)
        case other:
            raise AssertionError(f"no metadata column is called {other}")
