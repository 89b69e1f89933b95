"""DuckDB's own extensions, installed from packages instead of downloads."""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import duckdb


def versions() -> str:
    return f"duckdb {duckdb.__version__}, extensions {version('duckdb-extension-iceberg')}"


def query(format: str, location: str, select: str, where: str | None = None) -> Callable[[], list[int]]:
    connection = duckdb.connect()
    for name in ("avro", "iceberg") if format == "iceberg" else ("delta",):
        package = import_module(f"duckdb_extension_{name}")
        (file,) = Path(str(package.__file__)).parent.rglob(f"{name}.duckdb_extension")
        connection.load_extension(str(file))
    text = f"SELECT {select} FROM {format}_scan('{location}'){'' if where is None else f' WHERE {where}'}"
    return lambda: [int(value) for value in connection.sql(text).fetchall()[0][:3]]
