"""A query as a side of a comparison: run by an engine, with what its text says of the last bits of its columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb

import harness.queries.sql
from harness.differ.relaxations import Measure, Tolerance
from harness.errors import EngineError, HarnessError, RequestError, UnsupportedError
from harness.snapshot import Snapshot
from harness.table import Table, open_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Query:
    """A query over tables, for `harness.compare`, which runs it on the engine of its side.

        harness.compare(query, query, engines=("duckdb", "spark"))

    Columns whose last bits depend on the engine, such as averages, are compared within the allowance that follows from
    the text (`docs/reference/allowances.md`); the report says which, and why.

    text: one statement that only reads. tables: what its names stand for: a table, a snapshot, or a location. dialect:
    sqlglot's name of the text's dialect; as for `harness.sql`.
    """

    text: str
    tables: Mapping[str, Table | Snapshot | str] = field(default_factory=dict)
    dialect: str = "duckdb"

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"query on {', '.join(self.tables)}" if self.tables else "query"

    def run(self, engine: str, spark: SparkSession | None) -> object:
        """The result, not read yet; or the error of an engine that cannot run it, which is that side's outcome.

        Raises:
            RequestError: the query cannot be parsed, or writes; or there is no such engine.
            UnsupportedError: it has no meaning on Spark that is certain to be the same; that is no difference.
        """
        try:
            session = spark if engine == "spark" else None
            return harness.queries.sql.run_query(
                self.text, self.tables, engine=engine, dialect=self.dialect, spark=session
            )
        except (RequestError, UnsupportedError):
            raise
        except HarnessError as error:
            return error
        except duckdb.Error as error:
            return EngineError(f"DuckDB cannot run the query: {' '.join(str(error).split())}")

    def allowances(self, columns: list[str]) -> dict[str, Tolerance]:
        """How far the last bits of a column of the result may differ. columns: the result's names, in its order."""
        tables = {name: open_table(each) if isinstance(each, str) else each for name, each in self.tables.items()}
        snapshots = {name: each.snapshot() if isinstance(each, Table) else each for name, each in tables.items()}
        schemas = {name: each.schema for name, each in snapshots.items()}
        return named_allowances(self.text, schemas, columns, self.dialect)


def named_allowances(
    text: str, schemas: Mapping[str, Any], columns: list[str], dialect: str = "duckdb"
) -> dict[str, Tolerance]:
    """The allowances of a query by the names of its result's columns, as tolerances.

    A name that two columns have has none: a comparison could not tell which of them is meant.
    """
    from harness.queries.allowances import allowances

    counts = Counter(columns)
    return {
        columns[place]: Tolerance(Decimal(each.ulps), Measure.ULPS, each.reason)
        for place, each in allowances(text, schemas, dialect).items()
        if place < len(columns) and counts[columns[place]] == 1
    }
