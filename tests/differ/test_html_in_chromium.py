"""The HTML report in a real browser without a network: what it shows, its filter, and that values stay inert.

Skipped where no Chromium or Chrome is found on PATH.
"""

from __future__ import annotations

import http.server
import os
import shutil
import subprocess
import threading
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import pytest
from comparing import EQUAL, KEYED, UNKEYED, with_value

from harness.differ.reports.html import to_html

pytestmark = pytest.mark.browser
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


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


@dataclass(frozen=True)
class Browser:
    """A headless browser that can reach this machine and nothing else."""

    program: str
    directory: Path

    def open(self, page: str, address: str = "") -> tuple[str, str]:
        """The document after its scripts have run, and what the browser logged."""
        path = self.directory / "report.html"
        path.write_text(page, "utf-8")
        done = subprocess.run(
            [
                self.program,
                "--headless",
                "--no-sandbox",  # which a browser run by root refuses
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
                f"--user-data-dir={self.directory / 'profile'}",
                "--enable-logging=stderr",
                "--virtual-time-budget=2000",
                "--dump-dom",
                path.as_uri() + address,
            ],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            check=True,
            env={**os.environ, "HOME": str(self.directory)},
        )
        return done.stdout, done.stderr

    def shown(self, page: str, address: str = "") -> Shown:
        document, log = self.open(page, address)
        assert "CONSOLE" not in log
        return Shown(document)


@pytest.fixture
def browser(tmp_path) -> Browser:
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"no browser on PATH: none of {', '.join(BROWSERS)}")
    return Browser(program, tmp_path)


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
    shown = browser.shown(to_html(KEYED))
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
    shown = browser.shown(to_html(KEYED), address)
    assert [row.kind for row in shown.rows if not row.hidden] == kinds
    assert len(shown.rows) == 3
    assert shown.texts["matching"] == matching
    assert shown.hidden["none"] is (kinds != [])


def test_alike_rows_are_marked_too(browser):
    shown = browser.shown(to_html(UNKEYED), "#only=alike")
    assert [row for row in shown.rows if not row.hidden] == [Row("alike", hidden=False, marked=["'eu'", "'us'"])]


def test_no_difference(browser):
    shown = browser.shown(to_html(EQUAL))
    assert shown.rows == []
    assert shown.texts["sentence"] == "no difference in 1,000 rows"


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


def test_these_tests_would_notice(browser, requests):
    page = f"<!DOCTYPE html><title>x</title><img src='{requests[0]}/img'><script>console.error('seen')</script>"
    _, log = browser.open(page)
    assert "CONSOLE" in log
    assert "/img" in requests
