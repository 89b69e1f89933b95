"""The HTML report in a real browser without a network: its content, its filter, and that values cannot run code.

Skipped if no Chromium or Chrome is on PATH.
"""

import html
import http.server
import re
import threading

import pytest
from comparing import ALL, FAILED, KEYED, PLACED, UNKEYED, with_value

from harness.diff.reports import batch
from harness.diff.reports.html import to_html
from harness.diff.result import Batch, BatchEntry, BatchOutcome

pytestmark = pytest.mark.browser


def opened(browser, page: str, address: str = "") -> str:
    """Return the document after its scripts have run."""
    document, log = browser.open(page, address)
    assert "CONSOLE" not in log
    return document


def rows_of(document: str) -> list[tuple[str, bool, list[str]]]:
    """Return the kinds of rows, whether they are hidden, and the texts that are marked in them."""
    found = re.findall(r'<tbody [^>]*data-kind="(\w+)"([^>]*)>(.*?)</tbody>', document, re.DOTALL)
    marks = r"<mark>(.*?)</mark>"
    return [(kind, "hidden" in more, [*map(html.unescape, re.findall(marks, row))]) for kind, more, row in found]


def text_of(document: str, place: str) -> str:
    return re.search(rf'<\w+ [^>]*id="{place}"[^>]*>([^<]*)<', document)[1]


def is_hidden(document: str, place: str) -> bool:
    return "hidden" in re.search(rf'<\w+ [^>]*id="{place}"[^>]*>', document)[0]


@pytest.fixture
def requests():
    """Yield the paths that were requested from a local server, preceded by its address."""
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
    shown = opened(browser, to_html(KEYED))
    changed = ("changed", False, ["'eu'", "'us'"])
    assert rows_of(shown) == [changed, ("only_left", False, []), ("only_right", False, [])]
    assert text_of(shown, "extent") == "4 of 4 differing rows are in this report."
    assert (text_of(shown, "matching"), is_hidden(shown, "none")) == ("", True)


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
    shown = opened(browser, to_html(KEYED), address)
    assert [kind for kind, hidden, _ in rows_of(shown) if not hidden] == kinds
    assert len(rows_of(shown)) == 3
    assert (text_of(shown, "matching"), is_hidden(shown, "none")) == (matching, kinds != [])


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
    assert rows_of(document)[0][2] == [value, "x" + value]
    assert "<title>Differences found: " in document
    assert requests[1:] == []


def test_the_policy_alone_keeps_injected_markup_inert(browser, requests):
    # Even if a value were not escaped, it could neither run nor load anything.
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
