"""Reads of small tables by every engine, compared with the rows that they must return.

Every read is planned. The oracle reads independently. A plan that was already read with the same expected rows is not
read again: a checkpoint, for example, does not change a version.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from packing import fingerprint, pack_plans, plan_signature
from scenario_text import dump

from harness.engines.registry import find_engine
from harness.metadata.plan.scan_plan import ScanPlan
from harness.metadata.planned_scan import PlannedScan
from harness.queries.sql import sql
from harness.suite.oracle_engine import read_with_oracle
from harness.suite.scenarios.model import ResolvedSelector, Scenario
from harness.table import Table, open_table

ROOT = Path(__file__).parents[3]
Rows: TypeAlias = Sequence[tuple[Any, ...]]
_TYPES = {name: pa.string() for name in ("p", "_change_type")} | {
    name: pa.int64() for name in ("_commit_snapshot_id", "_commit_version")
}
"""The types of columns. All others are integers of 32 bits."""


@dataclass(frozen=True, kw_only=True)
class CheckedRead:
    """A read and its expected result.

    Attributes:
        of: The owner of the read, for reports.
        address: The address of the table.
        names: The names of the result's columns.
        asked: The requested columns. None for all.
        counted: If true, the read is `count(*)` in SQL.
        earlier: If true, the same point was read when it was new, so the oracle, which plans again, does not read it.
    """

    of: Any
    address: str
    at: ResolvedSelector
    names: Sequence[str]
    rows: Rows
    asked: Sequence[str] | None = None
    where: str | None = None
    counted: bool = False
    earlier: bool = False

    def plan(self, table: Table) -> PlannedScan:
        """Plan the read."""
        return table.snapshot(self.at.moment).plan(self.asked, self.where)

    def problem(self, got: pa.Table, rows: Rows) -> str | None:
        """Return the difference between the result and the expected rows, or None."""
        types = [_TYPES.get(name, pa.int32()) for name in self.names]
        found = got.select(got.column_names[: len(types)])
        if found.column_names != list(self.names) or found.schema.types != types:
            return f"columns {found.schema.to_string()!r}, expected {', '.join(self.names)}"
        return difference(rows, self.rows)


@dataclass(frozen=True, kw_only=True)
class CheckedChanges(CheckedRead):
    """A read of changes and its expected result.

    Attributes:
        begin: The snapshot or version at which the range begins. None for the oldest snapshot.
        inclusive: Whether the changes of `begin` are in the range.
        mode: The mode.
        earlier: Always true, because the oracle reads no changes.
    """

    begin: int | None
    inclusive: bool
    mode: str = "changelog"
    earlier: bool = True

    def plan(self, table: Table) -> PlannedScan:
        options = {"from_inclusive": self.inclusive, "mode": self.mode, "columns": self.names}
        return table.changes(self.begin, self.at.moment, **options).plan


@dataclass(frozen=True)
class Failure:
    """A read whose result differs from the expected rows."""

    read: CheckedRead
    engine: str
    problem: str


def keep_scenario(name: str, scenario: Scenario) -> str:
    """Write the file of a scenario and return its path in the repository."""
    place = ROOT / "build/repro" / f"{name}.yaml"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(dump(scenario), encoding="utf-8")
    return str(place.relative_to(ROOT))


def rows_of(table: pa.Table) -> Rows:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def difference(got: Rows, expected: Rows) -> str | None:
    """Return the missing and the unexpected rows as text, or None if there are none."""
    missing, more = Counter(expected) - Counter(got), Counter(got) - Counter(expected)
    told = [f"{what} {sorted(rows.elements(), key=repr)}" for what, rows in (("lacks", missing), ("has", more)) if rows]
    return ", ".join(told) or None


@dataclass
class TableReading:
    """The reads so far.

    Attributes:
        engines: The readers: duckdb, oracle, spark.
        counts: The number of points, and of reads by engine.
    """

    engines: Sequence[str]
    counts: Counter[str] = field(default_factory=Counter)
    _known: dict[object, Counter[tuple[Any, ...]]] = field(default_factory=dict)

    def __str__(self) -> str:
        read = ", ".join(f"{engine}: {self.counts[engine]}" for engine in self.engines)
        return f"{self.counts['points']} reads planned, those that differ read by {read}"

    def failures(self, reads: Iterable[CheckedRead]) -> list[Failure]:
        """Return the failures of some reads. Those of Spark, which reads many tables at once, come last."""
        found: list[Failure] = []
        groups: dict[object, list[tuple[CheckedRead, ScanPlan]]] = {}
        table: tuple[str, Table] | None = None
        for read in reads:
            self.counts["points"] += 1
            try:
                if table is None or table[0] != read.address:
                    table = read.address, open_table(read.address)
                if read.counted:
                    snapshot = table[1].snapshot(read.at.moment)
                    found += self._counted(read, sql("SELECT count(*) FROM t", {"t": snapshot}).fetchall())
                    continue
                plan = read.plan(table[1])
                if self._is_new(read, plan):
                    found += self._by("duckdb", read, plan)
                    groups.setdefault(plan_signature(plan), []).append((read, plan))
            except Exception as error:  # every exception is a failure
                found.append(Failure(read, "duckdb", f"{type(error).__name__}: {error}"))
            if "oracle" in self.engines and not read.earlier:
                found += self._by_oracle(read)
        if "spark" in self.engines:
            found += [failure for group in groups.values() for failure in self._by_spark(group)]
        return found

    def _is_new(self, read: CheckedRead, plan: ScanPlan) -> bool:
        """Return whether no plan with the same fingerprint was compared with the same rows."""
        key, rows = fingerprint(plan), Counter(read.rows)
        if self._known.get(key) == rows:
            return False
        self._known[key] = rows
        return True

    def _by(self, engine: str, read: CheckedRead, plan: ScanPlan) -> list[Failure]:
        if engine not in self.engines:
            return []
        return self._judged(engine, read, lambda: find_engine(engine).to_arrow(plan))

    def _by_oracle(self, read: CheckedRead) -> list[Failure]:
        at = {"snapshot_id": read.at.snapshot_id, "version": read.at.version}
        return self._judged(
            "oracle", read, lambda: read_with_oracle(read.address, columns=read.asked, where=read.where, **at)
        )

    def _judged(self, engine: str, read: CheckedRead, read_table: Callable[[], pa.Table]) -> list[Failure]:
        self.counts[engine] += 1
        try:
            got = read_table()
            problem = read.problem(got, rows_of(got))
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        return [] if problem is None else [Failure(read, engine, problem)]

    def _counted(self, read: CheckedRead, got: Rows) -> list[Failure]:
        problem = difference(got, [(len(read.rows),)])
        return [] if problem is None else [Failure(read, "duckdb", f"count(*) {problem}")]

    def _by_spark(self, group: Sequence[tuple[CheckedRead, ScanPlan]]) -> list[Failure]:
        """Read a group of plans with equal signatures as one plan."""
        if len(group) == 1:
            return self._by("spark", *group[0])
        try:
            got = find_engine("spark").to_arrow(pack_plans([plan for _, plan in group]))
        except Exception:  # one of them fails: it is found by bisection
            middle = len(group) // 2
            return [failure for half in (group[:middle], group[middle:]) for failure in self._by_spark(half)]
        self.counts["spark"] += len(group)
        own: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        for *row, owner in rows_of(got):
            own[owner].append(tuple(row))
        problems = [(read, read.problem(got, own[str(number)])) for number, (read, _) in enumerate(group)]
        return [Failure(read, "spark", problem) for read, problem in problems if problem is not None]
