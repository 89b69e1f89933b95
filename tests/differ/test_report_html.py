"""What the HTML report says, without a browser; what a browser makes of it is in test_html_in_chromium.py."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest
from comparing import ALL, CHANGED, EQUAL, FAILED, KEYED, OUTCOME, with_value

from harness.differ.reports.html import MOST_ROWS, to_html
from harness.differ.result import Made

VOID = {"meta", "input"}


class Page(HTMLParser):
    """Tags in order, open ones as a stack, and the text outside of style and script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.stack: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.stack):
            self.text += data


def words(comparison) -> str:
    return " ".join(Page(to_html(comparison)).text.split())


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_loaded_from_anywhere(name):
    page = to_html(ALL[name])
    attributes = {key for _, attrs in Page(page).tags for key in attrs}
    assert attributes.isdisjoint({"src", "href", "srcset", "action", "data", "style", "onclick", "onerror"})
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page


@pytest.mark.parametrize(
    ("comparison", "title"),
    [
        (EQUAL, "No difference no difference in 1,000 rows"),
        (KEYED, "Differences found 1 row changed, 2 rows only on the left, 1 row only on the right"),
        (OUTCOME, "Different outcome the left side gave 1,000 rows, the right side failed with EngineError"),
        (FAILED, "Could not compare both sides failed"),
    ],
    ids=["equal", "different", "outcome", "failed"],
)
def test_the_verdict_comes_first(comparison, title):
    assert title in words(comparison)


@pytest.mark.parametrize(
    "value",
    ["</script><img src=x onerror=alert(1)>", "<b>", "'\" onmouseover=alert(1) x='", "&lt;", "\x00", "\ud800", "]]>"],
    ids=ascii,
)
def test_no_value_becomes_markup(value):
    page, harmless = Page(to_html(with_value(value))), Page(to_html(with_value("v")))
    to_html(with_value(value)).encode("utf-8")
    assert [(tag, sorted(attrs)) for tag, attrs in page.tags] == [(tag, sorted(attrs)) for tag, attrs in harmless.tags]
    if value.isprintable():
        assert value in page.text


MADE = Made(at="2026-01-02T03:04:05Z", version="1.2", command="harness diff '<a>' b")


def test_the_head_says_when_and_by_which_command_it_was_made():
    assert "harness 1.2, 2026-01-02T03:04:05Z: harness diff '<a>' b" in words(replace(KEYED, made=MADE))
    assert "made" not in Page(to_html(KEYED)).text


def test_a_page_ends_where_a_browser_does():
    rows = tuple(replace(CHANGED, left=(str(n), "a", "1"), right=(str(n), "b", "1")) for n in range(MOST_ROWS + 1))
    shown = words(replace(KEYED, rows=rows, changed=MOST_ROWS + 1, only_left=0, only_right=0))
    assert "5,000 of 5,001 differing rows are in this report. A page ends at 5,000;" in shown
    assert "--output rows.json, has as many as --max-rows (max_rows in Python)" in shown
    assert " 4999 " in shown
    assert " 5000 " not in shown
