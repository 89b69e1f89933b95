"""DuckDB's side of the steps in `harness.engines.changes`."""

from __future__ import annotations

from collections.abc import Mapping

from harness.engines.changes import Dialect
from harness.metadata.filters import sqltext
from harness.storage.records import dataclass

DIALECT = Dialect(
    filter_list="list_filter",
    transform_list="list_transform",
    least_item="list_min",
    sort_list="list_sort",
    pack="row",
    function="lambda {name}: {body}",
    repeat="unnest(range({first}, {end}))",
    # a collation would apply to text inside lists and structs, even after COLLATE C
    text_key="encode({text})",
    extract=lambda struct, name: f"struct_extract({struct}, {sqltext.text(name)})",
    fail=lambda error: f"error({sqltext.text(error.message)})",
)


@dataclass(frozen=True, slots=True)
class SqlRows:
    """Rows as the text of a query."""

    sql: str

    def select(self, columns: Mapping[str, str]) -> SqlRows:
        """Compute columns from expressions, by label."""
        return SqlRows(
            f"SELECT {', '.join(f'{value} AS {label}' for label, value in columns.items())} FROM ({self.sql})"
        )

    def where(self, condition: str) -> SqlRows:
        """Keep the rows for which a condition is true."""
        return SqlRows(f"SELECT * FROM ({self.sql}) WHERE {condition}")

    def union(self, other: SqlRows) -> SqlRows:
        """Append rows with the same columns."""
        return SqlRows(f"{self.sql}\nUNION ALL\n{other.sql}")

    def join(self, other: SqlRows, on: str) -> SqlRows:
        """Return the pairs of rows for which a condition is true, with the columns of both."""
        return SqlRows(f"SELECT * FROM ({self.sql}) JOIN ({other.sql}) ON {on}")
