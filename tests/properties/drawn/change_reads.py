"""Reads of the changes of a drawn table by engines, compared with its model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from drawn import changes
from drawn.agreement import address_of
from drawn.changes import INSERTED, RowChange
from drawn.models.model import Columns, Row, arrow_rows
from drawn.predicates import sql
from drawn.strategies.changes import ChangesRead, DrawnRange
from drawn.strategies.histories import DrawnHistory
from harness.diff.canonical import canonical_rows
from harness.errors import HarnessError
from harness.metadata.model.schema import CHANGES, SNAPSHOT_CHANGES
from harness.suite.oracle_engine import read_with_oracle
from harness.suite.scenarios.model import ScenarioHistory
from harness.table import open_table

MOMENTS = {"iceberg": tuple(SNAPSHOT_CHANGES.values()), "delta": (CHANGES["_change_type"], CHANGES["_commit_version"])}
"""The columns of changes that the model computes."""


class WrongChangesError(AssertionError):
    """An engine reads other changes than the model computes."""


@dataclass(frozen=True, slots=True)
class DrawnChanges:
    """A read of the changes in a range of a drawn table."""

    history: ScenarioHistory
    drawn: DrawnHistory
    span: DrawnRange
    read: ChangesRead

    def check(self, engine: str) -> None:
        """Read the changes with an engine.

        Raises:
            WrongChangesError: The engine fails, or returns other changes than the model computes.
        """
        made = self.by_model()
        expected = changes.matching(made, self.columns, self.read.where)
        try:
            got = self.by(engine)
        except HarnessError as error:
            if any(change.kind == changes.OPEN for change in made) and "keys" in str(error):
                return
            raise self._wrong(engine, f"{type(error).__name__}: {error}") from error
        if any(change.kind == changes.OPEN for change in expected):
            raise self._wrong(engine, f"{got.num_rows} rows in place of an error, because the keys identify no rows")
        if self.read.columns is None and self.read.where is None and self.read.mode != "appends":
            self._check_law(engine, got)
        self._check_rows(engine, got, self._arrow(expected))

    def by(self, engine: str) -> pa.Table:
        """Return the changes that an engine reads."""
        table, read, span = open_table(address_of(self.history)), self.read, self.span
        options: dict[str, Any] = {"from_inclusive": span.is_inclusive, "mode": read.mode}
        if read.keys:
            options["keys"] = read.keys
        shown: dict[str, Any] = {"columns": self._names(), "where": None if read.where is None else sql(read.where)}
        first, end = self._moment(span.first), self.history.resolve(span.end)
        if engine == "oracle":
            last = end.ref or end.snapshot_id or end.version
            return read_with_oracle(address_of(self.history), changes={"from_": first, "to": last, **options}, **shown)
        return table.changes(first, end.moment, **shown, **options).to_arrow(engine=engine)

    def by_model(self) -> list[RowChange]:
        """Return the changes that the model computes, without regard to the filter."""
        commits, columns, read = self.span.commits, self.columns, self.read
        match read.mode:
            case "appends":
                return changes.appends(commits, columns)
            case "changelog":
                return changes.changelog(commits, columns)
            case "net":
                return changes.net(commits, columns)
            case "updates":
                keys = tuple(f for f in columns if f.name in read.keys)
                return changes.updates(changes.changelog(commits, columns), keys)

    @property
    def columns(self) -> Columns:
        """The columns of the table at the end of the range."""
        return self.drawn.model.columns_at(self.span.end)

    @property
    def moments(self) -> Columns:
        """The columns of changes."""
        return MOMENTS[self.drawn.format]

    def __str__(self) -> str:
        read, span = self.read, self.span
        where = "" if read.where is None else f" where {sql(read.where)}"
        return f"{read.mode} {span}, columns {read.columns}, keys {read.keys}{where}"

    def _names(self) -> tuple[str, ...]:
        columns = self.read.columns or tuple(f.name for f in self.columns)
        return (*columns, *(f.name for f in self.moments))

    def _moment(self, name: str | int | None) -> Any:
        return self.history.commits[name] if isinstance(name, str) else name

    def _check_law(self, engine: str, got: pa.Table) -> None:
        """Check that the changes lead from the rows of one end to the rows of the other."""
        commits, names = self.span.commits, [f.name for f in self.columns]
        before, after = (
            Counter(canonical_rows(arrow_rows(self.columns, rows), names))
            for rows in (
                (commits[0].before.rows(self.columns), commits[-1].after.rows(self.columns)) if commits else ((), ())
            )
        )
        for *row, kind in canonical_rows(got, [*names, "_change_type"]):
            (before if kind.decode() in INSERTED else after)[tuple(row)] += 1
        if problem := difference(after, before):
            raise self._wrong(engine, f"the rows of from + inserts - deletes are not those of to: {problem}")

    def _check_rows(self, engine: str, got: pa.Table, expected: pa.Table) -> None:
        """Check the changes one by one."""
        if got.schema.names != expected.schema.names or got.schema.types != expected.schema.types:
            raise self._wrong(engine, f"columns {got.schema}, expected {expected.schema}")
        rows = [Counter(canonical_rows(each, each.schema.names)) for each in (expected, got)]
        if any(commit.uncovers for commit in self.span.commits):
            # A file whose deletes were removed counts as removed and added. So more rows may be equal and left out, and
            # a net change may have a later commit.
            reduced = self._without_moments if self.read.mode == "net" else self._balance
            rows = [reduced(got.schema.names, each) for each in rows]
        if problem := difference(*rows):
            raise self._wrong(engine, problem)

    def _without_moments(self, names: list[str], rows: Counter[Hashable]) -> Counter[Hashable]:
        """Return the rows without the columns of commits."""
        kept = [i for i, name in enumerate(names) if name not in ("_change_ordinal", "_commit_snapshot_id")]
        shorter = Counter[Hashable]()
        for row, count in rows.items():
            shorter[tuple(row[i] for i in kept)] += count
        return shorter

    def _balance(self, names: list[str], rows: Counter[Hashable]) -> Counter[Hashable]:
        """Return the rows without those that one commit inserted and deleted, and without kinds of changes."""
        place, balance = names.index("_change_type"), Counter[tuple[Hashable, ...]]()
        for row, count in rows.items():
            added = row[place].decode() in INSERTED
            balance[(*row[:place], *row[place + 1 :])] += count if added else -count
        return Counter({(*row, count > 0): abs(count) for row, count in balance.items() if count})

    def _wrong(self, engine: str, problem: str) -> WrongChangesError:
        return WrongChangesError(f"{engine}: {self}: {problem}")

    def _arrow(self, made: list[RowChange]) -> pa.Table:
        by_name = {f.name: f for f in self.columns}
        chosen = self.columns if self.read.columns is None else tuple(by_name[n] for n in self.read.columns)
        fields = (*chosen, *(replace(f, id=-1 - i) for i, f in enumerate(self.moments)))
        return arrow_rows(fields, [c.row | self._moment_values(c) for c in made])

    def _moment_values(self, change: RowChange) -> Row:
        if self.drawn.format == "delta":
            return {-1: change.kind, -2: change.commit}
        return {-1: change.kind, -2: change.ordinal, -3: self.history.commits[change.commit]}


def difference(expected: Counter[Hashable], got: Counter[Hashable]) -> str | None:
    """Return the missing and the unexpected rows as text, or None if there are none."""
    parts = (("missing", expected - got), ("unexpected", got - expected))
    texts = [f"{name} {sorted(rows.elements(), key=repr)}" for name, rows in parts if rows]
    return ", ".join(texts) or None
