"""Three tables of a shop, with nested columns, nulls, and deleted rows, for queries from other projects."""

from pathlib import Path
from typing import Any

import harness
from harness.writing.iceberg.builder import IcebergTable

DAY = 86_400_000_000


def columns(text: str) -> dict[str, str]:
    return dict(column.split(" ", 1) for column in text.split("; "))


COLUMNS = {
    "customers": columns(
        "customer_id int; name string; city string; segment string; joined date; tags list<string>; "
        "address struct<street: string, zip: string, geo: struct<lat: double, lon: double>>"
    ),
    "orders": columns(
        "order_id int; customer_id int; status string; ordered date; created timestamp; total decimal(12, 2); "
        "discount double; items list<struct<sku: string, qty: int, price: decimal(8, 2)>>; "
        "attrs map<string, string>"
    ),
    "events": columns(
        "event_id long; customer_id int; kind string; at timestamp; value double; amount long; "
        "payload struct<page: string, ms: int, path: list<string>>; scores list<int>"
    ),
}
DELETED = {
    "customers": {"customer_id": 99, "name": "deleted"},
    "orders": {"order_id": 999, "customer_id": 1, "total": "5.00"},
    "events": {"event_id": 999, "customer_id": 1, "amount": 7},
}


def _customer(i: int) -> dict[str, Any]:
    geo = None if i == 4 else {"lat": 50.0 + i / 8, "lon": 6.5 - i / 4}
    return {
        "customer_id": i + 1,
        "name": ("Ann", "Bob", "Cid", "Dora", "Eve", "Finn", None, "Hal")[i],
        "city": ("Köln", "Paris", "Rome", None)[i % 4],
        "segment": ("gold", "silver", None)[i % 3],
        "joined": 19000 + i * 37,
        "tags": (["vip", "eu"], [], None, ["eu", None])[i % 4],
        "address": None if i == 5 else {"street": f"S {i}", "zip": None if i == 2 else f"{10000 + i}", "geo": geo},
    }


def _order(i: int) -> dict[str, Any]:
    items = [
        {"sku": f"A{(i * 7 + j) % 5}", "qty": 1 + (i + j) % 4, "price": f"{(i * 13 + j * 7) % 50}.{(i * 3) % 10}5"}
        for j in range(i % 4)
    ]
    day = 19700 + (i * 11) % 90
    return {
        "order_id": 100 + i,
        "customer_id": None if i == 13 else 1 + (i * 5) % 9,
        "status": ("paid", "open", "shipped", "returned", None)[i % 5],
        "ordered": day,
        "created": day * DAY + (i * 3_600_123_456) % DAY,
        "total": None if i == 17 else f"{(i * 37) % 200}.{(i * 7) % 100:02d}",
        "discount": (0.0, 0.1, None, 0.25)[i % 4],
        "items": None if i % 9 == 8 else items,
        "attrs": {"channel": ("web", "app")[i % 2], **({"coupon": f"X{i}"} if i % 3 == 0 else {})},
    }


def _event(i: int) -> dict[str, Any]:
    path = ["home", *(["cart"] if i % 2 else [])]
    return {
        "event_id": i,
        "customer_id": 1 + (i * 3) % 7,
        "kind": ("view", "click", "buy", None)[(i * i + i // 3) % 4],
        "at": (19750 * 24 * 60 + i * 37) * 60_000_000 + i * 1000,
        "value": None if i % 11 == 5 else (i * 17 % 23) / 4,
        "amount": None if i % 7 == 6 else (i * i * 7) % 50,
        "payload": None if i % 10 == 9 else {"page": f"/p{i % 3}", "ms": (i * 31) % 100, "path": path},
        "scores": (None, [], [i % 5], [i % 3, None, i % 7], [3, 1, 2])[i % 5],
    }


ROWS = {
    "customers": [_customer(i) for i in range(8)],
    "orders": [_order(i) for i in range(30)],
    "events": [_event(i) for i in range(40)],
}


def tables(directory: Path) -> dict[str, harness.Table]:
    """Create the tables, each with two files and a deleted row in both."""
    for name, columns in COLUMNS.items():
        table = IcebergTable.create(directory / name, columns, format_version=2)
        half = len(ROWS[name]) // 2
        parts = (ROWS[name][:half], ROWS[name][half:])
        files = [table.write_data([*rows, DELETED[name]]) for rows in parts]
        table.append(*files)
        table.append(table.write_position_deletes([(file, len(rows)) for file, rows in zip(files, parts, strict=True)]))
    return {name: harness.open_table(str(directory / name)) for name in COLUMNS}
