"""The HTML report of a run in a real browser without a network: its style is let through, and values stay inert.

Skipped where no Chromium or Chrome is found on PATH.
"""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from runs import SAMPLE

from harness.testing.conformance.reports.html import to_html

pytestmark = pytest.mark.browser
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@pytest.fixture
def opened(tmp_path):
    """Opens a page; gives its document and what the browser logged."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"no browser on PATH: none of {', '.join(BROWSERS)}")

    def run(page):
        path = tmp_path / "report.html"
        path.write_text(page, "utf-8")
        options = [
            "--headless",
            "--no-sandbox",  # which a browser run by root refuses
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--enable-logging=stderr",
            "--virtual-time-budget=2000",
            "--dump-dom",
        ]
        done = subprocess.run(
            [program, *options, f"{path.as_uri()}#c2"],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            check=True,
            env={**os.environ, "HOME": str(tmp_path)},
        )
        return done.stdout, done.stderr

    return run


def test_the_browser_has_nothing_to_complain_about(opened):
    document, log = opened(to_html(SAMPLE))
    assert "CONSOLE" not in log
    assert 'id="c2"' in document
    assert document.count("<article") == 3


def test_a_style_that_the_policy_does_not_know_is_refused(opened):
    """So that the test above can fail."""
    _, log = opened(to_html(SAMPLE).replace("<style>", "<style>/* other */", 1))
    assert "CONSOLE" in log


def test_the_policy_alone_keeps_injected_markup_inert(opened):
    page = to_html(SAMPLE).replace("</main>", "<script>document.title = 'taken'</script></main>")
    document, log = opened(page)
    assert "<title>taken</title>" not in document
    assert "CONSOLE" in log
