"""The Delta demo table: what a reader must not skip, and the rows that it must give, kept in plain Python beside it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any, TypeAlias

from harness.writing.delta.builder import DataFileHandle, DeltaTable

Row: TypeAlias = dict[str, Any]

COUNTRIES = ("de", "fr", "São Tomé 50%/#1", None)
FIRST_CLICKS = 2400
LATER_CLICKS = 400
DAYS = 2
SHOWS = (
    "deletion vectors in a shared file and inline, one of which replaces an older one; columns found by physical name: "
    "a renamed partition column, a column dropped and added again; a checkpoint with sidecars"
)


def build_clicks(location: Path) -> tuple[Row, ...]:
    """Write the table into a new directory; the rows that it holds, in no particular order."""
    table = DeltaTable.create(
        location,
        {
            "id": "long",
            "country": "string",
            "day": "date",
            "page": "struct<path: string, ms: int>",
            "at": "timestamp",
            "score": "int",
        },
        partition_columns=["day", "country"],
        column_mapping="name",
        features=["deletionVectors", "v2Checkpoint"],
    )
    rows = [_click(i) for i in range(FIRST_CLICKS)]
    handles = table.write_partitioned(rows, row_group_size=100)
    table.append(*handles)
    model = dict(zip(handles, _by_partition(rows), strict=True))
    dead = {handle: set(range(0, len(placed), 7)) for handle, placed in model.items()}
    table.delete_rows(dead, prefix="dv")
    for handle in (h for h, placed in model.items() if placed[0]["country"] == "de"):
        table.delete(handle, range(100, 150), storage="i")
        dead[handle] |= set(range(100, 150))
    table.checkpoint("v2-json", sidecars=2, stats_parsed=True)
    del model[_remove_one(table, model)]
    alive = [r for handle, placed in model.items() for i, r in enumerate(placed) if i not in dead[handle]]
    return (*map(_evolved, alive), *_later(table))


def _remove_one(table: DeltaTable, model: dict[DataFileHandle, list[Row]]) -> DataFileHandle:
    (handle,) = (h for h, placed in model.items() if placed[0]["country"] == "fr" and placed[0]["day"].day == DAYS)
    table.remove(handle)
    return handle


def _later(table: DeltaTable) -> list[Row]:
    """Change the schema and append rows to it, all of which live."""
    table.rename_column("country", "market")
    table.drop_column("score")
    table.add_column("score", "double")
    table.add_column("referrer", "string", parent="page")
    rows = [_later_click(i) for i in range(FIRST_CLICKS, FIRST_CLICKS + LATER_CLICKS)]
    table.append(*table.write_partitioned(rows))
    return rows


def _by_partition(rows: list[Row]) -> list[list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["day"], row["country"]), []).append(row)
    return list(groups.values())


def _click(i: int) -> Row:
    return {
        "id": i,
        "country": COUNTRIES[i % 4],
        "day": dt.date(2024, 3, 1 + i * DAYS // FIRST_CLICKS % DAYS),
        "page": None if i % 9 == 0 else {"path": f"/p/{i % 20}", "ms": None if i % 6 == 0 else i},
        "at": dt.datetime(2024, 3, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=i, microseconds=i),
        "score": i % 5,
    }


def _later_click(i: int) -> Row:
    """A click in the evolved schema; half of them have a referrer and a score."""
    row = _evolved(_click(i))
    if i % 2 and row["page"] is not None:
        row["page"]["referrer"] = f"/p/{i % 3}"
    return {**row, "score": i / 4 if i % 2 else None}


def _evolved(row: Row) -> Row:
    """A row of the first schema as the last one shows it: the old scores belong to the column that was dropped."""
    page = row["page"]
    return {
        "id": row["id"],
        "market": row["country"],
        "day": row["day"],
        "page": None if page is None else {**page, "referrer": None},
        "at": row["at"],
        "score": None,
    }
