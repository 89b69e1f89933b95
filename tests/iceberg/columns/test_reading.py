"""Manifests as columns, decoded in lockstep or sequentially, with any schema, blocks, and damage."""

import io
import json
import random
from functools import partial

import bombs
import numpy as np
import pyarrow as pa
import pytest
from bombs import number
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import CorruptFileError, HarnessError, InvalidTableError
from harness.metadata.filters.predicate import Comparison, Filter, IsNull, Op
from harness.metadata.iceberg.columns import entries, reading
from harness.metadata.iceberg.columns.entries import BOUNDS, COUNTS, DataFiles, Extent, FilteredFiles, statistic
from harness.metadata.iceberg.columns.reading import read_data_files, read_entries
from harness.metadata.iceberg.columns.stored import ManifestCache, StoredEntries, concat_entries
from harness.metadata.iceberg.manifests import ManifestFile, open_manifest
from harness.metadata.iceberg.model import PartitionField, PartitionSpec
from harness.metadata.iceberg.skipping import skip_files
from harness.metadata.iceberg.transforms import Identity
from harness.metadata.model.schema import Field, IntegerType, Schema, StringType
from harness.storage.decoded import DECODED, Cache
from harness.storage.stores import FileVersion
from harness.writing.iceberg.avro import write_avro

SPEC = PartitionSpec(
    3,
    (
        PartitionField(field_id=1000, source_id=1, source_ids=(1,), name="p", transform=Identity()),
        PartitionField(field_id=1001, source_id=2, source_ids=(2,), name="q", transform=Identity()),
    ),
)
SCHEMAS = (Schema(fields=(Field(id=1, name="p", type=IntegerType(64)), Field(id=2, name="q", type=StringType()))),)
FIELDS = (1, 2, 7)


def field(name, type_, id_):
    return {"name": name, "type": type_, "field-id": id_}


def optional(type_):
    return ["null", type_]


def pairs(name, id_, key, value, type_):
    fields = [field("key", "int", key), field("value", type_, value)]
    return field(
        name, optional({"type": "array", "items": {"type": "record", "name": f"k{key}", "fields": fields}}), id_
    )


FILE_FIELDS = (
    field("content", "int", 134),
    field("file_path", "string", 100),
    field("file_format", "string", 101),
    field(
        "partition",
        {
            "type": "record",
            "name": "r102",
            "fields": [field("p", optional("long"), 1000), field("q", optional("string"), 1001)],
        },
        102,
    ),
    field("record_count", "long", 103),
    field("file_size_in_bytes", "long", 104),
    pairs("column_sizes", 108, 117, 118, "long"),
    pairs("value_counts", 109, 119, 120, "long"),
    pairs("null_value_counts", 110, 121, 122, "long"),
    pairs("nan_value_counts", 137, 138, 139, "long"),
    pairs("lower_bounds", 125, 126, 127, "bytes"),
    pairs("upper_bounds", 128, 129, 130, "bytes"),
    field("key_metadata", optional("bytes"), 131),
    field("split_offsets", optional({"type": "array", "items": "long"}), 132),
    field("sort_order_id", optional("int"), 140),
    field("first_row_id", optional("long"), 142),
    # Fields that a later version of the format may add.
    field("new_flag", optional("boolean"), 9001),
    field("new_rate", optional("double"), 9002),
    field("new_mark", {"type": "fixed", "size": 3, "name": "mark"}, 9003),
    field(
        "new_part", optional({"type": "record", "name": "part", "fields": [field("record_count", "long", 103)]}), 9004
    ),
)
ENTRY_FIELDS = (
    field("status", "int", 0),
    field("snapshot_id", optional("long"), 1),
    field("sequence_number", optional("long"), 3),
    field("file_sequence_number", optional("long"), 4),
)

LONGS = st.sampled_from([0, 1, -1, 63, 64, -65, 2**31, -(2**40), 2**63 - 1, -(2**63)])
SOME_COUNTS = st.one_of(
    st.none(), st.lists(st.fixed_dictionaries({"key": st.sampled_from([1, 2, 7, 300, -3]), "value": LONGS}), max_size=4)
)
BYTES = st.sampled_from([b"", b"a", b"0123456789ab", b"0123456789abc", "ä\u20ac".encode(), b"\xff" * 40, bytes(200)])
SOME_BOUNDS = st.one_of(
    st.none(), st.lists(st.fixed_dictionaries({"key": st.sampled_from([1, 2, 7, 300]), "value": BYTES}), max_size=4)
)
TEXTS = st.sampled_from(["", "x", "s3://bucket/data/0123.parquet", "\U0001f600" * 20, "a" * 12, "b" * 13, "c" * 200])
FILES = st.fixed_dictionaries(
    {
        "content": st.just(0),
        "file_path": TEXTS,
        "file_format": st.sampled_from(["parquet", "PARQUET", "Orc", "avro"]),
        "partition": st.fixed_dictionaries({"p": st.one_of(st.none(), LONGS), "q": st.one_of(st.none(), TEXTS)}),
        "record_count": st.sampled_from([0, 1, 100, -1, 2**40]),
        "file_size_in_bytes": st.sampled_from([0, 5, 2**50]),
        "column_sizes": SOME_COUNTS,
        "value_counts": SOME_COUNTS,
        "null_value_counts": SOME_COUNTS,
        "nan_value_counts": SOME_COUNTS,
        "lower_bounds": SOME_BOUNDS,
        "upper_bounds": SOME_BOUNDS,
        "key_metadata": st.sampled_from([None, b""]),
        "split_offsets": st.one_of(st.none(), st.lists(LONGS, max_size=3)),
        "sort_order_id": st.sampled_from([None, 0, 5]),
        "first_row_id": st.sampled_from([None, 0, 1000]),
        "new_flag": st.sampled_from([None, True, False]),
        "new_rate": st.sampled_from([None, 1.5]),
        "new_mark": st.just(b"abc"),
        "new_part": st.sampled_from([None, {"record_count": 77}]),
    }
)
ENTRIES = st.fixed_dictionaries(
    {
        "status": st.sampled_from([0, 1, 2]),
        "snapshot_id": st.sampled_from([None, 1, 2**63 - 1]),
        "sequence_number": st.sampled_from([None, 1, 70, 2**40]),
        "file_sequence_number": st.sampled_from([None, 1]),
        "data_file": FILES,
    }
)


def schema_of(order):
    """The writer's schema with its fields in a shuffled order."""
    file = list(FILE_FIELDS)
    random.Random(order).shuffle(file)
    entry = [*ENTRY_FIELDS, field("data_file", {"type": "record", "name": "r2", "fields": file}, 2)]
    random.Random(order + 1).shuffle(entry)
    return {"type": "record", "name": "manifest_entry", "fields": entry}


def write(schema, entries, *, codec="deflate", interval=1, version="2"):
    stream = io.BytesIO()
    metadata = {"format-version": version, "content": "data", "partition-spec-id": "3"}
    write_avro(stream, schema, entries, codec=codec, metadata=metadata, sync_interval=interval)
    return stream.getvalue()


def listed_manifest(number, **more):
    given = {"spec_id": 3, "sequence_number": 9, "added_snapshot_id": 5} | more
    return ManifestFile(path=f"s3://bucket/m{number}.avro", **given)


def plain_values(selection):
    """The files as plain values: the files to read and the skipped files."""
    skipped = selection.skipped.table.append_column("path", selection.skipped.paths())
    return [
        (
            table.drop_columns(["tuple"]).to_pylist(),
            [selection.files.tuples[i] for i in table.column("tuple").to_pylist()],
        )
        for table in (selection.files.table, skipped)
    ]


def columns_or_error(manifests, contents, *more):
    """The files as plain values, or the error."""
    try:
        return plain_values(read(manifests, contents, *more))
    except HarnessError as error:
        return type(error), str(error)


def decoded_sequentially(manifests, contents):
    """The same, decoded entry by entry."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "lockstep_offsets", lambda *_: None)
        return columns_or_error(manifests, contents)


def known_values(pairs):
    """The known values of a map. A key that occurs twice or has no value is unknown (iceberg 2.8)."""
    keys = [pair["key"] for pair in pairs or ()]
    return {p["key"]: p["value"] for p in pairs or () if keys.count(p["key"]) == 1 and p["value"] is not None}


def expected(manifests, drawn, skip=None):
    """The files that the specification demands, or the classes of errors that may be raised."""
    rows, tuples, errors = [], [], set()
    for place, (manifest, (entries_, _, _, version, _)) in enumerate(zip(manifests, drawn, strict=True)):
        row_id = manifest.first_row_id
        for entry in entries_:
            file = entry["data_file"]
            if entry["status"] == 2:
                continue
            sequence_number = entry["sequence_number"]
            if sequence_number is None:  # iceberg 2.9
                if entry["status"] != 1 and manifest.sequence_number and version != "1":
                    errors.add(InvalidTableError)
                sequence_number = manifest.sequence_number if entry["status"] == 1 else 0
            count = file["record_count"] if file["record_count"] >= 0 else None
            own = file["first_row_id"]
            if row_id is not None and own is None:  # iceberg 2.11
                if count is None:
                    errors.add(CorruptFileError)
                own, row_id = row_id, row_id + (count or 0)
            row = {
                "manifest": place,
                "status": entry["status"],
                "sequence_number": sequence_number,
                "path": file["file_path"],
                "format": file["file_format"].lower(),
                "spec_id": 3,
                "tuple": len(tuples),
                "record_count": count,
                "size": file["file_size_in_bytes"],
                "first_row_id": own if manifest.first_row_id is not None else None,
            }
            for name in (*COUNTS, *BOUNDS):
                values = known_values(file[name])
                row |= {statistic(name, id_): values.get(id_) for id_ in FIELDS}
            rows.append(row)
            tuples.append({1000: file["partition"]["p"], 1001: file["partition"]["q"]})
    if errors:
        return errors
    table = pa.Table.from_pylist(rows, Extent(FIELDS).schema)
    files = DataFiles(table, [m.path for m in manifests], tuples, FIELDS)
    return plain_values(FilteredFiles.split(files, None if skip is None else skip(files)))


def read(manifests, contents, skip=None, manifest_cache=None):
    return read_data_files(
        manifests,
        read=lambda m: contents[m.path],
        specs={3: SPEC},
        schemas=SCHEMAS,
        statistics=FIELDS,
        skip=skip,
        manifest_cache=manifest_cache,
    )


@pytest.fixture
def in_lockstep(monkeypatch):
    """Decodes every manifest in lockstep if possible."""
    monkeypatch.setattr(entries, "manifests_for_lockstep", lambda batch: frozenset(b.number for b in batch))


DRAWN = st.lists(
    st.tuples(
        st.lists(ENTRIES, max_size=6),
        st.sampled_from(["null", "deflate", "snappy", "zstandard"]),
        st.sampled_from([1, 300, 64000]),
        st.sampled_from(["1", "2"]),
        st.sampled_from([{}, {"first_row_id": 40}, {"sequence_number": 0}]),
    ),
    min_size=1,
    max_size=3,
)


KEPT = ManifestCache(Cache(), lambda recorded: (recorded, FileVersion(1, "the only one")))
Q = SCHEMAS[0].fields[1]
FILTERS = (IsNull(Q), IsNull(Q, True), *(Comparison(Q, op, "b") for op in Op))
SKIPS = st.sampled_from(
    [
        None,
        *(
            partial(
                skip_files, specs={3: SPEC}, schema=SCHEMAS[0], condition=Filter(sql="", predicate=each, columns=(Q,))
            )
            for each in FILTERS
        ),
    ]
)


@given(DRAWN, st.integers(0, 5), SKIPS, st.sampled_from(["", "s3://t/data/"]))
def test_files_are_the_written_ones(drawn, order, skip, folder):
    """folder: a prefix of all paths, which lets the decoder guess where entries begin."""
    drawn = [([moved_entry(e, folder) for e in files], *more) for files, *more in drawn]
    with pytest.MonkeyPatch.context() as patch:
        manifests = [listed_manifest(i, **more) for i, (*_, more) in enumerate(drawn)]
        contents = {
            m.path: write(schema_of(order), files, codec=codec, interval=interval, version=v)
            for m, (files, codec, interval, v, _) in zip(manifests, drawn, strict=True)
        }
        wanted = expected(manifests, drawn, skip)
        assert matches(columns_or_error(manifests, contents, skip), wanted)
        patch.setattr(entries, "manifests_for_lockstep", lambda batch: frozenset(b.number for b in batch))
        patch.setattr(entries, "MIN_GUESSED_ENTRIES", 0)
        assert matches(columns_or_error(manifests, contents, skip), wanted)
        for _ in range(2):  # first into the cache, then from the cache
            assert matches(columns_or_error(manifests, contents, skip, KEPT), wanted)
        DECODED.clear()


def matches(actual, expected):
    return actual[0] in expected if isinstance(expected, set) else actual == expected


def moved_entry(entry, folder):
    file = entry["data_file"]
    return entry | {"data_file": file | {"file_path": folder + file["file_path"]}}


ENTRY = {
    "status": 1,
    "snapshot_id": 3,
    "sequence_number": None,
    "file_sequence_number": None,
    "data_file": {
        "content": 0,
        "file_path": "s3://bucket/data/00001.parquet",
        "file_format": "PARQUET",
        "partition": {"p": 4, "q": "x"},
        "record_count": 10,
        "file_size_in_bytes": 1000,
        "column_sizes": [{"key": 1, "value": 5}],
        "value_counts": [{"key": 1, "value": 10}, {"key": 2, "value": 10}],
        "null_value_counts": [{"key": 1, "value": 0}, {"key": 1, "value": 3}],
        "nan_value_counts": None,
        "lower_bounds": [{"key": 2, "value": b"a"}, {"key": 1, "value": bytes(8)}],
        "upper_bounds": [],
        "key_metadata": None,
        "split_offsets": [4],
        "sort_order_id": 0,
        "first_row_id": None,
        "new_flag": None,
        "new_rate": None,
        "new_mark": b"abc",
        "new_part": None,
    },
}


def with_file(**changes):
    return ENTRY | {"data_file": ENTRY["data_file"] | changes}


@pytest.mark.parametrize("id_", [103.5, float("inf"), "103", "x", -1, [103]])
@pytest.mark.parametrize(("name", "number"), [("record_count", 103), ("key", 119)])
def test_field_ids_that_are_no_integers(in_lockstep, id_, name, number):
    """In both decoders, the field is either found or refused."""
    text = json.dumps(schema_of(0)).replace(f'"field-id": {number}}}', f'"field-id": {json.dumps(id_)}}}')
    manifest = listed_manifest(0)
    contents = {manifest.path: write(json.loads(text), [ENTRY])}
    assert columns_or_error([manifest], contents) == decoded_sequentially([manifest], contents)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        pytest.param(ENTRY | {"status": 3}, "got 3, expected 0, 1 or 2", id="status"),
        pytest.param(with_file(content=1), "has content 1 in a data manifest", id="delete-file"),
        pytest.param(with_file(key_metadata=b"k"), "it is encrypted", id="encrypted"),
        pytest.param(with_file(file_format="csv"), "format 'csv' is not supported", id="format"),
        pytest.param(with_file(file_format="puffin"), "format 'puffin' is not supported", id="puffin"),
        pytest.param(ENTRY | {"status": 0}, "has no sequence number", id="no-sequence-number"),
    ],
)
def test_an_invalid_entry_raises_its_own_error(in_lockstep, entry, message):
    manifest = listed_manifest(0)
    with pytest.raises(HarnessError, match=message):
        read([manifest], {manifest.path: write(schema_of(0), [ENTRY, entry])})


@pytest.mark.parametrize("walk", ["in step", "alone"])
@pytest.mark.parametrize(
    ("text", "damaged", "field_"),
    [
        (b"s3://bucket/data", b"\xff3://bucket/data", "data_file.file_path"),
        (b"PARQUET", b"PARQUE\xff", "data_file.file_format"),
    ],
)
def test_a_text_that_is_not_utf_8_is_named(in_lockstep, monkeypatch, walk, text, damaged, field_):
    if walk == "alone":
        monkeypatch.setattr(reading, "lockstep_offsets", lambda *_: None)
    manifest = listed_manifest(0)
    content = write(schema_of(0), [ENTRY], codec="null")
    assert content.count(text) == 1
    with pytest.raises(CorruptFileError, match="text is not UTF-8") as raised:
        read([manifest], {manifest.path: content.replace(text, damaged)})
    assert (raised.value.file, raised.value.field) == (manifest.path, field_)


FEW = {"content": "int", "file_path": "string", "file_format": "string", "record_count": "long"}


def handmade_manifest(snapshot_id, sequence_number):
    """A manifest of one entry with only numbers and texts; the numbers may have any size."""
    ids = {each["name"]: each["field-id"] for each in (*FILE_FIELDS, *ENTRY_FIELDS)}
    file = {"type": "record", "name": "r2", "fields": [field(name, type_, ids[name]) for name, type_ in FEW.items()]}
    names = ("status", "snapshot_id", "sequence_number")
    fields = [*(field(name, "long", ids[name]) for name in names), field("data_file", file, 2)]
    values = [number(1), number(snapshot_id), number(sequence_number), number(0)]
    texts = [number(len(text)) + text for text in (b"a.orc", b"orc")]
    return bombs.avro({"type": "record", "name": "e", "fields": fields}, 1, b"".join([*values, *texts, number(3)]))


def test_ids_beyond_64_bits_are_unknown_but_sequence_numbers_are_damage():
    manifest = listed_manifest(0, spec_id=3, added_snapshot_id=None)
    contents = {manifest.path: handmade_manifest(2**64, 7)}
    assert read([manifest], contents).files.table.column("sequence_number").to_pylist() == [7]
    (entry,) = read_entries([open_manifest(contents[manifest.path], manifest, specs={3: SPEC}, schemas=SCHEMAS)])
    assert (entry.snapshot_id, entry.sequence_number, entry.file.path) == (None, 7, "a.orc")
    with pytest.raises(CorruptFileError, match="exceeds 64 bits") as raised:
        read([manifest], {manifest.path: handmade_manifest(5, 2**64)})
    assert (raised.value.file, raised.value.field) == (manifest.path, "sequence_number")


@pytest.mark.parametrize(
    ("stated", "rows", "is_damage"),
    [
        *(({"sequence_number": number}, 10, True) for number in (2**63, -(2**64))),
        ({"first_row_id": 2**62}, 10, False),
        ({"first_row_id": 0}, 2**61, False),
    ],
)
def test_numbers_around_64_bits(in_lockstep, stated, rows, is_damage):
    manifest = listed_manifest(0, **stated)
    contents = {manifest.path: write(schema_of(0), [with_file(record_count=rows)] * 2)}
    found = columns_or_error([manifest], contents)
    assert found == decoded_sequentially([manifest], contents)
    assert (found[0] is CorruptFileError) is is_damage
    if not is_damage:
        first = stated["first_row_id"]
        assert [row["first_row_id"] for row in found[0][0]] == [first, first + rows]


def test_damage_of_one_byte_gives_the_same_files_or_the_same_error(in_lockstep, monkeypatch):
    """The decoder first guesses where entries begin. If the guess fails, it decodes in lockstep."""
    monkeypatch.setattr(entries, "MIN_GUESSED_ENTRIES", 0)
    manifest = listed_manifest(0)
    whole = write(schema_of(2), [with_file(file_path=f"s3://bucket/{i}") for i in range(4)], codec="null", interval=400)
    for place in range(whole.index(b"s3://bucket/0") - 60, len(whole)):
        change = 1 if place % 2 else 0x80
        damaged = whole[:place] + bytes([whole[place] ^ change]) + whole[place + 1 :]
        contents = {manifest.path: damaged}
        assert columns_or_error([manifest], contents) == decoded_sequentially([manifest], contents), (place, change)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        pytest.param(["null", "int", "long"], 5, id="union-of-three"),
        pytest.param({"type": "map", "values": "long"}, {"x": 1}, id="map"),
    ],
)
def test_an_unusual_schema_is_decoded_entry_by_entry(in_lockstep, type_, value):
    fields = [field("new_flag", type_, 9001) if f["name"] == "new_flag" else f for f in FILE_FIELDS]
    entry = [*ENTRY_FIELDS, field("data_file", {"type": "record", "name": "r2", "fields": fields}, 2)]
    manifest = listed_manifest(0)
    content = write({"type": "record", "name": "e", "fields": entry}, [with_file(new_flag=value)])
    files = read([manifest], {manifest.path: content})
    assert len(files.files) == 1


FORMS = {
    "null values": lambda f: f["type"][1]["items"]["fields"][1].update(
        type=["null", f["type"][1]["items"]["fields"][1]["type"]]
    ),
    "names for ids": lambda f: [part.pop("field-id") for part in f["type"][1]["items"]["fields"]],
    "the value first": lambda f: f["type"][1]["items"]["fields"].reverse(),
    "a third field": lambda f: f["type"][1]["items"]["fields"].append(
        {"name": "more", "type": "boolean", "default": True}
    ),
    "null last": lambda f: f["type"].reverse(),
}


@pytest.mark.parametrize("form", FORMS)
def test_statistics_of_unusual_forms(form):
    schema = json.loads(json.dumps(schema_of(0)))
    file = next(f for f in schema["fields"] if f["name"] == "data_file")
    for each in file["type"]["fields"]:
        if each["name"] in (*COUNTS, *BOUNDS):
            FORMS[form](each)
    pairs_ = [
        {"key": 1, "value": 5, "more": True},
        {"key": 7, "value": 6, "more": True},
        {"key": 7, "value": 6, "more": True},
    ]
    bounds = [{"key": 2, "value": b"a", "more": True}, {"key": 1, "value": bytes(8), "more": False}]
    row = with_file(value_counts=pairs_, null_value_counts=pairs_, lower_bounds=bounds, upper_bounds=bounds)
    manifest = listed_manifest(0)
    contents = {manifest.path: write(schema, [row])}
    (first,) = read([manifest], contents).files.table.to_pylist()
    assert [first[statistic("value_counts", i)] for i in FIELDS] == [5, None, None]
    assert [first[statistic("lower_bounds", i)] for i in FIELDS] == [bytes(8), b"a", None]
    (entry,) = read_entries([open_manifest(contents[manifest.path], manifest, specs={3: SPEC}, schemas=SCHEMAS)])
    assert (entry.file.null_value_counts, entry.file.upper_bounds) == ({1: 5}, {2: b"a", 1: bytes(8)})


def test_maps_in_several_blocks_with_sizes():
    """In Avro, a block of items may have its size: a negative count, and then the number of bytes."""
    manifest = listed_manifest(0)
    usual = write(schema_of(0), [with_file(value_counts=[{"key": 1, "value": 10}])], codec="null", interval=64000)
    head = open_manifest(usual, manifest, specs={3: SPEC}, schemas=SCHEMAS).container
    ((count, block),) = head.blocks()
    whole = b"\x02\x02\x14\x00"  # one item, 1: 10
    assert block.count(whole) == 1
    split = block.replace(whole, b"\x01\x04\x02\x14" + b"\x02\x04\x06" + b"\x00")  # 1: 10, then 2: 3
    data = head.data[: head.end] + bytes([count << 1]) + number(len(split)) + split + head.sync
    (first,) = read([manifest], {manifest.path: data}).files.table.to_pylist()
    assert [first[statistic("value_counts", i)] for i in FIELDS] == [10, 3, None]


def test_counts_come_from_the_manifest_of_each_file() -> None:
    """Each count is ten times the file's index in its manifest, plus a hundred times the number of the manifest."""

    def numbered_entries(manifest: int, files: int) -> StoredEntries:
        def counts(name, keys, places):
            return {key: (100 * manifest + 10 * places, np.ones(len(places), np.bool_)) for key in keys}

        paths = pa.chunked_array([[f"{manifest}-{i}" for i in range(files)]])
        return StoredEntries(pa.table({"status": [1] * files}), Extent(), lambda: paths, counts)

    found = concat_entries([numbered_entries(1, 2), numbered_entries(2, 3), numbered_entries(3, 1)])
    values, _ = found.counts("value_counts", (7,), np.array([1, 2, 4, 5]))[7]
    assert values.tolist() == [110, 200, 220, 300]
