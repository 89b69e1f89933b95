"""What the reports of a run say."""

from __future__ import annotations

import dataclasses
import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from runs import (
    BROKEN,
    DELETES,
    ERRONEOUS,
    EXPECTED_FAILURE,
    FINE,
    GOOD,
    MANY,
    OPEN,
    ROWS,
    SAMPLE,
    SKIPPED,
    UNEXPECTED_PASS,
    case,
    check,
)
from runs import run as made

from harness.errors import EngineError
from harness.testing.conformance.reports.html import to_html
from harness.testing.conformance.reports.json_report import to_json, to_junit
from harness.testing.conformance.reports.text import to_github, to_markdown, to_text
from harness.testing.conformance.results import Check, Outcome
from harness.testing.scenarios.model import ExpectedError

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


def test_filters_that_an_engine_does_not_take_count_once():
    unfiltered = Check(number=2, read="where", outcome=Outcome.UNSUPPORTED, unfiltered=True)
    one, other = case(GOOD, DELETES, check(ROWS), unfiltered), case(GOOD, BROKEN, unfiltered)
    assert (one.outcome, other.outcome) == (Outcome.PASS, Outcome.UNSUPPORTED)
    score = made(one, other).score(GOOD)
    assert (score.right, score.declined, score.of_all) == (1, 1, 50)


def test_what_is_policy_is_scored_apart():
    broken = dataclasses.replace(BROKEN, policies=1)
    refused, read = EngineError("no", cause="ValueError"), ROWS
    found = [
        made(case(GOOD, broken, check(answer, expected=ExpectedError("CorruptFileError"), policy="a limit")))
        for answer in (refused, read)
    ]
    scores = [run.score(GOOD) for run in found]
    assert [(score.kept, score.policies, score.silent, score.claimed) for score in scores] == [
        (1, 1, 0, 0),
        (0, 1, 0, 0),
    ]
    assert [run.cases[0].outcome for run in found] == [Outcome.PASS, Outcome.POLICY]


class TestText:
    def test_a_failure_shows_its_rows_and_how_to_see_them_again(self):
        text = to_text(SAMPLE)
        start = text.index("FAIL  bad::iceberg/deletes/own-commit  Deletes spare their own commit")
        block = text[start : text.index("\n\nERROR", start)]
        assert "read 1, all columns at version 1: FAIL: 1 row expected and not read" in block
        assert re.search(r"-\s+1\s+'<img src=x>'", block)
        assert f"again: {AGAIN}" in block
        assert "read 2" not in block

    def test_an_error_is_one_line(self):
        assert "read 1, all columns at version 1: ERROR: OSError: it fell\n" in to_text(SAMPLE)

    def test_what_is_unsupported_is_told_once_for_each_reason_with_nothing_that_steers_a_terminal(self):
        assert "UNSUPPORTED  good: no\\x1b[31m such  (delta/log/broken)\n" in to_text(SAMPLE)

    def test_the_score_and_counts_of_each_engine(self):
        lines = [line.split("  ") for line in to_text(SAMPLE).splitlines()]
        found = {line[0]: [cell.strip() for cell in line if cell.strip()] for line in lines}
        counts, ends = ["PASS", "FAIL", "UNSUPPORTED", "ERROR", "OPEN"], ["right of claimed", "right of all", "policy"]
        assert found["engine"] == ["engine", "silently wrong", *counts, *ends]
        assert found["good 1.0"] == ["good 1.0", "0", "1", "0", "1", "0", "0", "100.0 %", "66.7 %", "0/0"]
        assert found["bad 2.0 <b>"] == ["bad 2.0 <b>", "✗ 1", "0", "1", "0", "1", "0", "33.3 %", "33.3 %", "0/0"]

    def test_the_score_of_each_format(self):
        lines = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in to_text(SAMPLE).splitlines()]
        scores = [line for line in lines if line[:1] in (["iceberg"], ["delta"])]
        assert scores == [
            ["delta", "0", "–", "0.0 %", "0/0"],
            ["iceberg", "0", "100.0 %", "100.0 %", "0/0"],
            ["delta", "0", "0.0 %", "0.0 %", "0/0"],
            ["iceberg", "✗ 1", "50.0 %", "50.0 %", "0/0"],
        ]

    def test_what_did_not_run_and_what_matched_nothing(self):
        text = to_text(SAMPLE)
        assert "not run: absent: not installed\n" in text
        assert "unused: skips.txt, line 1: nothing matches bad::nothing\n" in text
        assert text.endswith("2 scenarios on 2 engines: 1 PASS, 1 FAIL, 1 UNSUPPORTED, 1 ERROR\n")

    def test_an_unexpected_pass_is_told_with_the_line_to_take_away(self):
        text = to_text(UNEXPECTED_PASS)
        assert "XPASS  bad::delta/log/broken" in text
        assert "listed: reported as bug 7 (xfails.txt, line 3)" in text

    def test_an_expected_failure_is_only_counted(self):
        assert to_text(EXPECTED_FAILURE).endswith("1 scenario on 1 engine: 1 XFAIL\n")


class TestJson:
    def test_everything_is_there(self):
        document = json.loads(to_json(SAMPLE))
        assert (document["format"], document["kind"]) == (1, "conformance")
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

    def test_what_is_listed(self):
        listed = json.loads(to_json(SKIPPED))["cases"][0]["listed"]
        assert listed == {"pattern": "bad::delta/*", "reason": "reported as bug 7", "file": "xfails.txt", "line": 3}


class TestJunit:
    def test_one_suite_for_each_engine_with_its_version(self):
        suites = ElementTree.fromstring(to_junit(SAMPLE))
        assert {**suites.attrib} == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1", "time": "1.5"}
        assert [suite.get("name") for suite in suites] == ["harness.good", "harness.bad"]
        properties = {p.get("name"): p.get("value") for p in suites[1].iter("property")}
        assert properties["version"] == "2.0 <b>"
        assert properties["score"] == (
            "1 silently wrong, right 33.3 % of what it claims, 33.3 % of everything; 0 of 0 policies"
        )

    def test_a_failure_has_its_difference(self):
        case = ElementTree.fromstring(to_junit(SAMPLE))[1].find("testcase[@name='iceberg/deletes/own-commit']")
        assert case.get("classname") == "harness.bad"
        failure = case.find("failure")
        assert failure.get("message") == "1 row expected and not read"
        assert "'<img src=x>'" in failure.text
        assert AGAIN in failure.text

    @pytest.mark.parametrize(
        ("run", "message"),
        [
            pytest.param(EXPECTED_FAILURE, "XFAIL: reported as bug 7", id="xfail"),
            pytest.param(SKIPPED, "SKIP: reported as bug 7", id="skip"),
            pytest.param(OPEN, "OPEN: open: nobody knows; the engine: as harness decided", id="open"),
        ],
    )
    def test_what_is_neither_right_nor_wrong_is_skipped_with_the_reason(self, run, message):
        assert [s.get("message") for s in ElementTree.fromstring(to_junit(run)).iter("skipped")] == [message]

    def test_an_unexpected_pass_fails_and_says_so(self):
        case = next(ElementTree.fromstring(to_junit(UNEXPECTED_PASS)).iter("testcase"))
        assert [part.tag for part in case] == ["failure"]
        assert "listed: reported as bug 7" in case[0].text


class TestGithub:
    def test_annotations_are_escaped(self):
        lines = to_github(SAMPLE).splitlines()
        assert lines[0] == (
            "::error file=fixtures/iceberg/deletes/own-commit.yaml,line=1,"
            "title=FAIL bad%3A%3Aiceberg/deletes/own-commit::"
            f"Deletes spare their own commit, 100 %25: 1 row expected and not read%0Aagain: {AGAIN}"
        )
        assert lines[1].startswith("::warning title=ERROR bad%3A%3Adelta/log/broken::")
        assert lines[2:] == ["2 scenarios on 2 engines: 1 PASS, 1 FAIL, 1 UNSUPPORTED, 1 ERROR"]

    def test_ten_at_most_and_the_last_counts_the_rest(self):
        lines = [line for line in to_github(MANY).splitlines() if line.startswith("::error")]
        assert len(lines) == 10
        assert lines[-1] == "::error title=FAIL::14 more scenarios came to FAIL; see the log or another report"


class TestMarkdown:
    def test_the_matrix(self):
        lines = to_markdown(SAMPLE).splitlines()
        assert "| feature | good 1.0 | bad 2.0 &lt;b> |" in lines
        assert "| `broken` | – 1 | ! 1 |" in lines
        assert "| `equality-delete` | ✓ 1 | ✗ 1 |" in lines
        assert "| **all scenarios** | – 1 ✓ 1 | ✗ 1 ! 1 |" in lines
        assert "| **silently wrong** | 0 | ✗ 1 |" in lines
        assert "| **silently wrong, iceberg** | 0 | ✗ 1 |" in lines
        assert "| **right of claimed** | 100.0 % | 33.3 % |" in lines
        assert "| **right of all** | 66.7 % | 33.3 % |" in lines
        assert lines.index("| **right of all, delta** | 0.0 % | 0.0 % |") < lines.index(
            "| **silently wrong** | 0 | ✗ 1 |"
        )


class Page(HTMLParser):
    """Places, links and cells of a page."""

    def __init__(self, page):
        super().__init__()
        self.ids, self.links, self.cells, self.tags = [], [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append(tag)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if tag == "a" else []
        self.cells += [given["class"]] if tag == "td" and given.get("class", "").isupper() else []


class TestHtml:
    def test_every_link_leads_to_a_place_of_the_page(self):
        page = Page(to_html(SAMPLE))
        assert page.links
        assert set(page.links) <= {f"#{place}" for place in page.ids}
        assert len(page.ids) == len(set(page.ids))

    def test_a_cell_leads_to_its_scenarios_and_these_to_what_came_of_them(self):
        page = Page(to_html(SAMPLE))
        # Three features on two engines, and a link for each feature; then the scenarios that do not pass.
        assert page.links[:3] == ["#f1", "#f1-e1", "#f1-e2"]
        assert [link for link in page.links if link.startswith("#c")] == ["#c3", "#c4", "#c2", "#c2"]

    def test_outcomes_stand_in_words_and_signs(self):
        text = to_html(SAMPLE)
        assert "✗ FAIL" in text
        assert "! ERROR" in text
        assert '<span class="aside"> 1 FAIL</span>' in text

    def test_what_comes_from_tables_is_text(self):
        text = to_html(SAMPLE)
        assert "script" not in Page(text).tags
        assert "img" not in Page(text).tags
        assert "&lt;img src=x&gt;" in text
        assert "a file is damaged &amp; gone" in text

    def test_nothing_is_loaded_and_no_script_may_run(self):
        text = to_html(SAMPLE)
        assert "default-src 'none'; style-src 'sha256-" in text
        assert "script-src 'none'" in text
        assert not re.search(r"(src|href)=[\"']?(https?:)?//", text)

    def test_the_command_is_there(self):
        assert (
            "again: <code>harness scenarios run iceberg/deletes/own-commit --engines &#x27;my engines:Bad&#x27;"
            in to_html(SAMPLE)
        )

    def test_a_run_without_faults_says_so(self):
        text = to_html(FINE)
        assert '<header class="equal">' in text
        assert "What is not PASS" not in text
