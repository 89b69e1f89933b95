"""The oracle's decoders, compared with fastavro, pyroaring, struct, and small tables that were decoded by hand."""

import io
import struct
import zlib
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyroaring import BitMap, BitMap64

import harness
from harness.engines.registry import find_engine
from harness.suite.oracle.avro import open_avro
from harness.suite.oracle.bitmaps import delta_vector, puffin_vector
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


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


MAGIC = b"\xd1\xd3\x39\x64"


def puffin(positions: Iterable[int]) -> bytes:
    return framed_puffin(MAGIC + bytes(BitMap64(positions).serialize()))


def framed_puffin(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def delta(positions: Iterable[int]) -> bytes:
    body = struct.pack("<i", 1681511377) + bytes(BitMap64(positions).serialize())
    return struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def native(*bitmaps: Iterable[int]) -> bytes:
    parts = [bytes(BitMap(bitmap).serialize()) for bitmap in bitmaps]
    body = struct.pack("<ii", 1681511376, len(parts)) + b"".join(struct.pack("<i", len(p)) + p for p in parts)
    return struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))


SETS = {
    "empty": set(),
    "one": {0},
    "array": {1, 5, 65535},
    "two containers": {1, 65536, 131071},
    "bitset": set(range(0, 20000, 2)),
    "above 2^32": {7, 2**32 + 7, 2**33},
    "4096 and 4097": set(range(0, 8192, 2)) | set(range(65536, 65536 + 8194, 2)),
}


@pytest.mark.parametrize("positions", SETS.values(), ids=SETS)
def test_vectors_of_both_formats(positions: set[int]) -> None:
    assert set(puffin_vector(puffin(positions))) == positions
    assert set(delta_vector(delta(positions))) == positions


def test_the_older_layout_counts_buckets() -> None:
    assert set(delta_vector(native({1, 2}, (), {3}))) == {1, 2, 2 * 2**32 + 3}


GOOD = puffin({1, 5, 9})
BROKEN = {
    "checksum": GOOD[:-1] + bytes([GOOD[-1] ^ 1]),
    "length": b"\0" + GOOD[:-1],
    "cut": GOOD[:20],
    "magic": framed_puffin(b"\0" + GOOD[5:-4]),
    "bytes after it": framed_puffin(GOOD[4:-4] + b"\0"),
    "cardinality": framed_puffin(GOOD[4:-4].replace(struct.pack("<HH", 0, 2), struct.pack("<HH", 0, 1), 1)),
    "out of order": framed_puffin(GOOD[4:-4].replace(struct.pack("<HHH", 1, 5, 9), struct.pack("<HHH", 1, 9, 5))),
    "key": framed_puffin(MAGIC + struct.pack("<QI", 1, 2**31 - 1) + bytes(BitMap({1}).serialize())),
    "same key twice": framed_puffin(MAGIC + struct.pack("<Q", 2) + (b"\0" * 4 + bytes(BitMap({1}).serialize())) * 2),
}


@pytest.mark.parametrize("blob", BROKEN.values(), ids=BROKEN)
def test_damage_is_refused(blob: bytes) -> None:
    assert set(puffin_vector(GOOD)) == {1, 5, 9}
    with pytest.raises(ValueError, match=r"\w"):
        puffin_vector(blob)


def rows(location: Any, columns: list[str] | None = None, where: str | None = None) -> list[tuple[Any, ...]]:
    table = harness.open_table(str(location)).snapshot().to_arrow(columns=columns, where=where, engine="oracle")
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


def test_the_oracle_is_a_registered_engine(tmp_path: Path) -> None:
    schema = {"id": "long not null", "s": "struct<a: uuid, b: list<date>>", "m": "map<string, time>"}
    t = IcebergTable.create(tmp_path / "t", schema)
    plan = harness.open_table(str(tmp_path / "t")).snapshot().plan()
    found = find_engine("oracle")
    assert (found.name, found.version()[:8]) == ("oracle", "Python 3")
    assert found.to_arrow(plan).schema == find_engine("duckdb").to_arrow(plan).schema
    t.append(t.write_data([{"id": 1, "s": None, "m": None}]))
    plan = harness.open_table(str(tmp_path / "t")).snapshot().plan(["id"])
    assert found.to_arrow(plan) == pa.table({"id": pa.array([1], pa.int64())})


def test_a_value_of_a_row_that_the_filter_drops_is_not_looked_at(tmp_path: Path) -> None:
    legacy = {"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""}
    t = DeltaTable.create(tmp_path / "d", {"id": "long", "d": "date"})
    t.append(t.write_data([{"id": 1, "d": 0}, {"id": 2, "d": -719164}], footer=legacy))
    assert rows(tmp_path / "d", ["id"], "id < 3") == [(1,), (2,)]
    assert [d.year for _, d in rows(tmp_path / "d", where="id = 1")] == [1970]
    with pytest.raises(harness.SchemaMismatchError, match="-719164 was written in the Julian calendar"):
        rows(tmp_path / "d", ["d"], "id = 2")
