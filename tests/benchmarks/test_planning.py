"""What planning costs by number of data files: time and memory per file, with statistics on 20 columns.

Printed, not asserted. The manifests are written here, 1,000 entries each, as a writer that commits in batches would.
"""

from __future__ import annotations

import io
import json
import struct
import time
import tracemalloc
from pathlib import Path
from typing import Any

import fastavro
import pytest

import harness

COLUMNS = 20
PER_MANIFEST = 1_000
ROWS = 1_000
SIZES = (1_000, 10_000, 100_000)

pytestmark = pytest.mark.bench


def field(id_: int, name: str, type_: Any) -> dict[str, Any]:
    return {"field-id": id_, "name": name, "type": type_}


def int_map(id_: int, name: str, key: int, value: int, type_: str) -> dict[str, Any]:
    pair = {
        "type": "record",
        "name": f"k{key}_v{value}",
        "fields": [field(key, "key", "int"), field(value, "value", type_)],
    }
    return field(id_, name, ["null", {"type": "array", "logicalType": "map", "items": pair}])


ENTRY = fastavro.parse_schema(
    {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            field(0, "status", "int"),
            field(1, "snapshot_id", ["null", "long"]),
            field(3, "sequence_number", ["null", "long"]),
            field(4, "file_sequence_number", ["null", "long"]),
            field(
                2,
                "data_file",
                {
                    "type": "record",
                    "name": "r2",
                    "fields": [
                        field(134, "content", "int"),
                        field(100, "file_path", "string"),
                        field(101, "file_format", "string"),
                        field(102, "partition", {"type": "record", "name": "r102", "fields": []}),
                        field(103, "record_count", "long"),
                        field(104, "file_size_in_bytes", "long"),
                        int_map(108, "column_sizes", 117, 118, "long"),
                        int_map(109, "value_counts", 119, 120, "long"),
                        int_map(110, "null_value_counts", 121, 122, "long"),
                        int_map(125, "lower_bounds", 126, 127, "bytes"),
                        int_map(128, "upper_bounds", 129, 130, "bytes"),
                    ],
                },
            ),
        ],
    }
)
LIST = fastavro.parse_schema(
    {
        "type": "record",
        "name": "manifest_file",
        "fields": [
            field(500, "manifest_path", "string"),
            field(501, "manifest_length", "long"),
            field(502, "partition_spec_id", "int"),
            field(517, "content", "int"),
            field(515, "sequence_number", "long"),
            field(516, "min_sequence_number", "long"),
            field(503, "added_snapshot_id", "long"),
        ],
    }
)


def avro(schema: Any, rows: list[dict[str, Any]], header: dict[str, str]) -> bytes:
    target = io.BytesIO()
    fastavro.writer(target, schema, rows, metadata=header, codec="deflate")
    return target.getvalue()


def entry(location: str, number: int) -> dict[str, Any]:
    ids = range(1, COLUMNS + 1)
    first, last = number * ROWS, number * ROWS + ROWS - 1
    return {
        "status": 1,
        "data_file": {
            "content": 0,
            "file_path": f"{location}/data/{number:08d}-0-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee-00001.parquet",
            "file_format": "PARQUET",
            "partition": {},
            "record_count": ROWS,
            "file_size_in_bytes": 1_000_000,
            "column_sizes": [{"key": i, "value": 50_000} for i in ids],
            "value_counts": [{"key": i, "value": ROWS} for i in ids],
            "null_value_counts": [{"key": i, "value": 0} for i in ids],
            "lower_bounds": [{"key": i, "value": struct.pack("<q", first + i)} for i in ids],
            "upper_bounds": [{"key": i, "value": struct.pack("<q", last + i)} for i in ids],
        },
    }


def write_table(folder: Path, files: int) -> Path:
    location, metadata = str(folder), folder / "metadata"
    metadata.mkdir(parents=True)
    schema = {
        "type": "struct",
        "schema-id": 0,
        "fields": [{"id": i, "name": f"c{i}", "required": False, "type": "long"} for i in range(1, COLUMNS + 1)],
    }
    header = {"schema": json.dumps(schema), "partition-spec": "[]", "partition-spec-id": "0", "format-version": "2"}
    manifests = []
    for start in range(0, files, PER_MANIFEST):
        path = metadata / f"m{start}.avro"
        path.write_bytes(
            avro(ENTRY, [entry(location, i) for i in range(start, min(start + PER_MANIFEST, files))], header)
        )
        manifests.append(
            {
                "manifest_path": str(path),
                "manifest_length": path.stat().st_size,
                "partition_spec_id": 0,
                "content": 0,
                "sequence_number": 1,
                "min_sequence_number": 1,
                "added_snapshot_id": 1,
            }
        )
    (metadata / "snap-1.avro").write_bytes(avro(LIST, manifests, {"format-version": "2"}))
    document = {
        "format-version": 2,
        "table-uuid": "00000000-0000-0000-0000-000000000001",
        "location": location,
        "last-sequence-number": 1,
        "last-updated-ms": 1_700_000_000_000,
        "last-column-id": COLUMNS,
        "current-schema-id": 0,
        "schemas": [schema],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "current-snapshot-id": 1,
        "snapshots": [
            {
                "snapshot-id": 1,
                "sequence-number": 1,
                "timestamp-ms": 1_700_000_000_000,
                "manifest-list": str(metadata / "snap-1.avro"),
                "schema-id": 0,
                "summary": {"operation": "append"},
            }
        ],
    }
    (metadata / "v1.metadata.json").write_text(json.dumps(document))
    (metadata / "version-hint.text").write_text("1")
    return folder


@pytest.mark.parametrize("files", SIZES)
def test_planning_prints_its_cost(tmp_path: Path, files: int) -> None:
    location = str(write_table(tmp_path / "table", files))
    wanted = (files // 2) * ROWS + 5
    selective = f"c1 BETWEEN {wanted} AND {wanted + 10}"
    print(f"\n{files:,} data files")
    for label, where, expected in (("cold, no filter", None, files), ("cold, selective filter", selective, 1)):
        started = time.perf_counter()
        plan = harness.open_table(location).snapshot().plan(where=where)
        seconds = time.perf_counter() - started
        assert plan.files.num_rows == expected
        tracemalloc.start()
        harness.open_table(location).snapshot().plan(where=where)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(
            f"  {label:24} {seconds:8.3f} s; a file: {seconds / files * 1e6:6.1f} µs, {peak / files:7.0f} bytes at peak"
        )
