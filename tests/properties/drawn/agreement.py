"""Reads of a drawn table by engines, compared with its model.

The first difference is reported with everything that shows it.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import harness
from drawn.models.model import TableModel, arrow_rows, scenario_rows
from drawn.predicates import sql
from drawn.reads import Bound, FirstRows, ReadShape, Shape, answer, parameters, text
from drawn.strategies.histories import DrawnHistory
from harness.diff.compare import compare
from harness.diff.result import ComparisonResult, SchemaKind
from harness.errors import UnsupportedError
from harness.suite.oracle_engine import read_with_oracle
from harness.suite.scenarios.building import create_history
from harness.suite.scenarios.model import Expectation, Scenario, ScenarioHistory, Selector
from harness.table import open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Disagreement(AssertionError):
    """An engine reads other rows than the model contains.

    Attributes:
        drawn: The history that made the table.
        engine: The engine.
        shape: The shape of the read.
    """

    def __init__(self, message: str, *, drawn: DrawnHistory, engine: str, shape: Shape) -> None:
        super().__init__(message)
        self.drawn = drawn
        self.engine = engine
        self.shape = shape


@contextmanager
def build_table(drawn: DrawnHistory, directory: Path | None = None) -> Iterator[ScenarioHistory]:
    """Build the table of a history in `directory`, or in a temporary directory if it is None.

    Raises:
        HarnessError: An operation cannot be applied.
    """
    if directory is None:
        with (
            tempfile.TemporaryDirectory(prefix="harness-property-") as place,
            build_table(drawn, Path(place)) as history,
        ):
            yield history
        return
    history = create_history(scenario_of(drawn), directory)
    for operation in drawn.operations:
        history.apply(operation)
    yield history


def scenario_of(drawn: DrawnHistory, reads: Sequence[ReadShape] = ()) -> Scenario:
    """Return the scenario of a drawn table, which expects the model's rows for some reads."""
    return Scenario(
        name="drawn",
        path=None,
        title=f"A drawn history of {len(drawn.operations)} operations",
        format=drawn.format,
        clauses=(),
        features=(),
        table=drawn.table,
        history=drawn.operations,
        expectations=tuple(_expectation(drawn.model, read) for read in reads),
    )


def _expectation(model: TableModel, read: ReadShape) -> Expectation:
    columns, rows = answer(model, read)
    where = None if read.where is None else sql(read.where)
    return Expectation(at=read.at, columns=read.columns, where=where, rows=scenario_rows(columns, rows))


@dataclass(frozen=True, slots=True)
class DrawnRead:
    """A read of a drawn table, by its model and by engines."""

    history: ScenarioHistory
    drawn: DrawnHistory
    shape: Shape

    def by_model(self) -> pa.Table:
        """Return the rows that the model holds."""
        return arrow_rows(*answer(self.drawn.model, self.shape))

    def by(self, engine: str) -> Any:
        """Return the rows that an engine reads: a pyarrow Table, or a DuckDB relation.

        Raises:
            Disagreement: the engine fails.
            UnsupportedError: Spark refuses a query that it may answer differently. Every plain read without a filter
                must be answered.
        """
        try:
            return _result(self.history, self.shape, engine)
        except Exception as error:  # every failure of a reader is reported
            is_plain = isinstance(self.shape, ReadShape) and self.shape.where is None
            if isinstance(error, UnsupportedError) and engine == "spark" and not is_plain:
                raise
            raise self._disagreement(engine, f"{type(error).__name__}: {error}") from error

    def assert_same(self, **rows: Any) -> None:
        """Raise a Disagreement unless two readers have the same rows, types, and names, in the order of the query.

        Args:
            rows: The rows of each reader by its name, as returned by `by`. If one of the readers is the model, it comes
                first.
        """
        (first, expected), (second, got) = rows.items()
        problem = comparison_problem(compare(expected, got, names=(first, second)))
        if problem is None and isinstance(self.shape, FirstRows):
            # Compared in Arrow, because Python has no years after 9999.
            shown = pa.table(got).cast(pa.table(expected).schema)
            problem = None if shown.equals(pa.table(expected)) else f"The rows are in another order: {shown}"
        if problem is not None:
            raise self._disagreement(second, f"{first} and {second} differ: {problem}")

    def _disagreement(self, engine: str, problem: str) -> Disagreement:
        query = describe_shape(self.shape, self.history)
        return Disagreement(f"{engine}: {query}\n{problem}", drawn=self.drawn, engine=engine, shape=self.shape)


def comparison_problem(comparison: ComparisonResult) -> str | None:
    """Return a comparison's differences in rows, types, names, or their order as text, or None."""
    in_order = all(difference.kind is not SchemaKind.ORDER for difference in comparison.schema)
    return None if comparison.equal and in_order else comparison.to_text()


def describe_shape(shape: Shape, history: ScenarioHistory) -> str:
    """Return the query of a shape, with its parameters, over the table `t`."""
    query = text(shape, lambda at: _table(history, at))
    return f"{query}, parameters {parameters(shape)}" if isinstance(shape, Bound) else query


def address_of(history: ScenarioHistory) -> str:
    """Return the location to open."""
    return str(history.metadata_path or history.location)


def _result(history: ScenarioHistory, shape: Shape, engine: str) -> Any:
    """Return the rows of an engine. A plain read is planned directly; every other shape is read through SQL.

    A DuckDB relation is not converted, because Arrow lacks some of its types.
    """
    if isinstance(shape, ReadShape):
        return read_by(history, shape, engine)
    table = open_table(address_of(history))
    query = text(shape, lambda at: _table(history, at))
    match shape, engine:
        case Bound(read), "spark":
            return _bound_on_spark(table.snapshot(history.resolve(read.at).moment), shape)
        case _, "spark":
            return _exact(harness.sql(query, {"t": table}, engine="spark"))
        case Bound(), _:
            return harness.connect({"t": table}).sql(query, parameters(shape))
        case _:
            return harness.sql(query, {"t": table})


def read_by(history: ScenarioHistory, read: ReadShape, engine: str) -> pa.Table:
    """Return the rows of a plain read. The oracle reads independently; the other engines use plans with all pruning."""
    at = history.resolve(read.at)
    where = None if read.where is None else sql(read.where)
    if engine != "oracle":
        snapshot = open_table(address_of(history)).snapshot(at.moment)
        return snapshot.to_arrow(columns=read.columns, where=where, engine=engine)
    chosen = {"snapshot_id": at.snapshot_id, "version": at.version, "timestamp_ms": at.timestamp_ms, "ref": at.ref}
    point: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
    return read_with_oracle(address_of(history), columns=read.columns, where=where, **point)


def _table(history: ScenarioHistory, at: Selector) -> str:
    """Return the table `t` at a point, as text in a query of DuckDB's dialect."""
    found = history.resolve(at)
    if found.ref is not None:
        return f"t VERSION AS OF '{found.ref}'"
    number = found.snapshot_id if found.version is None else found.version
    return "t" if number is None else f"t AT (VERSION => {number})"


def _bound_on_spark(snapshot: harness.Snapshot, shape: Bound) -> pa.Table:
    """Return the rows of a query in Spark's SQL with parameters, over the snapshot's DataFrame."""
    from pyspark.sql.functions import expr

    frame = snapshot.to_spark()
    frame.createOrReplaceTempView("harness_t")
    query = text(shape, lambda at: "harness_t", name=lambda name: "`" + name.replace("`", "``") + "`")
    # PySpark 4.0 and 4.1 fail for dates before the year 1000, because they write the years with fewer than four digits.
    given = [expr(f"DATE '{v.isoformat()}'") if isinstance(v, dt.date) else v for v in parameters(shape)]
    return _exact(frame.sparkSession.sql(query, args=given))


def _exact(frame: DataFrame) -> pa.Table:
    """Return a DataFrame's rows in the types that its column metadata records."""
    from harness.diff.spark_side import arrow_column
    from harness.engines.spark.engine import conform

    return conform(frame.toArrow(), pa.schema([arrow_column(field) for field in frame.schema.fields]))
