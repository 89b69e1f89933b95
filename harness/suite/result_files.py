"""Scores of the results that a program wrote into a folder. Only the files of the suite are needed.

    RESULTS/reader.json     {name, version}, and optionally language, homepage and filters (false: the program takes no
                            filters); without the file, the reader is named after the folder
    RESULTS/CASE/N.arrow    the rows of the N-th read of a case: an Arrow IPC file or stream
    RESULTS/CASE/N.jsonl    or the rows as JSON lines, see `json_rows`
    RESULTS/CASE/N.json     {unsupported: why} or {error: class, message: why} in place of rows, or {count: n} with or
                            without rows

A read without a result is UNSUPPORTED (not run). A file that cannot be read is an ERROR of its read.
"""

from __future__ import annotations

import fnmatch
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.errors import EngineError, HarnessError, RequestError, UnsupportedError
from harness.suite.json_rows import read_rows
from harness.suite.results import (
    Case,
    Check,
    EngineInfo,
    ListEntry,
    Outcome,
    Run,
    make_case,
    unused_lines,
)
from harness.suite.runner import case_info, environment
from harness.suite.scenarios.model import ResolvedExpectation
from harness.suite.scores import (
    Strictness,
    confirm_refusal,
    needs_intact_copy,
    read_info,
    read_text,
    score_count,
    score_read,
)
from harness.suite.suite_files import SuiteCase, json_object, load_case, load_suite
from harness.suite.workers import BROKEN_PROTOCOL, CRASHED

NOT_RUN = "not run: there is no result"
"""The message for a read without a result."""


def score_results(
    directory: Path, results: Path, *, patterns: Sequence[str] = (), xfails: Sequence[ListEntry] = ()
) -> Run:
    """Return the results of a program as a run of the suite.

    Args:
        directory: The directory of the suite.
        results: The folder that the program wrote.
        patterns: Names of cases. `*` matches any text. Empty means all cases.
        xfails: Expected failures.

    Raises:
        RequestError: A file of the suite or `reader.json` cannot be read, or no case or no result was found.
    """
    started = time.monotonic()
    suite = load_suite(directory)
    case_paths = {
        name: path
        for name, path in suite.cases.items()
        if not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    }
    if not case_paths:
        raise RequestError(f"No case matches {' or '.join(patterns)}", file=str(directory))
    reader = _reader(results)
    engine = EngineInfo(
        name=reader["name"], version=reader["version"], argument="", folders=(str(directory), str(results))
    )
    cases: list[Case] = []
    for path in case_paths.values():
        case = load_case(path)
        reads = tuple(map(read_info, case.expectations))
        info = replace(case_info(case, directory), file=str(path), expected=reads)
        checks = [*_checks(case, results, engine.name)]
        cases.append(make_case(info, engine, checks, xfails))
    if all(check.message == NOT_RUN for case in cases for check in case.checks):
        raise RequestError("The folder contains no result of the suite, for example CASE/1.arrow", file=str(results))
    features = sorted({feature for case in cases for feature in case.scenario.features})
    return Run(
        engines=(engine,),
        scenarios=tuple(case.scenario for case in cases),
        cases=tuple(cases),
        unused_lines=unused_lines(xfails, cases),
        environment={"suite": suite.version, **environment()},
        meanings={name: suite.features.get(name, "") for name in features},
        seconds=time.monotonic() - started,
    )


def _reader(results: Path) -> dict[str, Any]:
    """Return the content of `reader.json`, or a default with the folder's name."""
    if not results.is_dir():
        raise RequestError("The folder of results does not exist", file=str(results))
    if not os.path.lexists(results / "reader.json"):
        return {"name": results.resolve().name, "version": "unknown"}
    return json_object(results, "reader.json", "reader")


def _checks(case: SuiteCase, results: Path, engine: str) -> Iterator[Check]:
    for expectation in case.expectations:
        check = _score_result(case, expectation, results, engine)
        if check.outcome is Outcome.PASS and needs_intact_copy(expectation) and case.intact_copy is not None:
            intact_copy = load_case(case.intact_copy)
            check = confirm_refusal(check, _score_result(intact_copy, intact_copy.expectations[0], results, engine))
        yield check


def _score_result(case: SuiteCase, expectation: ResolvedExpectation, results: Path, engine: str) -> Check:
    """Return the check of one read by its result. The intact copy is not considered."""
    schema = expectation.expected.schema if isinstance(expectation.expected, pa.Table) else None
    try:
        result, count = _result(results, f"{case.scenario.name}/{expectation.number}", schema)
    except RequestError as error:
        result, count = EngineError(str(error), cause=BROKEN_PROTOCOL), None
    if result is None and count is None:
        outcome = Outcome.UNSUPPORTED if expectation.open is None else Outcome.OPEN
        policy = expectation.policy is not None
        read = read_text(expectation)
        return Check(number=expectation.number, read=read, outcome=outcome, message=NOT_RUN, policy=policy)
    check = None if result is None else score_read(expectation, result, Strictness.FOREIGN, engine)
    if check is not None and (count is None or check.outcome is not Outcome.PASS):
        return check
    assert count is not None
    return score_count(check, expectation, count, engine)


def _result(results: Path, read: str, schema: pa.Schema | None) -> tuple[pa.Table | HarnessError | None, int | None]:
    """Return the rows or the refusal of a read, and its count. Both are None if they are absent.

    Raises:
        RequestError: The result cannot be read.
    """
    suffixes = [suffix for suffix in ("arrow", "jsonl", "json") if os.path.lexists(results / f"{read}.{suffix}")]
    answer: dict[str, Any] = json_object(results, f"{read}.json", "result") if "json" in suffixes else {}
    rows = [suffix for suffix in suffixes if suffix != "json"]
    if len(rows) > 1 or (rows and answer and "count" not in answer):
        raise RequestError(f"A read must have one result, got {' and '.join(suffixes)}", file=str(results / read))
    if rows:
        return read_rows(results, f"{read}.{rows[0]}", schema, is_json=rows[0] == "jsonl"), answer.get("count")
    match answer:
        case {"unsupported": why} | {"error": "unsupported-feature", "message": why}:
            return UnsupportedError(why), None
        case {"error": kind, "message": why}:
            return EngineError(why, cause=CRASHED if answer.get("panic") else kind), None
        case _:
            return None, answer.get("count")
