"""`SparkJobTest`, which the fixture `harness_job` returns: a Spark session for one test, with its tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from harness.metadata.catalogs.catalog import parse_name
from harness.suite.scenarios.model import Scenario
from harness.testing.jobs.job import SparkJob, open_job
from harness.testing.jobs.tables import Write
from harness.testing.lake import make_table, scenario_of
from harness.testing.literals import DeleteKind, Format, LiteralRow, SameRows, types_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkJobTest:
    """A Spark session with the tables of a test, and a record of what a job writes in it."""

    def __init__(self, root: SparkSession, directory: Path) -> None:
        self._directory = directory
        self._job: SparkJob = open_job(root, tables={}, catalog=None)

    @property
    def spark(self) -> SparkSession:
        """The job's session. `SparkSession.builder.getOrCreate()` returns it too, until the test is over."""
        return self._job.spark

    def add(self, tables: Mapping[str, object]) -> None:
        """Make tables available to the job by name.

        Args:
            tables: The tables by the names that the job uses, `db.orders` or `prod.db.orders`. A table is a location,
                for example of a slice; an opened table or snapshot; a builder, a table of `lake_table`, or any object
                with a `location`; a scenario, as for `lake_table`; or rows from `harness.testing.literal`.

        Raises:
            RequestError: A scenario or a literal is wrong.
            HarnessError: As for `harness.open_table`.
        """
        self._job.add({name: self._make_source(name, source) for name, source in tables.items()})

    def add_same_rows(
        self,
        form: tuple[Format, DeleteKind],
        name: str,
        rows: Sequence[LiteralRow],
        schema: Mapping[str, str] | None = None,
        **_: object,
    ) -> None:
        """Make a table of these rows available by name, with deleted copies of the rows.

        Args:
            form: The format and the kind of deletes.
            name: The table's name, as for `add`.
            rows: The rows, as for `harness.testing.literal`.
            schema: The types by column, as for `harness.testing.literal`.

        Raises:
            RequestError: As for `harness.testing.literal`.
        """
        table_format, kind = form
        types = types_of(rows) if schema is None else schema
        self.add({name: SameRows(rows=tuple(rows), schema=types, format=table_format, kind=kind)})

    def written(self, table: str) -> pa.Table:
        """Return the rows that the job wrote to a table.

        Args:
            table: The table's name, or the path to which it was saved.

        Raises:
            RequestError: The job wrote nothing there, or it overwrote parts of its earlier writes, see `writes`.
        """
        return self._job.written(table)

    def writes(self, table: str) -> tuple[Write, ...]:
        """Return each write to a table, in order, with its mode, partitioning and rows.

        Args:
            table: The table's name, or the path to which it was saved.

        Raises:
            RequestError: The job wrote nothing there.
        """
        return self._job.writes(table)

    def close(self) -> None:
        """Remove the session's tables."""
        self._job.close()

    def _make_source(self, name: str, source: object) -> object:
        folder = ".".join(parse_name(name))
        if (isinstance(source, str) and "\n" in source) or isinstance(source, Mapping | Scenario):
            return make_table(scenario_of(source, folder), self._directory, name=folder)
        make: Callable[[Path], object] | None = getattr(source, "make", None)
        return source if make is None else make(self._directory / folder)


@dataclass(frozen=True, slots=True)
class SparkState:
    """The state of a Spark session before a test.

    Attributes:
        database: The current database.
        views: The names of temporary views.
    """

    database: str
    views: frozenset[str]

    @classmethod
    def capture(cls, session: SparkSession) -> SparkState:
        """Return the present state of a session, or `FRESH` if it was stopped."""
        return FRESH if _is_stopped(session) else cls(session.catalog.currentDatabase(), _views(session))


FRESH = SparkState("default", frozenset())
"""The state of a session that was started in the test itself."""


def restore(session: SparkSession, state: SparkState) -> None:
    """Restore the state of a session. A stopped session is left alone."""
    if _is_stopped(session):
        return
    for view in _views(session) - state.views:
        session.catalog.dropTempView(view)
    if session.catalog.currentDatabase() != state.database:
        session.catalog.setCurrentDatabase(state.database)
    session.catalog.clearCache()


def _is_stopped(session: SparkSession) -> bool:
    context = session.sparkContext
    return context._jsc is None or bool(context._jsc.sc().isStopped())


def _views(session: SparkSession) -> frozenset[str]:
    # The JVM's own list takes a millisecond, whereas `SHOW VIEWS` and `catalog.listTables` run queries.
    views = session._jsparkSession.sessionState().catalog().listLocalTempViews("*")
    return frozenset(views.apply(i).table() for i in range(views.size()))
