"""Edge values, and calls of the functions in the table of functions with them.

The entries of `drawn.functions` contain calls with kinds of values in braces, `lpad({text}, {place}, 'xy')`. For each
kind, `EDGES` defines table columns of that kind with the values for which engines differ; `with_columns` inserts the
columns.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from drawn.functions import SUPPORTED, FunctionEntry

_DAY = 86_400_000_000
_LAST_MOMENT = 253_402_300_799_999_999
_FIRST_MOMENT = -62_135_596_800_000_000
_TEXTS = (
    "",
    "a",
    "b",
    "abc",
    "aXbXc",
    " a b ",
    "ß",
    "İi",
    "🦆",
    "x🦆y🦆",
    "é",
    "e\u0301",
    "A_b%c",
    "\\",
    "a\\b",
    "it's",
    "\t x\n",
    "\u00a0x\u2003",
    "123",
    "-1.5",
    "ab ab",
    "XX",
    "Straße",
    "日本語",
    "a,b,,c",
    ".",
    "a.b",
    "\x00z",
    "aaa",
)
_DOUBLES = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    0.1,
    1 / 3,
    math.nan,
    math.inf,
    -math.inf,
    1e308,
    -1e308,
    5e-324,
    1e15 + 0.5,
    123456.789,
    2.675,
    1.005,
    1e22,
    4503599627370497.5,
    0.49999999999999994,
    -1e-20,
    -3.7,
)
_DAYS = (0, -1, 19782, 19753, 19722, 18630, 18624, -719162, 2932896, -141428, -141427, -25509, 11016, -135081, 20087)
_MICROS = (
    0,
    -1,
    19782 * _DAY + 45_045_123_456,
    19753 * _DAY + 1,
    _FIRST_MOMENT,
    _LAST_MOMENT,
    -141432 * _DAY,
    18624 * _DAY + 82_800_000_000,
    18630 * _DAY + 3_723_500_000,
    -25508 * _DAY + 59_999_500,
    19792 * _DAY,
)


@dataclass(frozen=True, slots=True)
class Edge:
    """Columns of a type with edge values, including null.

    Attributes:
        type: The type in the form of `IcebergTable.create`.
        values: The values in the form of the builders.
    """

    type: str
    values: tuple[Any, ...]
    columns: tuple[str, ...]


def _struct(x: int | None, y: str | None) -> dict[str, Any]:
    return {"x": x, "y": y}


EDGES: Mapping[str, Edge] = {
    "text": Edge("string", _TEXTS, ("t1", "t2", "t3")),
    "ascii": Edge("string", ("", "a", "Abc", "Z z", "[\\]^_`{", "a1B2", "x\ty"), ("w1",)),
    "cased": Edge("string", ("", "Abc iI", "äÖéñŁž", "αΒγ", "Жш", "日本🦆", "i̇Ç"), ("w2",)),
    "int": Edge("int", (0, 1, -1, 2, 7, 10, 31, 63, 100, -100, 2**31 - 1, -(2**31), 233), ("i1", "i2")),
    "small": Edge("int", (0, 1, -1, 2, 7, -100, 2**31 - 1), ("i3",)),
    "count": Edge("int", (0, 1, 2, 3, 5, 10), ("n1", "n2")),
    "place": Edge("int", (0, 1, 2, 3, -1, -2, -5, 10), ("p1", "p2")),
    "point": Edge("int", (0, 65, 127, 128, 233, 0x20AC, 0xFFFD, 0x1F986, 0x10FFFF), ("p3",)),
    "long": Edge("long", (0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1, 10**18, -(10**12), 59), ("k1", "k2")),
    "double": Edge("double", _DOUBLES, ("d1", "d2")),
    "angle": Edge("double", (0.0, -0.0, 1.0, -1.0, 0.5, -0.3, 1e-9, 0.999), ("d3",)),
    "seconds": Edge("double", (0.0, 1.5, -0.25, 1e9 + 0.125, -1e9), ("d4",)),
    "float": Edge("float", (0.0, -0.0, 1.5, 2.5, -0.5, 16777216.0, math.nan, math.inf), ("f1",)),
    "decimal": Edge("decimal(10, 2)", ("0.00", "1.10", "-2.50", "0.05", "-0.05", "99999999.99", "3.33"), ("e1",)),
    "boolean": Edge("boolean", (True, False), ("b1",)),
    "date": Edge("date", _DAYS, ("a1", "a2")),
    "timestamp": Edge("timestamp", _MICROS, ("m1", "m2")),
    "near": Edge("timestamp", (0, -1, 19782 * _DAY + 45_045_123_456, 18624 * _DAY, -25508 * _DAY), ("m3",)),
    "instant": Edge("timestamptz", _MICROS, ("z1", "z2")),
    "blob": Edge("binary", (b"", b"a", b"\x00\xff", "🦆".encode()), ("y1",)),
    "ints": Edge("list<int>", ([], [1], [1, 2, 3], [3, 1, None, 1], [None], [2, 2], [-1, 0, 2**31 - 1]), ("l1", "l2")),
    "texts": Edge("list<string>", ([], ["a"], ["b", "a", None, "a", ""], ["é", "🦆"], [None]), ("l3",)),
    "doubles": Edge("list<double>", ([], [1.5], [math.nan, 2.0, None], [-math.inf, math.inf], [0.1, 0.2]), ("l4",)),
    "struct": Edge("struct<x: int, y: string>", (_struct(1, "p"), _struct(None, None), _struct(-5, "🦆")), ("s1",)),
    "map": Edge("map<string, int>", ({}, {"a": 1}, {"b": 2, "a": None}, {"é": 3, "": 4}), ("h1",)),
}
ORDER = "row"
"""The column that numbers the rows."""


def table() -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Return columns and rows of a table of all edge values. Values of two columns occur in many combinations."""
    columns = {name: edge.type for edge in EDGES.values() for name in edge.columns}
    rows = [{ORDER: number} for number in range(max(len(e.values) for e in EDGES.values()) * 2 + 3)]
    for edge in EDGES.values():
        values = (None, *edge.values)
        for place, name in enumerate(edge.columns):
            for number, row in enumerate(rows):
                # Each column repeats its values with a different period.
                row[name] = values[(number + place * (number // len(values) + 3 * place)) % len(values)]
    return {ORDER: "int", **columns}, rows


def with_columns(template: str) -> str:
    """Return a call with columns of `table`. Each placeholder gets another column as long as there are enough."""
    turns: dict[str, Iterator[str]] = {}
    found = re.sub(
        r"{([a-z]+)}", lambda kind: next(turns.setdefault(kind[1], itertools.cycle(EDGES[kind[1]].columns))), template
    )
    return found.replace("{{", "{").replace("}}", "}")


def calls() -> tuple[tuple[FunctionEntry, str], ...]:
    """Return every call in the table of functions, with its entry."""
    return tuple((function, draw) for function in SUPPORTED for draw in function.draws if not function.alternative)
