"""Hypothesis strategies for tables: types, values, filters, and histories that are valid at every step.

    @given(histories("iceberg-2"))
    def test(history): ...

The strategies draw scenario operations, so that a failing example is a scenario file (see `drawn.repro`).
"""

from drawn.strategies.changes import change_reads, changing_histories, ranges
from drawn.strategies.histories import OPERATIONS, DrawnHistory, histories
from drawn.strategies.predicates import predicates
from drawn.strategies.reads import reads

__all__ = [
    "OPERATIONS",
    "DrawnHistory",
    "change_reads",
    "changing_histories",
    "histories",
    "predicates",
    "ranges",
    "reads",
]
