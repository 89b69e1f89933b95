"""What a history is, and words of its statements.

`{t}` is the table that is read, `{path}` its folder, `{source}` another table beside it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class History:
    """SQL statements in order; `before` runs first, then the first of `statements` creates the table.

    oldest: the first version whose files are still there.
    columns, select: what is read, in harness's words and in SQL; None and `*`: all columns.
    feed: the first version of the change data feed, to be compared too; None: it has none.
    proof: glob patterns under the table's folder of files that the history is about.
    """

    name: str
    statements: tuple[str, ...]
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
