"""Readers with one fault each, for `--engines naive_readers:NAME`."""

from collections.abc import Callable
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa

import harness
from harness.suite.reader import TableAt, Unsupported

Columns: TypeAlias = "tuple[str, ...] | None"
Where: TypeAlias = "str | None"


class Naive:
    """A reader that reads the data files of the current snapshot, but ignores deletes. Its ids have 32 bits."""

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
    """A correct reader of tables without deletes."""

    name = "right"

    def count(self, table: TableAt, *, where: Where) -> int:
        return self.read(table, columns=None, where=where).num_rows


class CountsAll(Right):
    """A reader that counts without the filter."""

    name = "counts-all"

    def count(self, table: TableAt, *, where: Where) -> int:
        return super().count(table, where=None)


class Filters(Right):
    """A reader with another filter than the requested one. `other` maps columns and a filter to that filter."""

    def __init__(self, name: str, other: Callable[[Columns, Where], Where]) -> None:
        self.name, self.other = name, other

    def read(self, table: TableAt, *, columns: Columns, where: Where) -> pa.Table:
        return super().read(table, columns=columns, where=self.other(columns, where))


def without_hidden(columns: Columns, where: Where) -> Where:
    """Return the filter if it uses only selected columns."""
    return where if columns is None or where is None or any(name in where for name in columns) else None


SkipsTooMuch = Filters("skips-too-much", lambda _, where: "false" if where == "id = 4" else where)
NullIsNoMatch = Filters(
    "null-is-no-match", lambda _, where: f"({where}) IS NOT FALSE" if (where or "").startswith("NOT") else where
)
ForgetsFilter = Filters("forgets-filter", without_hidden)


class Planned(Right):
    """A reader of the files that harness plans. The fault is in the options."""

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
    """A reader that ignores the filter if there is a limit."""

    name = "limits-without-filter"

    def read(self, table: TableAt, *, columns: Any, where: Any, **options: Any) -> pa.Table:
        return super().read(table, columns=columns, where=None if "limit" in options else where, **options)


class LimitsTooLate(Planned):
    """A reader that returns one row more than the limit."""

    name = "limits-too-late"

    def read(self, table: TableAt, *, columns: Any, where: Any, **options: Any) -> pa.Table:
        more = {"limit": options["limit"] + 1} if "limit" in options else {}
        return super().read(table, columns=columns, where=where, **{**options, **more})


class OneFilter(Planned):
    """A reader that applies the first filter of a query to all references to the table."""

    name = "one-filter"

    def read(self, table: TableAt, *, columns: Any, where: Any, **options: Any) -> pa.Table:
        for part in options.get("union", ()):
            part.where = where
        return super().read(table, columns=columns, where=where, **options)


class LosesFiles(Planned):
    """A reader that loses a file if an option is set, and reads only the first file otherwise."""

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
    """A reader that skips files without bounds."""

    name = "needs-bounds"

    def files(self, table: TableAt, where: Where, options: dict[str, Any]) -> list[str]:
        skipped = self.plan(table, where).skipped
        return [] if where == "id = 4" and not skipped else super().files(table, where, options)


class RemembersPlaces(Planned):
    """A reader that finds files only in the directory where it first read a table."""

    name = "remembers-places"
    place = ""

    def files(self, table: TableAt, where: Where, options: dict[str, Any]) -> list[str]:
        self.place = self.place or table.location
        return [path for path in super().files(table, where, options) if path.startswith(self.place)]
