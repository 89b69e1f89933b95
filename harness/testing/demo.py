"""The demo tables and their correct rows. A reader that ignores a rule of the format returns wrong rows for them.

The correct rows are computed without reading the tables. The rows are also kept as plain dicts, every delete is applied
to the dicts in plain Python, and the remaining dicts are what any reader must return.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

DemoRow: TypeAlias = dict[str, Any]

COUNTRIES = ("de", "fr", "São Tomé 50%/#1", None)
FIRST_CLICKS = 2400
LATER_CLICKS = 400
DAYS = 2
SHOWS = (
    "deletion vectors in a shared file and inline, one of which replaces an older one; columns found by physical name: "
    "a renamed partition column, a column dropped and added again; a checkpoint with sidecars"
)


def build_clicks(location: Path) -> tuple[DemoRow, ...]:
    """Write the table `clicks` into a new directory, and return its rows in no particular order."""
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
    groups: dict[tuple[Any, ...], list[DemoRow]] = {}
    for row in rows:
        groups.setdefault((row["day"], row["country"]), []).append(row)
    model = dict(zip(handles, groups.values(), strict=True))
    deletes = {handle: set(range(0, len(placed), 7)) for handle, placed in model.items()}
    table.delete_rows(deletes, prefix="dv")
    for handle in (h for h, placed in model.items() if placed[0]["country"] == "de"):
        table.delete(handle, range(100, 150), storage="i")
        deletes[handle] |= set(range(100, 150))
    table.checkpoint("v2-json", sidecars=2, stats_parsed=True)
    (old_handle,) = (h for h, placed in model.items() if placed[0]["country"] == "fr" and placed[0]["day"].day == DAYS)
    table.remove(old_handle)
    del model[old_handle]
    alive = [r for handle, placed in model.items() for i, r in enumerate(placed) if i not in deletes[handle]]
    table.rename_column("country", "market")
    table.drop_column("score")
    table.add_column("score", "double")
    table.add_column("referrer", "string", parent="page")
    later = [_later_click(i) for i in range(FIRST_CLICKS, FIRST_CLICKS + LATER_CLICKS)]
    table.append(*table.write_partitioned(later))
    return (*map(_delta_demo_evolved, alive), *later)


def _click(i: int) -> DemoRow:
    return {
        "id": i,
        "country": COUNTRIES[i % 4],
        "day": dt.date(2024, 3, 1 + i * DAYS // FIRST_CLICKS % DAYS),
        "page": None if i % 9 == 0 else {"path": f"/p/{i % 20}", "ms": None if i % 6 == 0 else i},
        "at": dt.datetime(2024, 3, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=i, microseconds=i),
        "score": i % 5,
    }


def _later_click(i: int) -> DemoRow:
    """Return a click in the last schema. Half of these clicks have a referrer and a score."""
    row = _delta_demo_evolved(_click(i))
    if i % 2 and row["page"] is not None:
        row["page"]["referrer"] = f"/p/{i % 3}"
    return {**row, "score": i / 4 if i % 2 else None}


def _delta_demo_evolved(row: DemoRow) -> DemoRow:
    """Convert a row of the first schema to the last schema. Its score is null, because the old column was dropped."""
    page = None if row["page"] is None else {**row["page"], "referrer": None}
    return {"market" if name == "country" else name: value for name, value in row.items()} | {
        "page": page,
        "score": None,
    }


REGIONS = ("eu", "us", "apac", None)
FIRST_ORDERS = 3000
LATER_ORDERS = 1000
EVENTS = 2000


@dataclass(frozen=True, slots=True)
class DemoTable:
    """A demo table.

    Attributes:
        name: The table's name.
        location: The table's directory.
        metadata_path: Its newest metadata file, or the directory of its log.
        expected: Its rows as Python values by column name, in no particular order.
        shows: The features of the table that an incomplete reader reads wrongly.
    """

    name: str
    location: Path
    metadata_path: Path
    expected: tuple[DemoRow, ...]
    shows: str


@dataclass(frozen=True, slots=True)
class DemoTables:
    """The demo tables.

    Attributes:
        orders: An Iceberg table that began as v2 and was upgraded to v3.
        events: An Iceberg v3 table with deletion vectors.
        clicks: A Delta table with deletion vectors, column mapping and partitions.
    """

    orders: DemoTable
    events: DemoTable
    clicks: DemoTable


def build_demo_tables(directory: Path) -> DemoTables:
    """Write all demo tables into new directories under `directory`.

    Each run writes the same bytes for the same directory.
    """
    clicks = directory / "clicks"
    return DemoTables(
        _build_orders(directory / "orders"),
        _build_events(directory / "events"),
        DemoTable("clicks", clicks, clicks / "_delta_log", build_clicks(clicks), SHOWS),
    )


def _build_orders(location: Path) -> DemoTable:
    table = IcebergTable.create(
        location,
        {
            "id": "long not null",
            "region": "string",
            "customer": "int",
            "amount": "decimal(9, 2)",
            "ordered_at": "timestamptz",
        },
        partition_spec=[("region", "identity")],
    )
    rows = [_order(i) for i in range(FIRST_ORDERS)]
    handles = table.write_partitioned(rows, row_group_size=200)
    table.append(*handles)
    alive: list[DemoRow] = []
    deletes = []
    for region, handle in zip(REGIONS, handles, strict=True):
        placed = list(enumerate(row for row in rows if row["region"] == region))
        deletes.append(table.write_position_deletes([(handle, place) for place, _ in placed if place % 10 == 0]))
        alive += [row for place, row in placed if place % 10 != 0]
    table.append(*deletes)

    keys = (7, 11, None)
    table.append(
        table.write_equality_deletes(["customer"], [{"customer": key} for key in keys], partition={"region": "eu"})
    )
    alive = [row for row in alive if not (row["region"] == "eu" and row["customer"] in keys)]

    table.upgrade(3)
    table.rename_column("amount", "total")
    table.add_column("channel", "string", initial_default="web")
    table.set_partition_spec([("region", "identity"), ("ordered_at", "month")])
    # Live orders in the evolved schema, of customers whose older orders are deleted.
    new = range(FIRST_ORDERS, FIRST_ORDERS + LATER_ORDERS)
    later = [_evolved(_order(i), ("web", "shop", None)[i % 3]) for i in new]
    table.append(*table.write_partitioned(later))
    expected = [*(_evolved(row, "web") for row in alive), *later]
    shows = (
        "position deletes, equality deletes with a null key in one partition only, a renamed column, a column with an "
        "initial default, a changed partition spec, an upgrade from v2 to v3"
    )
    return DemoTable("orders", location, table.metadata_path, tuple(expected), shows)


def _build_events(location: Path) -> DemoTable:
    table = IcebergTable.create(
        location,
        {
            "id": "long not null",
            "kind": "string",
            "value": "double",
            "place": "struct<x: int, y: int>",
            "tags": "list<string>",
        },
        format_version=3,
    )
    rows = [_event(i) for i in range(EVENTS)]
    halves = (rows[: EVENTS // 2], rows[EVENTS // 2 :])
    handles = [table.write_data(half, row_group_size=300) for half in halves]
    table.append(*handles)
    first = table.write_deletion_vectors({handles[0]: range(100)})
    table.append(*first)
    # A data file has at most one vector: the new vector includes the old positions and replaces the old vector.
    deletes = {handles[0]: {*range(100), 500, 999}, handles[1]: {i * i for i in range(32)} | set(range(900, 970))}
    table.commit(add=table.write_deletion_vectors(deletes), remove=first)
    pairs = zip(handles, halves, strict=True)
    alive = [row for handle, half in pairs for place, row in enumerate(half) if place not in deletes[handle]]
    shows = "deletion vectors, one of which replaces an older one that is still in storage"
    return DemoTable("events", location, table.metadata_path, tuple(alive), shows)


def _order(i: int) -> DemoRow:
    customer = i % 25
    return {
        "id": i,
        "region": REGIONS[i % 4],
        "customer": None if customer == 13 else customer,
        "amount": Decimal(i * 37 % 100_000) / 100,
        "ordered_at": dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=i),
    }


def _evolved(row: DemoRow, channel: str | None) -> DemoRow:
    """Convert an order of the first schema to the last schema."""
    names = {"amount": "total"}
    return {**{names.get(name, name): value for name, value in row.items()}, "channel": channel}


def _event(i: int) -> DemoRow:
    return {
        "id": i,
        "kind": ("view", "click", "buy")[i % 3],
        "value": None if i % 17 == 0 else i / 8,
        "place": None if i % 5 == 0 else {"x": i % 10, "y": None if i % 7 == 0 else -i},
        "tags": None if i % 11 == 0 else [f"t{n}" for n in range(i % 4)],
    }
