"""Charts of where rows differ: by column, by ranges of the key, by group or partition, and by data file.

Each chart is drawn as text and as SVG from one model. If a chart counts fewer rows than differ, it says how many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from harness.diff.result import ComparisonResult, GroupDifference
from harness.errors import counted, html_text
from harness.metadata.model.drawing import Bar, BarKind, Drawing, as_svg, text_section
from harness.metadata.model.frames import html_preformatted

_MOST_BARS, _FEW_RANGES = 20, 8
_FIELDS = {BarKind.CHANGED: "changed", BarKind.ONLY_LEFT: "only_left", BarKind.ONLY_RIGHT: "only_right"}


def where_lines(comparison: ComparisonResult, *, most: int = _MOST_BARS, width: int = 80) -> Iterator[str]:
    """Yield the charts as lines of text.

    Args:
        comparison: The comparison.
        most: The most bars of a chart. Ranges of a key are all drawn.
        width: The largest width of a line, in terminal cells, but at least 60.
    """
    for number, drawing in enumerate(_drawings(comparison, most)):
        yield from [""] * (number > 0)
        yield from text_section(drawing, max(width, 60))


def where_html(comparison: ComparisonResult) -> Iterator[str]:
    """Yield a section of an HTML page, or nothing if no rows differ."""
    result = _drawings(comparison, _MOST_BARS)
    if not result:
        return
    yield '<section aria-labelledby="where"><h2 id="where">Where rows differ</h2><div class="pictures">'
    for drawing in result:
        title = html_text(drawing.title[:1].upper() + drawing.title[1:])
        yield f"<figure><figcaption>{title} <small>{html_text(drawing.note)}</small></figcaption>"
        yield f"{as_svg(drawing)}</figure>"
    yield "</div><details><summary>The charts as text</summary>"
    yield html_preformatted("\n".join(where_lines(comparison)))
    yield "</details></section>"


def _drawings(comparison: ComparisonResult, most: int) -> list[Drawing]:
    """Return the charts that have data. A single differing row has no charts, because the row itself is shown."""
    if comparison.differing == 1 and comparison.rows:
        return []
    result = (_columns(comparison, most), _key(comparison), _groups(comparison, most), _files(comparison, most))
    return [each for each in result if each is not None]


def _columns(comparison: ComparisonResult, most: int) -> Drawing | None:
    """Return the chart of the share of row pairs that differ in each column."""
    pairs = comparison.changed or sum(row.partner is not None for row in comparison.rows) // 2
    result = sorted((each for each in comparison.by_column if each.rows), key=lambda each: -each.rows)
    if not result or not pairs:
        return None
    bars = tuple(
        Bar(label=each.column, parts=((BarKind.CHANGED, each.rows),), value=share, remark=counted(each.rows, "row"))
        for each, share in ((each, f"{100 * each.rows / pairs:.3g} %") for each in result[:most])
    )
    rows = counted(pairs, "changed row") if comparison.keys else f"{counted(pairs, 'pair')} of similar rows"
    return Drawing(title="by column", bars=bars, note=_note(f"of {rows}", more=len(result) - most), whole=pairs)


def _key(comparison: ComparisonResult) -> Drawing | None:
    """Return the chart of the first key's ranges, except if the same few values already form the groups."""
    result = comparison.by_key
    if result is None or (len(result.places) <= _FEW_RANGES and comparison.grouped_by == comparison.keys[:1]):
        return None
    between = f"between the first and last of {'both sides' if result.is_whole else 'these'}"
    note = _note(_sample_note(comparison, result.rows), between)
    bars = _bars(result.places, [place.values[0] for place in result.places])
    return Drawing(title=f"by {comparison.keys[0]}", note=note, bars=bars, is_row=len(bars) > _FEW_RANGES)


def _groups(comparison: ComparisonResult, most: int) -> Drawing | None:
    result = comparison.by_group[:most]
    note = _note(_sample_note(comparison, comparison.differing), more=comparison.groups - len(result))
    bars = _bars(result, [", ".join(group.values) for group in result])
    return Drawing(title=f"by {', '.join(comparison.grouped_by)}", note=note, bars=bars) if result else None


def _files(comparison: ComparisonResult, most: int) -> Drawing | None:
    """Return the chart of data files. Their common directory is shown once, in the note."""
    result = comparison.by_file
    if result is None:
        return None
    top_places = result.places[:most]
    directories = zip(*(place.values[1].split("/")[:-1] for place in top_places), strict=False)
    above = "/".join(names[0] for names in takewhile(lambda names: len(set(names)) == 1, directories))
    start = len(above) + 1 if above else 0
    note = _note(
        _sample_note(comparison, result.rows), f"below {above}" if above else "", more=result.total - len(top_places)
    )
    bars = _bars(
        top_places, [place.values[1][start:] for place in top_places], [place.values[0] for place in top_places]
    )
    return Drawing(title="by file", note=note, bars=bars)


def _sample_note(comparison: ComparisonResult, rows: int) -> str:
    if rows < comparison.differing:
        return f"{rows:,} of {comparison.differing:,} differing rows"
    return f"all {rows:,} differing rows" if rows > 1 else "the differing row"


def _note(*parts: str, more: int = 0) -> str:
    return ", ".join(filter(None, (*parts, f"{more:,} more not shown" if more > 0 else "")))


def _bars(places: Sequence[GroupDifference], labels: Sequence[str], sides: Sequence[str] = ()) -> tuple[Bar, ...]:
    """Return a bar for each place. If there are several kinds of difference, they are named in words.

    Args:
        places: The counts.
        labels: The label of each place.
        sides: For files, the side of each file, which is added to the label if the file has changed rows.
    """
    bars = []
    sizes = [[(kind, getattr(place, field)) for kind, field in _FIELDS.items()] for place in places]
    is_mixed = len({kind for parts in sizes for kind, size in parts if size}) > 1
    for parts, label, side in zip(sizes, labels, sides or [""] * len(labels), strict=True):
        phrases = [(f"{size:,} ", _FIELDS[kind].replace("_", " ")) for kind, size in parts if size and is_mixed]
        words = ", ".join(f"{number if len(phrases) > 1 else ''}{word}" for number, word in phrases)
        remark = ": ".join(filter(None, (side if parts[0][1] else "", words)))
        bars.append(Bar(label=label, parts=tuple(parts), value=f"{sum(size for _, size in parts):,}", remark=remark))
    return tuple(bars)
