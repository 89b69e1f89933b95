"""Tables that are made to use much memory or time raise an error that names the limit, and use less than 1 GiB.

`tests/bombs.py` makes the tables. They are read with small limits, so that the tables can be small. `programs/fuzzing`
reads the tables that need the default limits in separate processes.
"""

import bz2
import gzip
import json
import lzma
import random
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bombs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import harness
from harness.errors import (
    CorruptDeleteError,
    CorruptFileError,
    HarnessError,
    LimitError,
    RequestError,
    UnsupportedError,
)
from harness.metadata.files.avro import read_avro
from harness.metadata.files.avro_container import RequestedField, decompress, open_container
from harness.metadata.files.documents import TooLongError, decompress_streams, unsnappy, unzstd
from harness.metadata.files.parquet import row_count
from harness.metadata.files.roaring import decode_native, decode_portable
from harness.storage.limits import Limits, parse_numbers
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


def test_a_footer_that_claims_a_million_row_groups_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    location = bombs.with_row_groups(tmp_path, b"\x80\x80\x40")
    with pytest.raises(CorruptFileError, match="claims more items than fit"):
        harness.open_table(str(location)).snapshot().to_arrow()


SMALL = Limits(block_bytes=1 << 16)
PACKED = {
    "deflate": lambda data: zlib.compress(data)[2:-4],
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstandard": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
    "snappy": lambda data: pa.Codec("snappy").compress(data, asbytes=True) + zlib.crc32(data).to_bytes(4, "big"),
}


@pytest.mark.parametrize("codec", PACKED)
def test_a_block_may_hold_as_much_as_the_limit_says(codec: str) -> None:
    most = bytes(1 << 16)
    assert decompress(codec, PACKED[codec](most), file="f", cause="c", limits=SMALL) == most
    with pytest.raises(LimitError, match="block_bytes") as caught:
        decompress(codec, PACKED[codec](most + b"x"), file="f", cause="c", limits=SMALL)
    assert caught.value.file == "f"


@pytest.mark.parametrize(("codec", "missing"), [("snappy", "Codec"), ("zstandard", "CompressedInputStream")])
def test_a_pyarrow_without_the_codec_is_named(monkeypatch: pytest.MonkeyPatch, codec: str, missing: str) -> None:
    def without(*_: object) -> None:
        raise pa.ArrowNotImplementedError("Support for this codec not built")

    block = PACKED[codec](b"abc")
    monkeypatch.setattr(pa, missing, without)
    with pytest.raises(UnsupportedError, match=f"'{codec}': the installed pyarrow was built without it"):
        decompress(codec, block, file="f", cause="c", limits=SMALL)


@pytest.mark.parametrize("declared", [2**20, 2**32 - 1, 2**62])
def test_the_declared_length_of_snappy_is_read_first(declared: int) -> None:
    with pytest.raises(TooLongError):
        unsnappy(bombs.snappy(declared), max_bytes=2**20 - 1)
    with pytest.raises(ValueError, match="more than its"):
        unsnappy(bombs.snappy(declared), max_bytes=2**63)


def test_the_declared_length_of_zstandard_is_read_first() -> None:
    frame = pa.Codec("zstd").compress(b"x" * 100_000, asbytes=True)
    for width, declared in ((4, 2**31), (8, 2**60)):
        told = frame[:4] + bytes([(2 if width == 4 else 3) << 6 | 0x20]) + declared.to_bytes(width, "little")
        with pytest.raises(TooLongError) as caught:
            unzstd(told + frame[8:], max_bytes=2**20)
        assert caught.value.length == declared


def manifest(data: bytes, requested_fields: tuple[RequestedField, ...] = (), **limits: int) -> int:
    return len(list(open_container(data, file="f", limits=Limits(**limits)).records(requested_fields)))


LIST = {"type": "array", "items": "long"}
TWO_LISTS = bombs.avro(bombs.record(LIST), 1, bombs.number(6) + bytes(range(0, 12, 2)) + b"\0")
EMPTY_ITEMS = bombs.avro(bombs.record(bombs.NULLS, "bytes"), 1, bombs.number(5) + b"\0" + bombs.number(9) + bytes(9))
RECORDS = bombs.avro(bombs.record("long"), 4000, zlib.compress(b"\2" * 4000)[2:-4], "deflate")


@pytest.mark.parametrize(
    ("data", "requested_fields", "enough", "limit"),
    [
        pytest.param(TWO_LISTS, (RequestedField(9000),), 6, "items", id="items of a list"),
        pytest.param(EMPTY_ITEMS, (), 5, "empty_values", id="items of no byte"),
        pytest.param(RECORDS, (), 4000 - len(RECORDS), "spare_records", id="records without bytes of the file"),
    ],
)
def test_a_manifest_may_claim_as_much_as_the_limit_says(
    data: bytes, requested_fields: Any, enough: int, limit: str
) -> None:
    manifest(data, requested_fields, **{limit: enough})
    with pytest.raises(LimitError, match=limit):
        manifest(data, requested_fields, **{limit: enough - 1})


def field(name: str, type_: object, id_: int) -> dict[str, object]:
    return {"name": name, "type": type_, "field-id": id_}


def record(*fields: object, name: str) -> dict[str, object]:
    return {"type": "record", "name": name, "fields": list(fields)}


def entries(data: bytes, *requested_fields: RequestedField) -> list[Any]:
    return list(open_container(data, file="f").records(requested_fields))


@pytest.mark.parametrize(
    "name", ["record", "error", "enum", "fixed", "array", "map", "union", "long", "string", "null"]
)
@pytest.mark.parametrize("inner", ["the root", "a field", "an enum", "a fixed type"])
def test_a_type_may_be_named_like_a_kind_of_types(name: str, inner: str) -> None:
    fields = [field("a", "long", 1), field("b", "string", 2)]
    added, value = [], b""
    match inner:
        case "a field":
            added, value = [field("c", record(field("d", "long", 4), name=name), 3)], b"\2"
        case "an enum":
            added, value = [field("c", {"type": "enum", "name": name, "symbols": ["x", "y"]}, 3)], b"\2"
        case "a fixed type":
            added, value = [field("c", {"type": "fixed", "name": name, "size": 1}, 3)], b"\2"
    schema = record(*added, *fields, name=name if inner == "the root" else "r")
    data = bombs.avro(schema, 1, value + b"\6" + b"\4zz")
    with bombs.ending():
        assert entries(data, RequestedField(1), RequestedField(2)) == [[3, "zz"]]
        decoded = {"the root": None, "a field": [1], "an enum": "y", "a fixed type": b"\2"}
        assert entries(data, RequestedField(3), RequestedField(1)) == [[decoded[inner], 3]]
        assert read_avro(data, file="f")[1].column("b").to_pylist() == ["zz"]


def test_a_name_of_a_kind_refers_to_the_type() -> None:
    named = record(field("d", "long", 4), name="record")
    fields = [field("a", named, 1), field("b", "record", 2)]
    data = bombs.avro(record(*fields, field("c", {"type": "record"}, 3), name="r"), 1, b"\2\4\6")
    with bombs.ending():
        with pytest.raises(CorruptFileError, match="schema"):  # a record without a name is invalid
            entries(data, RequestedField(3))
        data = bombs.avro(record(*fields, name="r"), 1, b"\2\4")
        assert entries(data, RequestedField(2), RequestedField(1)) == [[[2], [1]]]


def uses(type_: dict[str, object], times: int, *, union: bool = False) -> bytes:
    """Return a file whose record uses one type many times."""
    types: list[object] = [type_, *[type_["name"]] * times]
    return bombs.avro(bombs.record(types) if union else bombs.record(*types), 0, b"")


FLAT = {"type": "record", "name": "t", "fields": [{"name": f"a{i}", "type": "long"} for i in range(10)]}
NESTED = {"type": "record", "name": "t", "fields": [{"name": f"a{i}", "type": LIST} for i in range(10)]}


@pytest.mark.parametrize(
    ("data", "requested_fields"),
    [
        pytest.param(uses(FLAT, 10), (), id="records that are skipped"),
        pytest.param(uses(NESTED, 10), (), id="records that are decoded to be skipped"),
        pytest.param(uses(FLAT, 10, union=True), (RequestedField(9000),), id="branches of a union"),
    ],
)
def test_a_type_is_counted_at_each_use(data: bytes, requested_fields: Any) -> None:
    manifest(data, requested_fields)
    with pytest.raises(LimitError, match="schema_types") as caught:
        manifest(data, requested_fields, schema_types=100)
    assert caught.value.file == "f"


def test_names_and_symbols_are_not_copied_at_each_use() -> None:
    long = "n" * 10_000_000
    types = [{"type": "fixed", "name": f"q{i}", "size": 1} for i in range(3000)]
    symbols = {"type": "enum", "name": "e", "symbols": [f"s{i}" for i in range(30_000)]}
    inner = bombs.record(*types, symbols, *["e"] * 3000) | {"name": "inner", "namespace": long}
    schema = {"type": "record", "name": "r", "fields": [{"name": long, "type": inner, "field-id": 1}]}
    data = bombs.avro(schema, 0, b"")
    with bombs.ending():
        assert read_avro(data, file="f")[1].num_rows == 0
        assert manifest(data, (RequestedField(1),)) == 0


@pytest.mark.parametrize("codec", ["gzip", "bzip2", "xz"])
def test_many_streams_are_read_once(codec: str) -> None:
    pack = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}[codec]

    def unpack(data: bytes) -> bytes:
        return decompress_streams(data, codec=codec, max_bytes=100_000)

    noise = random.Random(3).randbytes(40_000)
    with bombs.ending():
        assert unpack(pack(b"a") + pack(b"") * 200_000 + pack(noise) + pack(b"b")) == b"a" + noise + b"b"
    for damaged in (pack(b"a") + pack(noise)[:-1], pack(b"a") + b"z", b"\0"):
        with pytest.raises((EOFError, OSError, lzma.LZMAError, zlib.error)):
            unpack(damaged)
    if codec == "gzip":
        assert unpack(pack(b"a") + bytes(2000) + pack(b"b") + bytes(9)) == b"ab"


@pytest.mark.parametrize("decode", [decode_portable, decode_native])
def test_a_bitmap_may_hold_as_much_as_the_limit_says(decode: Any) -> None:
    data = bombs.runs(4, 1)
    if decode is decode_native:
        data = (1).to_bytes(4, "little") + (len(data) - 12).to_bytes(4, "little") + data[12:]
    assert len(decode(data, limits=Limits(positions=4 << 16))) == 4 << 16
    with pytest.raises(LimitError, match="positions"):
        decode(data, limits=Limits(positions=(4 << 16) - 1))


def test_a_vector_may_not_delete_more_rows_than_its_file_has(tmp_path: Path) -> None:
    location = bombs.with_vector(tmp_path, bombs.runs(4, 1), cardinality=4 << 16, rows=1)
    with pytest.raises(CorruptDeleteError, match="deletes row 262143 of a data file of 1 rows"):
        harness.open_table(str(location)).snapshot().to_arrow()


def delta(folder: Path, commits: int = 1) -> DeltaTable:
    table = DeltaTable.create(folder / "t", {"id": "long"})
    for number in range(commits):
        table.append(table.write_data([{"id": number}]))
    return table


def test_a_commit_may_have_as_many_actions_as_the_limit_says(tmp_path: Path) -> None:
    delta(tmp_path)
    location = str(tmp_path / "t")
    actions = max(len(path.read_text().splitlines()) for path in (tmp_path / "t" / "_delta_log").glob("*.json"))
    harness.open_table(location, limits=Limits(actions=actions))
    with pytest.raises(LimitError, match="actions") as caught:
        harness.open_table(location, limits=Limits(actions=actions - 1))
    assert str(caught.value.file).endswith(".json")


def test_a_checkpoint_may_have_as_many_rows_as_it_has_bytes_and_more(tmp_path: Path) -> None:
    delta(tmp_path).checkpoint()
    (path,) = (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet")
    rows = pq.read_table(path)
    nothing = pa.table([pa.nulls(500_000, f.type) for f in rows.schema], schema=rows.schema)
    pq.write_table(pa.concat_tables([rows, nothing]), path)
    (tmp_path / "t" / "_delta_log" / "_last_checkpoint").unlink(missing_ok=True)
    with pytest.raises(LimitError, match="spare_records") as caught:
        harness.open_table(str(tmp_path / "t"))
    assert str(caught.value.file).endswith(".parquet")


@pytest.mark.parametrize("kind", ["add", "txn"])
def test_the_columns_of_a_checkpoint_may_take_so_much_memory(tmp_path: Path, kind: str) -> None:
    delta(tmp_path).checkpoint()
    (path,) = (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet")
    rows = pq.read_table(path)
    # One long text in a dictionary, which is copied for each row that refers to it.
    adds = rows.filter(pa.compute.is_valid(rows.column("add")))
    text = "y" * 50_000
    add = adds.column("add")[0].as_py() | {"stats": json.dumps({"numRecords": 1, "x": text})}
    actions = {
        "add": [add | {"path": f"f{i}"} for i in range(400)],
        "txn": [{"appId": text, "version": i} for i in range(400)],
    }
    many = pa.table({kind: pa.array(actions[kind], rows.schema.field("add").type if kind == "add" else None)})
    pq.write_table(pa.concat_tables([rows.drop_columns(["txn"]), many], promote_options="default"), path)
    (tmp_path / "t" / "_delta_log" / "_last_checkpoint").unlink(missing_ok=True)
    harness.open_table(str(tmp_path / "t")).snapshot().plan()
    with pytest.raises(LimitError, match="spare_bytes"):  # raised for statistics when a plan needs them
        harness.open_table(str(tmp_path / "t"), limits=Limits(spare_bytes=1 << 20)).snapshot().plan()


@pytest.mark.parametrize("file", ["data", "position deletes", "position deletes in ORC", "a column of DuckDB's"])
def test_a_file_that_is_read_whole_may_have_as_many_rows_as_the_limit_says(tmp_path: Path, file: str) -> None:
    name = "file_index" if "DuckDB" in file else "v"  # these files are read through Arrow
    table = IcebergTable.create(tmp_path / "t", {name: "long"})
    data = table.write_data([{name: i} for i in range(5)], format="orc" if file == "data" else "parquet")
    table.append(data)
    if "deletes" in file:
        format_ = "orc" if "ORC" in file else "parquet"
        table.append(table.write_position_deletes([(data, i) for i in range(5)], format=format_))
    location = str(tmp_path / "t")
    assert read_rows(location, Limits(rows=5)) == (0 if "deletes" in file else 5)
    with pytest.raises(
        LimitError, match=r"5 rows, 4 are allowed\. If you trust it, raise the option limits.rows"
    ) as caught:
        read_rows(location, Limits(rows=4))
    assert caught.value.file is not None


def read_rows(location: str, limits: Limits) -> int:
    return harness.open_table(location, limits=limits).snapshot().to_arrow().num_rows


@pytest.mark.parametrize("groups", [[1, 1], [4], [-4, 7], []])
def test_a_footer_that_counts_other_rows(groups: list[int]) -> None:
    with pytest.raises(CorruptFileError, match=f"counts 3 rows, its row groups {sum(groups)}"):
        row_count(footer(groups, 3), file="f")


def footer(groups: list[int], rows: int) -> Any:
    found = [SimpleNamespace(num_rows=count) for count in groups]
    return SimpleNamespace(num_row_groups=len(found), row_group=found.__getitem__, num_rows=rows)


@pytest.mark.parametrize("levels", [300, 900, 20_000])
@pytest.mark.parametrize("make", ["iceberg", "delta"])
def test_types_that_nest_without_end(tmp_path: Path, make: str, levels: int) -> None:
    if make == "iceberg":
        IcebergTable.create(tmp_path / "t", {"id": "long"})
        opening, part = '{"type":"list","element-id":%d,"element-required":false,"element":', '"long"'
        (path,) = (tmp_path / "t" / "metadata").glob("*.metadata.json")
        text = json.dumps(json.loads(path.read_text()), separators=(",", ":"))
    else:
        DeltaTable.create(tmp_path / "t", {"id": "long"})
        opening, part = '{"type":"array","containsNull":true,"elementType":', '"long"'
        path = next((tmp_path / "t" / "_delta_log").glob("*.json"))
        text = path.read_text()
    deep = "".join(opening % (i + 2) if "%d" in opening else opening for i in range(levels)) + part + "}" * levels
    escaped = text.replace('\\"type\\":\\"long\\"', '\\"type\\":' + deep.replace('"', '\\"'))
    path.write_text(escaped if make == "delta" else text.replace('"type":"long"', '"type":' + deep))
    with pytest.raises(HarnessError):
        harness.open_table(str(tmp_path / "t")).snapshot().to_arrow()


def test_limits_are_whole_numbers_with_known_names() -> None:
    assert parse_numbers(Limits, "limit", {"items": "1_000"}) == Limits(items=1000)
    for name, text, words in (("item", "1", "Unknown limit 'item'"), ("items", "-1", "whole number")):
        with pytest.raises(RequestError, match=words):
            parse_numbers(Limits, "limit", {name: text})
    with pytest.raises(RequestError, match="positions=-1"):
        Limits(positions=-1)


def test_an_out_of_memory_error_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(*_: Any, **__: Any) -> Any:
        raise MemoryError

    location = bombs.iceberg(tmp_path)
    monkeypatch.setattr("harness.metadata.iceberg.metadata.check_document", end)
    with pytest.raises(LimitError, match="more memory than is available") as caught:
        harness.open_table(str(location))
    assert str(caught.value.file).endswith(".metadata.json")
