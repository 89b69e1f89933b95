"""The HTML report of a run: one file without network access and scripts, with a table of features by engine.

Each cell of the table links to the scenarios with the feature, and each scenario to its outcomes: the scenario's text
and expected rows, then for each engine the reads, the rows that differ, and the command that repeats the case. Outcomes
are shown by signs and words; colors only repeat them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.diff.reports.html import asset, document, header
from harness.errors import html_text as escaped
from harness.suite.reports.text import (
    MEANINGS,
    SCORES,
    SIGNS,
    cell_text,
    difference_of,
    headline,
    score_cells,
    tally,
)
from harness.suite.results import Case, Check, Outcome, ReadInfo, Run, ScenarioInfo, Score

_STYLES = (("harness.diff.reports", "report.css"), (__package__, "run.css"))
_DEMANDS = {"must": "required by the specification", "policy": "harness's policy", "open": "open in the specification"}


def to_html(run: Run) -> str:
    """Return the run as one self-contained HTML document."""
    page = _Page(run, {case.id: number for number, case in enumerate(run.cases, 1)})
    style = "".join(asset(*place) for place in _STYLES)
    return document("harness: who reads what", page.body(), style=style)


@dataclass(frozen=True, slots=True)
class _Page:
    """The page. Its anchors are numbers, because names may contain any text."""

    run: Run
    numbers: Mapping[str, int]

    def body(self) -> Iterator[str]:
        is_passed = self.run.passed()
        tone, sign = ("equal", "✓") if is_passed else ("different", "✗")
        yield from header(tone, sign, "Who reads what", headline(self.run))
        yield "<main>"
        yield from self._engines()
        yield from self._features()
        yield from self._scenarios()
        yield from self._cases()
        yield from self._environment()
        yield "</main>"

    def _engines(self) -> Iterator[str]:
        counts = self.run.counts()
        outcomes = [outcome for outcome in Outcome if counts[outcome]]
        yield '<section aria-labelledby="engines"><h2 id="engines">Engines</h2>'
        yield '<div class="scroll"><table class="engines">'
        heads = "".join(f'<th scope="col">{outcome.value}</th>' for outcome in outcomes)
        first, *last = (f'<th scope="col">{words}</th>' for words in SCORES)
        yield f'<thead><tr><th scope="col">engine</th>{first}{heads}{"".join(last)}</tr></thead><tbody>'
        for engine in self.run.engines:
            engine_counts = self.run.counts(engine)
            cells = "".join(f'<td class="figure">{engine_counts[outcome]:,}</td>' for outcome in outcomes)
            name = f'{escaped(engine.name)} <span class="version">{escaped(engine.version)}</span>'
            yield _score_row(name, self.run.score(engine), cells)
            for format_ in self.run.formats() if len(self.run.formats()) > 1 else ():
                own_format = f'<span class="in">{format_}</span>'
                yield _score_row(own_format, self.run.score(engine, format_), "<td></td>" * len(outcomes))
        yield "</tbody></table></div>"
        yield "<p>A read is silently wrong if it returned other rows than the specification requires, or rows of a "
        yield "table that must be refused, and no error. An engine claims the reads that it does not decline. "
        yield "Policies are counted separately: results that harness chose and no specification requires.</p>"
        for name, reason in self.run.missing.items():
            yield f"<p>Not run: <b>{escaped(name)}</b>: {escaped(reason)}</p>"
        yield "</section>"

    def _features(self) -> Iterator[str]:
        yield '<section aria-labelledby="features"><h2 id="features">Features</h2>'
        yield from _legend(self.run)
        yield '<form class="filter"><label><input type="checkbox" name="troubled"> '
        yield "only features that an engine does not pass</label></form>"
        yield '<div class="scroll" tabindex="0" role="group" aria-labelledby="features"><table class="features">'
        heads = "".join(
            f'<th scope="col">{escaped(engine.name)}<span class="in">{escaped(engine.version)}</span></th>'
            for engine in self.run.engines
        )
        yield f'<thead><tr><th scope="col">feature</th>{heads}</tr></thead><tbody>'
        for row, feature in enumerate(self.run.features(), 1):
            yield from self._feature_row(row, feature)
        yield "</tbody></table></div></section>"

    def _feature_row(self, row: int, feature: str) -> Iterator[str]:
        cells = [self.run.cases_with_feature(feature, engine) for engine in self.run.engines]
        fine = all(case.outcome is Outcome.PASS for cases in cells for case in cases)
        name = f'<th scope="row"><a href="#f{row}">{escaped(feature)}</a></th>'
        yield f'<tr class="{"fine" if fine else "troubled"}">{name}'
        for column, cases in enumerate(cells, 1):
            if not cases:
                yield "<td></td>"
                continue
            counts = Counter(case.outcome for case in cases)
            worst = next(outcome for outcome in SIGNS if counts[outcome])
            yield (
                f'<td class="{worst.value}"><a href="#f{row}-e{column}" title="{escaped(tally(counts))}">'
                f'{cell_text(cases)}</a><span class="aside"> {escaped(tally(counts))}</span></td>'
            )
        yield "</tr>"

    def _scenarios(self) -> Iterator[str]:
        yield '<section aria-labelledby="scenarios"><h2 id="scenarios">Scenarios by feature</h2>'
        by_place = {(case.scenario.name, case.engine.name): case for case in self.run.cases}
        for row, feature in enumerate(self.run.features(), 1):
            meaning = self.run.meanings.get(feature)
            yield f'<h3 id="f{row}"><code>{escaped(feature)}</code></h3>'
            yield "" if meaning is None else f"<p>{escaped(meaning)}</p>"
            heads = "".join(
                f'<th scope="col" id="f{row}-e{column}">{escaped(engine.name)}</th>'
                for column, engine in enumerate(self.run.engines, 1)
            )
            yield f'<div class="scroll"><table class="scenarios"><thead><tr><th scope="col">scenario</th>{heads}'
            yield "</tr></thead><tbody>"
            for scenario in self.run.scenarios:
                if feature in scenario.features:
                    cases = [by_place[scenario.name, engine.name] for engine in self.run.engines]
                    yield self._scenario_row(scenario, cases)
            yield "</tbody></table></div>"
        yield "</section>"

    def _scenario_row(self, scenario: ScenarioInfo, cases: Sequence[Case]) -> str:
        cells = "".join(f'<td class="{case.outcome.value}">{self._link(case)}</td>' for case in cases)
        name = f'<code>{escaped(scenario.name)}</code><span class="in">{escaped(scenario.title)}</span>'
        return f'<tr><th scope="row">{name}</th>{cells}</tr>'

    def _link(self, case: Case) -> str:
        text = f"{SIGNS[case.outcome]} {case.outcome.value}"
        return text if _is_quiet(case) else f'<a href="#c{self.numbers[case.id]}">{text}</a>'

    def _cases(self) -> Iterator[str]:
        ranks = {outcome: rank for rank, outcome in enumerate(SIGNS)}
        by_scenario: dict[str, list[Case]] = {}
        for case in sorted(self.run.cases, key=lambda case: ranks[case.outcome]):
            if not _is_quiet(case):
                by_scenario.setdefault(case.scenario.name, []).append(case)
        if not by_scenario:
            return
        infos = {scenario.name: scenario for scenario in self.run.scenarios}
        yield '<section aria-labelledby="cases"><h2 id="cases">Cases that are not PASS</h2>'
        for name, cases in by_scenario.items():
            yield from _scenario(infos[name])
            for case in cases:
                yield f'<article id="c{self.numbers[case.id]}" class="case {case.outcome.value}">'
                yield from _case(case)
                yield "</article>"
        yield "</section>"

    def _environment(self) -> Iterator[str]:
        yield '<section aria-labelledby="environment"><h2 id="environment">Environment</h2><ul class="environment">'
        for name, value in self.run.environment.items():
            yield f"<li>{escaped(name)} <code>{escaped(value)}</code></li>"
        for line in self.run.unused_lines:
            place = f"{line.file}, line {line.line}"
            yield f"<li>unused in {escaped(place)}: <code>{escaped(line.pattern)}</code></li>"
        yield "</ul></section>"


def _score_row(name: str, score: Score, counts: str) -> str:
    silent, *rest = score_cells(score)
    tone = "figure wrong" if score.silent else "figure"
    right = "".join(f'<td class="figure">{part}</td>' for part in rest)
    return f'<tr><th scope="row">{name}</th><td class="{tone}">{silent}</td>{counts}{right}</tr>'


def _is_quiet(case: Case) -> bool:
    """Return whether the case is PASS without notes, so that it needs no details."""
    return case.outcome is Outcome.PASS and not any(check.notes for check in case.checks)


def _legend(run: Run) -> Iterator[str]:
    counts = run.counts()
    yield '<ul class="legend">'
    for outcome in SIGNS:
        if counts[outcome]:
            sign = f'<b class="{outcome.value}">{SIGNS[outcome]} {outcome.value}</b>'
            yield f"<li>{sign} {MEANINGS[outcome]}</li>"
    yield "<li>numbers count scenarios; a cell has the color of its worst outcome</li></ul>"


def _scenario(scenario: ScenarioInfo) -> Iterator[str]:
    """Yield the title of a scenario, and in a collapsed section its text and the expected rows."""
    yield f"<h3><code>{escaped(scenario.name)}</code></h3>"
    clauses = f" ({escaped(', '.join(scenario.clauses))})" if scenario.clauses else ""
    yield f"<p>{escaped(scenario.title)}{clauses}</p>"
    if not (scenario.story or scenario.expected):
        return
    yield "<details><summary>The table and its expected results</summary>"
    if scenario.story:
        text = "\n".join(map(escaped, scenario.story.splitlines()))
        yield f'<pre class="scroll" tabindex="0" role="group" aria-label="the scenario">{text}</pre>'
    for read in scenario.expected:
        yield from _read(read)
    yield "</details>"


def _read(read: ReadInfo) -> Iterator[str]:
    """Yield a read and its expected result."""
    yield f"<p>Read {read.number}, <code>{escaped(read.read)}</code>, {_DEMANDS[read.demand]}"
    yield f"{'' if read.why is None else f': {escaped(read.why)}'}</p>"
    if read.error is not None:
        yield f"<p>An error: harness raises <code>{escaped(read.error)}</code>. Other readers may raise any error.</p>"
    if not read.columns:
        return
    heads = "".join(f'<th scope="col">{escaped(name)}</th>' for name in read.columns)
    label = f"expected rows of read {read.number}"
    yield f'<div class="scroll" tabindex="0" role="group" aria-label="{label}"><table><thead><tr>{heads}</tr></thead>'
    rows = ("".join(f"<td>{escaped(value)}</td>" for value in row) for row in read.rows)
    yield f"<tbody>{''.join(f'<tr>{cells}</tr>' for cells in rows)}</tbody></table></div>"
    if read.count > len(read.rows):
        yield f"<p>{len(read.rows):,} of {read.count:,} rows.</p>"


def _case(case: Case) -> Iterator[str]:
    sign = f'<b class="{case.outcome.value}">{SIGNS[case.outcome]} {case.outcome.value}</b>'
    yield f"<h4>{sign} {escaped(case.engine.name)} {escaped(case.engine.version)}</h4>"
    if case.expected is not None:
        place = f"{case.expected.file}, line {case.expected.line}"
        yield f"<p>Listed: {escaped(case.expected.reason)} ({escaped(place)})</p>"
    for check in case.checks:
        if check.outcome is not Outcome.PASS or check.notes:
            yield from _check(check)
    if case.outcome is not Outcome.SKIP:
        yield f'<p class="again">again: <code>{escaped(case.command)}</code></p>'


def _check(check: Check) -> Iterator[str]:
    place = f"read {check.number}, <code>{escaped(check.read)}</code>: " if check.number else ""
    message = "" if check.message is None else f": {escaped(check.message)}"
    yield f"<p>{place}{check.outcome.value}{message}</p>"
    if lines := difference_of(check):
        text = "\n".join(map(escaped, lines))
        yield f'<pre class="scroll" tabindex="0" aria-label="difference, - expected, + read">{text}</pre>'
    if check.notes:
        yield f"<ul>{''.join(f'<li>{escaped(note)}</li>' for note in check.notes)}</ul>"
