"""The HTML report in a real browser without a network: what it shows, its filter, and that values stay inert.

Skipped where no Chromium or Chrome is found on PATH.
"""

from __future__ import annotations

import http.server
import threading
from dataclasses import dataclass, field
from html.parser import HTMLParser

import pytest
from comparing import ALL, FAILED, KEYED, PLACED, UNKEYED, with_value

from harness.differ.reports import batch
from harness.differ.reports.html import to_html
from harness.differ.result import Batch, BatchEntry, BatchOutcome

pytestmark = pytest.mark.browser


@dataclass
class Row:
    kind: str
    hidden: bool
    marked: list[str] = field(default_factory=list)


class Shown(HTMLParser):
    """What stands in the page after its scripts have run."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[Row] = []
        self.texts: dict[str, str] = {}
        self.hidden: dict[str, bool] = {}
        self._into: tuple[str, str] | None = None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag == "tbody" and "data-kind" in attributes:
            self.rows.append(Row(attributes["data-kind"], "hidden" in attributes))
        if tag == "mark":
            self.rows[-1].marked.append("")
            self._into = (tag, "")
        if "id" in attributes:
            self.texts[attributes["id"]] = ""
            self.hidden[attributes["id"]] = "hidden" in attributes
            self._into = (tag, attributes["id"])

    def handle_endtag(self, tag):
        if self._into is not None and self._into[0] == tag:
            self._into = None

    def handle_data(self, data):
        match self._into:
            case ("mark", _):
                self.rows[-1].marked[-1] += data
            case (_, place):
                self.texts[place] += data


def shown_in(browser, page: str, address: str = "") -> Shown:
    document, log = browser.open(page, address)
    assert "CONSOLE" not in log
    return Shown(document)


@pytest.fixture
def requests():
    """The paths that a server on this machine was asked for; first its address."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        asked.append(f"http://127.0.0.1:{server.server_address[1]}")
        yield asked
        server.shutdown()
        thread.join()


def test_rows_and_marked_cells(browser):
    shown = shown_in(browser, to_html(KEYED))
    assert shown.rows == [
        Row("changed", hidden=False, marked=["'eu'", "'us'"]),
        Row("only_left", hidden=False),
        Row("only_right", hidden=False),
    ]
    assert shown.texts["extent"] == "4 of 4 differing rows are in this report."
    assert shown.texts["matching"] == ""
    assert shown.hidden["none"] is True


@pytest.mark.parametrize(
    ("address", "kinds", "matching"),
    [
        ("#only=changed", ["changed"], "1 of 3 shown"),
        ("#only=only_left", ["only_left"], "1 of 3 shown"),
        ("#find=3-DELETES", ["only_left"], "1 of 3 shown"),
        ("#only=changed&find=3-deletes", [], "0 of 3 shown"),
        ("#only=nonsense", ["changed", "only_left", "only_right"], ""),
    ],
)
def test_the_filter(browser, address, kinds, matching):
    shown = shown_in(browser, to_html(KEYED), address)
    assert [row.kind for row in shown.rows if not row.hidden] == kinds
    assert len(shown.rows) == 3
    assert shown.texts["matching"] == matching
    assert shown.hidden["none"] is (kinds != [])


@pytest.mark.parametrize(
    "attack",
    [
        "</script><img src={server}/img onerror=\"document.title='owned'\">",
        "<script>document.title='owned'; fetch('{server}/fetch')</script>",
        "\"><iframe src='{server}/frame'></iframe><style>@import '{server}/style';</style>",
    ],
    ids=["image", "script", "frame"],
)
def test_values_stay_inert(browser, requests, attack):
    value = attack.replace("{server}", requests[0])
    document, log = browser.open(to_html(with_value(value)))
    assert "CONSOLE" not in log
    assert Shown(document).rows[0].marked == [value, "x" + value]
    assert "<title>Differences found: " in document
    assert requests[1:] == []


def test_the_policy_alone_keeps_injected_markup_inert(browser, requests):
    # As if the escaping were forgotten: what a value brings along neither runs nor loads.
    injected = f"<img src='{requests[0]}/img'><script>document.title='owned'</script>"
    document, log = browser.open(to_html(KEYED).replace("<main>", "<main>" + injected))
    assert "Content Security Policy" in log
    assert "<title>owned" not in document
    assert requests[1:] == []


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("name", ALL)
def test_no_page_is_wider_than_its_window(browser, name, width):
    root = "page.documentElement"
    assert browser.measured(to_html(ALL[name]), width, f"{root}.scrollWidth - {root}.clientWidth") == 0


@pytest.mark.parametrize("width", [390, 1440])
def test_pictures_end_inside_their_boxes(browser, width):
    right = "%s.getBoundingClientRect().right"
    beyond = f"{right % 'each'} - {right % 'each.ownerSVGElement'}"
    page = to_html(PLACED)
    assert browser.measured(page, width, "page.querySelectorAll('figure svg').length") == 4
    all_ = f"[...page.querySelectorAll('text, rect')].map((each) => {beyond})"
    assert browser.measured(page, width, f"Math.max(...{all_})") <= 1


BATCH = Batch(
    title="left and right",
    sides=("left", "right"),
    entries=tuple(
        BatchEntry(name=name, outcome=BatchOutcome.DIFFERENT, message="the sides differ in " * 9, report="wide " * 99)
        for name in ("sales.customers", "sales.orders")
    ),
)


def test_a_link_to_a_comparison_opens_it(browser):
    page = batch.to_html(BATCH)
    assert 'href="#entry-1"' in page
    opened = [browser.open(page, address)[0].count("<details open") for address in ("", "#entry-1")]
    assert opened == [1, 2]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("page", [KEYED, UNKEYED, FAILED, BATCH], ids=["keyed", "unkeyed", "errors", "many"])
def test_axe_finds_nothing_serious(browser, page, dark):
    assert browser.serious(batch.to_html(page) if page is BATCH else to_html(page), dark=dark) == []
