"""Refused manifest lists and manifests (iceberg section 2), and the summaries that skip manifests (3.6-3.9)."""

import struct

import numpy as np
import pytest

import harness
from harness.errors import CorruptFileError, EncryptedTableError, HarnessError, InvalidTableError, UnsupportedError
from harness.metadata.filters.predicate import Comparison, Op
from harness.metadata.iceberg.manifests import FieldSummary, ManifestFile, ManifestListParser, open_manifest
from harness.metadata.iceberg.model import PartitionField, PartitionSpec
from harness.metadata.iceberg.skipping import projected
from harness.metadata.iceberg.summaries import ManifestFilter
from harness.metadata.iceberg.transforms import Identity
from harness.metadata.model import schema as dt
from harness.storage.limits import DEFAULT
from harness.writing.iceberg.builder import IcebergTable


@pytest.fixture
def table(tmp_path):
    made = IcebergTable.create(tmp_path / "t", {"id": "long"}, partition_spec=[("id", "identity")])
    made.append(made.write_data([{"id": 1}]))
    return made


def refused(table):
    with pytest.raises(HarnessError) as caught:
        harness.open_table(table.location).snapshot().plan()
    return type(caught.value), caught.value.cause, caught.value.field, caught.value.rule


def test_entries_that_manifest_lists_repeat_are_decoded_once(table):
    table.append(table.write_data([{"id": 2}]))
    table.upgrade(3)  # the lists get another schema, and the carried entries get row ids
    for number in (3, 4):
        table.append(table.write_data([{"id": number}]))
    table.edit_manifest_list(lambda document: document.records[-1].update(existing_rows_count=7))
    parser = ManifestListParser(DEFAULT)
    lists = [table.file_of(snapshot["manifest-list"]).read_bytes() for snapshot in table.snapshots]
    parsed = [parser.parse(data, file="f") for data in lists]
    assert parsed == [ManifestListParser(DEFAULT).parse(data, file="f") for data in lists]
    one, two, three, four = ({manifest.path: manifest for manifest in each} for each in parsed)
    (first,), (_, second) = one, reversed(two)
    assert [two[first] is one[first], three[first] is two[first], four[second] is three[second]] == [True, False, True]
    assert (three[first].existing_rows_count, four[first].existing_rows_count) == (0, 7)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"content": 2}, (CorruptFileError, "CorruptManifest", "content", "iceberg 2.2")),
        ({"key_metadata": b"k"}, (EncryptedTableError, "EncryptedTable", "key_metadata", "iceberg 2.19")),
        ({"partition_spec_id": 9}, (InvalidTableError, "MissingSpec", None, "iceberg 2.22")),
    ],
)
def test_a_manifest_list_is_refused(table, change, error):
    table.edit_manifest_list(lambda document: document.records[0].update(change))
    assert refused(table) == error


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"content": 3}, (CorruptFileError, "CorruptManifest", "content", "iceberg 2.7")),
        ({"content": 2}, (CorruptFileError, "CorruptManifest", "content", "iceberg 2.20")),
        ({"file_format": "lance"}, (UnsupportedError, "UnsupportedFormat", "file_format", "iceberg 2.20")),
        ({"key_metadata": b"k"}, (EncryptedTableError, "EncryptedTable", "key_metadata", "iceberg 2.19")),
    ],
)
def test_an_entry_is_refused(table, change, error):
    table.edit_manifest(next(iter(table.manifests())), lambda document: document.records[0]["data_file"].update(change))
    assert refused(table) == error


def test_row_ids_need_record_counts(tmp_path):
    made = IcebergTable.create(tmp_path / "t", {"id": "long"}, format_version=3)
    made.append(data := made.write_data([{"id": 1}]))
    made.edit_manifest(data, lambda document: document.records[0]["data_file"].update(record_count=-1))
    assert refused(made) == (CorruptFileError, "CorruptManifest", "record_count", "iceberg 2.11")


def file_fields(document):
    return next(f for f in document.schema["fields"] if f["name"] == "data_file")["type"]["fields"]


@pytest.mark.parametrize("name", ["file_path", "file_format"])
def test_a_missing_column_is_named(table, name):
    def drop(document):
        fields = file_fields(document)
        fields[:] = [f for f in fields if f["name"] != name]

    table.edit_manifest(next(iter(table.manifests())), drop)
    assert refused(table) == (CorruptFileError, "CorruptManifest", name, "iceberg 2.7")


def test_a_partition_value_of_another_type_names_the_field(table):
    def change(document):
        partition = next(f for f in file_fields(document) if f["name"] == "partition")["type"]["fields"][0]
        partition["type"] = ["null", "string"]
        document.records[0]["data_file"]["partition"] = {"id": "x"}

    table.edit_manifest(next(iter(table.manifests())), change)
    with pytest.raises(CorruptFileError, match="partition field 'id': 'x' is not of the partition field's type"):
        harness.open_table(table.location).snapshot().plan()


def test_an_encrypted_manifest_is_refused():
    with pytest.raises(EncryptedTableError):
        open_manifest(b"AGS1....", ManifestFile(path="m.avro", spec_id=0), specs={}, schemas=())


ID = dt.Field(id=1, name="id", type=dt.IntegerType(64))
NAME = dt.Field(id=2, name="name", type=dt.StringType())
PRICE = dt.Field(id=3, name="price", type=dt.FloatType(64))
AT = dt.Field(id=4, name="at", type=dt.TimestampType("us"))
RAW = dt.Field(id=5, name="raw", type=dt.BinaryType())
TAG = dt.Field(id=6, name="tag", type=dt.FixedType(2))
SCHEMA = dt.Schema(fields=(ID, NAME, PRICE, AT, RAW, TAG))

RIGHT = {"iceberg-version": "Apache Iceberg 1.11.0 (commit 1234567)"}
WRONG = {"iceberg-version": "Apache Iceberg 1.10.1 (commit 1234567)"}


def eq(field, value):
    return Comparison(field, Op.EQ, value)


def manifest_filter(predicate, transform, field, writer=None):
    part = PartitionField(field_id=1000, source_id=field.id, source_ids=(field.id,), name="part", transform=transform)
    spec = PartitionSpec(1, (part,))
    return ManifestFilter(spec, projected(predicate, spec, SCHEMA), SCHEMA, lambda manifest: writer)


def manifest(*summaries):
    return ManifestFile(path="m", partitions=tuple(summaries) or None)


def _long(value):
    return struct.pack("<q", value)


def _texts(lower, upper):
    return FieldSummary(False, None, lower.encode(), upper.encode())


@pytest.mark.parametrize(
    ("predicate", "field", "summary", "expected"),
    [
        (eq(ID, 10), ID, FieldSummary(False, None, _long(1), _long(9)), False),
        (eq(ID, 10), ID, FieldSummary(False, None, _long(1), b"9"), True),  # 3.8: both bounds or none
        (eq(ID, 0), ID, FieldSummary(False, None, _long(1), b"9"), True),
        # Without bounds, there are no values according to the specification. In practice, the writer may not know the
        # type.
        (eq(ID, 5), ID, FieldSummary(True), True),
        (eq(ID, 5), ID, FieldSummary(False), True),
        # The upper bound may be truncated, so all values that start with it are possible, and no others.
        (eq(NAME, "abda"), NAME, _texts("aa", "abc"), False),
        (Comparison(NAME, Op.GE, "abd"), NAME, _texts("aa", "abc"), True),  # rounded up, the bound is abd
        (Comparison(NAME, Op.GT, "abd"), NAME, _texts("aa", "abc"), False),
        (eq(NAME, "z"), NAME, _texts("a", "\U0010ffff"), True),  # there is no greater value
        (eq(NAME, "b\ud7ffz"), NAME, _texts("a", "b\ud7ff\U0010ffff"), True),
        (eq(NAME, "b\ue000"), NAME, _texts("a", "b\ud7ff"), True),  # the next character after the surrogates
        (eq(NAME, "b\ue001"), NAME, _texts("a", "b\ud7ff"), False),
    ],
)
def test_a_manifest_is_kept_if_its_summary_allows_it(predicate, field, summary, expected):
    assert manifest_filter(predicate, Identity(), field).may_hold([manifest(summary)]).tolist() == [expected]


@pytest.mark.parametrize(
    ("writer", "expected"), [(RIGHT, False), (WRONG, True), (None, True), ({}, True), ({"engine-name": "spark"}, True)]
)
@pytest.mark.parametrize("field", [RAW, TAG], ids=["binary", "fixed"])
def test_binary_summaries_need_a_writer_that_is_known_to_be_right(writer, expected, field):
    summary = FieldSummary(False, None, b"\x01\x01", b"\x02\x02")
    assert manifest_filter(eq(field, b"\x03\x03"), Identity(), field, writer).may_hold(
        [manifest(summary)]
    ).tolist() == [expected]


def test_summaries_of_another_length_are_ignored():
    keep = manifest_filter(eq(ID, 10), Identity(), ID)
    summary = FieldSummary(False, None, _long(1), _long(9))
    assert keep.may_hold([manifest(summary, summary), manifest()]).all()
    assert not keep.contradicted([manifest(summary, summary)], np.zeros(1, np.int64), [{1000: 10}]).any()


@pytest.mark.parametrize(
    ("value", "summary", "contradicted"),
    [
        (5, FieldSummary(False, None, _long(1), _long(9)), False),
        (10, FieldSummary(False, None, _long(1), _long(9)), True),
        (0, FieldSummary(False, None, _long(1), _long(9)), True),
        (None, FieldSummary(False, None, _long(1), _long(9)), True),
        (None, FieldSummary(True), False),
        (1, FieldSummary(True), False),  # nothing was concluded from the bound
    ],
)
def test_a_tuple_outside_trusted_bounds_contradicts_them(value, summary, contradicted):
    keep = manifest_filter(eq(ID, 5), Identity(), ID)
    assert keep.contradicted([manifest(summary)], np.zeros(1, np.int64), [{1000: value}]).tolist() == [contradicted]
