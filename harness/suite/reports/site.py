"""A run as a static site, made of its JSON report: who reads what, and each answer as a difference.

    index.html            scores, and the matrix of features and readers
    scenarios.html        all scenarios on all readers; the script filters them, links set its filters
    readers/NAME.html     what a reader gets silently wrong, where it fails, and what it declines
    scenarios/NAME.html   a scenario: its story, the rows that must come, each reader's answer, the command
    scenarios/NAME.py     the table of a scenario that a reader reads wrongly, as one file for the reader's maintainers
    compare.html          what became of the scenarios since an earlier report

Pages load `site.css` and `site.js` beside them and nothing else. Everything from a report is escaped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from harness.diff.reports.html import asset, header
from harness.errors import RequestError, counted
from harness.errors import html_text as escaped
from harness.storage.outputs import place_below, write_file
from harness.storage.threads import cached_property
from harness.suite.reports.text import MEANINGS, SCORES, SIGNS, score_cells
from harness.suite.results import Outcome, Score

ReportObject: TypeAlias = Mapping[str, Any]
"""An object of the JSON report of a run."""

_STYLES = (("harness.diff.reports", "report.css"), (__package__, "matrix.css"), (__package__, "site.css"))
_POLICY = "default-src 'none'; style-src 'self' file:; script-src 'self' file:; base-uri 'none'; form-action 'none'"
_RANKED = tuple(outcome.value for outcome in SIGNS)
_SIGN = {outcome.value: sign for outcome, sign in SIGNS.items()}
_MEANING = {outcome.value: meaning for outcome, meaning in MEANINGS.items()}
_DEMANDS = {"must": "demanded by the specification", "policy": "harness's policy", "open": "open in the specification"}


def write_site(
    report: ReportObject,
    directory: Path,
    earlier: ReportObject | None = None,
    script_of: Callable[[str], str | None] = lambda _: None,
) -> Path:
    """Writes the site of a report into a directory, which is made if missing; the path of its first page.

    report: the JSON report of a run. earlier: another one, with which it is compared.
    script_of: the script of a scenario of that name, or None; called for scenarios that a reader reads wrongly.

    Raises:
        RequestError: a document is no report of a run, is malformed, or is one of an older harness; or a file
            cannot be written.
    """
    _check(report)
    if earlier is not None:
        _check(earlier)
    try:
        files = _files(report, earlier, script_of)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise RequestError(f"Cannot make a site: a report is malformed: {type(error).__name__}: {error}") from error
    for name, text in files.items():
        write_file(place_below(directory, name), text)
    return directory / "index.html"


def _files(
    report: ReportObject, earlier: ReportObject | None, script_of: Callable[[str], str | None]
) -> dict[str, str]:
    """Return the files of the site by name. A report of another form raises one of Python's errors."""
    if any("story" not in scenario for scenario in report["scenarios"]):
        raise RequestError("Cannot make a site of a report by an older harness: run the scenarios again")
    wrong = dict.fromkeys(case["scenario"] for case in report["cases"] if case["outcome"] == Outcome.FAIL.value)
    scripts = {name: text for name in wrong if (text := script_of(name)) is not None}
    return {
        **dict(_Site(report, earlier, frozenset(scripts)).pages()),
        **{f"scenarios/{_slug(name)}.py": text for name, text in scripts.items()},
        "site.css": "".join(asset(*place) for place in _STYLES),
        "site.js": asset(__package__, "site.js"),
    }


def _check(report: ReportObject) -> None:
    if not isinstance(report, Mapping) or report.get("kind") != "conformance":
        raise RequestError("Cannot make a site: expected a report of harness scenarios run --format json")


def _slug(name: str) -> str:
    """A name as a path below the site; dots lead nowhere."""
    return re.sub(r"[^\w/-]+", "-", name, flags=re.ASCII).strip("/") or "-"


@dataclass(frozen=True)
class _Site:
    """The pages of a report. scripted: names of scenarios that have a script."""

    report: ReportObject
    earlier: ReportObject | None
    scripted: frozenset[str]

    @cached_property
    def engines(self) -> Sequence[ReportObject]:
        return list(self.report["engines"])

    @cached_property
    def scenarios(self) -> Mapping[str, ReportObject]:
        return {each["name"]: each for each in self.report["scenarios"]}

    @cached_property
    def cases(self) -> Mapping[tuple[str, str], ReportObject]:
        """The cases by scenario and engine."""
        return {(case["scenario"], case["engine"]): case for case in self.report["cases"]}

    def pages(self) -> Iterator[tuple[str, str]]:
        yield "index.html", self._page("Who reads what", self._index(), 0)
        yield "scenarios.html", self._page("Scenarios", self._list(), 0)
        if self.earlier is not None:
            yield "compare.html", self._page("Two runs compared", self._compared(self.earlier), 0)
        for engine in self.engines:
            yield f"readers/{_slug(engine['name'])}.html", self._page(engine["name"], self._reader(engine), 1)
        for name, scenario in self.scenarios.items():
            place = f"scenarios/{_slug(name)}.html"
            yield place, self._page(name, self._scenario(scenario, place.count("/")), place.count("/"))

    def _page(self, title: str, body: Iterable[str], depth: int) -> str:
        """A whole page. depth: how many folders it is below the first page."""
        up = "../" * depth
        places = {"Readers": "index.html", "Scenarios": "scenarios.html"}
        if self.earlier is not None:
            places["Compared"] = "compare.html"
        links = "".join(f'<a href="{up}{place}">{name}</a>' for name, place in places.items())
        lines = [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escaped(title)}: harness</title>",
            f'<link rel="stylesheet" href="{up}site.css"></head><body>',
            f'<nav aria-label="Site">{links}</nav>',
            *body,
            f'<script src="{up}site.js"></script></body></html>',
        ]
        return "\n".join(lines) + "\n"

    # -- the first page -----------------------------------------------------------------------------------------------

    def _index(self) -> Iterator[str]:
        wrong = any(_score(engine).silent for engine in self.engines)
        tone, sign = ("different", "✗") if wrong else ("equal", "✓")
        yield from header(tone, sign, "Who reads what", self.report["summary"])
        yield '<main><section aria-labelledby="readers"><h2 id="readers">Readers</h2>'
        yield from _scores([(engine, f"readers/{_slug(engine['name'])}.html") for engine in self.engines])
        for name, why in self.report["missing"].items():
            yield f"<p>Not run: <b>{escaped(name)}</b>: {escaped(why)}</p>"
        yield '</section><section aria-labelledby="features"><h2 id="features">Features</h2>'
        yield from _legend(self.engines)
        yield '<form class="filter"><label><input type="checkbox" name="troubled"> '
        yield "only features that some reader does not pass</label></form>"
        yield '<div class="scroll" tabindex="0" role="group" aria-labelledby="features"><table class="matrix">'
        heads = "".join(f'<th scope="col">{_named(engine)}</th>' for engine in self.engines)
        yield f'<thead><tr><th scope="col">feature</th>{heads}</tr></thead><tbody>'
        for feature, counts in self.report["features"].items():
            yield self._feature(feature, counts)
        yield "</tbody></table></div></section>"
        places = (f"<li>{escaped(k)} <code>{escaped(v)}</code></li>" for k, v in self.report["environment"].items())
        yield f'<ul class="environment">{"".join(places)}</ul></main>'

    def _feature(self, feature: str, counts: ReportObject) -> str:
        fine = all(counts[engine["name"]].keys() <= {Outcome.PASS.value} for engine in self.engines)
        meaning = self.report["meanings"].get(feature, "")
        link = f'<a href="scenarios.html#{_filter(feature=feature)}" title="{escaped(meaning)}">{escaped(feature)}</a>'
        cells = []
        for engine in self.engines:
            found = counts[engine["name"]]
            worst = next((outcome for outcome in _RANKED if outcome in found), "")
            place = _filter(feature=feature, reader=engine["name"])
            told = ", ".join(f"{found[outcome]} {outcome}" for outcome in _RANKED if outcome in found)
            text = " ".join(f"{_SIGN[outcome]} {found[outcome]}" for outcome in _RANKED if outcome in found)
            cells.append(f'<td class="{worst}"><a href="scenarios.html#{place}" aria-label="{told}">{text}</a></td>')
        return f'<tr class="{"fine" if fine else "troubled"}"><th scope="row">{link}</th>{"".join(cells)}</tr>'

    # -- all scenarios ------------------------------------------------------------------------------------------------

    def _list(self) -> Iterator[str]:
        yield from header(
            "equal",
            "≡",
            "Scenarios",
            counted(len(self.scenarios), "scenario")
            + " on "
            + ", ".join(f"{engine['name']} {engine['version']}" for engine in self.engines),
        )
        yield "<main>"
        yield from _legend(self.engines)
        formats = sorted({scenario["format"] for scenario in self.scenarios.values()})
        choices = {
            "reader": [engine["name"] for engine in self.engines],
            "outcome": list(dict.fromkeys(o for o in _RANKED if any(o in e["counts"] for e in self.engines))),
            "format": formats,
            "feature": list(self.report["features"]),
        }
        yield '<form class="filter" id="filter" role="search" aria-label="Filter of the scenarios" hidden>'
        for name, values in choices.items():
            options = "".join(f"<option>{escaped(value)}</option>" for value in values)
            yield f'<label>{name} <select name="{name}"><option value="">any</option>{options}</select></label>'
        yield '<label class="find">Find <input type="search" name="find" autocomplete="off"></label>'
        yield '<output id="matching" aria-live="polite"></output></form>'
        yield '<div class="scroll" tabindex="0" role="group" aria-label="Scenarios"><table class="scenarios" id="list">'
        heads = "".join(
            f'<th scope="col" data-reader="{escaped(engine["name"])}">{_named(engine)}</th>' for engine in self.engines
        )
        yield f'<thead><tr><th scope="col">scenario</th>{heads}</tr></thead><tbody>'
        for name, scenario in self.scenarios.items():
            features = escaped(" ".join(scenario["features"]))
            yield f'<tr data-format="{escaped(scenario["format"])}" data-features="{features}">'
            yield f'<th scope="row"><a href="scenarios/{_slug(name)}.html">{escaped(name)}</a>'
            yield f'<span class="in">{escaped(scenario["title"])}</span></th>'
            for engine in self.engines:
                case = self.cases[name, engine["name"]]
                place = f"scenarios/{_slug(name)}.html#{_slug(engine['name'])}"
                yield f'<td class="{case["outcome"]}" data-reader="{escaped(engine["name"])}">'
                yield f'<a href="{place}">{_badge(case["outcome"])}</a></td>'
            yield "</tr>"
        yield "</tbody></table></div></main>"

    # -- a reader -----------------------------------------------------------------------------------------------------

    def _reader(self, engine: ReportObject) -> Iterator[str]:
        name = engine["name"]
        score = _score(engine)
        tone, sign = ("different", "✗") if score.silent else ("equal", "✓")
        silent, claimed, everything, policy = score_cells(score)
        finding = f"{silent} silently wrong, {claimed} right of what it claims, {everything} of everything"
        yield from header(tone, sign, f"{name} {engine['version']}", f"{finding}; policy {policy}")
        yield "<main>"
        yield from _scores([(engine, None)])
        cases = [self.cases[scenario, name] for scenario in self.scenarios]
        listed = ("FAIL", "XPASS", "XFAIL", "ERROR", "POLICY")
        titles = {
            "FAIL": "Silently wrong",
            "ERROR": "Errors, crashes and hangs",
            "POLICY": "Another answer than harness gives by policy",
        }
        for outcome in listed:
            found = [case for case in cases if case["outcome"] == outcome]
            if found:
                yield f'<section aria-labelledby="{outcome}"><h2 id="{outcome}">{titles.get(outcome, outcome)} '
                yield f'<span class="number">{counted(len(found), "scenario")}</span></h2><ul class="told">'
                yield from (self._told(case, outcome) for case in found)
                yield "</ul></section>"
        reasons = Counter(_first(case, "UNSUPPORTED") for case in cases if case["outcome"] == "UNSUPPORTED")
        if reasons:
            yield '<section aria-labelledby="declined"><h2 id="declined">Declined</h2><ul class="told">'
            for reason, number in reasons.most_common():
                yield f'<li><span class="number">{number:,}</span> {escaped(reason)}</li>'
            yield "</ul></section>"
        place = f"../scenarios.html#{_filter(reader=name)}"
        yield f'<p><a href="{place}">All scenarios on {escaped(name)}</a></p></main>'

    def _told(self, case: ReportObject, outcome: str) -> str:
        scenario = self.scenarios[case["scenario"]]
        place = f"../scenarios/{_slug(scenario['name'])}.html#{_slug(case['engine'])}"
        link = f'<a href="{place}">{escaped(scenario["name"])}</a>'
        return f"<li>{link}: {escaped(scenario['title'])}<br><small>{escaped(_first(case, outcome))}</small></li>"

    # -- a scenario ---------------------------------------------------------------------------------------------------

    def _scenario(self, scenario: ReportObject, depth: int) -> Iterator[str]:
        name, up = scenario["name"], "../" * depth
        cases = [self.cases[name, engine["name"]] for engine in self.engines]
        counts = Counter(case["outcome"] for case in cases)
        tone, sign = ("different", "✗") if counts["FAIL"] else ("equal", "✓")
        yield from header(tone, sign, name, scenario["title"])
        clauses = ", ".join(scenario["clauses"])
        features = " ".join(
            f'<a href="{up}scenarios.html#{_filter(feature=each)}"><code>{escaped(each)}</code></a>'
            for each in scenario["features"]
        )
        yield f'<main><p class="columns">{escaped(clauses)} · {features}</p>'
        yield '<section aria-labelledby="story"><h2 id="story">The story</h2>'
        yield '<pre class="scroll" tabindex="0" role="group" aria-labelledby="story">'
        yield f"{_lines(scenario['story'])}</pre></section>"
        yield '<section aria-labelledby="reads"><h2 id="reads">What reads must give</h2><div class="reads">'
        for read in scenario["expected"]:
            yield "<div>"
            yield from _expected(read)
            yield "</div>"
        yield "</div>"
        if name in self.scripted:
            script = f"{_slug(name).rpartition('/')[2]}.py"
            yield f'<p>The table as one file, which needs Python alone: <a href="{script}" download>{script}</a></p>'
        yield '</section><section aria-labelledby="answers"><h2 id="answers">Answers</h2><p class="answers">'
        for engine, case in zip(self.engines, cases, strict=True):
            yield f'<a href="#{_slug(engine["name"])}">{escaped(engine["name"])} {_badge(case["outcome"])}</a>'
        yield "</p>"
        for engine, case in zip(self.engines, cases, strict=True):
            yield from _answer(engine, case)
        yield "</section></main>"

    # -- two runs -----------------------------------------------------------------------------------------------------

    def _compared(self, earlier: ReportObject) -> Iterator[str]:
        before = {engine["name"]: engine for engine in earlier["engines"]}
        both = [engine for engine in self.engines if engine["name"] in before]
        old = {(case["scenario"], case["engine"]): case["outcome"] for case in earlier["cases"]}
        yield from header("equal", "⇄", "Two runs compared", f"{counted(len(both), 'reader')} of both runs")
        yield "<main>"
        for engine in both:
            name, first = engine["name"], before[engine["name"]]
            changed: dict[tuple[str, str], list[str]] = {}
            for scenario in self.scenarios:
                was, now = old.get((scenario, name)), self.cases[scenario, name]["outcome"]
                if was is not None and was != now:
                    changed.setdefault((was, now), []).append(scenario)
            if not changed and first["version"] == engine["version"]:
                yield f"<p>{escaped(name)} {escaped(engine['version'])}: each scenario of both runs came out alike.</p>"
                continue
            yield f'<section aria-labelledby="{_slug(name)}"><h2 id="{_slug(name)}">{escaped(name)}: '
            yield f"{escaped(first['version'])} → {escaped(engine['version'])}</h2>"
            yield from _scores([(first, None), (engine, None)])
            if not changed:
                yield "<p>Every scenario of both runs came out alike.</p>"
            for was, now in sorted(changed, key=lambda pair: (_RANKED.index(pair[1]), _RANKED.index(pair[0]))):
                yield f"<h3>{_badge(was)} → {_badge(now)}</h3><ul>"
                for scenario in changed[was, now]:
                    place = f"scenarios/{_slug(scenario)}.html#{_slug(name)}"
                    title = escaped(self.scenarios[scenario]["title"])
                    yield f'<li><a href="{place}">{escaped(scenario)}</a>: {title}</li>'
                yield "</ul>"
            yield "</section>"
        yield "</main>"


def _filter(**chosen: str) -> str:
    """The part of an address that sets the filter of the list."""
    return escaped("&".join(f"{name}={quote(value, safe='')}" for name, value in chosen.items()))


def _lines(text: str) -> str:
    """A text of several lines as HTML."""
    return "\n".join(map(escaped, text.splitlines()))


def _named(engine: ReportObject) -> str:
    return f'{escaped(engine["name"])}<span class="in">{escaped(engine["version"])}</span>'


def _badge(outcome: str) -> str:
    return f'<b class="{outcome}">{_SIGN[outcome]} {outcome}</b>'


def _legend(engines: Iterable[ReportObject]) -> Iterator[str]:
    found = {outcome for engine in engines for outcome in engine["counts"]}
    yield '<ul class="legend">'
    yield from (f"<li>{_badge(outcome)} {_MEANING[outcome]}</li>" for outcome in _RANKED if outcome in found)
    yield "</ul>"


def _score(engine: ReportObject, format_: str | None = None) -> Score:
    return Score(**(engine["score"] if format_ is None else engine["formats"][format_]))


def _scores(engines: Sequence[tuple[ReportObject, str | None]]) -> Iterator[str]:
    """The table of scores, and of their formats. engines: each with the place of its page."""
    formats = sorted({format_ for engine, _ in engines for format_ in engine.get("formats", ())})
    formats = formats if len(formats) > 1 else []
    heads = [*SCORES, *(f"{format_}: {head}" for format_ in formats for head in SCORES[:3:2])]
    yield '<div class="scroll" tabindex="0" role="group" aria-label="Scores"><table class="engines">'
    cells = "".join(f'<th scope="col">{head}</th>' for head in heads)
    yield f'<thead><tr><th scope="col">reader</th>{cells}</tr></thead><tbody>'
    for engine, place in engines:
        name = f'{escaped(engine["name"])} <span class="version">{escaped(engine["version"])}</span>'
        link = name if place is None else f'<a href="{place}">{name}</a>'
        yield f'<tr><th scope="row">{link}</th>'
        yield from _score_cells(_score(engine), slice(None))
        for format_ in formats:
            if format_ in engine.get("formats", ()):
                yield from _score_cells(_score(engine, format_), slice(0, 3, 2))
        yield "</tr>"
    yield "</tbody></table></div>"


def _score_cells(score: Score, chosen: slice) -> Iterator[str]:
    for place, cell in list(enumerate(score_cells(score)))[chosen]:
        tone = "figure wrong" if place == 0 and score.silent else "figure"
        yield f'<td class="{tone}">{cell}</td>'


def _first(case: ReportObject, outcome: str) -> str:
    """The first message of a case's reads with an outcome."""
    told = (check["message"] for check in case["checks"] if check["outcome"] == outcome and check["message"])
    return next(told, _MEANING[outcome])


def _expected(read: ReportObject) -> Iterator[str]:
    why = "" if read["why"] is None else f": {read['why']}"
    yield f"<h3>Read {read['number']}: <code>{escaped(read['read'])}</code></h3>"
    yield f'<p class="columns">{escaped(_DEMANDS[read["demand"]] + why)}</p>'
    if read["error"] is not None:
        yield f"<p>A refusal: harness says <code>{escaped(read['error'])}</code>, any error will do.</p>"
    elif read["columns"]:
        rows = [("", 1, row) for row in read["rows"]]
        yield from _rows(read["columns"], rows, f"expected rows of read {read['number']}")
        if read["count"] > len(read["rows"]):
            yield f"<p>{len(read['rows']):,} of {read['count']:,} rows.</p>"
        elif not read["count"]:
            yield "<p>No rows.</p>"
    else:
        yield "<p>Nothing is decided.</p>"


def _rows(columns: Sequence[str], rows: Iterable[tuple[str, int, Sequence[str]]], label: str) -> Iterator[str]:
    """A table of rows, each with its mark (`left`, `right`, or none), and how many there are of it."""
    marks = {"left": ("−", "expected, not read"), "right": ("+", "read, not expected")}
    heads = "".join(f'<th scope="col">{escaped(name)}</th>' for name in columns)
    yield f'<div class="scroll" tabindex="0" role="group" aria-label="{escaped(label)}"><table class="rows answer">'
    yield f'<thead><tr><th scope="col" class="what">row</th>{heads}</tr></thead><tbody>'
    for number, (side, count, values) in enumerate(rows, 1):
        sign, words = marks.get(side, ("", ""))
        mark = f'<span class="mark" aria-hidden="true">{sign}</span> {words}' if side else str(number)
        times = f" ×{count:,}" if count > 1 else ""
        cells = "".join(f'<td class="{side}">{escaped(value)}</td>' for value in values)
        yield f'<tr class="{side}"><th scope="row" class="what">{mark}{times}</th>{cells}</tr>'
    yield "</tbody></table></div>"


def _answer(engine: ReportObject, case: ReportObject) -> Iterator[str]:
    yield f'<article class="case {case["outcome"]}" id="{_slug(engine["name"])}">'
    yield f"<h3>{_badge(case['outcome'])} {escaped(engine['name'])} {escaped(engine['version'])}</h3>"
    if case["listed"] is not None:
        yield f"<p>Listed: {escaped(case['listed']['reason'])}</p>"
    for check in case["checks"]:
        message = check["message"] or _MEANING[check["outcome"]]
        place = f"Read {check['number']}: " if check["number"] else ""
        yield f"<p>{place}{check['outcome']}: {escaped(message)}</p>"
        if check["difference"] is not None:
            yield from _difference(check)
        yield "".join(f"<p><small>{escaped(note)}</small></p>" for note in check["notes"])
    if case["outcome"] != "SKIP":
        yield f'<p class="again">again: <code>{escaped(case["command"])}</code></p>'
    yield "</article>"


def _difference(check: ReportObject) -> Iterator[str]:
    difference = check["difference"]
    for each in difference["schema"]:
        sides = f"{each['left'] or 'nothing'} expected, {each['right'] or 'nothing'} read"
        yield f"<p><code>{escaped(each['column'])}</code>: {escaped(sides)}</p>"
    rows = [
        (side, row["count"], row[side])
        for row in difference["rows"]
        for side in ("left", "right")
        if row[side] is not None
    ]
    if rows:
        yield from _rows(difference["columns"], rows, f"difference of read {check['number']}")
    if difference["truncated"]:
        differing = difference["only_left"] + difference["only_right"] + difference["changed"]
        yield f"<p>{len(difference['rows']):,} of {differing:,} differing rows.</p>"
