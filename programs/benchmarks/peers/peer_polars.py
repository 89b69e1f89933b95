"""Polars: its own reader and native planner for Iceberg; deltalake's log and its own reader for Delta."""

from collections.abc import Callable, Sequence
from importlib.metadata import version

import polars as pl


def versions() -> str:
    return ", ".join(f"{name} {version(name)}" for name in ("polars", "polars-iceberg", "deltalake"))


def query(format: str, location: str, select: str, where: str | None = None) -> Callable[[], list[int]]:
    text = f"SELECT {select} FROM self{'' if where is None else f' WHERE {where}'}"
    return lambda: [int(value) for value in _scan(format, location).sql(text).collect().row(0)[:3]]


def arrow(format: str, location: str, columns: Sequence[str]) -> Callable[[], list[int]]:
    return lambda: [_scan(format, location).select(columns).collect().to_arrow().num_rows]


def small(format: str, locations: Sequence[str]) -> Callable[[], list[int]]:
    return lambda: [sum(_scan(format, at).collect().height for at in locations)]


def plan(format: str, location: str, where: str | None = None) -> Callable[[], None]:
    """Plan until the rows are counted, or the first file, which does not exist, is opened."""

    def read() -> None:
        frame = _scan(format, location)
        if where is not None:
            frame = frame.filter(pl.sql_expr(where))
        try:
            frame.select(pl.len()).collect()
        except FileNotFoundError:
            return

    return read


def _scan(format: str, location: str) -> pl.LazyFrame:
    """Return a scan. For Iceberg, `location` is the metadata file."""
    return pl.scan_iceberg(location, reader_override="native") if format == "iceberg" else pl.scan_delta(location)
