"""Reads a table by every way into DuckDB, which must agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import on_oracle

from harness.engines.duckdb import relations as engine
from harness.engines.duckdb.instance import cursor
from harness.engines.duckdb.relations import Use
from harness.table import open_table
from harness.testing.writing.iceberg.builder import IcebergTable


def rows(
    t: IcebergTable,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    *,
    location: Any = None,
    **more: Any,
) -> list[tuple[Any, ...]]:
    """The table's rows in a stable order: as Arrow, which is `Use.ONCE`, and as a view, with their count under each.

    location: where the table is by now; None: where it was made. more: options of `open_table`.
    """
    plan = open_table(str(location or t.metadata_path.parent.parent), **more).snapshot().plan(columns, where)
    arrow = on_oracle.to_arrow(plan)
    assert arrow.column_names == [f.name for f in plan.columns]
    if not plan.columns:
        return [()] * arrow.num_rows
    found = in_order(zip(*[c.to_pylist() for c in arrow.columns], strict=True))
    con = cursor()
    for use in (Use.ONCE, Use.VIEW):  # a stream's query is that of a view
        engine.register(plan, con, "v", use=use)
        if use is Use.VIEW:
            assert in_order(con.execute("SELECT * FROM v").fetchall()) == found, use
        assert con.execute("SELECT count(*) FROM v").fetchall() == [(len(found),)], use
    return found


def in_order(found: Any) -> list[tuple[Any, ...]]:
    """Rows in an order that nulls and mixed types do not upset."""
    return sorted(found, key=repr)
