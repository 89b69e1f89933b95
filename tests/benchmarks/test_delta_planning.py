"""What opening and planning a Delta table of 300,000 files costs, its log being one checkpoint and its hint.

Printed, not asserted, beside the `deltalake` package where it is installed (`nox -s bench` installs it): the same table
opened and its files listed. 1,000 partitions of 300 files, each file with statistics on 20 columns as JSON text. Every
run is a process of its own, timed after its imports, so that neither caches nor memory of one run help the next.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

FILES = 300_000
DAYS = 1_000
COLUMNS = 20
ROWS = 1_000
BATCH = 20_000
DAY = "2020-01-05"  # one of the days: 300 files
RUNS = 3

HARNESS = """
import harness.table
def run(location, where):
    return harness.open_table(location).snapshot().plan(where=where).files.num_rows
"""
DELTALAKE = """
import deltalake
def run(location, filters):
    filters = None if filters is None else [tuple(part) for part in filters]
    return len(deltalake.DeltaTable(location).file_uris(partition_filters=filters))
"""
MEASURED = """
import json, resource, sys, time
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # MiB where the unit is KiB, as on Linux
before, started = peak(), time.perf_counter()
result = run(*json.loads(sys.argv[1]))
print(json.dumps([result, time.perf_counter() - started, peak() - before]))
"""

pytestmark = pytest.mark.bench

MAP = pa.map_(pa.string(), pa.string())
ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
    ]
)
FORMAT = pa.struct([("provider", pa.string()), ("options", MAP)])
METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("format", FORMAT),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", MAP),
        ("createdTime", pa.int64()),
    ]
)
PROTOCOL = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])
CHECKPOINT = pa.schema([("protocol", PROTOCOL), ("metaData", METADATA), ("add", ADD)])


def day(number: int) -> str:
    month, day_ = divmod(number % 336, 28)
    return f"{2020 + number // 336}-{month + 1:02d}-{day_ + 1:02d}"


def stats(number: int) -> str:
    first, last = number * ROWS, number * ROWS + ROWS - 1
    names = [f"c{i}" for i in range(COLUMNS)]
    return json.dumps(
        {
            "numRecords": ROWS,
            "minValues": {name: first + i for i, name in enumerate(names)},
            "maxValues": {name: last + i for i, name in enumerate(names)},
            "nullCount": dict.fromkeys(names, 0),
        }
    )


def adds() -> Iterator[dict[str, Any]]:
    for number in range(FILES):
        when = day(number % DAYS)
        yield {
            "path": f"day={when}/part-{number:08d}-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee.c000.snappy.parquet",
            "partitionValues": [("day", when)],
            "size": 1_000_000,
            "modificationTime": 1_700_000_000_000,
            "dataChange": False,
            "stats": stats(number),
        }


def start() -> list[dict[str, Any]]:
    def column(name: str, type_: str) -> dict[str, Any]:
        return {"name": name, "type": type_, "nullable": True, "metadata": {}}

    fields = [column("day", "date"), *(column(f"c{i}", "long") for i in range(COLUMNS))]
    metadata = {
        "id": "00000000-0000-0000-0000-000000000001",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["day"],
        "configuration": {},
        "createdTime": 1_700_000_000_000,
    }
    return [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The table; its data files do not exist, for planning does not open them."""
    folder = tmp_path_factory.mktemp("delta") / "table"
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    protocol, metadata = start()
    rows = [protocol, {"metaData": {**metadata["metaData"], "format": {"provider": "parquet", "options": []}}}]
    rows[1]["metaData"]["configuration"] = []
    with pq.ParquetWriter(log / f"{0:020d}.checkpoint.parquet", CHECKPOINT, compression="snappy") as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema=CHECKPOINT))
        batch = []
        for add in adds():
            batch.append({"add": add})
            if len(batch) == BATCH:
                writer.write_table(pa.Table.from_pylist(batch, schema=CHECKPOINT))
                batch = []
    (log / f"{0:020d}.json").write_text("".join(f"{json.dumps(action)}\n" for action in (protocol, metadata)))
    (log / "_last_checkpoint").write_text(json.dumps({"version": 0, "size": FILES + 2}))
    return str(folder)


def measured(program: str, *arguments: Any) -> tuple[int, float, float]:
    """The result, and the least seconds and MiB of some runs."""
    command = [sys.executable, "-c", program + MEASURED, json.dumps(arguments)]
    runs = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(RUNS)]
    return runs[0][0], min(run[1] for run in runs), min(run[2] for run in runs)


@pytest.mark.parametrize(
    ("label", "where", "filters", "expected"),
    [
        pytest.param("all files", None, None, FILES, id="all"),
        pytest.param("one partition", f"day = DATE '{DAY}'", [["day", "=", DAY]], FILES // DAYS, id="partition"),
        pytest.param("a range of a column", "c3 BETWEEN 150000010 AND 150000020", None, 1, id="statistics"),
    ],
)
def test_planning_of_many_files_prints_its_cost(
    table: str, label: str, where: str | None, filters: list[list[str]] | None, expected: int
) -> None:
    print(f"\nopen and plan {FILES:,} files of a checkpoint: {label}")
    planned, seconds, mebibytes = measured(HARNESS, table, where)
    assert planned == expected
    print(f"  {'harness':12} {seconds:7.2f} s {mebibytes:7.0f} MiB")
    if importlib.util.find_spec("deltalake") is None:
        print("  deltalake is not installed")
    elif where is None or filters is not None:
        listed, seconds, mebibytes = measured(DELTALAKE, table, filters)
        assert listed == expected
        print(f"  {'deltalake':12} {seconds:7.2f} s {mebibytes:7.0f} MiB")
