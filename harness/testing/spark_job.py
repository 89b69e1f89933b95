"""`SparkJobTest`, the fixture `harness_job`: a Spark session of one test with its tables."""

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
    """A session in which a job finds the tables that the test gives, and the record of what it writes.

    directory: where tables are made that the test describes.
    """

    def __init__(self, root: SparkSession, directory: Path) -> None:
        self._directory = directory
        self._job: SparkJob = open_job(root, tables={}, catalog=None)

    @property
    def spark(self) -> SparkSession:
        """The job's session; also what `SparkSession.builder.getOrCreate()` gives until the test is over."""
        return self._job.spark

    def add(self, tables: Mapping[str, object]) -> None:
        """Give tables their names.

        Args:
            tables: by what the job calls them, `db.orders` or `prod.db.orders`: a location, such as that of a slice; an
                opened table or snapshot; a builder, a table of `lake_table`, or whatever has a `location`; a scenario,
                as `lake_table` takes it; rows, as `harness.testing.literals.literal` has them.

        Raises:
            RequestError: a scenario or a literal is wrong.
            HarnessError: as `harness.open_table`.
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
        """Give a name to a table of these rows, in a format and beside rows that a kind of deletes took.

        Args:
            form: the format and the kind.
            name, rows, schema: as for `add` and `harness.testing.literals.literal`.

        Raises:
            RequestError: as for `literal`.
        """
        table_format, kind = form
        types = types_of(rows) if schema is None else schema
        self.add({name: SameRows(rows=tuple(rows), schema=types, format=table_format, kind=kind)})

    def written(self, table: str) -> pa.Table:
        """The rows that the job wrote to a table, as `harness.testing.jobs.job.SparkJob.written` says."""
        return self._job.written(table)

    def writes(self, table: str) -> tuple[Write, ...]:
        """Each write to a table: mode, partitioning, rows."""
        return self._job.writes(table)

    def close(self) -> None:
        """Take the session's tables away."""
        self._job.close()

    def _make_source(self, name: str, source: object) -> object:
        folder = ".".join(parse_name(name))
        if (isinstance(source, str) and "\n" in source) or isinstance(source, Mapping | Scenario):
            return make_table(scenario_of(source, folder), self._directory, name=folder)
        make: Callable[[Path], object] | None = getattr(source, "make", None)
        return source if make is None else make(self._directory / folder)


@dataclass(frozen=True, slots=True)
class SparkState:
    """The state of a session before a test."""

    database: str
    views: frozenset[str]

    @classmethod
    def capture(cls, session: SparkSession) -> SparkState:
        """The state of a session now; of one that was stopped, `FRESH`."""
        return FRESH if _is_stopped(session) else cls(session.catalog.currentDatabase(), _views(session))


FRESH = SparkState("default", frozenset())
"""The state of a session that was started in the test itself."""


def restore(session: SparkSession, state: SparkState) -> None:
    """Bring a session back to a state. One that was stopped is left alone."""
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
    # The JVM's own list takes a millisecond, `SHOW VIEWS` and `catalog.listTables` are queries.
    views = session._jsparkSession.sessionState().catalog().listLocalTempViews("*")
    return frozenset(views.apply(i).table() for i in range(views.size()))
