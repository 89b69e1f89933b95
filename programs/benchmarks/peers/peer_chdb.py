"""chDB: ClickHouse in this process, with its table functions."""

import os
from collections.abc import Callable
from pathlib import Path

os.chdir("/")  # chDB only reads files below the directory where it starts
import chdb  # noqa: E402


def versions() -> str:
    return f"chdb {chdb.__version__}"


def query(format: str, location: str, select: str, where: str | None = None) -> Callable[[], list[int]]:
    """Return a query. For Iceberg, `location` is the metadata file."""
    if format == "iceberg":
        metadata = Path(location)
        inside = f", SETTINGS iceberg_metadata_file_path = 'metadata/{metadata.name}'"
        table = f"icebergLocal('{metadata.parent.parent}'{inside})"
    else:
        table = f"deltaLakeLocal('{location}')"
    text = f"SELECT {select} FROM {table}{'' if where is None else f' WHERE {where}'}"
    # Cached metadata is found by path, but each turn must open the table again.
    text += " SETTINGS use_iceberg_metadata_files_cache = 0"
    return lambda: [int(value) for value in str(chdb.query(text, "CSV")).strip().split(",")[:3]]
