"""Comparison results made by hand, for tests of the reports."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from harness.diff.exact import Difference, Rules
from harness.diff.result import (
    ColumnDifference,
    ComparisonResult,
    GroupDifference,
    Origin,
    RowDifference,
    RowKind,
    SchemaDifference,
    SchemaKind,
    SideInfo,
    Spread,
)
from harness.errors import CorruptFileError, EngineError

LEFT = SideInfo(name="orders", engine="duckdb 2.0.0", table="lake/orders", snapshot=4, rows=1000)
RIGHT = SideInfo(name="orders", engine="spark 4.3.0", table="lake/orders", snapshot=4, rows=999)
TORN = CorruptFileError("Cannot read file: it is torn", table="lake/orders", file="data/a.parquet")
LOST = EngineError("Cannot run the plan: executor lost", table="lake/orders")
COLUMNS = ("id", "region", "total")


def difference_of(
    left: pa.Table, right: pa.Table, columns: Sequence[str], keys: Sequence[str] = (), **how: Any
) -> Difference:
    rules = Rules(**{"keys": tuple(keys), "direct_rows": 0, **how})
    return rules.difference(left, right, columns)


def origin(file: str, position: int, *hidden_by: str) -> Origin:
    return Origin(file=file, position=position, hidden_by=hidden_by)


def row(kind: RowKind, left: tuple[str, ...] | None, right: tuple[str, ...] | None, **more: Any) -> RowDifference:
    return RowDifference(kind=kind, left=left, right=right, **more)


FIRST = (origin("data/1.parquet", 6),)
CHANGED = row(RowKind.CHANGED, ("7", "'eu'", "1.50"), ("7", "'us'", "1.50"), differing=("region",))
CHANGED = replace(CHANGED, left_origins=FIRST, right_origins=FIRST)
TWO = (origin("data/1.parquet", 8, "data/3-deletes.parquet"), origin("data/2.parquet", 0))
ONLY_LEFT = row(RowKind.ONLY_LEFT, ("9", "'eu'", "2.00"), None, count=2, left_origins=TWO)
ONLY_RIGHT = row(RowKind.ONLY_RIGHT, None, ("11", "NULL", "NULL"))
SCHEMA = (
    SchemaDifference("total", SchemaKind.TYPE, "decimal(10,2)", "decimal(12,2)"),
    SchemaDifference("channel", SchemaKind.ONLY_LEFT, "string", None),
    SchemaDifference("id", SchemaKind.NULLABLE, "not null", "nullable"),
)
COMPARED = ComparisonResult(left=LEFT, right=RIGHT, columns=COLUMNS)
KEYED = replace(COMPARED, keys=("id",), schema=SCHEMA, rows=(CHANGED, ONLY_LEFT, ONLY_RIGHT))
KEYED = replace(KEYED, only_left=2, only_right=1, changed=1)
CUT = replace(KEYED, changed=1234, truncated=True)


RANGES = tuple(GroupDifference(values=(f"{n} to {n + 9:,}" * (n + 1),), changed=60, only_left=n) for n in range(20))
FILES = tuple(
    GroupDifference(values=("left", f"region={'apac' * (n % 2 + 1)}/ordered_at_month=65{n}/00012.parquet"), changed=n)
    for n in range(1, 20)
)
PLACED = replace(
    CUT,
    by_column=tuple(ColumnDifference(column=f"column {n} " + "x" * n, rows=1234 - n) for n in range(60)),
    grouped_by=("day", "region"),
    by_group=tuple(GroupDifference(values=(f"2024-01-{n:02}", "'世界' " * n), changed=n) for n in range(1, 20)),
    groups=10_000,
    by_key=Spread(places=RANGES, rows=1237, total=20),
    by_file=Spread(places=FILES, rows=190, total=10_000),
)
"""A truncated comparison with charts of all kinds, at their largest."""
ALIKE = (
    replace(CHANGED, kind=RowKind.ONLY_LEFT, right=None, partner=3, right_origins=()),
    ONLY_LEFT,
    ONLY_RIGHT,
    replace(CHANGED, kind=RowKind.ONLY_RIGHT, left=None, partner=0, left_origins=()),
)
UNKEYED = replace(COMPARED, rows=ALIKE, only_left=3, only_right=2)
EQUAL = ComparisonResult(left=LEFT, right=replace(RIGHT, rows=1000), columns=COLUMNS, schema=SCHEMA[2:])
OUTCOME = ComparisonResult(left=LEFT, right=replace(RIGHT, rows=None, error=LOST))
FAILED = ComparisonResult(left=replace(LEFT, rows=None, error=TORN), right=replace(RIGHT, rows=None, error=LOST))
ALL = {
    "keyed": KEYED,
    "cut": CUT,
    "placed": PLACED,
    "unkeyed": UNKEYED,
    "equal": EQUAL,
    "outcome": OUTCOME,
    "failed": FAILED,
}


def with_value(value: str) -> ComparisonResult:
    """Return a comparison with one changed row, and `value` in every text that a table, file name or error can fill."""
    side = SideInfo(name=value, engine=value, table=value, rows=1)
    changed = row(RowKind.CHANGED, ("1", value), ("1", "x" + value), differing=(value,))
    changed = replace(changed, left_origins=(origin(value, 0, value),), right_origins=(origin(value, 0),))
    schema = (SchemaDifference(value, SchemaKind.TYPE, value, "x" + value),)
    found = ComparisonResult(left=side, right=side, columns=("k", value), keys=("k",), schema=schema)
    return replace(found, rows=(changed,), changed=1)
