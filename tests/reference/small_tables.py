"""What stands beside the small tables in fixtures/reference: the reads of each, and who wrote them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa


def write_reads(place: Path, reads: Iterable[tuple[Mapping[str, Any], pa.Table]]) -> None:
    """`expected.json`: what is read, and its columns and rows; a value that JSON has not as Python's text of it."""
    said = [
        {**read, "columns": rows.schema.names, "rows": [list(row.values()) for row in rows.to_pylist()]}
        for read, rows in reads
    ]
    lines = ",\n ".join(json.dumps(read, default=str, ensure_ascii=False) for read in said)
    (place / "expected.json").write_text(f"[{lines}]\n", encoding="utf-8")


def write_versions(place: Path, spark: Any, packages: list[str], script: str) -> None:
    """`versions.json`: of Spark and the jars, and which script wrote the tables."""
    writer = {"pyspark": spark.version, "packages": packages, "script": f"tests/reference/{script}"}
    (place / "versions.json").write_text(json.dumps(writer, indent=1) + "\n", encoding="utf-8")
