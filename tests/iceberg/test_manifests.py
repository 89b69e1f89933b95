"""Manifest lists and manifests (iceberg section 2), written by fastavro in the manner of several writers."""

from __future__ import annotations

import io
import struct

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import CorruptFileError, EncryptedTableError, HarnessError, InvalidTableError, UnsupportedError
from harness.metadata.iceberg.manifests import (
    ALL,
    Content,
    FieldSummary,
    ManifestFile,
    Status,
    open_manifest,
    parse_manifest_list,
)
from harness.metadata.iceberg.model import PartitionField, PartitionSpec
from harness.metadata.iceberg.transforms import Identity
from harness.metadata.iceberg.values import partition_types
from harness.metadata.model.schema import (
    Field,
    FloatType,
    IntegerType,
    Schema,
    StringType,
)

PATH = "s3://bucket/m.avro"


def optional(type_, *, null_last=False):
    return [type_, "null"] if null_last else ["null", type_]


def field(name, type_, id_):
    return {"name": name, "type": type_, "field-id": id_}


def int_map(name, id_, key_id, value_id, value_type):
    item = {
        "type": "record",
        "name": f"k{key_id}_v{value_id}",
        "fields": [field("key", "int", key_id), field("value", value_type, value_id)],
    }
    return field(name, optional({"type": "array", "logicalType": "map", "items": item}), id_)


STATISTICS = (
    int_map("column_sizes", 108, 117, 118, "long"),
    int_map("value_counts", 109, 119, 120, "long"),
    int_map("null_value_counts", 110, 121, 122, "long"),
    int_map("nan_value_counts", 137, 138, 139, "long"),
    int_map("lower_bounds", 125, 126, 127, "bytes"),
    int_map("upper_bounds", 128, 129, 130, "bytes"),
)


def partition_field(*fields):
    return field("partition", {"type": "record", "name": "r102", "fields": list(fields)}, 102)


def data_file_fields(partition):
    return (
        field("content", optional("int"), 134),
        field("file_path", "string", 100),
        field("file_format", "string", 101),
        partition,
        field("record_count", "long", 103),
        field("file_size_in_bytes", "long", 104),
        *STATISTICS,
        field("key_metadata", optional("bytes"), 131),
        field("split_offsets", optional({"type": "array", "items": "long", "element-id": 133}), 132),
        field("equality_ids", optional({"type": "array", "items": "int", "element-id": 136}), 135),
        field("sort_order_id", optional("int"), 140),
        field("first_row_id", optional("long"), 142),
        field("referenced_data_file", optional("string"), 143),
        field("content_offset", optional("long"), 144),
        field("content_size_in_bytes", optional("long"), 145),
    )


ENTRY_FIELDS = (
    field("status", "int", 0),
    field("snapshot_id", optional("long"), 1),
    field("sequence_number", optional("long"), 3),
    field("file_sequence_number", optional("long"), 4),
)


def entry_schema(*, partition=None, entry_fields=ENTRY_FIELDS, keep=lambda name: True):
    fields = [f for f in data_file_fields(partition or partition_field()) if keep(f["name"])]
    data_file = {"type": "record", "name": "r2", "fields": fields}
    return {"type": "record", "name": "manifest_entry", "fields": [*entry_fields, field("data_file", data_file, 2)]}


def write(schema, rows, *, codec="deflate", **header):
    stream = io.BytesIO()
    metadata = {key.replace("_", "-"): value for key, value in header.items()}
    fastavro.writer(stream, schema, rows, codec=codec, metadata=metadata)
    return stream.getvalue()


def row(status=1, **values):
    entry = {k: values.pop(k, None) for k in ("snapshot_id", "sequence_number", "file_sequence_number")}
    file = {"file_path": "f.parquet", "file_format": "PARQUET", "partition": {}, "record_count": 10} | values
    return {"status": status, **entry, "data_file": {"file_size_in_bytes": 100, **file}}


UNPARTITIONED = PartitionSpec(0, ())


def parse(data, *, manifest=None, spec=UNPARTITIONED, schemas=(), **options):
    manifest = manifest or ManifestFile(path=PATH, spec_id=spec.id, sequence_number=7, added_snapshot_id=70)
    reader = open_manifest(data, manifest, specs={spec.id: spec}, schemas=schemas)
    return list(reader.entries(options.pop("statistics", None), **options))


def refused(data, **options):
    with pytest.raises(HarnessError) as raised:
        parse(data, **options)
    return raised.value


# Entries.

FULL = row(
    content=0,
    column_sizes=[{"key": 1, "value": 50}],
    value_counts=[{"key": 1, "value": 10}, {"key": 2, "value": 10}],
    null_value_counts=[{"key": 1, "value": 0}, {"key": 2, "value": 200}],
    nan_value_counts=[],
    lower_bounds=[{"key": 1, "value": b"\x01\x00\x00\x00"}, {"key": 2, "value": b"a" * 300}],
    upper_bounds=[{"key": 1, "value": b"\x09\x00\x00\x00"}],
    key_metadata=b"",
    split_offsets=[4, 50],
    equality_ids=None,
    sort_order_id=0,
)


def test_every_field_of_a_data_file():
    (entry,) = parse(write(entry_schema(), [FULL]), statistics=ALL)
    file = entry.file
    assert (entry.status, entry.snapshot_id, entry.manifest) == (Status.ADDED, 70, PATH)
    assert (file.content, file.path, file.format) == (Content.DATA, "f.parquet", "parquet")
    assert (file.spec_id, dict(file.partition), file.record_count, file.size) == (0, {}, 10, 100)
    assert file.column_sizes == {1: 50}
    assert file.value_counts == {1: 10, 2: 10}
    assert file.null_value_counts == {1: 0, 2: 200}
    assert file.nan_value_counts == {}
    assert file.lower_bounds == {1: b"\x01\x00\x00\x00", 2: b"a" * 300}
    assert file.upper_bounds == {1: b"\x09\x00\x00\x00"}
    assert (file.key_metadata, file.split_offsets, file.equality_ids, file.sort_order_id) == (None, (4, 50), None, 0)
    assert (file.first_row_id, file.referenced_data_file, file.content_offset, file.content_size) == (None,) * 4


def test_statistics_are_decoded_only_for_the_asked_columns():
    data = write(entry_schema(), [FULL])
    (entry,) = parse(data, statistics={2})
    file = entry.file
    assert (file.value_counts, file.null_value_counts, file.lower_bounds) == ({2: 10}, {2: 200}, {2: b"a" * 300})
    assert (file.upper_bounds, file.column_sizes) == ({}, None)
    for nothing in (None, set()):
        (entry,) = parse(data, statistics=nothing)
        assert (entry.file.value_counts, entry.file.lower_bounds) == (None, None)


def test_delete_files_have_their_own_fields():
    rows = [
        row(content=2, equality_ids=[3, 1]),
        row(content=1, file_format="puffin", referenced_data_file="d", content_offset=4, content_size_in_bytes=40),
    ]
    manifest = ManifestFile(path=PATH, spec_id=0, is_deletes=True, sequence_number=3, first_row_id=100)
    equality, vector = (e.file for e in parse(write(entry_schema(), rows, content="deletes"), manifest=manifest))
    assert (equality.content, equality.equality_ids) == (Content.EQUALITY_DELETES, (3, 1))
    assert (vector.content, vector.format) == (Content.POSITION_DELETES, "puffin")
    assert (vector.referenced_data_file, vector.content_offset, vector.content_size) == ("d", 4, 40)
    assert vector.first_row_id is None  # iceberg 2.11


def _without_ids(value):
    if isinstance(value, list):
        return [_without_ids(v) for v in value]
    if isinstance(value, dict):
        return {k: _without_ids(v) for k, v in value.items() if k != "field-id"}
    return value


def _null_last(value):
    if isinstance(value, list) and value and value[0] == "null":
        return [*map(_null_last, value[1:]), "null"]
    if isinstance(value, list):
        return [_null_last(v) for v in value]
    return {k: _null_last(v) for k, v in value.items()} if isinstance(value, dict) else value


# Inheritance.


def test_an_existing_file_without_sequence_number_is_refused():
    error = refused(write(entry_schema(), [row(status=0)]))
    assert isinstance(error, InvalidTableError)
    assert str(error) == (
        "Cannot tell which deletes apply to f.parquet: its entry is existing and has no sequence number "
        "[MissingSequenceNumber; file s3://bucket/m.avro, field sequence_number, rule iceberg 2.9]"
    )


def test_row_ids_need_record_counts():
    manifest = ManifestFile(path=PATH, spec_id=0, first_row_id=0)
    error = refused(write(entry_schema(), [row(record_count=-1)]), manifest=manifest)
    assert (error.cause, error.field, error.rule) == ("CorruptManifest", "record_count", "iceberg 2.11")


# Partitions.


def spec_of(*fields, id_=3):
    return PartitionSpec(
        id_,
        tuple(
            PartitionField(field_id=1000 + i, source_id=i + 1, source_ids=(i + 1,), name=f"p{i}", transform=transform)
            for i, transform in enumerate(fields)
        ),
    )


def schema_of(*types):
    return Schema(fields=tuple(Field(id=i + 1, name=f"c{i}", type=t) for i, t in enumerate(types)))


def test_partition_tuples_without_ids_go_by_position():
    columns = _without_ids(partition_field(field("p1", "string", 0), field("p0", "string", 0)))
    data = write(entry_schema(partition={**columns, "field-id": 102}), [row(partition={"p0": "second", "p1": "first"})])
    (entry,) = parse(data, spec=spec_of(Identity(), Identity()), schemas=(schema_of(*[StringType()] * 2),))
    assert entry.file.partition == {1000: "first", 1001: "second"}


def test_partition_value_of_another_type_names_the_field():
    schema = entry_schema(partition=partition_field(field("p0", "string", 1000)))
    error = refused(
        write(schema, [row(partition={"p0": "x"})]), spec=spec_of(Identity()), schemas=(schema_of(IntegerType(32)),)
    )
    assert str(error) == (
        "Cannot decode Avro record: partition field 'p0': 'x' is not of the partition field's type "
        "[CorruptManifest; file s3://bucket/m.avro, field data_file.partition]"
    )


def test_partition_types_come_from_the_first_schema_with_the_column():
    schemas = (schema_of(IntegerType(64)), schema_of(IntegerType(32), StringType()))
    assert partition_types(spec_of(Identity(), Identity()), schemas) == {1000: IntegerType(64), 1001: StringType()}


def test_a_spec_that_is_nowhere_is_refused():
    error = refused(write(entry_schema(), [row()]), manifest=ManifestFile(path=PATH, spec_id=9))
    assert str(error) == (
        "Cannot read manifest: the table has no partition spec 9, only [0] "
        "[MissingSpec; file s3://bucket/m.avro, rule iceberg 2.22]"
    )


# Refusals.


@pytest.mark.parametrize(
    ("rows", "error", "cause", "at", "rule"),
    [
        ([row(status=3)], CorruptFileError, "CorruptManifest", "status", "2.6"),
        ([row(status=-1)], CorruptFileError, "CorruptManifest", "status", "2.6"),
        ([row(content=3)], CorruptFileError, "CorruptManifest", "content", "2.7"),
        ([row(content=1)], CorruptFileError, "CorruptManifest", "content", "2.20"),
        ([row(content=2)], CorruptFileError, "CorruptManifest", "content", "2.20"),
        ([row(file_format="lance")], UnsupportedError, "UnsupportedFormat", "file_format", "2.20"),
        ([row(file_format="Puffin")], UnsupportedError, "UnsupportedFormat", "file_format", "2.20"),
        ([row(key_metadata=b"k")], EncryptedTableError, "EncryptedTable", "key_metadata", "2.19"),
    ],
)
def test_refused_entries(rows, error, cause, at, rule):
    raised = refused(write(entry_schema(), rows))
    assert type(raised) is error
    assert (raised.cause, raised.file, raised.field, raised.rule) == (cause, PATH, at, f"iceberg {rule}")


@pytest.mark.parametrize("name", ["file_path", "file_format"])
def test_a_missing_column_is_named(name):
    error = refused(write(entry_schema(keep=lambda n: n != name), [row()]))
    assert (error.cause, error.field) == ("CorruptManifest", name)


def test_data_files_in_a_delete_manifest_are_refused():
    error = refused(write(entry_schema(), [row()]), manifest=ManifestFile(path=PATH, spec_id=0, is_deletes=True))
    assert (error.cause, error.field) == ("CorruptManifest", "content")


def test_a_puffin_equality_delete_is_refused():
    manifest = ManifestFile(path=PATH, spec_id=0, is_deletes=True)
    error = refused(write(entry_schema(), [row(content=2, file_format="puffin")]), manifest=manifest)
    assert (error.cause, error.rule) == ("UnsupportedFormat", "iceberg 2.20")


def test_an_encrypted_manifest_is_refused():
    assert refused(b"", manifest=ManifestFile(path=PATH, spec_id=0, key_metadata=b"k")).cause == "EncryptedTable"
    assert refused(b"AGS1....").cause == "EncryptedTable"


# Manifest lists.

SUMMARY = {
    "type": "record",
    "name": "r508",
    "fields": [
        field("contains_null", "boolean", 509),
        field("contains_nan", optional("boolean"), 518),
        field("lower_bound", optional("bytes"), 510),
        field("upper_bound", optional("bytes"), 511),
    ],
}
LIST_FIELDS = (
    field("manifest_path", "string", 500),
    field("manifest_length", "long", 501),
    field("partition_spec_id", "int", 502),
    field("content", "int", 517),
    field("sequence_number", "long", 515),
    field("min_sequence_number", "long", 516),
    field("added_snapshot_id", optional("long"), 503),
    field("added_data_files_count", optional("int"), 504),
    field("existing_data_files_count", optional("int"), 505),
    field("deleted_data_files_count", optional("int"), 506),
    field("added_rows_count", optional("long"), 512),
    field("existing_rows_count", optional("long"), 513),
    field("deleted_rows_count", optional("long"), 514),
    field("partitions", optional({"type": "array", "items": SUMMARY, "element-id": 508}), 507),
    field("key_metadata", optional("bytes"), 519),
    field("first_row_id", optional("long"), 520),
)
LIST_ROW = {
    "manifest_path": PATH,
    "manifest_length": 10,
    "partition_spec_id": 2,
    "content": 1,
    "sequence_number": 5,
    "min_sequence_number": 4,
    "added_snapshot_id": 6,
    "added_data_files_count": 1,
    "existing_data_files_count": 2,
    "deleted_data_files_count": 3,
    "added_rows_count": 11,
    "existing_rows_count": -1,
    "deleted_rows_count": 13,
    "partitions": [{"contains_null": True, "contains_nan": False, "lower_bound": b"a", "upper_bound": b"b"}],
    "key_metadata": b"",
    "first_row_id": 1000,
}
EXPECTED = ManifestFile(
    path=PATH,
    length=10,
    spec_id=2,
    is_deletes=True,
    sequence_number=5,
    min_sequence_number=4,
    added_snapshot_id=6,
    added_files_count=1,
    existing_files_count=2,
    deleted_files_count=3,
    added_rows_count=11,
    existing_rows_count=None,
    deleted_rows_count=13,
    partitions=(FieldSummary(True, False, b"a", b"b"),),
    first_row_id=1000,
)


def list_schema(fields=LIST_FIELDS):
    return {"type": "record", "name": "manifest_file", "fields": list(fields)}


def _new_names(fields):
    return [{**f, "name": f["name"].replace("_data_files_", "_files_")} for f in fields]


def _new_name_row(values):
    return {k.replace("_data_files_", "_files_"): v for k, v in values.items()}


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        (list_schema(), LIST_ROW),
        (list_schema(_new_names(LIST_FIELDS)), _new_name_row(LIST_ROW)),
        (_without_ids(list_schema()), LIST_ROW),
        (_without_ids(list_schema(_new_names(LIST_FIELDS))), _new_name_row(LIST_ROW)),
        (_null_last(list_schema()), LIST_ROW),
        (list_schema(tuple(reversed(LIST_FIELDS))), LIST_ROW),
    ],
    ids=["old names", "new names", "old names without ids", "new names without ids", "null last", "other order"],
)
def test_manifest_list(schema, values):
    assert parse_manifest_list(write(schema, [values]), file="l") == (EXPECTED,)


@pytest.mark.parametrize(("id_", "name"), [(500, "manifest_path"), (502, "partition_spec_id")])
def test_manifest_list_without_path_or_spec_is_corrupt(id_, name):
    schema = list_schema([f for f in LIST_FIELDS if f["field-id"] != id_])
    with pytest.raises(CorruptFileError) as raised:
        parse_manifest_list(write(schema, [LIST_ROW]), file="l")
    assert str(raised.value) == (
        f"Invalid manifest list: a manifest has no {name} [CorruptManifest; file l, field {name}, rule iceberg 2.2]"
    )


def test_manifest_list_with_an_unknown_content_is_corrupt():
    with pytest.raises(CorruptFileError, match="got content 2, expected 0"):
        parse_manifest_list(write(list_schema(), [LIST_ROW | {"content": 2}]), file="l")


def test_manifest_list_with_a_key_is_encrypted():
    with pytest.raises(EncryptedTableError) as raised:
        parse_manifest_list(write(list_schema(), [LIST_ROW | {"key_metadata": b"k"}]), file="l")
    assert (raised.value.cause, raised.value.field) == ("EncryptedTable", "key_metadata")


# Round trip.

ENTRIES = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2]),
        st.integers(0, 2**40),
        st.none() | st.floats(),
        st.none() | st.dictionaries(st.integers(1, 200), st.integers(0, 2**63 - 1), max_size=4),
        st.none() | st.dictionaries(st.integers(1, 200), st.binary(max_size=90), max_size=4),
    ),
    max_size=6,
)


@given(ENTRIES, st.sampled_from(["null", "deflate", "zstandard"]), st.booleans(), st.booleans())
def test_round_trip(drawn, codec, null_last, asks_for_all):
    def pairs(mapping):
        return None if mapping is None else [{"key": k, "value": v} for k, v in mapping.items()]

    schema = entry_schema(partition=partition_field(field("p", optional("double"), 1000)))
    rows = [
        row(s, sequence_number=9, record_count=n, partition={"p": p}, null_value_counts=pairs(c), upper_bounds=pairs(b))
        for s, n, p, c, b in drawn
    ]
    data = write(_null_last(schema) if null_last else schema, rows, codec=codec)
    keep = ALL if asks_for_all else frozenset(range(50, 150))
    entries = parse(
        data, spec=spec_of(Identity()), schemas=(schema_of(FloatType(64)),), statistics=keep, live_only=False
    )

    def kept(mapping):
        return None if mapping is None else {k: v for k, v in mapping.items() if keep == ALL or k in keep}

    files = [e.file for e in entries]
    found = [(f.record_count, _bits(f.partition[1000]), f.null_value_counts, f.upper_bounds) for f in files]
    assert [int(e.status) for e in entries] == [s for s, *_ in drawn]
    assert found == [(n, _bits(p), kept(c), kept(b)) for _, n, p, c, b in drawn]


def _bits(value):
    return None if value is None else struct.pack("<d", value)
