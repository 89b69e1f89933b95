"""The layout of all tables of text: columns that fit a line, with types below the names and NULL apart from 'NULL'.

    id      region   total
    bigint  varchar  decimal(9,2)
    ------  -------  ------------
         1  eu               1.50
    (2 more columns: channel = web, comment)

Numbers, dates, times and booleans are never cut. A text is cut where it is wider than three quarters of the line. Where
not all columns fit, those are left out first that hold one value in all rows, then each that finds no room.
"""

from __future__ import annotations

import shutil
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from os.path import commonprefix
from typing import Any, TypeAlias

from harness.errors import html_text, visible
from harness.metadata.model.times import show_ms
from harness.storage.records import dataclass

NULL = "NULL"
_CUT, _GAP = "…", "  "
_NARROWEST = 8
"""The cells of a column of texts that are left at least."""
_SHORTEST_DIRECTORY = 8
"""Characters that a common directory must have to be told once, below the table."""
_MOST_NAMES = 30

Style: TypeAlias = Callable[[str, str], str]
"""Gives a text with the codes of a style, such as `dim`."""
Row: TypeAlias = Sequence[str | None]


def unstyled(text: str, style: str) -> str:
    """The text as it is."""
    return text


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. type: told below the name. is_whole: no value is cut. to_right: as numbers are."""

    name: str
    type: str = ""
    is_whole: bool = False
    to_right: bool = False


def cell_width(text: str) -> int:
    """Cells of a terminal: two for a wide character, none for one that combines with its neighbours or joins them."""
    if text.isascii():
        return len(text)
    none = {c for c in set(text) if unicodedata.category(c) in ("Mn", "Me", "Cf")}
    return sum(0 if c in none else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def cut(text: str, width: int) -> str:
    """At most so many cells of a text: its start, or the end of a path."""
    if cell_width(text) <= width:
        return text
    is_path = "/" in text and " " not in text
    kept = ""
    for character in reversed(text) if is_path else text:
        longer = character + kept if is_path else kept + character
        if cell_width(longer) >= width:
            break
        kept = longer
    return _CUT + kept if is_path else kept + _CUT


def folded(text: str, width: int) -> str:
    """Lines of at most `width` cells, as far as words allow; the rest of a line stands below it, indented."""
    lines = []
    for line in text.split("\n"):
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        if cell_width(line) > width:
            line = textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        lines.append(line)
    return "\n".join(lines)


def aligned(lines: Iterable[Sequence[str]], to_right: Sequence[bool] = ()) -> Iterator[str]:
    """Cells one below the other, in columns as wide as they must be."""
    cells = [[visible(cell) for cell in line] for line in lines]
    widths = [max(map(cell_width, column)) for column in zip(*cells, strict=True)]
    sides = [*to_right, *(False for _ in widths[len(to_right) :])]
    return (_GAP.join(map(_padded, line, widths, sides)).rstrip() for line in cells)


def _padded(text: str, width: int, to_right: bool) -> str:
    padding = " " * (width - cell_width(text))
    return padding + text if to_right else text + padding


def table_lines(
    columns: Sequence[Column],
    batches: Iterable[Sequence[Row]],
    *,
    width: int | None = None,
    style: Style = unstyled,
) -> Iterator[str]:
    """Names, types and a rule where there are types, a line per row, then notes on the columns that do not fit.

    Args:
        batches: rows; widths are those of the first batch. None is a null.
        width: of a line at most, in cells; None: as long as it is.
    """
    layout: _Layout | None = None
    for rows in batches:
        if layout is None:
            layout = _Layout.of(columns, rows, width)
            yield from layout.head(style)
        yield from (layout.line(row, style) for row in rows)
    if layout is None:
        layout = _Layout.of(columns, (), width)
        yield from layout.head(style)
    yield from layout.notes(width)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The shown columns, by their places among all; what is cut off their cells; and what stands below the rows."""

    columns: Sequence[Column]
    shown: Sequence[int]
    widths: Sequence[int]
    directories: dict[int, str]
    left_out: Sequence[str]

    @staticmethod
    def of(columns: Sequence[Column], rows: Sequence[Row], width: int | None) -> _Layout:
        heads = [max(cell_width(visible(c.name)), len(c.type)) for c in columns]
        cells = [[_cell(row[place]) for row in rows] for place in range(len(columns))]
        wide = [max([head, *map(cell_width, texts)]) for head, texts in zip(heads, cells, strict=True)]
        everything = range(len(columns))
        if width is None or _total(wide) <= width:
            return _Layout(columns, everything, wide, {}, ())
        directories = {}
        for place in everything:
            directory = _directory([text for text in cells[place] if text != NULL])
            if not columns[place].is_whole and len(directory) >= _SHORTEST_DIRECTORY:
                directories[place] = directory
                wide[place] = max(heads[place], wide[place] - cell_width(directory) + 1)
        most = max(_NARROWEST, width * 3 // 4)
        needed = [w if column.is_whole else min(w, most) for w, column in zip(wide, columns, strict=True)]
        same = {place for place in everything if len(rows) > 1 and len(set(cells[place])) == 1}
        chosen: list[int] = []
        for place in sorted(everything, key=lambda place: place in same):
            if not chosen or _total([needed[i] for i in (*chosen, place)]) <= width:
                chosen.append(place)
        chosen.sort()
        for place in chosen:
            room = width - _total([needed[i] for i in chosen])
            needed[place] = min(wide[place], needed[place] + max(room, 0))
        left_out = [
            visible(column.name) + (f" = {cut(cells[place][0], _NARROWEST * 2)}" if place in same else "")
            for place, column in enumerate(columns)
            if place not in chosen
        ]
        directories = {place: directory for place, directory in directories.items() if place in chosen}
        if len(chosen) == 1 and not columns[chosen[0]].is_whole:
            needed[chosen[0]] = min(needed[chosen[0]], width)
        return _Layout(columns, chosen, [needed[i] for i in chosen], directories, left_out)

    def head(self, style: Style) -> Iterator[str]:
        yield self._joined([visible(self.columns[place].name) for place in self.shown])
        if any(column.type for column in self.columns):
            yield style(self._joined([self.columns[place].type for place in self.shown]), "dim")
            yield _GAP.join("-" * width for width in self.widths)

    def line(self, row: Row, style: Style) -> str:
        cells = []
        for place in self.shown:
            text, directory = _cell(row[place]), self.directories.get(place)
            cells.append(_CUT + text.removeprefix(directory) if directory and row[place] is not None else text)
        return self._joined(cells, [style if row[place] is None else unstyled for place in self.shown])

    def notes(self, width: int | None) -> Iterator[str]:
        for place, directory in self.directories.items():
            note = f"({visible(self.columns[place].name)}: below {directory})"
            yield note if width is None else cut(note, width)
        if self.left_out and width is not None:
            count = len(self.left_out)
            names = ", ".join(self.left_out[:_MOST_NAMES]) + (", …" if count > _MOST_NAMES else "")
            yield from folded(f"({count:,} more column{'s' * (count > 1)}: {names})", width).split("\n")

    def _joined(self, cells: Sequence[str], styles: Iterable[Style] = repeat(unstyled)) -> str:
        parts = []
        for text, width, place, style in zip(cells, self.widths, self.shown, styles, strict=False):
            column = self.columns[place]
            fitting = text if column.is_whole else cut(text, width)
            parts.append(style(_padded(fitting, width, column.to_right), "dim"))
        return _GAP.join(parts).rstrip()


def _cell(text: str | None) -> str:
    """A cell on one line. A text that is called NULL has quotes."""
    if text is None:
        return NULL
    return visible(f'"{text}"' if text.strip('"') == NULL else text)


def _directory(texts: Sequence[str]) -> str:
    """The directory in which all paths lie; empty where a text is no path."""
    if not texts or any(" " in text for text in texts):
        return ""
    return commonprefix(texts).rpartition("/")[0]  # noqa: RUF071  # the rest of a name goes


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


_NUMBERS = {
    *(
        "tinyint",
        "smallint",
        "integer",
        "bigint",
        "hugeint",
        "utinyint",
        "usmallint",
        "uinteger",
        "ubigint",
        "uhugeint",
    ),
    *("float", "double", "decimal"),
}
_WHOLE = {*_NUMBERS, "boolean", "date", "uuid", "interval"}


def column_of(name: str, type_: Any) -> Column:
    """The column of a DuckDBPyType."""
    kind = type_.id
    is_whole = kind in _WHOLE or kind.startswith(("time", "timestamp"))
    return Column(name, _type_name(type_), is_whole=is_whole, to_right=kind in _NUMBERS)


def _type_name(type_: Any) -> str:
    """The type in a word, as SQL has it; of a list, with that of its items."""
    match type_.id:
        case "list" | "array":
            return f"{_type_name(dict(type_.children)['child'])}[]"
        case "struct" | "map" | "union" | "tuple" | "enum":
            return str(type_.id)
        case _:
            return str(type_).lower().replace(" with time zone", "tz")


def html_table(columns: Sequence[Column], rows: Iterable[Row]) -> str:
    """The table as HTML, for notebooks."""
    heads = [f"<tr>{''.join(f'<th>{html_text(column.name)}</th>' for column in columns)}</tr>"]
    if any(column.type for column in columns):
        heads.append(f"<tr>{''.join(f'<td><code>{html_text(column.type)}</code></td>' for column in columns)}</tr>")
    lines = (f"<tr>{''.join(f'<td>{_html_cell(text)}</td>' for text in row)}</tr>" for row in rows)
    return f"<table>{''.join(heads)}{''.join(lines)}</table>"


def _html_cell(text: str | None) -> str:
    return f"<code>{NULL}</code>" if text is None else html_text(text)


class Listing(list[dict[str, Any]]):
    """Plain values, which print themselves as a table, and are one in notebooks."""

    def __str__(self) -> str:
        return "\n".join(table_lines(*self._shown(), width=shutil.get_terminal_size().columns))

    def _repr_html_(self) -> str:
        columns, (rows,) = self._shown()
        return html_table(columns, rows)

    def _shown(self) -> tuple[list[Column], list[list[list[str | None]]]]:
        names = list(dict.fromkeys(name for row in self for name in row))
        numeric = [all(isinstance(row.get(name), int | None) for row in self) for name in names]
        columns = [Column(n.removesuffix("_ms"), is_whole=w, to_right=w) for n, w in zip(names, numeric, strict=True)]
        return columns, [[[_listed(name, row.get(name)) for name in names] for row in self]]


def _listed(name: str, value: Any) -> str | None:
    if name == "timestamp_ms" and value is not None:
        return show_ms(value)
    return None if value is None else str(value)
