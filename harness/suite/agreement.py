"""Readers against themselves on the suite's tables: `harness scenarios run --against-itself`.

Each table that a reader reads is read again by every shape of `harness.suite.itself`, with the scenario's own filters
and two conditions on each of few columns. All such reads must agree, whatever the scenario expects.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from harness.diff.result import BatchOutcome
from harness.engines.registry import engine_of, find_engine
from harness.errors import HarnessError
from harness.storage.gate import Outside
from harness.suite.asking import Ask, Copies, Reads
from harness.suite.checks import Checks, QueryShape
from harness.suite.other_engine import OtherEngine
from harness.suite.own import OwnReader, ReaderUnderTest
from harness.suite.results import Agreement, Violation
from harness.suite.scenarios.model import TableCase
from harness.suite.workers import Worker
from harness.table import open_table

_MAX_ROWS = 5
_FALSE = re.compile(r"(ICE|DEL)-5\d\d|ICE-2(03|06|07)|(ICE|DEL)-403|DEL-(109|205|207)")
"""Rules of `harness check` about values and rows. No reader agrees with itself where the metadata breaks them."""


def agreement_of(
    built: TableCase, reader: ReaderUnderTest | OwnReader, asked: str, shapes: Sequence[QueryShape]
) -> Agreement | None:
    """The agreement of a reader with itself on the newest snapshot of a table; None: it does not read it.

    Tables whose metadata contradicts their rows have none either.
    """
    if any(map(_FALSE.fullmatch, built.scenario.findings)):
        return None
    opening: dict[str, Any] = {}
    if isinstance(reader, OwnReader):
        engine = find_engine(reader.name)
        if reader.within is not None:
            opening = {"allowed_roots": (reader.within,), "outside": Outside.REFUSE.value}
    else:
        assert isinstance(reader, Worker), "every reader but our own is a worker"
        engine = engine_of(OtherEngine(reader), reader.name)
    current = (each for each in built.expectations if not each.at.arguments() and each.at.changes is None)
    filters = (each.where for each in current if isinstance(each.expected, pa.Table))
    try:
        reads = Reads(open_table(built.address, **opening).snapshot(), engine)
        whole = reads.rows(Ask())
    except HarnessError:
        return None
    with Copies(reads.snapshot) as copies:
        checks = Checks(
            reads=reads,
            whole=whole,
            copies=copies,
            asked=asked,
            max_rows=_MAX_ROWS,
            filters=tuple(dict.fromkeys(where for where in filters if where is not None)),
            is_short=True,
        )
        found = [Violation(shape.name, entry) for shape, entry in checks.entries(shapes)]
    violations = tuple(each for each in found if each.entry.outcome is not BatchOutcome.EQUAL)
    return Agreement(checks=len(found), declined=dict(checks.declined), violations=violations)
