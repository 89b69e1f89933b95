"""What a test may leave behind in a shared Spark session, and its removal: temporary views, current database, cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SparkState:
    """What a session had before a test."""

    database: str
    views: frozenset[str]

    @classmethod
    def of(cls, session: SparkSession) -> SparkState:
        """The state of a session now; of one that was stopped, `FRESH`."""
        return FRESH if _stopped(session) else cls(session.catalog.currentDatabase(), _views(session))


FRESH = SparkState("default", frozenset())
"""Of a session that was started in the test itself."""


def restore(session: SparkSession, state: SparkState) -> None:
    """Bring a session back to a state. One that was stopped is left alone."""
    if _stopped(session):
        return
    for view in _views(session) - state.views:
        session.catalog.dropTempView(view)
    if session.catalog.currentDatabase() != state.database:
        session.catalog.setCurrentDatabase(state.database)
    session.catalog.clearCache()


def _stopped(session: SparkSession) -> bool:
    context = session.sparkContext
    return context._jsc is None or bool(context._jsc.sc().isStopped())


def _views(session: SparkSession) -> frozenset[str]:
    # The JVM's own list takes a millisecond, `SHOW VIEWS` and `catalog.listTables` are queries.
    views = session._jsparkSession.sessionState().catalog().listLocalTempViews("*")
    return frozenset(views.apply(i).table() for i in range(views.size()))
