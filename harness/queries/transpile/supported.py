"""Every entry of the table of functions, scalar or not, for the docs and the tests."""

from __future__ import annotations

from harness.queries.transpile import aggregate_entries
from harness.queries.transpile.functions.registry import Function
from harness.queries.transpile.functions.table import SCALARS

FUNCTIONS: tuple[Function, ...] = (*SCALARS, *aggregate_entries.FUNCTIONS)
