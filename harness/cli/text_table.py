"""Rows as columns of text for people: the first ones, as wide as the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import pyarrow as pa
from rich.cells import cell_len, set_cell_size

from harness.cli.rows import QueryRows
from harness.cli.values import cell, is_nested
from harness.errors import json_lines, visible
from harness.storage.records import dataclass

MAX_ROWS = 40
"""Rows of a query that are shown by default."""
_NARROWEST, _SHARE = 8, 3
"""Columns are left out before a text is cut to fewer cells than that, or than this part of the line."""
_GAP = "  "
_NULL = "NULL"
_CUT = "…"


def text_lines(
    rows: QueryRows,
    *,
    max_rows: int | None = None,
    width: int | None = None,
    option: str = "--max-rows",
) -> Iterator[str]:
    """A header, a rule, a line per row, and the count of rows not shown.

    Args:
        rows: all are read, also those that are not shown, because they are counted.
        max_rows: how many are shown; None: all, and widths come from the first batch.
        width: of a line at most, in cells; None: as long as it is.
        option: what sets `max_rows`, as the person says it.
    """
    rows = rows.as_arrow()
    schema = rows.schema()
    if max_rows is None:
        yield from _lines(schema, _texts(rows), width)
        return
    rest = rows.batches()
    shown, more = _head(rest, max_rows)
    more += sum(batch.num_rows for batch in rest)
    texts = _texts(QueryRows.of(pa.Table.from_batches(shown, schema))) if shown else ()
    yield from _lines(schema, [list(chain.from_iterable(texts))], width)
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


def _texts(rows: QueryRows) -> Iterator[list[tuple[str, ...]]]:
    """The cells of the rows, batch by batch, with nothing unprintable."""
    types = [type_ for _, type_ in rows.columns]
    for batch in rows.selected(*(cell(f"#{place}", type_) for place, type_ in enumerate(types, 1))).batches():
        columns = []
        for column, type_ in zip(batch.columns, types, strict=True):
            escaped = json_lines if is_nested(type_) else str
            columns.append([_shown(None if text is None else escaped(text)) for text in column.to_pylist()])
        yield list(zip(*columns, strict=True))


def _shown(text: str | None) -> str:
    """A cell. NULL is null, and a text of this word has quotes."""
    if text is None:
        return _NULL
    return visible(f'"{text}"' if text.strip('"') == _NULL else text)


def _lines(schema: pa.Schema, batches: Iterable[list[tuple[str, ...]]], width: int | None) -> Iterator[str]:
    names = [visible(name) for name in schema.names]
    columns: list[_Column] = []
    for rows in batches:
        if not columns:
            widths = [max(map(cell_len, column)) for column in zip(names, *rows, strict=True)]
            columns = _fitted(widths, schema.types, width)
            yield from _header(names, columns)
        yield from (_line(row, columns) for row in rows)
    if not columns:
        columns = _fitted([cell_len(name) for name in names], schema.types, width)
        yield from _header(names, columns)
    if left_out := names[len(columns) :]:
        text = f"({len(left_out):,} more columns: {', '.join(left_out)})"
        yield (text if width is None or cell_len(text) <= width else _cut(text, width)) + "\n"


@dataclass(frozen=True, slots=True)
class _Column:
    """The layout of a column. width: in cells."""

    width: int
    to_right: bool
    is_cut: bool


def _fitted(widths: list[int], types: list[pa.DataType], width: int | None) -> list[_Column]:
    """The first columns that fit. Only texts are cut: no number, date or boolean."""
    is_number = [pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t) for t in types]
    is_whole = [n or pa.types.is_temporal(t) or pa.types.is_boolean(t) for n, t in zip(is_number, types, strict=True)]
    columns = [*zip(widths, is_number, is_whole, strict=True)]
    most = max(widths)
    if width is not None:
        least = max(_NARROWEST, width // _SHARE)
        while len(columns) > 1 and _total(columns, least) > width:
            columns.pop()
        while most > (least if len(columns) > 1 else _NARROWEST) and _total(columns, most) > width:
            most -= 1
    return [
        _Column(wide if whole else min(wide, most), number, is_cut=not whole and wide > most)
        for wide, number, whole in columns
    ]


def _total(columns: list[tuple[int, bool, bool]], most: int) -> int:
    """The cells of a line whose texts are cut to `most`."""
    return sum(wide if whole else min(wide, most) for wide, _, whole in columns) + len(_GAP) * (len(columns) - 1)


def _cut(text: str, width: int) -> str:
    return set_cell_size(text, width - 1) + _CUT


def _header(names: list[str], columns: list[_Column]) -> Iterator[str]:
    yield _line(names, columns)
    yield _GAP.join("-" * column.width for column in columns) + "\n"


def _line(cells: Sequence[str], columns: list[_Column]) -> str:
    """The cells as one line; those of the columns that do not fit are left out."""
    parts = []
    for text, column in zip(cells, columns, strict=False):
        if column.is_cut and cell_len(text) > column.width:
            text = _cut(text, column.width)
        padding = " " * (column.width - cell_len(text))
        parts.append(padding + text if column.to_right else text + padding)
    return _GAP.join(parts).rstrip() + "\n"
