"""DuckDB's side of the steps in `harness.engines.changes`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.engines.changes import Dialect
from harness.metadata.filters import sqltext
from harness.storage.records import dataclass

DIALECT = Dialect(
    filter_list="list_filter",
    transform_list="list_transform({items}, {function})",
    least_item="list_min",
    sort_list="list_sort",
    pack="row",
    function="lambda {name}: {body}",
    repeat="unnest(range({first}, {end}))",
    # COLLATE C has no effect inside lists and structs, and blobs would make grouping twice as slow (DuckDB 2.0)
    text_key="({text} COLLATE C)",
    text_of_key="CAST({key} AS VARCHAR)",
    inner_text_key="encode({text})",
    # DuckDB 1.5 returns keys of windows, and columns that equal a key, with 0.0 instead of -0.0
    number_key="({number} + 0)",
    negative_zero="({number} = 0 AND signbit({number}))",
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

    def group(self, keys: Sequence[str], aggregates: Mapping[str, str]) -> SqlRows:
        """Return a row for each group of rows with equal keys, with the keys and aggregates."""
        selected = [*keys, *(f"{value} AS {label}" for label, value in aggregates.items())]
        return SqlRows(f"SELECT {', '.join(selected)} FROM ({self.sql}) GROUP BY {', '.join(keys)}")

    def union(self, other: SqlRows) -> SqlRows:
        """Append rows with the same columns."""
        return SqlRows(f"{self.sql}\nUNION ALL\n{other.sql}")

    def join(self, other: SqlRows, on: str) -> SqlRows:
        """Return the pairs of rows for which a condition is true, with the columns of both."""
        return SqlRows(f"SELECT * FROM ({self.sql}) JOIN ({other.sql}) ON {on}")
