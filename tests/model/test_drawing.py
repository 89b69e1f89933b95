"""Pictures of bars: lengths, widths, escapes, and the rest of many."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from harness.metadata.model.drawing import Bar, Drawing, Kind, as_html, as_svg, as_text, cut
from harness.metadata.model.text_tables import cell_width

EVIL = "</text><script>alert(1)</script>\x1b[31m\u202e&\"'"


def drawn(*bars: Bar) -> Drawing:
    return Drawing(title="Layout", bars=bars)


def bar(label: str, *parts: tuple[Kind, int], **more) -> Bar:
    return Bar(label=label, parts=parts, **more)


@pytest.mark.parametrize(
    ("in_ascii", "expected"),
    [
        (
            False,
            [
                "a  ██████████  10 rows",
                "b  ███▒▒        5 rows  2 deleted",
                "c               0 rows",
                "█ read  ▒ deleted",
            ],
        ),
        (
            True,
            [
                "a  ##########  10 rows",
                "b  ###xx        5 rows  2 deleted",
                "c               0 rows",
                "# read  x deleted",
            ],
        ),
    ],
)
def test_bars_are_drawn_on_one_scale(in_ascii, expected):
    picture = drawn(
        bar("a", (Kind.READ, 10), value="10 rows"),
        bar("b", (Kind.READ, 3), (Kind.DELETED, 2), value="5 rows", remark="2 deleted"),
        bar("c", (Kind.READ, 0), value="0 rows"),
    )
    assert list(as_text(picture, 33, in_ascii=in_ascii)) == expected


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("label", ["day=2024-01-01", "x" * 300, "世界" * 90, EVIL])
def test_no_line_is_wider_than_its_place(label, width):
    picture = drawn(bar(label, (Kind.READ, 7), (Kind.DELETED, 1), value="1,000,000,000 rows", remark="y" * 300))
    for line in as_text(picture, width):
        assert cell_width(line) <= width
        assert line.isprintable()


def test_no_text_of_a_table_is_markup():
    picture = Drawing(title=EVIL, note=EVIL, bars=(bar(EVIL, (Kind.READ, 1), value=EVIL, remark=EVIL),))
    root = ElementTree.fromstring(as_svg(picture))
    assert {element.tag.rpartition("}")[2] for element in root.iter()} == {"svg", "g", "title", "text", "rect"}
    assert "<script>alert(1)</script>\\x1b[31m\\u202e" in root.attrib["aria-label"]
    assert "script>" not in as_html(picture)
    assert not {"\x1b", "\u202e"} & set(as_html(picture))


@pytest.mark.parametrize(
    ("width", "tail", "expected"), [(9, 0, "日日日日…"), (9, 1, "日日日…日"), (8, 0, "日日日…"), (1, 0, "…")]
)
def test_a_text_is_cut_to_cells_however_long_the_text_is(width, tail, expected):
    assert cut("日" * 1_000_000, width, tail=tail) == expected  # work for each character of it would take hours
