"""Readers with a fault each, for `--engines naive_readers:NAME`."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from harness.testing.conformance.own import TableAt, Unsupported


class Naive:
    """Reads the data files of the current snapshot and forgets its deletes; ids are of 32 bits."""

    name = "naive"

    def version(self) -> str:
        return "0.1"

    def capabilities(self) -> None:
        return None

    def read(self, table: TableAt, *, columns: tuple[str, ...] | None, where: str | None) -> pa.Table:
        if table.at is not None:
            raise Unsupported(f"no {table.at.kind} {table.at.value}")
        shown = "*" if columns is None else ", ".join(columns)
        files = f"read_parquet('{table.location}/data/*.parquet')"
        narrow = f"SELECT * REPLACE (id::INT AS id) FROM {files}"
        return duckdb.sql(f"SELECT {shown} FROM ({narrow}) WHERE {where or 'true'}").to_arrow_table()


class Right(Naive):
    """Reads files as they are, for tables without deletes."""

    name = "right"

    def count(self, table: TableAt, *, where: str | None) -> int:
        return self.read(table, columns=None, where=where).num_rows


class CountsAll(Right):
    """Counts without the filter."""

    name = "counts-all"

    def count(self, table: TableAt, *, where: str | None) -> int:
        return super().count(table, where=None)


class SkipsTooMuch(Right):
    """Takes a filter's greatest value for one that no file holds."""

    name = "skips-too-much"

    def read(self, table: TableAt, *, columns: tuple[str, ...] | None, where: str | None) -> pa.Table:
        return super().read(table, columns=columns, where="false" if where == "id = 4" else where)


class NullIsNoMatch(Right):
    """Lets NOT turn null into true."""

    name = "null-is-no-match"

    def read(self, table: TableAt, *, columns: tuple[str, ...] | None, where: str | None) -> pa.Table:
        turned = where and where.startswith("NOT")
        return super().read(table, columns=columns, where=f"({where}) IS NOT FALSE" if turned else where)


class ForgetsFilter(Right):
    """Filters by columns that are shown, and by no other."""

    name = "forgets-filter"

    def read(self, table: TableAt, *, columns: tuple[str, ...] | None, where: str | None) -> pa.Table:
        hidden = columns is not None and where is not None and not any(name in where for name in columns)
        return super().read(table, columns=columns, where=None if hidden else where)
