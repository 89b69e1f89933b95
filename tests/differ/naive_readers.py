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
