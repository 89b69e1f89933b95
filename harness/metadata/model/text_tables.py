"""The layout of text tables: columns that fit a line, with types below the names, and NULL distinct from 'NULL'.

    id      region   total
    bigint  varchar  decimal(9,2)
    ------  -------  ------------
         1  eu               1.50
    (2 more columns: channel = web, comment)

Numbers, dates, times, and Booleans are never cut. Texts are cut if they are wider than three quarters of the line. If
some columns do not fit, columns with the same value in all rows are left out first, then each column that does not fit
into the rest of the line.
"""

from __future__ import annotations

import shutil
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from os.path import commonprefix
from typing import Any, TypeAlias

from harness.errors import html_text, json_text, size_text, visible
from harness.storage.records import dataclass

_NULL, _CUT, _GAP = "NULL", "…", "  "
_NARROWEST, _SHORTEST_DIRECTORY, _MOST_NAMES = 8, 8, 30
"""The minimum width of a cut text, the minimum length of a common directory, and a maximum of names.

A common directory is printed once instead of in every cell. The maximum applies to the list of omitted columns.
"""

Style: TypeAlias = Callable[[str, str], str]
"""A function that adds the codes of a style to a text, for example of the style `dim`."""
TextRow: TypeAlias = Sequence[str | None]


def unstyled(text: str, style: str) -> str:
    """Return the text unchanged."""
    return text


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a text table.

    Attributes:
        name: The name.
        type: The type, printed below the name.
        is_whole: True if values are never cut.
        to_right: True if values are aligned to the right, like numbers.
    """

    name: str
    type: str = ""
    is_whole: bool = False
    to_right: bool = False


def column_of(name: str, type_: Any) -> Column:
    """Return the column for a name and a DuckDBPyType."""
    is_number = type_.id.endswith(("int", "integer", "float", "double", "decimal"))
    is_whole = is_number or type_.id.startswith(("date", "time", "interval", "boolean", "uuid"))
    return Column(name, _type_name(type_), is_whole=is_whole, to_right=is_number)


def _type_name(type_: Any) -> str:
    """Return a type as a single word of SQL. For a list, the type of its items precedes `[]`."""
    match type_.id:
        case "list" | "array":
            return f"{_type_name(dict(type_.children)['child'])}[]"
        case "struct" | "map" | "union" | "tuple" | "enum":
            return str(type_.id)
        case _:
            return str(type_).lower().replace(" with time zone", "tz")


def cell_width(text: str) -> int:
    """Return the number of terminal cells that a text takes.

    A wide character takes 2 cells. A character that combines with its neighbors takes none.
    """
    if text.isascii():
        return len(text)
    none = {c for c in set(text) if unicodedata.category(c) in ("Mn", "Me", "Cf")}
    return sum(0 if c in none else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def text_prefix(text: str, width: int) -> str:
    """Return the longest prefix of a text that takes at most `width` cells."""
    cells = 0
    for place, character in enumerate(text):
        cells += cell_width(character)
        if cells > width:
            return text[:place]
    return text


def cut_text(text: str, width: int, sign: str = _CUT, *, tail: int = 0) -> str:
    """Return `text` on one line of printable characters, in at most `width` cells.

    Args:
        text: The text.
        width: The maximum width in cells.
        sign: The text that replaces the omitted part.
        tail: The number of characters to keep from the end of the text.
    """
    text = visible(text)
    if cell_width(text) <= width:
        return text
    end = sign + text[len(text) - tail :]
    return text_prefix(text, width - cell_width(end)) + end


def shorten(text: str, width: int) -> str:
    """Return at most `width` cells of a text: its start, or the end if it is a path."""
    if "/" in text and " " not in text and cell_width(text) > width:
        return (text_prefix(text[::-1], width - 1) + _CUT)[::-1]
    return cut_text(text, width)


def fold(text: str, width: int) -> str:
    """Wrap lines at word boundaries to at most `width` cells. Continuation lines are indented."""
    lines = []
    for line in text.split("\n"):
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        if cell_width(line) > width:
            line = textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        lines.append(line)
    return "\n".join(lines)


def align(lines: Iterable[Sequence[str]], to_right: Sequence[bool] = ()) -> Iterator[str]:
    """Yield lines of cells as text, in columns as wide as necessary."""
    cells = [[visible(cell) for cell in line] for line in lines]
    widths = [max(map(cell_width, column)) for column in zip(*cells, strict=True)]
    sides = [*to_right, *(False for _ in widths[len(to_right) :])]
    return (_GAP.join(map(pad, line, widths, sides)).rstrip() for line in cells)


def pad(text: str, width: int, to_right: bool = False) -> str:
    """Return a text padded with spaces to `width` cells."""
    padding = " " * (width - cell_width(text))
    return padding + text if to_right else text + padding


def table_lines(
    columns: Sequence[Column],
    batches: Iterable[Sequence[TextRow]],
    *,
    width: int | None = None,
    style: Style = unstyled,
) -> Iterator[str]:
    """Yield the lines of a table: names, types and a rule, rows, and notes on columns that do not fit.

    Tables without types have no rule.

    Args:
        columns: The columns.
        batches: The rows in batches. The widths are determined by the first batch. None is a null.
        width: The maximum width of a line in cells. None: unlimited.
        style: The function that styles types and nulls.
    """
    rest = iter(batches)
    first = next(rest, ())
    layout = _Layout(columns, first, width)
    yield layout.line([column.name for column in columns])
    if any(column.type for column in columns):
        yield style(layout.line([column.type for column in columns]), "dim")
        yield _GAP.join("-" * layout.widths[place] for place in layout.shown)
    for row in chain(first, chain.from_iterable(rest)):
        yield layout.line(row, style)
    yield from layout.notes


class _Layout:
    """The indices of the shown columns, the widths of all columns, and the notes below the rows."""

    def __init__(self, columns: Sequence[Column], rows: Sequence[TextRow], width: int | None) -> None:
        self.columns, self.shown, self.notes = columns, list(range(len(columns))), list[str]()
        self.directories = [""] * len(columns)
        cells = [[_cell(row[place]) for row in rows] for place in self.shown]
        heads = [max(cell_width(visible(column.name)), len(column.type)) for column in columns]
        self.widths = [max([head, *map(cell_width, texts)]) for head, texts in zip(heads, cells, strict=True)]
        if width is None or self._total(self.shown) <= width:
            return
        whole = self.widths
        most = max(_NARROWEST, width * 3 // 4)
        for place, column in enumerate(columns):
            if not column.is_whole:
                directory = self.directories[place] = _directory([text for text in cells[place] if text != _NULL])
                whole[place] = max(heads[place], whole[place] - max(cell_width(directory) - 1, 0))
        self.widths = [w if column.is_whole else min(w, most) for w, column in zip(whole, columns, strict=True)]
        uniform_columns = {place for place in self.shown if len(rows) > 1 and len(set(cells[place])) == 1}
        places, self.shown = sorted(self.shown, key=uniform_columns.__contains__), []
        for place in places:
            if not self.shown or self._total([*self.shown, place]) <= width:
                self.shown.append(place)
        self.shown.sort()
        for place in self.shown:
            room = max(width - self._total(self.shown), 0)
            self.widths[place] = min(whole[place], self.widths[place] + room)
            if self.directories[place]:
                self.notes.append(cut_text(f"({visible(columns[place].name)}: below {self.directories[place]})", width))
        names = [
            visible(column.name)
            + (f" = {shorten(cells[place][0], _NARROWEST * 2)}" if place in uniform_columns else "")
            for place, column in enumerate(columns)
            if place not in self.shown
        ]
        if names:
            text = ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
            note = f"({len(names):,} more column{'s' * (len(names) > 1)}: {text})"
            self.notes += fold(note, width).split("\n")

    def _total(self, places: Sequence[int]) -> int:
        return sum(self.widths[place] for place in places) + len(_GAP) * (len(places) - 1)

    def line(self, row: TextRow, style: Style = unstyled) -> str:
        parts = []
        for place in self.shown:
            text, directory, column = _cell(row[place]), self.directories[place], self.columns[place]
            if directory and text.startswith(directory):
                text = _CUT + text.removeprefix(directory)
            text = text if column.is_whole else shorten(text, self.widths[place])
            text = pad(text, self.widths[place], column.to_right)
            parts.append(style(text, "dim") if row[place] is None else text)
        return _GAP.join(parts).rstrip()


def _cell(text: str | None) -> str:
    """Return a cell on one line. A text NULL is quoted."""
    if text is None:
        return _NULL
    return visible(f'"{text}"' if text.strip('"') == _NULL else text)


def _directory(texts: Sequence[str]) -> str:
    """Return the common directory of paths, or an empty text if a text is not a path or the directory is short."""
    if not texts or any(" " in text for text in texts):
        return ""
    directory = commonprefix(texts).rpartition("/")[0]  # noqa: RUF071  # the rest of a name goes
    return directory if len(directory) >= _SHORTEST_DIRECTORY else ""


def html_table(columns: Sequence[Column], rows: Iterable[TextRow]) -> str:
    """Return the table as HTML, for notebooks."""
    heads = ["<th>{}</th>".format("</th><th>".join(html_text(column.name) for column in columns))]
    if any(column.type for column in columns):
        heads.append("".join(f"<td><code>{html_text(column.type)}</code></td>" for column in columns))
    null = f"<code>{_NULL}</code>"
    lines = ("".join(f"<td>{null if text is None else html_text(text)}</td>" for text in row) for row in rows)
    return f"<table><tr>{'</tr><tr>'.join([*heads, *lines])}</tr></table>"


# In the following functions, keys that end with `_ms` are milliseconds since 1970, and keys with `bytes` or `size` are
# bytes.


_TIMES = ("timestamp_ms", "updated_ms")


def label(key: str) -> str:
    """Return the name of a value as shown to users."""
    return visible(key.removesuffix("_ms") if key.endswith(_TIMES) else key)


def value_text(key: str, value: object) -> str:
    """Return a value on one line. Times are in ISO 8601."""
    match value:
        case int() if key.endswith(_TIMES):
            import numpy as np  # importing NumPy takes longer than a command that prints no time

            return f"{np.datetime64(value, 'ms')}Z"
        case int() if not {"bytes", "size", "most"}.isdisjoint(key.split("_")):
            return size_text(value)
        case None | []:
            return "-"
        case dict() if not value:  # the pattern {} would match any mapping
            return "-"
        case list() if not any(isinstance(item, list | dict) for item in value):
            return ", ".join(value_text("", item) for item in value)
        case dict():
            return ", ".join(f"{visible(name)}={value_text('', item)}" for name, item in value.items())
        case _:
            return visible(value if isinstance(value, str) else json_text(value, separators=(",", ":")))


def _records(rows: Sequence[Mapping[str, object]]) -> tuple[list[Column], list[list[str]]]:
    columns, names = [], []
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        if any(value not in (None, [], {}, "") for value in values) and not any(map(_is_table, values)):
            is_number = all(isinstance(value, int | None) and not isinstance(value, bool) for value in values)
            is_whole = is_number or not any(isinstance(value, str | list | dict) for value in values)
            columns.append(Column(label(name), is_whole=is_whole, to_right=is_number and not name.endswith(_TIMES)))
            names.append(name)
    return columns, [[value_text(name, row.get(name)) for name in names] for row in rows]


def record_lines(rows: Sequence[Mapping[str, Any]], indent: str = "", width: int | None = None) -> Iterator[str]:
    """Yield rows as a table, without columns that are empty in every row. Nested tables of a row follow below it."""
    columns, cells = _records(rows)
    lines = table_lines(columns, [cells], width=None if width is None else width - len(indent))
    yield indent + next(lines)
    for row, line in zip(rows, lines):  # noqa: B905  # notes follow
        yield indent + line
        for value in row.values():
            if _is_table(value):
                yield from record_lines(value, indent + "    ", width)
    yield from (indent + note for note in lines)


def _is_table(value: object) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(isinstance(item, dict) for item in value)


class Listing(list[dict[str, Any]]):
    """A list of plain values that prints as a table, and is shown as one in notebooks."""

    def __str__(self) -> str:
        return "\n".join(record_lines(self, width=shutil.get_terminal_size().columns))

    def _repr_html_(self) -> str:
        return html_table(*_records(self))
