"""A reader against itself: reads of one snapshot that must agree, whatever the right rows are.

All rows are the rows where a condition holds, with those where it does not and those where its column is null. Each
column alone is the column of all rows. A count is the number of rows. A filter skips files and row groups, a projection
leaves columns out, and a count may ask the metadata alone: where one of them forgets deletes or trusts a wrong bound,
two answers differ. Needs neither a second reader nor an oracle.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.differ.compare import compare
from harness.differ.opening import engine_version
from harness.differ.result import Batch, BatchEntry, BatchOutcome, entry_of
from harness.engines.registry import CountingEngine, Engine, find_engine
from harness.errors import HarnessError, UnsupportedError, counted
from harness.metadata.filters.sqltext import quoted, text
from harness.snapshot import Snapshot
from harness.storage.records import dataclass
from harness.storage.threads import phase

MOST_COLUMNS = 12
"""Columns that are read alone, and whose values make filters: the first ones of a table."""
_LONGEST = 40  # characters of a text in a filter


def against_itself(snapshot: Snapshot, engine: str = "duckdb", *, max_rows: int = 20) -> Batch:
    """Reads a snapshot in many ways that must agree: once whole, and by columns, filters and counts.

    All rows of the snapshot are held in memory. Filters compare columns with values that the table has. A read that the
    engine declines is left out, and counted in the title.

    Args:
        engine: an engine, or a reader of another project, as for `harness.compare`.
        max_rows: differing rows that each report shows.

    Raises:
        RequestError: there is no such engine. Other HarnessErrors: as reading all rows raises.
    """
    found = _Reads(snapshot, find_engine(engine))
    with phase("reading all rows"):
        whole = found.read(None, None)
    checks = _Checks(found, whole, max_rows)
    entries: list[BatchEntry] = []
    with phase("reading in other ways", unit="checks") as advance:
        for entry in checks.entries():
            entries.append(entry)
            advance(1)
    declined = f", {counted(checks.declined, 'read')} declined" if checks.declined else ""
    numbers = f"{counted(len(entries), 'check')} of {counted(whole.num_rows, 'row')}{declined}"
    title = f"{engine_version(engine)} against itself, {numbers}"
    return Batch(title=title, sides=("all rows, then", "asked of the reader"), entries=tuple(entries))


@dataclass(frozen=True, slots=True)
class _Reads:
    """Reads of a snapshot by an engine."""

    snapshot: Snapshot
    engine: Engine

    def read(self, columns: tuple[str, ...] | None, where: str | None) -> pa.Table:
        """The rows."""
        return self.engine.to_arrow(self.snapshot.plan(columns, where))

    def count(self, where: str | None) -> int | None:
        """The number of rows, as the engine counts them; None: it does not."""
        if self.engine.name == "duckdb":
            return self.snapshot.count(where=where)
        return self.engine.count(self.snapshot.plan((), where)) if isinstance(self.engine, CountingEngine) else None


@dataclass(slots=True)
class _Checks:
    """The checks of an engine. whole: all rows, as the engine gave them. declined: reads that it declined."""

    reads: _Reads
    whole: pa.Table
    max_rows: int
    declined: int = 0

    def entries(self) -> Iterator[BatchEntry]:
        """All checks, in the order of what they need."""
        names = self.whole.column_names[:MOST_COLUMNS]
        yield from self._counted("count(*)", None, lambda: self.whole.num_rows)
        yield from self._same("all rows again", lambda: (self.whole, self.reads.read(None, None)))
        yield from self._same("columns in reverse", partial(self._columns, tuple(reversed(names))))
        for name in names if len(names) > 1 else ():
            alone = partial(self._columns, (name,))
            yield from self._same(f"column {name} alone", alone)
        for name in names:
            for condition in _conditions(name, self.whole.column(name)):
                yield from self._parts(name, condition)

    def _columns(self, columns: tuple[str, ...]) -> tuple[pa.Table, pa.Table]:
        """Some columns of all rows, and the same asked of the reader."""
        return self.whole.select(columns), self.reads.read(columns, None)

    def _parts(self, name: str, condition: str) -> Iterator[BatchEntry]:
        """The rows where a condition holds, where it does not, and where its column is null, are all rows."""
        rows: list[pa.Table] = []

        def parts() -> tuple[pa.Table, pa.Table]:
            is_null = f"{quoted(name)} IS NULL"
            asked = (condition, f"NOT ({condition})", *(() if condition == is_null else (is_null,)))
            rows.extend(self.reads.read(None, where) for where in asked)
            return self.whole, pa.concat_tables(rows, promote_options="permissive")

        shown = condition.replace('"', "")
        yield from self._same(f"{shown}, or not, or null", parts)
        if not rows:  # the condition was declined; where its contrary was, its own rows are known
            return
        kept = rows[0]
        yield from self._counted(f"count(*) where {shown}", condition, lambda: kept.num_rows)
        others = [each for each in self.whole.column_names[:MOST_COLUMNS] if each != name][:1]
        if others:
            yield from self._same(
                f"{others[0]} where {shown}",
                lambda: (kept.select(others), self.reads.read(tuple(others), condition)),
            )

    def _same(self, name: str, rows: Callable[[], tuple[pa.Table, pa.Table]]) -> Iterator[BatchEntry]:
        """The entry of two reads that must agree; none where the engine declines."""
        try:
            left, right = rows()
            found = compare(left, right, names=("all rows", name), max_rows=self.max_rows)
        except UnsupportedError:
            self.declined += 1
        except (HarnessError, pa.ArrowException) as error:  # of parts whose types have nothing in common
            yield BatchEntry(name=name, outcome=BatchOutcome.FAILED, message=str(error))
        else:
            yield entry_of(name, found)

    def _counted(self, name: str, where: str | None, rows: Callable[[], int]) -> Iterator[BatchEntry]:
        """The entry of a count beside a number of rows; none where the engine does not count."""
        try:
            count = self.reads.count(where)
        except UnsupportedError:
            self.declined += 1
            return
        except HarnessError as error:
            yield BatchEntry(name=name, outcome=BatchOutcome.FAILED, message=str(error))
            return
        if count is not None:
            outcome = BatchOutcome.EQUAL if count == rows() else BatchOutcome.DIFFERENT
            yield BatchEntry(name=name, outcome=outcome, message=f"counted {count:,}, read {counted(rows(), 'row')}")


def _conditions(name: str, column: pa.ChunkedArray) -> Iterator[str]:
    """Conditions on a column by which a reader may skip files, with the least, middle and greatest value."""
    operand, values = quoted(name), _values(column)
    yield f"{operand} IS NULL"
    if values:
        least, middle, greatest = values[0], values[len(values) // 2], values[-1]
        yield from dict.fromkeys(f"{operand} = {value}" for value in (least, middle, greatest))
        yield f"{operand} < {middle}"
        yield f"{operand} <> {middle}"
        yield f"{operand} IN ({least}, {greatest})"


def _values(column: pa.ChunkedArray) -> Sequence[str]:
    """The distinct values of a column as SQL literals, in ascending order; none where no reader compares the type."""
    kind = column.type
    simple = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean, pa.types.is_date)
    if not (any(test(kind) for test in (*simple, pa.types.is_string, pa.types.is_large_string))):
        return ()
    found = pc.unique(column.combine_chunks()).drop_null()
    if pa.types.is_date(kind):  # Python's have the years 1 to 9999
        first, last = (pa.scalar(day, kind) for day in (datetime.date.min, datetime.date.max))
        found = found.filter(pc.and_(pc.greater_equal(found, first), pc.less_equal(found, last)))
    literals = {value: literal for value in found.to_pylist() if (literal := _literal(value)) is not None}
    return [literals[value] for value in sorted(literals)]


def _literal(value: Any) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return repr(value) if math.isfinite(value) else None
        case str():
            return text(value) if len(value) <= _LONGEST and value.isprintable() else None
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
        case Decimal():
            return f"{value:f}"
        case _:
            return str(value)
