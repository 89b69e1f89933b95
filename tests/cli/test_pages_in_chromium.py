"""The pages of `info`, `plan`, and `history` in a real browser: widths, positions of texts, and accessibility.

Skipped if neither Chromium nor Chrome is on PATH.
"""

import pytest

from harness.cli import main
from harness.writing.iceberg.builder import IcebergTable

pytestmark = pytest.mark.browser
COMMANDS = ("info", "plan", "history")
EVIL = "<script>throw 1</script>&\"'"


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, str]:
    """The pages of a table with long partition names, deletes, and more snapshots than bars."""
    place = tmp_path_factory.mktemp("pages")
    t = IcebergTable.create(
        place / "t", {"day": "string", "of": "string"}, partition_spec=[("day", "identity"), ("of", "identity")]
    )
    for number in range(32):
        data = t.write_data(
            [{"day": f"2024-01-{number:02}", "of": EVIL + "世界" * 20}] * (number + 1), path=f"data/{number}.parquet"
        )
        t.append(data)
        t.create_branch(f"branch {number}")
    deletes = t.write_position_deletes([(data, 0), (data, 1)], path="data/p.parquet")
    t.commit(add=[deletes])
    found = {}
    for command in COMMANDS:
        file = place / f"{command}.html"
        more = ["--where", "day > '2024-01-20'"] if command == "plan" else []
        assert main([command, t.location, *more, "--output", str(file)]) == 0
        found[command] = file.read_text("utf-8")
    return found


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("command", COMMANDS)
def test_pictures_fit_their_window(browser, pages, command, width):
    box = "['left', 'right', 'top'].map((side) => e.getBoundingClientRect()[side])"
    boxes = [f"[...page.querySelectorAll('{each}')].map((e) => {box})" for each in ("svg", "svg g", "svg text")]
    too_wide = "page.documentElement.scrollWidth - page.documentElement.clientWidth"
    found = browser.measured(pages[command], width, f"[{too_wide}, {', '.join(boxes)}]")
    too_wide, [(left, right, _)], bars, texts = found
    assert too_wide == 0
    assert right - left <= 60 * 16
    assert len(bars) == {"info": 12, "plan": 12, "history": 30}[command]
    if width > 390:  # on a phone, a text with wide letters may be cut
        assert max(end for _, end, _ in texts) <= right + 1
    beside = [(a, b) for a in texts for b in texts if a is not b and abs(a[2] - b[2]) < 3 and a[0] <= b[0]]
    assert beside
    assert [(a, b) for a, b in beside if a[1] > b[0]] == []  # no text overlaps another one


@pytest.mark.parametrize("command", COMMANDS)
def test_axe_finds_nothing_serious(browser, pages, command):
    assert browser.serious(pages[command], dark=False) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_names_stay_inert_and_the_policy_is_kept(browser, pages, command):
    shown, log = browser.open(pages[command])
    assert "CONSOLE" not in log, log
    assert "&lt;script&gt;throw 1" in shown or command == "history"
