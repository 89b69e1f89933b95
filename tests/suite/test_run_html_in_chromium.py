"""The HTML report of a run in a real browser without a network: its style is allowed, and values are inert.

Skipped if no Chromium or Chrome is on PATH.
"""

from dataclasses import replace

import pytest
from runs import BAD, ROWS, SAMPLE, case, check, run

from harness.suite.reports.html import to_html
from harness.suite.results import ListEntry

pytestmark = pytest.mark.browser


def test_the_browser_has_nothing_to_complain_about(browser):
    document, log = browser.open(to_html(SAMPLE), "#c2")
    assert "CONSOLE" not in log
    assert 'id="c2"' in document
    assert document.count("<article") == 3


def test_the_policy_alone_keeps_injected_markup_inert(browser):
    page = to_html(SAMPLE).replace("</main>", "<script>document.title = 'taken'</script></main>")
    document, log = browser.open(page)
    assert "<title>taken</title>" not in document
    assert "CONSOLE" in log


def test_the_page_fits_a_phone(browser):
    name = "iceberg/" + "-".join(["deletes"] * 14)
    long = replace(SAMPLE.scenarios[0], name=name, title=f"{name} " * 4, features=("sequence-" * 8, "delete"))
    page = run(
        *(case(replace(BAD, name=f"engine-{n}"), long, check(ROWS.slice(1))) for n in range(8)),
        missing={"absent": "/long" * 40},
        unused_lines=(ListEntry("bad::" + "nothing" * 20, "old", "skips.txt", 1),),
    )
    root = "page.documentElement"
    assert browser.measured(to_html(page), 390, f"{root}.scrollWidth - {root}.clientWidth") == 0


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_serious(browser, dark):
    assert browser.serious(to_html(SAMPLE), dark=dark) == []
