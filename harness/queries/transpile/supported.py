"""Every entry of the table of functions, scalar or not, for the docs and the tests."""

from __future__ import annotations

from harness.queries.transpile.functions.registry import Function
from harness.queries.transpile.functions.table import SCALARS

FUNCTIONS: tuple[Function, ...] = SCALARS
"""A module that lowers aggregates or window functions adds its tuple of entries here."""
