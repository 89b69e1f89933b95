"""Rows without keys, of which some columns may differ in their last bits: paired by all other columns.

Rows that agree in these are paired in the order of the values of the others, so a row finds the one that is closest to
it wherever there is one for each.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import duckdb
import pyarrow as pa

from harness.differ.storage_types import carried
from harness.engines.shared.running_queries import tracked

MOST_ROWS = 2_000_000
"""Rows of a side that are held in memory to be paired; what has more is compared without allowances."""
PLACE = "place among equal rows"


def paired(
    left: pa.Table, right: pa.Table, close: Collection[str]
) -> tuple[tuple[pa.Table, pa.Table], tuple[str, ...]] | None:
    """Both sides with one column more, and the columns that now tell their rows apart; None: nothing can.

    close: the columns that pair no rows.
    """
    exact = [name for name in left.column_names if name not in close]
    try:
        sides = (_placed(left, exact, close), _placed(right, exact, close))
    except duckdb.Error:  # such as of values that have no order
        return None
    return sides, (*exact, PLACE)


def _placed(rows: pa.Table, exact: Sequence[str], close: Collection[str]) -> pa.Table:
    """The rows with their places among those that agree in all exact columns, by the values of the close ones."""
    texts = {name: f"c{i}" for i, name in enumerate(rows.column_names)}
    partition = f"PARTITION BY {', '.join(texts[name] for name in exact)} " if exact else ""
    order = ", ".join(texts[name] for name in rows.column_names if name in close)
    connection = tracked(duckdb.connect())
    try:
        held = carried(rows).append_column("row_number", pa.array(range(rows.num_rows), pa.int64()))
        connection.register("rows", held)
        places = connection.sql(
            f'SELECT row_number() OVER ({partition}ORDER BY {order}) AS p FROM rows ORDER BY "row_number"'
        )
        return rows.append_column(PLACE, pa.table(places).column(0))
    finally:
        connection.close()
