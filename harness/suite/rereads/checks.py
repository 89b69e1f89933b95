"""Rereads of one engine on one table: two reads that must agree, their outcome, and how to see it again.

`harness.suite.rereads.shapes` has the table of shapes, which are these reads.
"""

from __future__ import annotations

import datetime
import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.diff.compare import compare
from harness.diff.exact import TypesRule
from harness.diff.result import BatchEntry, BatchOutcome, batch_entry
from harness.errors import HarnessError, UnsupportedError, counted, visible
from harness.metadata.filters.sqltext import quoted, text
from harness.storage.records import dataclass
from harness.suite.rereads.reads import Copies, ReadRequest, SnapshotReads

MAX_COLUMNS = 12
"""Columns that are read alone, and whose values make filters: the first ones of a table."""
_MAX_LENGTH = 40  # characters of a text in a filter


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnCondition:
    """A condition on a column. shape: with `{}` for the column and each value. values: in Python, and as SQL literals.

    is_main: also for reads that are made once for a column.
    """

    column: str
    shape: str
    values: tuple[tuple[Any, str], ...] = ()
    is_main: bool = False

    @property
    def where(self) -> str:
        """The condition in DuckDB's SQL."""
        return self.shape.format(quoted(self.column), *(literal for _, literal in self.values))

    @property
    def with_parameters(self) -> str:
        """The condition with `?` in place of each value."""
        return self.shape.format(quoted(self.column), *("?" for _ in self.values))


@dataclass(frozen=True, slots=True)
class FilteredRows:
    """The rows where a condition holds."""

    condition: ColumnCondition
    rows: pa.Table

    @property
    def label(self) -> str:
        """The condition in the names of checks."""
        return self.condition.where.replace('"', "")


@dataclass(slots=True, kw_only=True)
class Rereads:
    """The checks of an engine on a table.

    whole: all rows, as the engine gave them. engine_name: for commands.
    declined: by shape, the reads that the engine declined.
    """

    reads: SnapshotReads
    whole: pa.Table
    copies: Copies
    engine_name: str
    max_rows: int
    declined: Counter[str] = field(default_factory=Counter)
    _query_rows: pa.Table | None = None

    def entries(self, shapes: Sequence[QueryShape]) -> Iterator[tuple[QueryShape, BatchEntry]]:
        """The checks of these shapes, those of the table first."""
        for shape in shapes:
            if shape.table_checks is not None:
                yield from self._entries(shape, shape.table_checks(self))
        by_condition = [(shape, shape.condition_checks) for shape in shapes if shape.condition_checks is not None]
        of_filters = next((shape for shape, _ in by_condition if shape.name == "filters"), None)
        for condition in self._conditions() if by_condition else ():
            try:
                filtered = FilteredRows(condition, self.reads.rows(ReadRequest(where=condition.where)))
            except UnsupportedError:
                self.declined[(of_filters or by_condition[0][0]).name] += 1
            except HarnessError as error:
                entry = BatchEntry(
                    name=f"rows where {condition.where}", outcome=BatchOutcome.FAILED, message=str(error)
                )
                yield of_filters or by_condition[0][0], entry
            else:
                for shape, condition_checks in by_condition:
                    yield from self._entries(shape, condition_checks(self, filtered))

    def all_rows(self, *, by_query: bool) -> pa.Table:
        """All rows. by_query: as a query gives them, in the types of queries."""
        if not by_query:
            return self.whole
        if self._query_rows is None:
            self._query_rows = self.reads.rows(ReadRequest(), by_query=True)
        return self._query_rows

    @property
    def names(self) -> list[str]:
        """The columns that are read alone, and whose values make filters."""
        return list(self.whole.column_names[:MAX_COLUMNS])

    def _conditions(self) -> Iterator[ColumnCondition]:
        for name in self.names:
            yield from _conditions(name, self.whole.column(name))

    def _entries(self, shape: QueryShape, checks: Iterable[Reread]) -> Iterator[tuple[QueryShape, BatchEntry]]:
        if shape.needs is not None and shape.needs not in self.reads.options():
            self.declined[shape.name] += 1
            return
        try:
            for check in checks:
                entry = self._entry_or_none(shape, check)
                if entry is not None:
                    yield shape, entry
        except UnsupportedError:  # between checks: of a copy that cannot be made
            self.declined[shape.name] += 1
        except HarnessError as error:
            yield shape, BatchEntry(name=shape.name, outcome=BatchOutcome.FAILED, message=str(error))

    def _entry_or_none(self, shape: QueryShape, check: Reread) -> BatchEntry | None:
        """The outcome of a check; None: the engine declines it, which is counted."""
        try:
            entry = self._entry(shape, check)
        except UnsupportedError:
            self.declined[shape.name] += 1
            return None
        except (HarnessError, pa.ArrowException) as error:  # of parts whose types have nothing in common
            return BatchEntry(name=check.name, outcome=BatchOutcome.FAILED, message=str(error))
        if entry is None:
            self.declined["counts"] += 1
        return entry

    def _entry(self, shape: QueryShape, check: Reread) -> BatchEntry | None:
        """The outcome of a check; None: the engine does not count. Raises UnsupportedError: it declines a read."""
        try:
            expected = check.expected()
        except HarnessError as error:  # of the files of an older moment, say
            raise UnsupportedError(f"The first read fails: {error.message}") from error
        actual = check.actual()
        if actual is None:
            return None
        if isinstance(actual, int):
            outcome = BatchOutcome.EQUAL if actual == expected.num_rows else BatchOutcome.DIFFERENT
            message = f"counted {actual:,}, read {counted(expected.num_rows, 'row')}"
            entry = BatchEntry(name=check.name, outcome=outcome, message=message, report=message)
        else:
            # Readers of other projects may give one column in two types, whose values are the same.
            types: TypesRule | None = None if self.reads.engine.read is None else "by_value"
            names = check.expected_name, check.name
            compared = compare(expected, actual, names=names, max_rows=self.max_rows, types=types)
            entry = batch_entry(check.name, compared)
            if check.limit is not None:
                expected_count = min(check.limit, expected.num_rows)
                is_right = actual.num_rows == expected_count and not compared.only_right and not compared.counted_schema_differences
                extra = f", {compared.only_right:,} of them not in {check.expected_name}" if compared.only_right else ""
                message = f"{counted(actual.num_rows, 'row')} of {expected_count:,}{extra}"
                outcome = BatchOutcome.EQUAL if is_right else BatchOutcome.DIFFERENT
                entry = replace(entry, outcome=outcome, message=message)
        if entry.outcome is not BatchOutcome.DIFFERENT:
            return entry
        parts = {
            check.expected_name: check.expected_requests,
            check.name: check.requests,
            "again": [self._command(shape)],
        }
        lines = [line for title, each in parts.items() for line in (f"{title}:", *(f"  {part}" for part in each))]
        lines = [visible(line) for line in lines]
        return replace(entry, commands=tuple(lines), report="\n".join([*lines, "", entry.report or ""]))

    def _command(self, shape: QueryShape) -> str:
        """Return the command that shows a difference again."""
        snapshot = self.reads.snapshot
        current = snapshot._source.current
        at = [] if current is None or snapshot.id == current.id else ["--at", str(snapshot.id)]
        words = [snapshot._source.location, "--engine", self.engine_name, *at, "--shapes", shape.name]
        return shlex.join(["harness", "scenarios", "reread", *words])


@dataclass(frozen=True, slots=True, kw_only=True)
class Reread:
    """Two reads that must agree.

    name: of the second read; left: of the first. expected: the rows of the first; found: those of the second, or a
    number of rows, or None, where the engine has no such read. of, requests: both reads, for people.
    limit: the second gives so many rows of the first; None: all.
    """

    name: str
    expected: Callable[[], pa.Table]
    actual: Callable[[], pa.Table | int | None]
    requests: Sequence[ReadRequest | str]
    expected_name: str = "all rows"
    expected_requests: Sequence[ReadRequest | str] = (ReadRequest(),)
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryShape:
    """A way of reading, and the rows that it must give.

    read, holds: in words. needs: the option that an engine must take; None: none.
    of_table, of_condition: the checks of a table, and those of each condition.
    """

    name: str
    read: str
    result: str
    needs: str | None = None
    table_checks: Callable[[Rereads], Iterator[Reread]] | None = None
    condition_checks: Callable[[Rereads, FilteredRows], Iterator[Reread]] | None = None


# Conditions, by the values that a table has.


def _conditions(name: str, column: pa.ChunkedArray) -> Iterator[ColumnCondition]:
    """Conditions on a column by which a reader may skip files, with the least, middle and greatest value."""
    values = _values(column)
    yield ColumnCondition(column=name, shape="{} IS NULL")
    if not values:
        return
    least, middle, greatest = values[0], values[len(values) // 2], values[-1]
    yield ColumnCondition(column=name, shape="{} = {}", values=(middle,), is_main=True)
    yield ColumnCondition(column=name, shape="{} IN ({}, {})", values=(least, greatest))
    for value in {literal: (each, literal) for each, literal in (least, greatest) if literal != middle[1]}.values():
        yield ColumnCondition(column=name, shape="{} = {}", values=(value,))
    yield ColumnCondition(column=name, shape="{} < {}", values=(middle,))
    yield ColumnCondition(column=name, shape="{} <> {}", values=(middle,))


def _values(column: pa.ChunkedArray) -> Sequence[tuple[object, str]]:
    """The distinct values of a column with SQL literals, in ascending order; none where no reader compares the type."""
    kind = column.type
    simple = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_date)
    if not (any(test(kind) for test in (*simple, pa.types.is_string, pa.types.is_large_string))):
        return ()
    distinct = pc.unique(column.combine_chunks()).drop_null()
    if pa.types.is_date(kind):  # Python's have the years 1 to 9999
        first, last = (pa.scalar(day, kind) for day in (datetime.date.min, datetime.date.max))
        distinct = distinct.filter(pc.and_(pc.greater_equal(distinct, first), pc.less_equal(distinct, last)))
    literals = {value: literal for value in distinct.to_pylist() if (literal := _literal(value)) is not None}
    return [(value, literals[value]) for value in sorted(literals)]


def _literal(value: object) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value) if math.isfinite(value) else None
        case str():
            return text(value) if len(value) <= _MAX_LENGTH and value.isprintable() else None
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
        case Decimal():
            return f"{value:f}"
        case _:
            return str(value)
