"""Whether two results are the same rows: exactly, or within the allowances of the query by column."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from harness.differ.canonical import order_key
from harness.differ.exact import Rules
from harness.queries.allowances import Allowance

_ROWS = Rules(keys=(), max_rows=1, signed_zeros="distinct", few=0)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`equal`, `allowed`, `different`, `refused` or `failed`, and why."""

    word: str
    reason: str = ""


def judge(rows: pa.Table, right: pa.Table, allowed: Mapping[int, Allowance]) -> Verdict:
    """Columns of both have the same names; `allowed`: by place of the column."""
    if rows.schema.types != right.schema.types:
        return Verdict("different", f"types {rows.schema.types}, expected {right.schema.types}")
    found = _ROWS.difference(rows, right, rows.column_names)
    if not found.only_left + found.only_right + found.changed:
        return Verdict("equal")
    floats = {i: a for i, a in allowed.items() if pa.types.is_floating(rows.schema.types[i])}
    if not floats or rows.num_rows != right.num_rows:
        return Verdict("different", f"{rows.num_rows} rows, expected {right.num_rows}: {found.rows}")
    worst = _distances(rows, right, floats)
    if worst is None:
        return Verdict("different", f"in columns without an allowance: {found.rows}")
    beyond = {i: d for i, d in worst.items() if d > floats[i].ulps}
    told = ", ".join(
        f"column {i + 1} {d:g} ulps of {floats[i].ulps}, {floats[i].reason}" for i, d in worst.items() if d
    )
    return Verdict("different" if beyond else "allowed", told)


def _distances(rows: pa.Table, right: pa.Table, places: Mapping[int, Allowance]) -> dict[int, float] | None:
    """The greatest distance in each of the columns, in ulps; None: other columns differ."""
    left, expected = _grouped(rows, places), _grouped(right, places)
    if {k: len(v) for k, v in left.items()} != {k: len(v) for k, v in expected.items()}:
        return None
    worst = dict.fromkeys(places, 0.0)
    for key, found in left.items():
        for mine, theirs in zip(found, expected[key], strict=True):
            for place, a, b in zip(places, mine, theirs, strict=True):
                worst[place] = max(worst[place], _ulps(a, b))
    return worst


def _grouped(rows: pa.Table, places: Mapping[int, Allowance]) -> dict[str, list[tuple[Any, ...]]]:
    columns = [column.to_pylist() for column in rows.columns]
    groups = defaultdict(list)
    for row in zip(*columns, strict=True):
        rest = repr([value for i, value in enumerate(row) if i not in places])  # lists are no keys
        groups[rest].append(tuple(row[i] for i in places))
    return {key: sorted(found, key=lambda row: tuple(map(order_key, (row,)))) for key, found in groups.items()}


def _ulps(a: float | None, b: float | None) -> float:
    if a == b or (a is not None and b is not None and math.isnan(a) and math.isnan(b)):
        return 0.0
    if a is None or b is None or not math.isfinite(a) or not math.isfinite(b):
        return math.inf
    return abs(a - b) / math.ulp(max(abs(a), abs(b)))
