"""Readers with a fault each, for `--engines naive_readers:NAME`."""

from collections.abc import Callable
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa

import harness
from harness.suite.reader import TableAt, Unsupported

Columns: TypeAlias = "tuple[str, ...] | None"
Where: TypeAlias = "str | None"


class Naive:
    """Reads the data files of the current snapshot and forgets its deletes; ids are of 32 bits."""

    name = "naive"

    def version(self) -> str:
        return "0.1"

    def capabilities(self) -> None:
        return None

    def read(self, table: TableAt, *, columns: Columns, where: Where) -> pa.Table:
        if table.at is not None:
            raise Unsupported(f"no {table.at.kind} {table.at.value}")
        shown = "*" if columns is None else ", ".join(columns)
        files = f"read_parquet('{table.location}/data/*.parquet')"
        narrow = f"SELECT * REPLACE (id::INT AS id) FROM {files}"
        return duckdb.sql(f"SELECT {shown} FROM ({narrow}) WHERE {where or 'true'}").to_arrow_table()


class Right(Naive):
    """Reads files as they are, for tables without deletes."""

    name = "right"

    def count(self, table: TableAt, *, where: Where) -> int:
        return self.read(table, columns=None, where=where).num_rows


class CountsAll(Right):
    """Counts without the filter."""

    name = "counts-all"

    def count(self, table: TableAt, *, where: Where) -> int:
        return super().count(table, where=None)


class Filters(Right):
    """Reads by another filter than the one that is asked. other: the filter of columns and a filter."""

    def __init__(self, name: str, other: Callable[[Columns, Where], Where]) -> None:
        self.name, self.other = name, other

    def read(self, table: TableAt, *, columns: Columns, where: Where) -> pa.Table:
        return super().read(table, columns=columns, where=self.other(columns, where))


def without_hidden(columns: Columns, where: Where) -> Where:
    """The filter, if it is by a column that is shown."""
    return where if columns is None or where is None or any(name in where for name in columns) else None


SkipsTooMuch = Filters("skips-too-much", lambda _, where: "false" if where == "id = 4" else where)
NullIsNoMatch = Filters(
    "null-is-no-match", lambda _, where: f"({where}) IS NOT FALSE" if (where or "").startswith("NOT") else where
)
ForgetsFilter = Filters("forgets-filter", without_hidden)


class Planned(Right):
    """Reads the files that harness plans, by the options that a fault may be in."""

    name = "planned"
    options = ("limit", "union", "threads", "batch_rows", "split_bytes")

    def plan(self, table: TableAt, where: Where) -> Any:
        return harness.open_table(table.metadata_path or table.location).snapshot().plan(where=where)

    def files(self, table: TableAt, where: Where, options: dict[str, Any]) -> list[str]:
        return self.plan(table, None).files.column("physical").to_pylist()

    def read(self, table: TableAt, *, columns: Columns, where: Where, **options: Any) -> pa.Table:
        shown, found = "*" if columns is None else ", ".join(columns), []
        for each in (where, *(part.where for part in options.get("union", ()))):
            files = self.files(table, each, options)
            rows = f"FROM read_parquet({files})" if files else "FROM (SELECT NULL::BIGINT AS id, '' AS s) WHERE false"
            found.append(duckdb.sql(f"SELECT {shown} FROM ({rows}) WHERE {each or 'true'}").to_arrow_table())
        return pa.concat_tables(found).slice(0, options.get("limit"))


class LimitsWithoutFilter(Planned):
    """Takes the rows of a limit, whatever the filter says."""

    name = "limits-without-filter"

    def read(self, table: TableAt, *, columns: Any, where: Any, **options: Any) -> pa.Table:
        return super().read(table, columns=columns, where=None if "limit" in options else where, **options)


class LimitsTooLate(Planned):
    """Gives one row more than a limit says."""

    name = "limits-too-late"

    def read(self, table: TableAt, *, columns: Any, where: Any, **options: Any) -> pa.Table:
        more = {"limit": options["limit"] + 1} if "limit" in options else {}
        return super().read(table, columns=columns, where=where, **{**options, **more})


class OneFilter(Planned):
    """Takes the first filter of a query for that of each mention of the table."""

    name = "one-filter"

    def read(self, table: TableAt, *, columns: Any, where: Any, **options: Any) -> pa.Table:
        for part in options.get("union", ()):
            part.where = where
        return super().read(table, columns=columns, where=where, **options)


class LosesFiles(Planned):
    """Loses a file where an option is given; without an option, reads no file but the first."""

    def __init__(self, name: str, lost: str | None) -> None:
        self.name, self.lost = name, lost

    def files(self, table: TableAt, where: Where, options: dict[str, Any]) -> list[str]:
        found = super().files(table, where, options)
        return found[:1] if self.lost is None else found[1:] if self.lost in options else found


loses_by_splits = LosesFiles("loses-files", "split_bytes")
loses_by_batches = LosesFiles("loses-files-by-batches", "batch_rows")
loses_by_threads = LosesFiles("loses-files-by-threads", "threads")
ReadsOneFile = LosesFiles("reads-one-file", None)


class NeedsBounds(Planned):
    """Takes a file without bounds for one without matching rows."""

    name = "needs-bounds"

    def files(self, table: TableAt, where: Where, options: dict[str, Any]) -> list[str]:
        skipped = self.plan(table, where).skipped
        return [] if where == "id = 4" and not skipped else super().files(table, where, options)


class RemembersPlaces(Planned):
    """Finds no file outside of the place where it read a table first."""

    name = "remembers-places"
    place = ""

    def files(self, table: TableAt, where: Where, options: dict[str, Any]) -> list[str]:
        self.place = self.place or table.location
        return [path for path in super().files(table, where, options) if path.startswith(self.place)]
