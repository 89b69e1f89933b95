"""Counts and exact sums over a frame with EXCLUDE: those of the frame, less those of what is left out.

A list of the frame for each row, as `exclusions` has it, is dear where frames are large.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.model.schema import Type
from harness.queries.transpile.excluded_rows import Exclusion
from harness.queries.transpile.frames import Frame, over
from harness.queries.transpile.values import added_as, type_name

_PEERS = Frame("RANGE", "CURRENT ROW", "CURRENT ROW")


def are_certain(left_out: Exclusion) -> bool:
    """Whether all that is left out stands in the frame."""
    return left_out.frame.holds_its_row and (left_out.kind == "CURRENT ROW" or left_out.frame.kind == "RANGE")


def counted(left_out: Exclusion, value: str) -> str:
    """The number of values that are not null."""
    own = f"CASE WHEN ({value}) IS NOT NULL THEN 1L ELSE 0L END"
    return _less(left_out, lambda window: f"COUNT({value}){window}", own, "BIGINT")


def total(left_out: Exclusion, value: str, type_: Type) -> str:
    """The sum of the values, none of them a float; null for none."""
    name, shown = type_name(added_as(type_)), type_name(type_)
    cast, zero = f"CAST({value} AS {name})", f"CAST(0 AS {name})"
    left = _less(left_out, lambda window: f"COALESCE(SUM({cast}){window}, {zero})", f"COALESCE({cast}, {zero})", name)
    return f"CASE WHEN {counted(left_out, value)} > 0 THEN CAST({left} AS {shown}) END"


def _less(left_out: Exclusion, of: Callable[[str], str], own: str, type_: str) -> str:
    """The difference, in a type that each step keeps."""
    whole = f"CAST({of(over(left_out.rows, left_out.frame))} AS {type_})"
    if left_out.kind == "CURRENT ROW":
        return f"CAST({whole} - {own} AS {type_})"
    others = f"CAST({whole} - CAST({of(over(left_out.rows, _PEERS))} AS {type_}) AS {type_})"
    return others if left_out.kind == "GROUP" else f"CAST({others} + {own} AS {type_})"
