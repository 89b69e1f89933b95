"""Position delete files of three formats and deletion vectors, read from disk into positions per planned data file."""

import io
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import CorruptDeleteError, CorruptFileError, EncryptedTableError, HarnessError, UnsupportedError
from harness.metadata.iceberg.columns.entries import from_entries
from harness.metadata.iceberg.deletes import FileDeletes, FilesWithDeletes
from harness.metadata.iceberg.manifests import Content, DataFile, ManifestEntry, Status
from harness.metadata.iceberg.position_deletes import make_loader
from harness.storage.paths import PathMap
from harness.storage.stores import Storage

A, C = "s3://t/data/a.parquet", "s3://t/data/c.parquet"
PATH_ID, POS_ID = 2147483546, 2147483545


def entry(content, path, file_format="parquet"):
    file = DataFile(content=content, path=path, format=file_format, spec_id=0, partition={}, record_count=100, size=1)
    return ManifestEntry(Status.ADDED, 1, 6, 6, file, "m.avro")


def with_ids(table, *ids):
    fields = [f.with_metadata({"PARQUET:field_id": str(i)}) for f, i in zip(table.schema, ids, strict=True)]
    return table.cast(pa.schema(fields))


def rows(*pairs):
    paths, positions = zip(*pairs, strict=True)
    return pa.table({"file_path": pa.array(paths, pa.string()), "pos": pa.array(positions, pa.int64())})


def parquet(table):
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def load(tmp_path, content, file_format="parquet"):
    """Reads one file of deletes, s3://t/d, which is mapped to `tmp_path`."""
    (tmp_path / "d").write_bytes(content)
    data, delete = entry(Content.DATA, A), entry(Content.POSITION_DELETES, "s3://t/d", file_format)
    files = replace(from_entries([data], (), manifest=0), manifests=("m.avro",))
    planned = FilesWithDeletes(files, {0: FileDeletes(data=data, position_files=(delete,))})
    make_loader(planned, storage=Storage(), path_map=PathMap((("s3://t", str(tmp_path)),)), table="s3://t")([0])


ODD, UNREAD = "Position delete file has ", "Cannot read position delete file: "


def columns(paths, positions):
    return parquet(pa.table({"file_path": paths, "pos": positions}))


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (parquet(rows((A, None))), CorruptDeleteError, f"{ODD}1 rows without pos"),
        (parquet(rows((None, 1), (A, 2))), CorruptDeleteError, f"{ODD}1 rows without file_path"),
        (parquet(rows((C, -5), (A, 1))), CorruptDeleteError, f"{ODD}position -5"),  # of another file
        (parquet(rows((A, 1)).drop_columns("pos")), CorruptFileError, f"{UNREAD}0 columns are pos by name"),
        (
            parquet(with_ids(rows((A, 1)), PATH_ID, 1)),
            CorruptFileError,
            f"{UNREAD}0 columns are pos by field id {POS_ID}",
        ),
        (columns([A], [1.0]), CorruptDeleteError, f"{ODD}positions of type double"),
        (columns([b"\xff"], [1]), CorruptDeleteError, f"{ODD}paths of type binary, expected UTF-8 text"),
        (
            columns(pa.array([6], pa.uint64()), [1]),
            CorruptDeleteError,
            f"{ODD}paths of type uint64, expected UTF-8 text",
        ),
        (
            columns(pa.array([], pa.float64()), pa.array([], pa.int64())),
            CorruptDeleteError,
            f"{ODD}paths of type double, expected UTF-8 text",
        ),
        (parquet(rows((A, 1)))[:-20], CorruptFileError, UNREAD),
        (b"", CorruptFileError, UNREAD),
        (parquet(rows((A, 1)))[:-4] + b"PARE", EncryptedTableError, f"{UNREAD}it is encrypted"),
    ],
)
def test_unreadable_files_are_refused(tmp_path, content, error, message):
    with pytest.raises(HarnessError) as caught:
        load(tmp_path, content)
    assert type(caught.value) is error
    assert caught.value.message.startswith(message)
    assert caught.value.file == f"s3://t/d ({tmp_path}/d)"
    assert caught.value.table == "s3://t"
    assert caught.value.rule is not None


def test_unknown_formats_are_refused(tmp_path):
    with pytest.raises(UnsupportedError) as caught:
        load(tmp_path, b"x", "lance")
    assert (
        caught.value.message == "Cannot read position delete file: its format is lance, expected parquet, avro or orc"
    )
