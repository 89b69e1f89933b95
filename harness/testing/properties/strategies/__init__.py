"""Hypothesis strategies for tables: types, values, filters, and histories that are valid at every step.

    @given(histories("iceberg-2"))
    def test(history): ...

What is drawn are scenario operations, so that a failing example is a scenario file (see
`harness.testing.properties.repro`).
"""

from __future__ import annotations

from harness.testing.properties.strategies.histories import OPERATIONS, DrawnHistory, histories
from harness.testing.properties.strategies.predicates import predicates
from harness.testing.properties.strategies.reads import reads
from harness.testing.properties.strategies.settings import tables
from harness.testing.properties.strategies.types import TableKind, schemas, types
from harness.testing.properties.strategies.values import rows, values

__all__ = [
    "OPERATIONS",
    "DrawnHistory",
    "TableKind",
    "histories",
    "predicates",
    "reads",
    "rows",
    "schemas",
    "tables",
    "types",
    "values",
]
