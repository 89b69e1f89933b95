"""The built site in a real browser without a network, opened from the disk: widths, accessibility, search.

Skipped where no Chromium or Chrome is found on PATH, and where Zensical is not installed.
"""

import html
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pages
import pytest
from browsing import BROWSERS

pytestmark = pytest.mark.browser
PAGES = (
    "index",
    "install",
    "concepts",
    "tour",
    "readers",
    "rules/iceberg",
    "reference/cli",
    "reference/functions",
    "how-to/time-travel",
    "how-to/object-stores",
    "bench/index",
    "architecture/index",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built from the pages, in a directory that tests may add to."""
    if importlib.util.find_spec("zensical") is None:
        pytest.skip("Zensical is not installed: pip install --group docs")
    for program in (["programs/documentation/build.py"], ["-m", "zensical", "build", "--clean", "--strict"]):
        subprocess.run([sys.executable, *program], cwd=pages.ROOT, check=True, capture_output=True, timeout=300)
    return Path(shutil.copytree(pages.ROOT / "build/site", tmp_path_factory.mktemp("built") / "site"))


@pytest.fixture
def answers(site, tmp_path):
    """Runs the body of an async function in pages of the site; gives what it returns in each."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"no browser on PATH: none of {', '.join(BROWSERS)}")

    def run(names: tuple[str, ...], body: str, width: int) -> dict[str, object]:
        frames = [
            f"<iframe src='{_probe(site / name, name, body)}' width={width} height=900></iframe>" for name in names
        ]
        told = "(told) => document.querySelector('pre').append(JSON.stringify(told.data), '\\n')"
        (site / "frames.html").write_text(
            f"<pre></pre><script>addEventListener('message', {told})</script>{''.join(frames)}", "utf-8"
        )
        command = (
            program,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--virtual-time-budget=12000",
            "--window-size=1500,1000",
            "--dump-dom",
            (site / "frames.html").as_uri(),
        )
        environment = {**os.environ, "HOME": str(tmp_path)}
        shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=environment).stdout
        lines = html.unescape(re.search(r"<pre>(.*?)</pre>", shown, re.DOTALL)[1]).splitlines()
        return dict(map(json.loads, lines))

    return run


def _probe(page: Path, name: str, body: str) -> str:
    """A copy of a page, in which the function runs; its address in the site. A frame has any width."""
    told = f"(value) => parent.postMessage([{json.dumps(name)}, value], '*')"
    script = f"addEventListener('load', () => (async () => {{ {body} }})().then({told}, (e) => ({told})(`${{e}}`)))"
    text = page.with_name(f"{page.name}.html").read_text("utf-8")
    page.with_name(f"{page.name}-probe.html").write_text(f"{text}<script>{script}</script>", "utf-8")
    return f"{name}-probe.html"


@pytest.fixture
def answer(answers):
    """What a function returns in one page."""
    return lambda page, body: answers((page,), body, 1440)[page]


@pytest.mark.parametrize("width", [390, 1440])
def test_no_page_is_wider_than_its_window(answers, width):
    widths = answers(PAGES, "return document.documentElement.scrollWidth", width)
    assert widths.keys() == set(PAGES)
    assert {page: wide for page, wide in widths.items() if wide > width} == {}


@pytest.mark.parametrize("scheme", ["default", "slate"])
def test_axe_finds_nothing_serious(answers, scheme):
    known = importlib.util.find_spec("axe_core_python")
    if known is None:
        pytest.skip("axe is not installed: pip install axe-core-python")
    body = f"""
      document.body.dataset.mdColorScheme = "{scheme}";
      const script = document.createElement("script");
      script.src = "{Path(known.origin).with_name("axe.min.js").as_uri()}";
      await new Promise((done) => {{ script.onload = done; document.body.append(script); }});
      const found = await axe.run({{ iframes: false }});
      return found.violations.filter((each) => ["serious", "critical"].includes(each.impact))
        .map((each) => [each.id, each.nodes.length, each.nodes[0].html])"""
    found = answers((*PAGES, "reference/python"), body, 1440)
    assert found.keys() == {*PAGES, "reference/python"}
    assert {page: serious for page, serious in found.items() if serious} == {}


def test_the_search_from_a_disk_finds_a_page(answer, site):
    body = """
      const wait = (ms) => new Promise((done) => setTimeout(done, ms));
      document.querySelector(".md-search__button").click();
      await wait(800);
      const host = [...document.querySelectorAll("*")].find((e) => e.shadowRoot?.querySelector("input"));
      const input = host.shadowRoot.querySelector("input");
      input.value = "time travel";
      input.dispatchEvent(new InputEvent("input", { bubbles: true, composed: true }));
      await wait(2500);
      return host.shadowRoot.querySelector("a").href"""
    assert answer("tour", body).startswith(f"{site.as_uri()}/how-to/time-travel.html")


def test_nothing_comes_from_elsewhere(site):
    loaded = r'<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)="(?!\.|#)([^"]*)"'
    found = {
        address
        for page in site.rglob("*.html")
        if not page.name.endswith(("-probe.html", "frames.html", "404.html"))
        for address in re.findall(loaded, page.read_text("utf-8"))
    }
    assert {address for address in found if "//" in address} == set()
