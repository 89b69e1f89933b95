"""Comparison of two results: exactly, or within the allowances of the query by column."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

from harness.diff.compare import compare
from harness.diff.tolerances import Measure, Tolerance
from harness.queries.allowances import Allowance


@dataclass(frozen=True, slots=True)
class Agreement:
    """`equal`, `allowed`, `different`, `refused`, or `failed`, and the reason."""

    word: str
    reason: str = ""


def compare_rows(rows: pa.Table, right: pa.Table, allowed: Mapping[int, Allowance]) -> Agreement:
    """Compare two results whose columns have the same names. `allowed` is by column index."""
    if rows.schema.types != right.schema.types:
        return Agreement("different", f"types {rows.schema.types}, expected {right.schema.types}")
    allowances = {
        rows.column_names[place]: Tolerance(Decimal(each.ulps), Measure.ULPS, reason=each.reason)
        for place, each in allowed.items()
        if pa.types.is_floating(rows.schema.types[place])
    }
    comparison = compare(rows, right, max_rows=1, tolerance=allowances)
    if comparison.only_left + comparison.only_right + comparison.changed:
        return Agreement("different", f"{rows.num_rows} rows, expected {right.num_rows}: {comparison.rows}")
    used = ", ".join(f"column {each.column} within {allowances[each.column]}" for each in comparison.by_column)
    return Agreement("allowed", used) if comparison.allowed else Agreement("equal")
