"""Bar charts drawn from one model: as lines of text for terminals, and as SVG for pages and notebooks.

Words carry all information that a color carries. Colors are readable on light and dark pages, and texts have the color
of the page. A picture therefore needs no style, which a host or a content security policy might remove. Texts of a
table never become markup.
"""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Iterable, Iterator

from harness.errors import html_text, visible
from harness.metadata.model.text_tables import cell_width, cut_text, pad
from harness.storage.records import dataclass


class BarKind(enum.Enum):
    """The kinds of parts of a bar, each with its word, its character in text and in ASCII, and its color in SVG."""

    READ = ("read", "█", "#", "#3b82c4")
    DELETED = ("deleted", "▒", "x", "#d0605e")
    SKIPPED = ("skipped", "░", ".", "#8b929b")
    ADDED = ("added", "█", "+", "#3b82c4")
    REMOVED = ("removed", "▒", "-", "#d0605e")
    CHANGED = ("changed", "█", "~", "#c08a1e")
    ONLY_LEFT = ("only on the left", "▒", "-", "#d0605e")
    ONLY_RIGHT = ("only on the right", "░", "+", "#3f9b58")

    def __init__(self, word: str, block: str, plain: str, color: str) -> None:
        self.word, self.block, self.plain, self.color = word, block, plain, color


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar. The label, value, and remark may be any text.

    Attributes:
        label: The text before the bar.
        parts: The kinds and sizes of the parts, in drawing order. A part of size 0 is not drawn.
        value: The text after the bar.
        remark: A further note on the bar.
        is_rest: True if the bar represents many bars that are not drawn. It does not shorten the others, and may be
            cut.
    """

    label: str
    parts: tuple[tuple[BarKind, int], ...]
    value: str = ""
    remark: str = ""
    is_rest: bool = False

    @property
    def size(self) -> int:
        """The total size of all parts."""
        return sum(size for _, size in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Bars on one scale under a title.

    Attributes:
        title: The title.
        bars: The bars.
        note: A sentence about all bars.
        whole: The total that the bars are shares of. 0: there is no total.
        is_row: True if the bars are drawn upright, side by side. This suits many neighbors, for example ranges.
    """

    title: str
    bars: tuple[Bar, ...]
    note: str = ""
    whole: int = 0
    is_row: bool = False

    @property
    def scale(self) -> int:
        """The size of a bar of full length."""
        return self.whole or max((bar.size for bar in self.bars if not bar.is_rest), default=0) or 1

    def remark(self, bar: Bar) -> str:
        """Return the remark of a bar, with a note if the bar is cut."""
        return ", ".join(filter(None, (bar.remark, "not to scale" if bar.size > self.scale else "")))

    def legend(self) -> tuple[BarKind, ...]:
        """Return the kinds that are drawn."""
        kinds = {kind for bar in self.bars for kind, size in bar.parts if size}
        return tuple(kind for kind in BarKind if kind in kinds)


_GAP = "  "
_SHORTEST, _ENOUGH, _LONGEST = 8, 24, 60
"""The width of a whole bar in cells: the minimum, the width that labels are cut to leave, and the maximum."""


def as_text(drawing: Drawing, width: int, *, in_ascii: bool = False) -> Iterator[str]:
    """Yield a line for each bar, then the legend. The caller prints the title.

    Upright bars need one line per kind, because a character cannot show several kinds. A line with the first and the
    last label follows.

    Args:
        drawing: The drawing.
        width: The maximum width of a line in cells.
        in_ascii: True if only ASCII characters are used.
    """
    if drawing.is_row:
        yield from _text_row(drawing, width)
        return
    sign = "..." if in_ascii else "…"
    values, remarks = [visible(bar.value) for bar in drawing.bars], [drawing.remark(bar) for bar in drawing.bars]
    value_width = max(map(cell_width, values), default=0)
    free = width - value_width - max(map(cell_width, remarks), default=0) - 3 * len(_GAP)
    widest = max(min(width // 3, width - _SHORTEST - 2 * len(_GAP) - value_width), free - _ENOUGH)
    labels = [cut_text(bar.label, widest, sign, tail=widest // 3) for bar in drawing.bars]
    column_widths = [max(map(cell_width, labels), default=0), value_width]
    length = max(_SHORTEST, min(_LONGEST, free - column_widths[0]))
    remaining = width - column_widths[0] - column_widths[1] - length - 3 * len(_GAP)
    for bar, label, value, remark in zip(drawing.bars, labels, values, remarks, strict=True):
        drawn = bar_text(bar, drawing.scale, length, in_ascii=in_ascii)
        parts = (
            pad(label, column_widths[0]),
            drawn.ljust(length),
            " " * (column_widths[1] - cell_width(value)) + value,
        )
        yield _GAP.join((*parts, cut_text(remark, remaining, sign) if remaining > len(sign) else "")).rstrip()
    yield legend_text(drawing.legend(), in_ascii=in_ascii)


def legend_text(kinds: Iterable[BarKind], *, in_ascii: bool = False) -> str:
    """Return the characters of kinds with their words."""
    return _GAP.join(f"{kind.plain if in_ascii else kind.block} {kind.word}" for kind in kinds)


def bar_text(bar: Bar, scale: int, length: int, *, in_ascii: bool = False) -> str:
    """Return a single bar as text. A bar of the size `scale` has `length` cells."""
    lengths = _lengths(bar, scale, length, least=1)
    return "".join((kind.plain if in_ascii else kind.block) * size for kind, size in lengths)


def text_section(drawing: Drawing, width: int | None, *, in_ascii: bool = False) -> list[str]:
    """Return the lines of `as_text`, indented below the title and the note. Without bars there are no lines.

    The default width is 80 cells.
    """
    if not drawing.bars:
        return []
    width = width or 80
    heading = textwrap.wrap(visible(f"{drawing.title}: {drawing.note}"), width, subsequent_indent=_GAP)
    heading = [cut_text(line, width) for line in heading]  # wide characters take 2 cells
    return [*heading, *(_GAP + line for line in as_text(drawing, width - len(_GAP), in_ascii=in_ascii))]


def _lengths(bar: Bar, scale: int, length: int, *, least: int) -> list[tuple[BarKind, int]]:
    """Return the kinds and lengths of a bar's parts, each at least `least`.

    A bar of size `scale` has length `length`.
    """
    parts = [(kind, size) for kind, size in bar.parts if size > 0]
    if not parts:
        return []
    whole = max(length * min(bar.size, scale) // scale, least * len(parts))
    free = whole - least * len(parts)
    lengths = [least + free * size // bar.size for _, size in parts]
    longest = max(range(len(parts)), key=lambda place: parts[place][1])
    lengths[longest] += whole - sum(lengths)
    return [(kind, size) for (kind, _), size in zip(parts, lengths, strict=True)]


# Lengths in SVG are percentages, so that the picture fills its place and its texts keep their size.


_UNITS, _THINNEST = 1000, 6
"""The whole width in the units of computed lengths, and the minimum length."""
_LINE = 42
"""The cells of a line on a phone."""
_CELL = 7
"""The width of a cell, in pixels."""


def as_html(drawing: Drawing) -> str:
    """Return HTML with the title, the note, and the picture in full width, or an empty text without bars."""
    if not drawing.bars:
        return ""
    note = f": {html_text(drawing.note)}" if drawing.note else ""
    return f"<div><p><b>{html_text(drawing.title)}</b>{note}</p>{as_svg(drawing)}</div>"


def as_svg(drawing: Drawing) -> str:
    """Return the bars and the legend as one SVG element."""
    if drawing.is_row:
        return _svg_row(drawing)
    y, elements = 14, list[str]()
    is_beside = all(cell_width(visible(b.label)) + 2 + cell_width(visible(b.value)) <= _LINE for b in drawing.bars)
    for bar in drawing.bars:
        value, remark = visible(bar.value), drawing.remark(bar)
        below = y if is_beside else y + 29  # the label and the value do not fit into one line
        elements.append(f"<g><title>{html_text(', '.join(filter(None, (bar.label, value, remark))))}</title>")
        elements.append(_text("0", y, cut_text(bar.label, _LINE, tail=_LINE // 3)))
        elements.append(_text("100%", below, value, ' text-anchor="end"'))
        x, place = 0, f'y="{y + 5}" height="10"'
        elements.append(f'<rect x="0" width="100%" {place} fill-opacity="0.08"/>')
        for kind, size in _lengths(bar, drawing.scale, _UNITS, least=_THINNEST):
            elements.append(f'<rect x="{x / 10:g}%" width="{size / 10:g}%" {place} fill="{kind.color}"/>')
            x += size
        y += 29
        if remark:
            remaining = _LINE if is_beside else _LINE - 2 - cell_width(value)
            elements.append(_text("0", y, cut_text(remark, remaining), ' font-size="12"'))
        elements.append("</g>")
        y += 24 if remark or not is_beside else 9
    return _svg(drawing, elements, y)


def _svg(drawing: Drawing, elements: list[str], y: int) -> str:
    """Return the SVG element, with the legend at height `y`."""
    title = html_text(f"{drawing.title}: {drawing.note}" if drawing.note else drawing.title)
    style = f'width="100%" height="{y + 8}" fill="currentColor" font-family="system-ui, sans-serif" font-size="13"'
    head = f'<svg class="picture" xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{title}" {style}>'
    return "".join([head, *elements, *_legend(drawing, y), "</svg>"])


def _text(x: str, y: int, text: str, more: str = "") -> str:
    return f'<text x="{x}" y="{y}"{more}>{html_text(text)}</text>'


def _legend(drawing: Drawing, y: int) -> Iterator[str]:
    x = 0
    for kind in drawing.legend():
        yield f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{kind.color}"/>'
        yield _text(str(x + 15), y, kind.word)
        x += 15 + _CELL * (cell_width(kind.word) + 2)


_LEVELS, _NOTHING = "▁▂▃▄▅▆▇█", "·"
_WIDE, _HIGH = 2, 90
"""The width of a bar in cells, and its height in pixels."""


def _text_row(drawing: Drawing, width: int) -> Iterator[str]:
    chart_width = _WIDE * len(drawing.bars)
    word_width = max((cell_width(kind.word) for kind in drawing.legend()), default=0)
    for kind in drawing.legend():
        sizes = [dict(bar.parts).get(kind, 0) for bar in drawing.bars]
        levels = [_LEVELS[-(-len(_LEVELS) * size // drawing.scale) - 1] if size else _NOTHING for size in sizes]
        drawn = "".join(level * _WIDE for level in levels)
        yield cut_text(_GAP.join((pad(kind.word, word_width), drawn, f"{sum(sizes):,}")), width)
    first, last = (cut_text(drawing.bars[place].label, chart_width // 2 - 1) for place in (0, -1))
    yield cut_text(_GAP.join((" " * word_width, pad(first, chart_width - cell_width(last)) + last)), width)


def _svg_row(drawing: Drawing) -> str:
    elements, wide = [_text("0", 12, f"{drawing.scale:,}", ' font-size="12"')], 100 / len(drawing.bars)
    base = 20 + _HIGH
    for place, bar in enumerate(drawing.bars):
        title = ", ".join(filter(None, (bar.label, visible(bar.value), bar.remark)))
        elements.append(f"<g><title>{html_text(title)}</title>")
        y = base
        for kind, high in _lengths(bar, drawing.scale, _HIGH, least=2):
            y -= high
            position = f'x="{place * wide + wide / 10:g}%" y="{y}" width="{wide * 0.8:g}%" height="{high}"'
            elements.append(f'<rect {position} fill="{kind.color}"/>')
        elements.append("</g>")
    elements.append(f'<rect x="0" y="{base}" width="100%" height="1" fill="currentColor"/>')
    elements.append(_text("0", base + 17, cut_text(drawing.bars[0].label, _LINE // 2)))
    elements.append(_text("100%", base + 17, cut_text(drawing.bars[-1].label, _LINE // 2), ' text-anchor="end"'))
    return _svg(drawing, elements, base + 42)
