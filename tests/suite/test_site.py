"""The site of a run: its pages, what they say, and that whatever a report holds stays text."""

import copy
import json
import os
import re
import sys

import pytest
from runs import SAMPLE

from harness.cli import main
from harness.errors import RequestError
from harness.suite.reports.json_report import to_json
from harness.suite.reports.site import write_site

REPORT = json.loads(to_json(SAMPLE))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    earlier = copy.deepcopy(REPORT)
    earlier["engines"][1]["version"] = "1.9"
    earlier["cases"][1]["outcome"] = "PASS"
    directory = tmp_path_factory.mktemp("site")
    write_site(REPORT, directory, earlier)
    return directory


def test_every_link_leads_to_a_page_and_a_place_on_it(site):
    for page in site.rglob("*.html"):
        for link in re.findall(r'(?:href|src)="([^"]+)"', page.read_text("utf-8")):
            path, _, place = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.is_file(), (page, link)
            if place and "=" not in place:
                assert f'id="{place}"' in target.read_text("utf-8"), (page, link)


def test_a_scenario_that_is_read_wrongly_has_a_script(tmp_path):
    report = copy.deepcopy(REPORT)
    for each in (report["scenarios"][0], *report["cases"][:2]):
        each["name" if "name" in each else "scenario"] = "delta/log/bare-removals"
    (tmp_path / "run.json").write_text(json.dumps(report), "utf-8")
    assert main(["scenarios", "site", str(tmp_path / "run.json"), str(tmp_path / "site")]) == 0
    page, script = (tmp_path / "site/scenarios/delta/log" / f"bare-removals.{ending}" for ending in ("html", "py"))
    assert 'href="bare-removals.py" download' in page.read_text("utf-8")
    assert "TABLE = " in script.read_text("utf-8")
    assert not [*(tmp_path / "site/scenarios/delta/log").glob("broken.py")]  # harness has none of that name


def test_two_runs_are_compared_by_reader(site):
    page = (site / "compare.html").read_text("utf-8")
    assert "1.9 → 2.0 &lt;b&gt;" in page
    assert re.search(
        r"✓ PASS</b> → <b class=\"FAIL\">✗ FAIL</b></h3><ul>\s*<li><a [^>]*>iceberg/deletes/own-commit", page
    )
    assert "good 1.0: each scenario of both runs came out alike" in page


def test_nothing_of_a_report_is_markup_and_no_page_reaches_out(site):
    pages = [path.read_text("utf-8") for path in site.rglob("*.html")]
    assert not [page for page in pages if "<script>" in page or "<img" in page or "http:" in page or "https:" in page]


def test_names_of_scenarios_lead_nowhere_else(tmp_path):
    report = copy.deepcopy(REPORT)
    for each in (report["scenarios"][0], *report["cases"][:2]):
        each["name" if "name" in each else "scenario"] = "../../evil<"
    write_site(report, tmp_path / "site")
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
    assert (tmp_path / "site/scenarios/-/-/evil-.html").is_file()


def test_other_documents_are_refused(tmp_path, capsys):
    with pytest.raises(RequestError, match="expected a report"):
        write_site({"kind": "comparison"}, tmp_path)
    older = {**REPORT, "scenarios": [{k: v for k, v in each.items() if k != "story"} for each in REPORT["scenarios"]]}
    with pytest.raises(RequestError, match="older harness"):
        write_site(older, tmp_path)
    (tmp_path / "broken.json").write_text("{", "utf-8")
    assert main(["scenarios", "site", str(tmp_path / "broken.json"), str(tmp_path / "site")]) == 2
    assert "Cannot read the report" in capsys.readouterr().err


def without(*path):
    """The sample report without a part; a part of a list is that of its first item."""
    report = copy.deepcopy(REPORT)
    place = report
    for name in path[:-1]:
        place = place[name]
    del place[path[-1]]
    return report


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "[]",
        "1",
        "null",
        '{"kind": "conformance"}',
        "\udcff",
        *(
            json.dumps(without(name))
            for name in sorted(REPORT.keys() - {"format", "kind", "passed", "seconds", "unused"})
        ),
        *(json.dumps(without("cases", 0, name)) for name in ("engine", "scenario", "outcome", "checks", "listed")),
        *(json.dumps(without("engines", 0, name)) for name in ("name", "version", "counts", "score")),
        *(json.dumps({**REPORT, "cases": value}) for value in (None, 1, [1], {"a": 1}, REPORT["cases"][:-1])),
        *(json.dumps({**REPORT, "scenarios": value}) for value in ("story", [[]], {"story": 1})),
    ],
    ids=lambda text: text[:20],
)
def test_a_malformed_report_is_a_line(text, tmp_path, capfd):
    (tmp_path / "r.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert main(["scenarios", "site", str(tmp_path / "r.json"), str(tmp_path / "site")]) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n"), err[:7]) == ("", 1, "error: ")
    assert not (tmp_path / "site").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="links and pipes are others there")
@pytest.mark.parametrize("name", ["index.html", "site.css", "scenarios", "scenarios/iceberg", "readers"])
@pytest.mark.parametrize("kind", ["link", "dangling", "pipe"])
def test_a_site_is_written_through_no_link_and_no_pipe(tmp_path, name, kind):
    aside = tmp_path / "aside"
    aside.mkdir()
    (aside / "index.html").write_text("old")
    target = aside if "." not in name else aside / "index.html"
    place = tmp_path / "site" / name
    place.parent.mkdir(parents=True)
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(target if kind == "link" else aside / "nothing")
    with pytest.raises(RequestError, match=r"Cannot write (below|to)"):
        write_site(REPORT, tmp_path / "site")
    assert [path.name for path in aside.iterdir()] == ["index.html"]
    assert (aside / "index.html").read_text() == "old"


def inlined(site, name):
    """A page with its style and script inside, as `browser` opens a single file."""
    text = (site / name).read_text("utf-8")
    text = re.sub(
        '<link rel="stylesheet"[^>]*>', lambda _: f"<style>{(site / 'site.css').read_text('utf-8')}</style>", text
    )
    text = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    script = (site / "site.js").read_text("utf-8")
    return re.sub(r'<script src="[^"]*"></script>', lambda _: f"<script>{script}</script>", text)


PAGES = (
    "index.html",
    "scenarios.html",
    "compare.html",
    "readers/bad.html",
    "scenarios/iceberg/deletes/own-commit.html",
)


@pytest.mark.browser
@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_serious(browser, site, name, dark):
    assert browser.serious(inlined(site, name), dark=dark) == []


@pytest.mark.browser
@pytest.mark.parametrize("name", PAGES)
def test_pages_fit_a_phone(browser, site, name):
    root = "page.documentElement"
    assert browser.measured(inlined(site, name), 390, f"{root}.scrollWidth - {root}.clientWidth") == 0


@pytest.mark.browser
def test_the_address_sets_the_filter(browser, site):
    document, _ = browser.open(inlined(site, "scenarios.html"), "#reader=bad&outcome=FAIL")
    assert "1 of 2</output>" in document
    assert re.search('<tr data-format="delta"[^>]* hidden=""', document)
