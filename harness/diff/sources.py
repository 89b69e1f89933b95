"""Sides that are no lake tables, as a user names them: files, and tables or queries of other databases.

    export.csv, export.tsv, part-*.parquet, rows.ndjson, rows.json, rows.arrow, rows.feather
    duckdb:old.duckdb#main.orders     a table, or after # a query: SELECT …, FROM …, WITH …
    sqlite:old.sqlite#orders          where DuckDB has its extension
    postgres:host=… dbname=…#public.orders

`harness.diff.source_reading` reads them.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, replace

from harness.errors import RequestError


def default_engines(*, is_one_table: bool) -> tuple[str, str]:
    """The engines that compare one table, read twice, or two sides."""
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
    """The place of rows.

    place: a path or pattern, or the text that attaches a database. table: of a database, a name with dots. query:
    replaces the table; a file's rows are `t` in it.
    """

    kind: SourceKind
    place: str
    table: str | None = None
    query: str | None = None

    @staticmethod
    def parse(text: str) -> RowSource | None:
        """The source that a text names; None: none. Raises RequestError: a database without a table or query."""
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
        found = _FILES.search(text)
        return None if found is None else RowSource(_ENDINGS[found[1].lower()], text)

    def with_query(self, query: str) -> RowSource:
        """The source of a query's result, in which its rows are `t`."""
        return replace(self, query=query)

    @property
    def has_types(self) -> bool:
        """Tells whether its columns have types; else they are text, and read as the other side's types."""
        return self.kind not in (SourceKind.CSV, SourceKind.JSON)

    @property
    def name(self) -> str:
        """The name in reports."""
        last = self.place.rstrip("/").rpartition("/")[2]
        if self.kind is SourceKind.POSTGRES:
            last = "postgres"  # its place may hold a password
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
