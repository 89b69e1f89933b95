"""Outcomes of reads, and the readers: DuckDB and Spark with harness's plan, and the oracle with its own."""

import dataclasses
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
from fuzz_subjects import SubjectRead

import harness
from harness.check import reports
from harness.engines.registry import find_engine
from harness.suite.json_rows import json_value
from harness.suite.oracle_engine import read_with_oracle
from harness.suite.scenarios.model import ResolvedSelector
from harness.table import open_table

_PACKAGE = Path(harness.__file__).parent


@dataclass(frozen=True, slots=True)
class ReadRows:
    """The outcome with rows.

    Attributes:
        types: The names and types.
        counts: The number of occurrences of each row, as text.
    """

    types: tuple[str, ...]
    counts: Counter[str]

    def __str__(self) -> str:
        return f"{self.counts.total()} rows of {', '.join(self.types)}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The outcome with a HarnessError, and its text."""

    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Leak:
    """The outcome with another exception. `place` are the last lines of harness in its traceback."""

    kind: str
    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.place}: {self.text}"


Outcome: TypeAlias = ReadRows | Refusal | Leak


def by_duckdb(address: str, read: SubjectRead, prune: str = "files", **options: Any) -> Outcome:
    """Return the outcome for a user who also looks at the table and its plan. `options` are those of `open_table`.

    By default, summaries do not skip manifests: a mutant may change them undetectably, and they are trusted (iceberg
    3.9).
    """

    def run_read() -> pa.Table:
        table = open_table(address, prune=prune, **options)
        if read.changes is not None:
            return table.changes(**read.changes.arguments(), columns=read.columns, where=read.where).to_arrow()
        plan = table.snapshot(ResolvedSelector(**read.at).moment).plan(read.columns, read.where)
        rows = find_engine("duckdb").to_arrow(plan)
        plan.explain()
        return rows

    return outcome_of(run_read)


def description(address: str) -> Refusal | Leak | None:
    """Return the outcome of what `harness info` reads, or None if it succeeds."""

    def run_read() -> None:
        table = open_table(address)
        table.describe(), table.snapshots(), table.refs(), table.warnings, table.history()

    outcome = outcome_of(run_read)
    return None if isinstance(outcome, ReadRows) else outcome


def checked(address: str) -> Refusal | Leak | None:
    """Return the error of `harness check` or one of its reports, or None if it succeeds, with or without findings."""

    def run_read() -> None:
        report = open_table(address).check(level="data", all_snapshots=True, orphans=True)
        for form in ("text", "json", "junit", "github", "sarif", "html"):
            getattr(reports, f"to_{form}")(report).encode("utf-8", "backslashreplace")

    outcome = outcome_of(run_read)
    return None if isinstance(outcome, ReadRows) else outcome


def by_oracle(address: str, read: SubjectRead, **options: Any) -> Outcome:
    """Return the oracle's outcome, with its own plan. `options` are those of `read_with_oracle`."""
    changes = None if read.changes is None else dataclasses.asdict(read.changes)
    arguments = {"changes": changes, "columns": read.columns, "where": read.where}
    return outcome_of(lambda: read_with_oracle(address, **read.at, **arguments, **options))


def by_spark(address: str, read: SubjectRead) -> Outcome:
    """Return Spark's outcome with harness's plan."""

    def run_read() -> pa.Table:
        table = open_table(address)
        if read.changes is not None:
            changes = table.changes(**read.changes.arguments(), columns=read.columns, where=read.where)
            return changes.to_arrow(engine="spark")
        return table.snapshot(ResolvedSelector(**read.at).moment).to_arrow(
            columns=read.columns, where=read.where, engine="spark"
        )

    return outcome_of(run_read)


def counted(rows: pa.Table) -> ReadRows:
    """Return the rows as a multiset of exact texts: -0.0 differs from 0.0, and NaNs may differ."""
    return ReadRows(tuple(f"{field.name} {field.type}" for field in rows.schema), Counter(lines_of(rows)))


def lines_of(rows: pa.Table) -> list[str]:
    """Return the rows as texts, in their order."""
    columns = [_texts(column) for column in rows.columns]
    return ["\x1f".join(row) for row in zip(*columns, strict=True)] if columns else [""] * rows.num_rows


def outcome_of(read: Callable[[], pa.Table | None], count: Callable[[pa.Table], ReadRows] = counted) -> Outcome:
    """Return the outcome of a read. `count` converts the rows that it returns."""
    try:
        rows = read()
        return count(pa.table({}) if rows is None else rows)
    except harness.HarnessError as error:
        return Refusal(f"{type(error).__name__}: {error}")
    except Exception as error:
        return Leak(type(error).__name__, _place(error), " ".join(str(error).split())[:300])


def _texts(column: pa.ChunkedArray) -> list[str]:
    kind = column.type
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        column = column.cast(width)
    if pa.types.is_nested(kind) or isinstance(kind, pa.ExtensionType) or pa.types.is_decimal(kind):
        values: list[Any] = [json_value(scalar) for scalar in column]
    else:
        values = column.to_pylist()
    return list(map(repr, values))


def _place(error: Exception) -> str:
    """Return the innermost two functions of harness, by file and name, which are the same for the same fault."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(_PACKAGE)
    ]
    names = [f"{Path(frame.filename).relative_to(_PACKAGE)}:{frame.name}" for frame in frames]
    return " < ".join(list(dict.fromkeys(reversed(names)))[:2]) or "nowhere in harness"
