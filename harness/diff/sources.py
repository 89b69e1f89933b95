"""Sides that are not lake tables: files, and tables or queries of other databases, as a user names them.

    export.csv, export.tsv, part-*.parquet, rows.ndjson, rows.json, rows.arrow, rows.feather
    duckdb:old.duckdb#main.orders     a table, or a query after #: SELECT …, FROM …, WITH …
    sqlite:old.sqlite#orders          needs DuckDB's sqlite extension
    postgres:host=… dbname=…#public.orders

`harness.diff.source_reading` reads them.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, replace

from harness.errors import RequestError


def default_engines(*, is_one_table: bool) -> tuple[str, str]:
    """Return the engines of the left and the right side, if the user selects none.

    Args:
        is_one_table: True if both sides are the same table.
    """
    return ("duckdb", "spark") if is_one_table else ("duckdb", "duckdb")


class SourceKind(enum.Enum):
    """The kind of file or database that holds the rows."""

    CSV = "CSV file"
    JSON = "JSON file"
    PARQUET = "Parquet file"
    ARROW = "Arrow file"
    DUCKDB = "DuckDB database"
    SQLITE = "SQLite database"
    POSTGRES = "Postgres database"


@dataclass(frozen=True, slots=True)
class RowSource:
    """A source of rows outside the lake.

    Attributes:
        kind: The kind of file or database.
        place: A path or glob pattern, or the text that attaches a database.
        table: The name of a table in a database, with dots.
        query: A query to read in place of the table. The rows of a file are the table `t` in it.
    """

    kind: SourceKind
    place: str
    table: str | None = None
    query: str | None = None

    @staticmethod
    def parse(text: str) -> RowSource | None:
        """Return the source that a text names, or None if it names no file or database of a known kind.

        Raises:
            RequestError: The text names a database without a table or query.
        """
        prefix, separator, rest = text.partition(":")
        if separator and prefix in _DATABASES:
            place, _, what = rest.partition("#")
            what = what.strip()
            if not what or (not place and not _QUERY.match(what)):
                raise RequestError(
                    f"Invalid side {text!r}: expected {prefix}:DATABASE#TABLE, or a query in place of the table"
                )
            kind = _DATABASES[prefix]
            return RowSource(kind, place, query=what) if _QUERY.match(what) else RowSource(kind, place, table=what)
        if text.endswith(".metadata.json"):
            return None
        result = _FILES.search(text)
        return None if result is None else RowSource(_ENDINGS[result[1].lower()], text)

    def with_query(self, query: str) -> RowSource:
        """Return the source of a query's result. The source's rows are the table `t` in the query."""
        return replace(self, query=query)

    @property
    def has_types(self) -> bool:
        """True if the columns have types. Otherwise they are text, and are read with the types of the opposite side."""
        return self.kind not in (SourceKind.CSV, SourceKind.JSON)

    @property
    def name(self) -> str:
        """The source's name in reports."""
        last = self.place.rstrip("/").rpartition("/")[2]
        if self.kind is SourceKind.POSTGRES:
            last = "postgres"  # the connection text may contain a password
        if self.table is not None:
            return f"{last}#{self.table}"
        return f"query on {last}" if self.query is not None and last else last or "query"


_DATABASES = {"duckdb": SourceKind.DUCKDB, "sqlite": SourceKind.SQLITE, "postgres": SourceKind.POSTGRES}
_ENDINGS = {
    "csv": SourceKind.CSV,
    "tsv": SourceKind.CSV,
    "json": SourceKind.JSON,
    "jsonl": SourceKind.JSON,
    "ndjson": SourceKind.JSON,
    "parquet": SourceKind.PARQUET,
    "arrow": SourceKind.ARROW,
    "arrows": SourceKind.ARROW,
    "feather": SourceKind.ARROW,
}
_FILES = re.compile(rf"\.({'|'.join(_ENDINGS)})(\.gz|\.zst)?$", re.IGNORECASE)
_QUERY = re.compile(r"\s*(select|from|with|values|table)\b", re.IGNORECASE)
