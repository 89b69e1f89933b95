"""The checks of rereads: pairs of reads by one engine that must agree, with outcomes and commands to repeat them.

`harness.suite.rereads.shapes` has the table of shapes, which define these reads.
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
"""The number of columns, from the first on, that are read alone and whose values are used in filters."""
_MAX_LENGTH = 40  # the longest text in a filter, in characters


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnCondition:
    """A condition on a column.

    Attributes:
        shape: The condition with `{}` in place of the column and each value.
        values: The values in Python and as SQL literals.
        is_main: Whether the condition is also used for reads that are made once for each column.
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
    """The rows that satisfy a condition."""

    condition: ColumnCondition
    rows: pa.Table

    @property
    def label(self) -> str:
        """The condition as shown in the names of checks."""
        return self.condition.where.replace('"', "")


@dataclass(slots=True, kw_only=True)
class Rereads:
    """The checks of an engine on a table.

    Attributes:
        reads: The reads of the snapshot.
        whole: All rows, as the engine returned them.
        copies: The copies of the table.
        engine_name: The engine's name in commands.
        max_rows: The number of differing rows that each report shows.
        declined: The number of reads that the engine declined, by shape.
    """

    reads: SnapshotReads
    whole: pa.Table
    copies: Copies
    engine_name: str
    max_rows: int
    declined: Counter[str] = field(default_factory=Counter)
    _query_rows: pa.Table | None = None

    def entries(self, shapes: Sequence[QueryShape]) -> Iterator[tuple[QueryShape, BatchEntry]]:
        """Yield the checks of these shapes: first those on the whole table, then those for each condition."""
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
        """Return all rows. With `by_query`, they are the result of a query, with the types of query results."""
        if not by_query:
            return self.whole
        if self._query_rows is None:
            self._query_rows = self.reads.rows(ReadRequest(), by_query=True)
        return self._query_rows

    @property
    def names(self) -> list[str]:
        """The columns that are read alone and whose values are used in filters."""
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
        except UnsupportedError:  # raised between checks, for a copy that cannot be made
            self.declined[shape.name] += 1
        except HarnessError as error:
            yield shape, BatchEntry(name=shape.name, outcome=BatchOutcome.FAILED, message=str(error))

    def _entry_or_none(self, shape: QueryShape, check: Reread) -> BatchEntry | None:
        """Return the outcome of a check, or None if the engine declines it, which is counted."""
        try:
            entry = self._entry(shape, check)
        except UnsupportedError:
            self.declined[shape.name] += 1
            return None
        # for example, parts of a union have types without a common type
        except (HarnessError, pa.ArrowException) as error:
            return BatchEntry(name=check.name, outcome=BatchOutcome.FAILED, message=str(error))
        if entry is None:
            self.declined["counts"] += 1
        return entry

    def _entry(self, shape: QueryShape, check: Reread) -> BatchEntry | None:
        """Return the outcome of a check, or None if the engine does not count rows.

        Raises:
            UnsupportedError: The engine declines a read, or the first read fails.
        """
        try:
            expected = check.expected()
        except HarnessError as error:  # for example, files of an older snapshot are gone
            raise UnsupportedError(f"The first read fails: {error.message}") from error
        actual = check.actual()
        if actual is None:
            return None
        if isinstance(actual, int):
            outcome = BatchOutcome.EQUAL if actual == expected.num_rows else BatchOutcome.DIFFERENT
            message = f"counted {actual:,}, read {counted(expected.num_rows, 'row')}"
            entry = BatchEntry(name=check.name, outcome=outcome, message=message, report=message)
        else:
            # Readers of other projects may return a column in two types with the same values.
            types: TypesRule | None = None if self.reads.engine.read is None else "by_value"
            names = check.expected_name, check.name
            compared = compare(expected, actual, names=names, max_rows=self.max_rows, types=types)
            entry = batch_entry(check.name, compared)
            if check.limit is not None:
                expected_count = min(check.limit, expected.num_rows)
                is_right = (
                    actual.num_rows == expected_count
                    and not compared.only_right
                    and not compared.counted_schema_differences
                )
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
        """Return the command that repeats a check."""
        snapshot = self.reads.snapshot
        current = snapshot._source.current
        at = [] if current is None or snapshot.id == current.id else ["--at", str(snapshot.id)]
        words = [snapshot._source.location, "--engine", self.engine_name, *at, "--shapes", shape.name]
        return shlex.join(["harness", "scenarios", "reread", *words])


@dataclass(frozen=True, slots=True, kw_only=True)
class Reread:
    """Two reads that must agree.

    Attributes:
        name: The name of the second read.
        expected: Returns the rows of the first read.
        actual: Returns the rows of the second read, or their number, or None if the engine does not support the read.
        requests: The second read as text.
        expected_name: The name of the first read.
        expected_requests: The first read as text.
        limit: The number of rows of the first read that the second read must return. None means all.
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
    """A way of reading, and the rows that it must return.

    Attributes:
        read: The read in words.
        result: The expected rows in words.
        needs: The option that an engine must support. None if no option is needed.
        table_checks: Returns the checks of a table.
        condition_checks: Returns the checks for one condition.
    """

    name: str
    read: str
    result: str
    needs: str | None = None
    table_checks: Callable[[Rereads], Iterator[Reread]] | None = None
    condition_checks: Callable[[Rereads, FilteredRows], Iterator[Reread]] | None = None


def _conditions(name: str, column: pa.ChunkedArray) -> Iterator[ColumnCondition]:
    """Yield conditions on a column that let readers skip files, with the least, middle, and greatest value."""
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
    """Return the distinct values of a column with their SQL literals, in ascending order.

    The result is empty for types that some readers do not compare.
    """
    kind = column.type
    simple = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_date)
    if not (any(test(kind) for test in (*simple, pa.types.is_string, pa.types.is_large_string))):
        return ()
    distinct = pc.unique(column.combine_chunks()).drop_null()
    if pa.types.is_date(kind):  # Python's dates have the years 1 to 9999
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
