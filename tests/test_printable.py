import json
import traceback
import unicodedata

import pytest

from harness.errors import HarnessError, HarnessWarning, json_text, visible, visible_lines, warn
from harness.metadata.model.text_tables import cut_text


@pytest.fixture(scope="module")
def steering():
    bidirectional = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    return [
        character
        for character in map(chr, range(0x110000))
        if unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp", "Cs")
        or unicodedata.bidirectional(character) in bidirectional
    ]


def test_every_control_character_is_shown_as_ascii(steering):
    assert len(steering) > 2_000
    assert all(visible(f"a{c}b").isascii() for c in steering)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain, größer, 日本", "plain, größer, 日本"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\x9bb", "a\\x9bb"),
        ("a\x7f\n\tb", "a\\x7f\\n\\tb"),
        ("a\u202eb\u2066c", "a\\u202eb\\u2066c"),
        ("a\u2028b", "a\\u2028b"),
        ("\U000e0041", "\\U000e0041"),
        ("caf\udce9", "caf\\udce9"),
        # Joiners stay if they shape letters or emoji, and nowhere else.
        ("می\u200cخواهم, क्\u200dष", "می\u200cخواهم, क्\u200dष"),
        ("👩\u200d💻 ❤\ufe0f\u200d🔥", "👩\u200d💻 ❤\ufe0f\u200d🔥"),
        ("a\u200db 日\u200d本 👩\u200c💻", "a\\u200db 日\\u200d本 👩\\u200c💻"),
        ("\u200d👩\u200d\u200d💻", "\\u200d👩\\u200d\\u200d💻"),
    ],
)
def test_visible(text, expected):
    assert visible(text) == expected


def test_visible_lines_keeps_line_feeds_only():
    assert visible_lines("a\r\n\x1bb\n") == "a\\r\n\\x1bb\n"


def test_json_contains_no_control_character_and_means_the_same(steering):
    value = {f"k{c}": [c, f"é{c}"] for c in steering}
    for indent in (None, 2):
        text = json_text(value, indent=indent)
        assert not set(steering) - {"\n"} & set(text)
        assert json.loads(text) == value


@pytest.mark.parametrize("place", ["message", "table", "snapshot", "file", "field", "excerpt"])
def test_no_traceback_controls_a_terminal(place):
    error = HarnessError(**{"message": "wrong", place: "a\x1b[31m\x9b\u202eb"})
    error.field = error.field or "c\x07d\ne"  # attributes may be set later
    printed = "".join(traceback.format_exception(error))
    assert "a\\x1b[31m\\x9b\\u202eb" in printed
    assert visible_lines(printed) == printed
    assert str(error).count("\n") == (place == "excerpt")


def test_no_warning_controls_a_terminal():
    with pytest.warns(HarnessWarning) as warned:
        warn("a\x1b[31m\u202eb")
    assert str(warned[0].message) == "a\\x1b[31m\\u202eb"


@pytest.mark.parametrize(
    ("width", "tail", "expected"), [(9, 0, "日日日日…"), (9, 1, "日日日…日"), (8, 0, "日日日…"), (1, 0, "…")]
)
def test_a_text_is_cut_to_cells_however_long_the_text_is(width, tail, expected):
    assert (
        cut_text("日" * 1_000_000, width, tail=tail) == expected
    )  # code that works on each character would take hours
