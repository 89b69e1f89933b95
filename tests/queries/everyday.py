"""Everyday expressions in DuckDB's SQL and their outcome on Spark: equal, allowed to differ, or refused.

They use a table of orders, `COLUMNS` and `ROWS`. `everyday.txt` lists them, separated by two blanks. The reference
counts them (`programs/documentation/tables.py`).
"""

import re
from pathlib import Path
from typing import Any

DAY = 86_400_000_000
COLUMNS = {
    "id": "int",
    "big": "long",
    "customer": "string",
    "city": "string",
    "note": "string",
    "code": "string",
    "total": "decimal(12, 2)",
    "price": "double",
    "rate": "double",
    "qty": "int",
    "ordered": "date",
    "shipped": "date",
    "made": "timestamp",
    "seen": "timestamp",
    "logged": "timestamptz",
    "active": "boolean",
    "tags": "list<string>",
    "scores": "list<int>",
    "address": "struct<street: string, zip: string, floor: int>",
    "props": "map<string, int>",
}


def _row(*values: Any) -> dict[str, Any]:
    return dict(zip(COLUMNS, values, strict=True))


ROWS: list[dict[str, Any]] = [
    _row(
        1,
        10**10,
        "Ann Lee",
        "Köln",
        "first, second",
        "2024-01-05",
        "19.99",
        12.345,
        0.5,
        3,
        19782,
        19785,
        19782 * DAY + 45_045_123_456,
        19785 * DAY,
        19782 * DAY,
        True,
        ["new", "vip"],
        [3, 1, 2],
        {"street": "Main St 5", "zip": "50667", "floor": 2},
        {"a": 1, "b": 2},
    ),
    _row(
        2,
        -5,
        "bob",
        "New York",
        "",
        "A-17",
        "-250.50",
        -0.005,
        0.25,
        0,
        19753,
        19753,
        19753 * DAY + 1,
        -1,
        19753 * DAY + 3_600_000_000,
        False,
        [],
        [5, None, 5],
        {"street": "Ring 1", "zip": "10115", "floor": None},
        {},
    ),
    _row(
        3,
        0,
        "  Émile  ",
        "東京",
        "a_b%c",
        "42",
        "0.00",
        1e6,
        0.75,
        10,
        -1,
        19000,
        -3 * DAY,
        19000 * DAY + DAY // 2,
        0,
        None,
        ["x", None, "x"],
        [0],
        {"street": None, "zip": None, "floor": 0},
        {"c": None},
    ),
    _row(
        4,
        2**40,
        "O'Brien",
        "köln",
        "x;y;z",
        "true",
        "1000000.01",
        2.5,
        1.0,
        7,
        18321,
        None,
        18321 * DAY + 86_399_999_999,
        18322 * DAY,
        18321 * DAY,
        True,
        ["vip"],
        [],
        {"street": "Hügel 7", "zip": "8001", "floor": 11},
        {"a": 9},
    ),
    _row(*(None,) * len(COLUMNS)),
]

EQUAL, ALLOWED, REFUSED = re.split(r"^# \w+\n", Path(__file__).with_suffix(".txt").read_text("utf-8"), flags=re.M)[1:]


def listed(text: str) -> list[tuple[str, str]]:
    """Return each expression with the condition on its rows."""
    listed = re.split(r"\n|  +", text.strip())
    return [(sql, where or "true") for sql, _, where in (expression.partition(" @@ ") for expression in listed)]
