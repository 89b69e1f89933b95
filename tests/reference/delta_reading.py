"""Scenarios read by Delta Lake: the conformance suite's reader and judge, in the session of the tests."""

from __future__ import annotations

import dataclasses
import re
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from harness.conformance.judging import Answer, Measure, described, judge
from harness.conformance.outcomes import Check, Outcome
from harness.testing.scenarios.model import Built, ExpectedError, ResolvedExpectation

NOT_ASKED = frozenset({"_file", "_pos", "_spec_id", "_partition", "_deleted"})
"""Metadata columns of harness that Delta Lake has not, or holds in another form."""


def asked(expectation: ResolvedExpectation) -> bool:
    """Whether Delta Lake can be asked the same."""
    words = {*(expectation.columns or ()), *re.findall(r"\w+", expectation.where or "")}
    return not words & NOT_ASKED


def judged(reader: Any, spark: Any, built: Built, expectation: ResolvedExpectation) -> Check:
    """What Delta Lake does, held against what harness says, also where the protocol's text leaves it open."""
    result: pa.Table | Exception
    try:
        result = _rows(reader, spark, built, expectation)
    except Exception as error:  # whatever it raises is its answer
        result = error
    if isinstance(result, reader.Unsupported):
        return Check(number=expectation.number, read=described(expectation), outcome=Outcome.SKIP)
    if isinstance(result, Exception) and isinstance(expectation.expected, ExpectedError):
        return Check(number=expectation.number, read=described(expectation), outcome=Outcome.PASS, message=str(result))
    check = judge(dataclasses.replace(expectation, open=None), Answer(result, 0.0), Measure.FOREIGN, "Delta Lake")
    return dataclasses.replace(check, message=_root_cause(result)) if isinstance(result, Exception) else check


def _root_cause(error: Exception) -> str:
    """The last exception of a Java stack trace, which says what is wrong with the table."""
    causes = re.findall(r"Caused by: (.*)", str(error))
    return causes[-1] if causes else str(error).partition("\tat ")[0].strip()


def _rows(reader: Any, spark: Any, built: Built, expectation: ResolvedExpectation) -> pa.Table:
    location = str(built.location)
    if expectation.at.changes is not None:
        first, last = expectation.at.changes
        feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", first)
        frame = feed.option("endingVersion", last).load(location)
        return (frame if expectation.columns is None else frame.select(*expectation.columns)).toArrow()
    table = SimpleNamespace(format="delta", location=location, metadata_path=None, at=_at(expectation))
    return reader.read(table, columns=expectation.columns, where=expectation.where)


def _at(expectation: ResolvedExpectation) -> SimpleNamespace | None:
    arguments = expectation.at.arguments()
    if expectation.at.version is not None:
        return SimpleNamespace(kind="version", value=expectation.at.version)
    if expectation.at.timestamp_ms is not None:
        return SimpleNamespace(kind="timestamp_ms", value=expectation.at.timestamp_ms)
    assert not arguments, f"Delta Lake is not asked for {arguments}"
    return None
