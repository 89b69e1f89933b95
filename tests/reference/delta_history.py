"""What a history is, and words of its statements.

`{t}` is the table that is read, `{path}` its folder, `{source}` another table beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

Statement: TypeAlias = str | Callable[[Any, Path], None]
"""SQL, or a call of Delta Lake's own classes, which is given the session and the table's folder."""


@dataclass(frozen=True, slots=True)
class History:
    """Statements in order; `before` runs first, then the first of `statements` creates the table.

    oldest: the first version whose files are still there.
    columns, select: what is read, in harness's words and in SQL; None and `*`: all columns.
    feed: the first version of the change data feed, to be compared too; None: it has none.
    proof: glob patterns under the table's folder of files that the history is about.
    """

    name: str
    statements: tuple[Statement, ...]
    before: tuple[str, ...] = ()
    oldest: int = 0
    columns: tuple[str, ...] | None = None
    select: str = "*"
    feed: int | None = None
    proof: tuple[str, ...] = ()


def create(columns: str, *properties: str, then: str = "") -> str:
    """CREATE TABLE, with `then` after the columns."""
    table = f"CREATE TABLE {{t}} ({columns}) USING delta {then}"
    return f"{table} TBLPROPERTIES ({', '.join(properties)})" if properties else table


def compacted(first: int, last: int) -> Statement:
    """Writes the log compaction of some versions, from Delta Lake's own replay of them: no SQL does that."""

    def compact(spark: Any, location: Path) -> None:
        nothing = spark._jvm.scala.Option.empty()
        delta = spark._jvm.org.apache.spark.sql.delta
        changes = delta.DeltaLog.forTable(spark._jsparkSession, str(location)).getChanges(first, last, nothing, True)
        replay = delta.actions.InMemoryLogReplay(nothing, nothing)
        while changes.hasNext():
            commit = changes.next()
            replay.append(commit._1(), commit._2().iterator())
        actions, lines = replay.checkpoint(), []
        while actions.hasNext():
            lines.append(actions.next().json() + "\n")
        name = f"{first:020}.{last:020}.compacted.json"
        (location / "_delta_log" / name).write_text("".join(lines), encoding="utf-8")

    return compact


VECTORS = "'delta.enableDeletionVectors'='true'"
NO_VECTORS = "'delta.enableDeletionVectors'='false'"
FEED = "'delta.enableChangeDataFeed'='true'"
EVERY_2 = "'delta.checkpointInterval'='2'"
V2 = "'delta.checkpointPolicy'='v2'"
TRACKING = "'delta.enableRowTracking'='true'"
WIDENING = "'delta.enableTypeWidening'='true'"
BY_NAME = "'delta.columnMapping.mode'='name'"
BY_ID = "'delta.columnMapping.mode'='id'"
VERSIONS = "'delta.minReaderVersion'='2', 'delta.minWriterVersion'='5'"
NTZ = "'delta.feature.timestampNtz'='supported'"
