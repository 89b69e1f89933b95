"""Rows as columns of text for people: the first ones, as wide as the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa

from harness.cli.rows import QueryRows
from harness.cli.values import cell, is_nested
from harness.errors import json_lines
from harness.metadata.model.text_tables import Style, column_of, table_lines, unstyled

MAX_ROWS = 40
"""Rows of a query that are shown by default."""


def text_lines(
    rows: QueryRows,
    *,
    max_rows: int | None = None,
    width: int | None = None,
    style: Style = unstyled,
    option: str = "--max-rows",
) -> Iterator[str]:
    """Names, types, a rule, a line per row, and the count of rows not shown.

    Args:
        rows: all are read, also those that are not shown, because they are counted.
        max_rows: how many are shown; None: all, and widths come from the first batch.
        width: of a line at most, in cells; None: as long as it is.
        option: what sets `max_rows`, as the person says it.
    """
    rows = rows.as_arrow()
    columns = [column_of(name, type_) for name, type_ in rows.columns]
    if max_rows is None:
        yield from (f"{line}\n" for line in table_lines(columns, _texts(rows), width=width, style=style))
        return
    rest = rows.batches()
    shown, more = _head(rest, max_rows)
    more += sum(batch.num_rows for batch in rest)
    texts = _texts(QueryRows.of(pa.Table.from_batches(shown))) if shown else ()
    lines = table_lines(columns, [list(chain.from_iterable(texts))], width=width, style=style)
    yield from (f"{line}\n" for line in lines)
    if more:
        yield f"({max_rows:,} of {max_rows + more:,} rows; {option} all shows all)\n"


def _head(batches: Iterator[pa.RecordBatch], rows: int) -> tuple[list[pa.RecordBatch], int]:
    """The first rows, and the number of further rows in the last batch that was taken."""
    head: list[pa.RecordBatch] = []
    for batch in batches:
        head.append(batch[:rows])
        rows -= batch.num_rows
        if rows <= 0:
            return head, -rows
    return head, 0


def _texts(rows: QueryRows) -> Iterator[list[tuple[str | None, ...]]]:
    """The cells of the rows, batch by batch."""
    types = [type_ for _, type_ in rows.columns]
    for batch in rows.selected(*(cell(f"#{place}", type_) for place, type_ in enumerate(types, 1))).batches():
        columns = []
        for column, type_ in zip(batch.columns, types, strict=True):
            escaped = json_lines if is_nested(type_) else str
            columns.append([None if text is None else escaped(text) for text in column.to_pylist()])
        yield list(zip(*columns, strict=True))
