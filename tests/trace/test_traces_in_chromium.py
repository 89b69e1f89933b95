"""The page of a trace in a real browser: widths, positions of texts, and accessibility.

Skipped if neither Chromium nor Chrome is on PATH.
"""

import pytest

import harness
from harness.writing.iceberg.builder import IcebergTable

pytestmark = pytest.mark.browser
HOSTILE = "<script>throw 1</script>&\"'" + "世界" * 20


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> str:
    """The page of a row that 20 rewrites carry and a delete ends, and of a row with a long name that is visible."""
    table = IcebergTable.create(tmp_path_factory.mktemp("page") / "t", {"id": "long", "note": "string"})
    file = table.write_data([{"id": 1, "note": HOSTILE}], path="data/first.parquet")
    table.append(file)
    for number in range(20):
        old, file = file, table.write_data([{"id": 1, "note": HOSTILE}], path=f"data/{number:02}{'x' * 60}.parquet")
        table.commit(add=[file], remove=[old], operation="replace")
    table.commit(add=[table.write_equality_deletes(["id"], [{"id": 1}])])
    table.append(table.write_data([{"id": 2, "note": HOSTILE}]))
    return harness.open_table(table.metadata_path).trace("id < 9", missing=True).to_html()


@pytest.mark.parametrize("width", [390, 1440])
def test_time_lines_fit_their_window(browser, page, width):
    box = "['left', 'right', 'top', 'bottom'].map((side) => e.getBoundingClientRect()[side])"
    parts = [f"[...page.querySelectorAll('{each}')].map((e) => {box})" for each in ("svg", "svg rect", "svg text.end")]
    too_wide = "page.documentElement.scrollWidth - page.documentElement.clientWidth"
    excess, drawings, bars, ends = browser.measured(page, width, f"[{too_wide}, {', '.join(parts)}]")
    assert excess == 0
    assert len(drawings) == 2
    assert len(ends) == 1
    for left, right, top, bottom in (*bars, *ends):
        assert any(left >= d[0] and right <= d[1] + 1 and top >= d[2] and bottom <= d[3] + 1 for d in drawings)
    tall = [bar for bar in bars if bar[0] < drawings[0][1] and bar[3] <= drawings[0][3]]
    assert len({bar[2] for bar in tall}) >= 21  # one lane for each version


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_serious(browser, page, dark):
    assert browser.serious(page, dark=dark) == []
