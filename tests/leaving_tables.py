"""Iceberg tables with one path that leads out of the table."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.writing.iceberg.builder import IcebergTable

KINDS = ("data", "avro", "orc", "position deletes", "equality deletes", "deletion vector", "manifest", "manifest list")


def iceberg(root: Path, kind: str, leave: Callable[[Path], str]) -> str:
    """Return a table with the row 2. `leave` maps the path of one of its files to the path to record."""
    table = IcebergTable.create(root / "t", {"id": "long"}, format_version=3 if kind == "deletion vector" else 2)
    data = table.write_data([{"id": 1}, {"id": 2}], format=kind if kind in ("avro", "orc") else "parquet")
    match kind:
        case "equality deletes":
            delete = table.write_equality_deletes(["id"], [{"id": 1}])
        case "deletion vector":
            (delete,) = table.write_deletion_vectors({data: [0]})
        case _:
            delete = table.write_position_deletes([(data, 0)])
    moved = {"data": data, "avro": data, "orc": data}.get(kind, delete)
    if kind in ("data", "avro", "orc"):
        moved.data_file["file_path"] = leave(moved.file)
        delete = table.write_equality_deletes(["id"], [{"id": 1}])  # position deletes would contain the path
    elif kind not in ("manifest", "manifest list"):
        moved.data_file["file_path"] = leave(moved.file)
    table.append(data)
    table.append(delete)
    if kind == "manifest":
        table.edit_manifest_list(lambda document: _leave(document.records[0], "manifest_path", leave))
    if kind == "manifest list":
        table.edit_metadata(lambda document: _leave(document["snapshots"][-1], "manifest-list", leave))
    return str(root / "t")


def _leave(record: dict[str, Any], key: str, leave: Callable[[Path], str]) -> None:
    record[key] = leave(Path(record[key]))
