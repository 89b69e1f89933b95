"""Tables that are only planned: metadata of many data files, which do not exist, in Iceberg and in Delta.

They are partitioned by day and region, in the order of days, and have statistics on ten columns.
"""

import datetime
import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench_made import BenchTable, Scale

from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable
from harness.writing.iceberg.files import IcebergFile, base_data_file

ROWS = 1_000
"""The rows of each file. File i has the ids from i * ROWS on."""
DAYS = 100
DAY = 40
"""The day that queries select, counted from the first."""

_PER_COMMIT = 5_000
_FIRST = datetime.date(2020, 1, 1)
_EPOCH = (_FIRST - datetime.date(1970, 1, 1)).days
_DAY_US = 86_400_000_000
_REGIONS = ("eu", "us", "apac", "latam")
_NUMBERS = tuple(f"v{i}" for i in range(5))
_COLUMNS = {"id": "long", "ts": "timestamp", **dict.fromkeys(_NUMBERS, "long"), "name": "string", "price": "double"}


def date_of(day: int) -> str:
    """Return a day, counted from the first, as ISO text."""
    return (_FIRST + datetime.timedelta(day)).isoformat()


def planned(folder: Path, scale: Scale) -> Mapping[str, BenchTable]:
    """Return `iceberg N` and `delta N` for each number of files.

    The answer is the number of files of all rows, `DAY`, and one id.
    """
    tables = {}
    for files in scale.planned_files:
        answer = [files, sum(_day(i, files) == DAY for i in range(files)), 1]
        tables[f"iceberg {files}"] = iceberg(folder / f"iceberg-{files}", files, answer)
        tables[f"delta {files}"] = _delta(folder / f"delta-{files}", files, answer)
    return tables


def _day(number: int, files: int) -> int:
    return number * DAYS // files


def _bounds(number: int, day: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return lower and upper bounds by column as Python values. Times are in microseconds since 1970."""
    start = (_EPOCH + day) * _DAY_US
    low = {"id": number * ROWS, "ts": start, **{name: number % 977 + i for i, name in enumerate(_NUMBERS)}}
    high = {"id": number * ROWS + ROWS - 1, "ts": start + _DAY_US - 1, **{name: low[name] + 500 for name in _NUMBERS}}
    text = f"{number % 1_000_000:06d}"
    return {**low, "name": f"aa{text}", "price": number % 100 / 2}, {**high, "name": f"zz{text}", "price": 99.5}


def iceberg(folder: Path, files: int, answer: list[int]) -> BenchTable:
    schema = {**_COLUMNS, "region": "string"}
    table = IcebergTable.create(folder, schema, partition_spec=[("ts", "day"), ("region", "identity")])
    for start in range(0, files, _PER_COMMIT):
        numbers = range(start, min(start + _PER_COMMIT, files))
        table.append(*(_iceberg_file(table, number, files, list(schema)) for number in numbers))
    manifests = [str(table.file_of(path)) for path in table.manifests()]
    return BenchTable(location=table.location, metadata=str(table.metadata_path), files=manifests, answer=answer)


def _iceberg_file(table: IcebergTable, number: int, files: int, columns: list[str]) -> IcebergFile:
    day, region = _day(number, files), _REGIONS[number % len(_REGIONS)]
    lower, upper = ({**bounds, "region": region} for bounds in _bounds(number, day))
    path = (
        f"data/ts_day={date_of(day)}/region={region}/{number:08d}-0-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee-00001.parquet"
    )
    entry = {
        **base_data_file(0, f"{table.location}/{path}", {"ts_day": _EPOCH + day, "region": region}),
        "file_format": "PARQUET",
        "record_count": ROWS,
        "file_size_in_bytes": 1_000_000 + number % 1_000,
        "column_sizes": _pairs([50_000] * len(columns)),
        "value_counts": _pairs([ROWS] * len(columns)),
        "null_value_counts": _pairs([0] * len(columns)),
        "lower_bounds": _pairs([_bytes(lower[name]) for name in columns]),
        "upper_bounds": _pairs([_bytes(upper[name]) for name in columns]),
        "split_offsets": [4],
    }
    return IcebergFile(table.file_of(entry["file_path"]), table.spec_id, entry)


def _pairs(values: list[Any]) -> list[dict[str, Any]]:
    return [{"key": i + 1, "value": value} for i, value in enumerate(values)]


def _bytes(value: float | str) -> bytes:
    match value:
        case str():
            return value.encode()
        case int():
            return struct.pack("<q", value)
        case _:
            return struct.pack("<d", value)


def _delta(folder: Path, files: int, answer: list[int]) -> BenchTable:
    schema = {**_COLUMNS, "day": "date", "region": "string"}
    table = DeltaTable.create(folder, schema, partition_columns=["day", "region"])
    table.commit(add=[_delta_file(number, files) for number in range(files)])
    table.checkpoint()
    checkpoint = [str(path) for path in (folder / "_delta_log").glob("*.checkpoint*.parquet")]
    return BenchTable(location=str(folder), files=checkpoint, answer=answer)


def _delta_file(number: int, files: int) -> dict[str, Any]:
    day, region = date_of(_day(number, files)), _REGIONS[number % len(_REGIONS)]
    lower, upper = _bounds(number, _day(number, files))
    stats = {
        "numRecords": ROWS,
        "minValues": {**lower, "ts": f"{day}T00:00:00.000Z"},
        "maxValues": {**upper, "ts": f"{day}T23:59:59.999Z"},
        "nullCount": dict.fromkeys(lower, 0),
    }
    return {
        "path": f"day={day}/region={region}/part-{number:08d}-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee.c000.parquet",
        "partitionValues": {"day": day, "region": region},
        "size": 1_000_000 + number % 1_000,
        "modificationTime": 1_700_000_000_000,
        "dataChange": True,
        "stats": json.dumps(stats, separators=(",", ":")),
    }
