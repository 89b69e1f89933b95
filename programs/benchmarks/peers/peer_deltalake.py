"""delta-rs: DataFusion for queries, Arrow for rows."""

from collections.abc import Callable, Sequence

import deltalake
import pyarrow as pa


def versions() -> str:
    return f"deltalake {deltalake.__version__}"


def query(location: str, select: str, where: str | None = None) -> Callable[[], list[int]]:
    text = f"SELECT {select} FROM t{'' if where is None else f' WHERE {where}'}"
    return lambda: [int(column[0].as_py()) for column in _run_query(location, text).columns[:3]]


def arrow(location: str, columns: Sequence[str]) -> Callable[[], list[int]]:
    return lambda: [deltalake.DeltaTable(location).to_pyarrow_table(columns=list(columns)).num_rows]


def small(locations: Sequence[str]) -> Callable[[], list[int]]:
    """Read by queries, because the library's Arrow tables do not support deletion vectors."""
    return lambda: [sum(_run_query(at, "SELECT * FROM t").num_rows for at in locations)]


def plan(location: str, day: str | None = None) -> Callable[[], list[int]]:
    filters = None if day is None else [("day", "=", day)]
    return lambda: [len(deltalake.DeltaTable(location).file_uris(filters))]


def _run_query(location: str, text: str) -> pa.Table:
    return pa.table(deltalake.QueryBuilder().register("t", deltalake.DeltaTable(location)).execute(text).read_all())
