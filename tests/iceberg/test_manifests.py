"""What of manifest lists and manifests is refused (iceberg section 2). How the rest is read, scenarios tell."""

import pytest

import harness
from harness.errors import CorruptFileError, EncryptedTableError, HarnessError, InvalidTableError, UnsupportedError
from harness.metadata.iceberg.manifests import ManifestFile, open_manifest
from harness.testing.writing.iceberg.builder import IcebergTable


@pytest.fixture
def table(tmp_path):
    made = IcebergTable.create(tmp_path / "t", {"id": "long"}, partition_spec=[("id", "identity")])
    made.append(made.write_data([{"id": 1}]))
    return made


def refused(table):
    with pytest.raises(HarnessError) as caught:
        harness.open_table(table.location).snapshot().plan()
    return type(caught.value), caught.value.cause, caught.value.field, caught.value.rule


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


@pytest.mark.parametrize(("data", "key"), [(b"", b"k"), (b"AGS1....", None)])
def test_an_encrypted_manifest_is_refused(data, key):
    with pytest.raises(EncryptedTableError):
        open_manifest(data, ManifestFile(path="m.avro", spec_id=0, key_metadata=key), specs={}, schemas=())
