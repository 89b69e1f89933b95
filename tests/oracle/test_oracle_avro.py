"""Avro containers that fastavro writes, decoded byte by byte by the oracle."""

import io
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from harness.testing.oracle.avro import open_avro


def container(fields: list[Any], rows: list[Any], codec: str = "null", **more: Any) -> bytes:
    stream = io.BytesIO()
    schema = {"type": "record", "name": "r", "fields": fields}
    fastavro.writer(stream, fastavro.parse_schema(schema), rows, codec=codec, **more)
    return stream.getvalue()


def field(type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": "a", "type": type_, **more}


def record(name: str, *types: Any) -> dict[str, Any]:
    fields = [{"name": f"f{i}", "type": type_} for i, type_ in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
PAIRS = {"type": "array", "logicalType": "map", "items": record("p", "int", "string")}
VALUES: dict[str, tuple[Any, Any, Any]] = {
    "int": ("int", -(2**31), -(2**31)),
    "long": ("long", 2**63 - 1, 2**63 - 1),
    "boolean": ("boolean", True, True),
    "double": ("double", -0.5, -0.5),
    "float": ("float", 1.5, 1.5),
    "string": ("string", "ä", "ä".encode()),
    "bytes": ("bytes", b"\0", b"\0"),
    "fixed": ({"type": "fixed", "name": "x", "size": 2}, b"ab", b"ab"),
    "enum": ({"type": "enum", "name": "e", "symbols": ["u", "v"]}, "v", b"v"),
    "decimal": (DECIMAL, Decimal("-1.25"), Decimal("-1.25")),
    "null first": (["null", "int"], None, None),
    "null last": (["int", "null"], 3, 3),
    "array": ({"type": "array", "items": ["null", "int"]}, [1, None], [1, None]),
    "map": ({"type": "map", "values": "int"}, {"k": 1}, [(b"k", 1)]),
    "map of pairs": (PAIRS, [{"f0": 1, "f1": "x"}], [(1, b"x")]),
    "record": (record("q", "int", ["null", "string"]), {"f0": 1, "f1": None}, (1, None)),
}


@pytest.mark.parametrize(("type_", "written", "expected"), VALUES.values(), ids=VALUES)
def test_values(type_: Any, written: Any, expected: Any) -> None:
    assert list(open_avro(container([field(type_)], [{"a": written}])).rows) == [(expected,)]


@pytest.mark.parametrize(
    "change",
    [lambda d: d[:-1], lambda d: b"X" + d[1:], lambda d: d[:-1] + bytes([d[-1] ^ 1])],
    ids=["cut", "magic", "marker"],
)
def test_damage(change: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        list(open_avro(change(container([field("long")], [{"a": 1}]))).rows)
