"""The content of the reports of a run."""

import html
import json
import re
import tempfile
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from runs import (
    DELETES,
    ERRONEOUS,
    EXPECTED_FAILURE,
    FINE,
    GOOD,
    MANY,
    OPEN,
    SAMPLE,
    SKIPPED,
    UNEXPECTED_PASS,
    case,
)

from harness.suite.reports.html import to_html
from harness.suite.reports.json_report import to_json, to_junit
from harness.suite.reports.text import to_github, to_markdown, to_text
from harness.suite.results import Check, Outcome, format_list

AGAIN = "harness scenarios run iceberg/deletes/own-commit --engines 'my engines:Bad' --python 'bad=/p y' --keep repro"


NOTHING = dict.fromkeys(("wrong", "broken", "right", "failed", "declined", "kept", "policies"), 0)


@pytest.mark.parametrize(
    ("run", "passed", "strictly"),
    [
        pytest.param(FINE, True, True, id="pass"),
        pytest.param(SAMPLE, False, False, id="fail"),
        pytest.param(ERRONEOUS, True, False, id="error"),
        pytest.param(UNEXPECTED_PASS, False, False, id="xpass"),
        pytest.param(EXPECTED_FAILURE, True, True, id="xfail"),
        pytest.param(SKIPPED, True, True, id="skip"),
        pytest.param(OPEN, True, True, id="open"),
    ],
)
def test_which_runs_pass(run, passed, strictly):
    assert (run.passed(), run.passed_strictly()) == (passed, strictly)


@pytest.mark.parametrize(
    ("message", "written"),
    [
        ("no file {tmp}/run-1x/t/a.parquet", "no file TMP/t/a.parquet"),
        ("no file 'file://{tmp}/run-1x/t/a.parquet'", "no file 'TMP/t/a.parquet'"),
        ("no file:{tmp}/run-1x/a and {tmp}/run-2y/b", "no TMP/a and TMP/b"),
        ("no {below}/run-1x/t/a.parquet", "no TMP/t/a.parquet"),
        ("no /data/t/a.parquet", "no /data/t/a.parquet"),
    ],
)
def test_a_list_of_expected_failures_names_no_temporary_directory(message, written):
    temporary = tempfile.gettempdir()
    text = message.format(tmp=temporary, below=temporary.strip("/"))
    failing = case(GOOD, DELETES, Check(number=1, read="", outcome=Outcome.ERROR, message=text))
    assert format_list([failing]) == f"{failing.id}  # ERROR: {written}\n"


def test_text():
    text = to_text(SAMPLE)
    start = text.index("FAIL  bad::iceberg/deletes/own-commit  Deletes spare their own commit")
    block = text[start : text.index("\n\nERROR", start)]
    assert "read 1, all columns at version 1: FAIL: 1 row expected and not read" in block
    assert re.search(r"-\s+1\s+'<img src=x>'", block)
    assert f"again: {AGAIN}" in block
    assert "read 2" not in block
    assert "read 1, all columns at version 1: ERROR: OSError: it fell\n" in text
    assert "UNSUPPORTED  good: no\\x1b[31m such  (delta/log/broken)\n" in text  # no control sequence reaches a terminal
    assert "not run: absent: not installed\n" in text
    assert "unused: skips.txt, line 1: nothing matches bad::nothing\n" in text
    assert text.endswith("2 scenarios on 2 engines: 1 PASS, 1 FAIL, 1 UNSUPPORTED, 1 ERROR\n")
    assert to_text(EXPECTED_FAILURE).endswith("1 scenario on 1 engine: 1 XFAIL\n")
    unexpected = to_text(UNEXPECTED_PASS)
    assert "XPASS  bad::delta/log/broken" in unexpected
    assert "listed: reported as bug 7 (xfails.txt, line 3)" in unexpected


def test_the_scores_of_engines_and_formats_as_text():
    lines = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in to_text(SAMPLE).splitlines()]
    found = {line[0]: line for line in lines if line}
    counts, ends = ["PASS", "FAIL", "UNSUPPORTED", "ERROR", "OPEN"], ["right of claimed", "right of all", "policy"]
    assert found["engine"] == ["engine", "silently wrong", *counts, *ends]
    assert found["good 1.0"] == ["good 1.0", "0", "1", "0", "1", "0", "0", "100.0 %", "66.7 %", "0/0"]
    assert found["bad 2.0 <b>"] == ["bad 2.0 <b>", "✗ 1", "0", "1", "0", "1", "0", "33.3 %", "33.3 %", "0/0"]
    assert [line for line in lines if line[:1] in (["iceberg"], ["delta"])] == [
        ["delta", "0", "–", "0.0 %", "0/0"],
        ["iceberg", "0", "100.0 %", "100.0 %", "0/0"],
        ["delta", "0", "0.0 %", "0.0 %", "0/0"],
        ["iceberg", "✗ 1", "50.0 %", "50.0 %", "0/0"],
    ]


def test_json():
    document = json.loads(to_json(SAMPLE))
    assert (document["format"], document["kind"]) == (1, "run")
    assert document["features"]["broken"] == {"good": {"UNSUPPORTED": 1}, "bad": {"ERROR": 1}}
    assert [(e["name"], e["score"]) for e in document["engines"]] == [
        ("good", {**NOTHING, "right": 2, "declined": 1}),
        ("bad", {**NOTHING, "wrong": 1, "right": 1, "failed": 1}),
    ]
    assert document["engines"][1]["formats"]["delta"] == {**NOTHING, "failed": 1}
    failed = document["cases"][1]
    assert (failed["engine"], failed["outcome"], failed["command"]) == ("bad", "FAIL", AGAIN)
    assert failed["checks"][0]["difference"]["only_left"] == 1
    assert failed["checks"][1]["difference"] is None
    assert document["environment"] == {"harness": "0.1", "python": "3.11"}
    listed = json.loads(to_json(SKIPPED))["cases"][0]["listed"]
    assert listed == {"pattern": "bad::delta/*", "reason": "reported as bug 7", "file": "xfails.txt", "line": 3}


def test_junit():
    suites = ElementTree.fromstring(to_junit(SAMPLE))
    assert {**suites.attrib} == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1", "time": "1.5"}
    assert [suite.get("name") for suite in suites] == ["harness.good", "harness.bad"]
    properties = {p.get("name"): p.get("value") for p in suites[1].iter("property")}
    score = "1 silently wrong, right 33.3 % of what it claims, 33.3 % of everything; 0 of 0 policies"
    assert (properties["version"], properties["score"]) == ("2.0 <b>", score)
    failed = suites[1].find("testcase[@name='iceberg/deletes/own-commit']")
    failure = failed.find("failure")
    assert (failed.get("classname"), failure.get("message")) == ("harness.bad", "1 row expected and not read")
    assert "'<img src=x>'" in failure.text
    assert AGAIN in failure.text
    passed = next(ElementTree.fromstring(to_junit(UNEXPECTED_PASS)).iter("testcase"))
    assert [part.tag for part in passed] == ["failure"]
    assert "listed: reported as bug 7" in passed[0].text
    for run, message in (
        (EXPECTED_FAILURE, "XFAIL: reported as bug 7"),
        (SKIPPED, "SKIP: reported as bug 7"),
        (OPEN, "OPEN: open: nobody knows; the engine: as harness decided"),
    ):
        assert [s.get("message") for s in ElementTree.fromstring(to_junit(run)).iter("skipped")] == [message]


def test_annotations_of_github_are_escaped_and_ten_at_most():
    lines = to_github(SAMPLE).splitlines()
    assert lines[0] == (
        "::error file=fixtures/iceberg/deletes/own-commit.yaml,line=1,title=FAIL bad%3A%3Aiceberg/deletes/own-commit::"
        f"Deletes spare their own commit, 100 %25: 1 row expected and not read%0Aagain: {AGAIN}"
    )
    assert lines[1].startswith("::warning title=ERROR bad%3A%3Adelta/log/broken::")
    assert lines[2:] == ["2 scenarios on 2 engines: 1 PASS, 1 FAIL, 1 UNSUPPORTED, 1 ERROR"]
    lines = [line for line in to_github(MANY).splitlines() if line.startswith("::error")]
    assert len(lines) == 10
    assert lines[-1] == "::error title=FAIL::14 more scenarios ended as FAIL; see the log or another report"


def test_the_table_of_features():
    lines = to_markdown(SAMPLE).splitlines()
    rows = [
        "| feature | good 1.0 | bad 2.0 &lt;b> |",
        "| `broken` | – 1 | ! 1 |",
        "| `equality-delete` | ✓ 1 | ✗ 1 |",
        "| **all scenarios** | – 1 ✓ 1 | ✗ 1 ! 1 |",
        "| **right of all, delta** | 0.0 % | 0.0 % |",
        "| **silently wrong, iceberg** | 0 | ✗ 1 |",
    ]
    assert [row for row in rows if row not in lines] == []
    assert not [line for line in lines if line.startswith(("| **silently wrong** ", "| **right of all** "))]


class Page(HTMLParser):
    """The anchors, links and tags of a page."""

    def __init__(self, page):
        super().__init__()
        self.ids, self.links, self.tags = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append(tag)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if tag == "a" else []


def test_html():
    text = to_html(SAMPLE)
    page = Page(text)
    assert set(page.links) <= {f"#{place}" for place in page.ids}
    assert len(page.ids) == len(set(page.ids))
    # Three features on two engines, and a link for each feature; then the scenarios that do not pass.
    assert page.links[:3] == ["#f1", "#f1-e1", "#f1-e2"]
    assert [link for link in page.links if link.startswith("#c")] == ["#c3", "#c4", "#c2", "#c2"]
    for shown in ("✗ FAIL", "! ERROR", '<span class="aside"> 1 FAIL</span>', "a file is damaged &amp; gone"):
        assert shown in text
    assert f"again: <code>{html.escape(AGAIN)}" in text
    for text_of_scenario in ("title: <b>broken</b>\nformat: delta", "all columns", "nobody knows", "CorruptFileError"):
        assert html.escape(text_of_scenario) in text
    for text_of_read in ("column a < b", "<i>", "1 & 2", "1 of 21 rows"):
        assert html.escape(text_of_read) in text
    fine = to_html(FINE)
    assert '<header class="equal">' in fine
    assert "What is not PASS" not in fine


def test_table_content_is_text_and_nothing_is_loaded_or_run():
    text = to_html(SAMPLE)
    assert {"script", "img"}.isdisjoint(Page(text).tags)
    assert "&lt;img src=x&gt;" in text
    assert "default-src 'none'; style-src 'sha256-" in text
    assert "script-src 'none'" in text
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", text)
