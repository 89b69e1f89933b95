"""Position delete files of three formats and deletion vectors, read from disk into positions per planned data file."""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import replace

import fastavro
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from harness.errors import (
    CorruptDeleteError,
    CorruptFileError,
    EncryptedTableError,
    HarnessError,
    MissingFileError,
    UnsupportedError,
)
from harness.metadata.iceberg.columns.entries import from_entries
from harness.metadata.iceberg.deletes import FileDeletes, FilesWithDeletes
from harness.metadata.iceberg.manifests import Content, DataFile, ManifestEntry, Status
from harness.metadata.iceberg.position_deletes import make_loader
from harness.storage.paths import PathMap
from harness.storage.stores import Storage

A, B, C = "s3://t/data/a.parquet", "s3://t/data/b.parquet", "s3://t/data/c.parquet"
PATH_ID, POS_ID, ROW_ID = 2147483546, 2147483545, 2147483544
MAP = "s3://t"


def entry(content, path, seq=5, *, spec_id=0, file_format="parquet", count=100, **more):
    file = DataFile(
        content=content,
        path=path,
        format=file_format,
        spec_id=spec_id,
        partition={},
        record_count=count,
        size=1,
        **more,
    )
    return ManifestEntry(Status.ADDED, 1, seq, seq, file, "m.avro")


def data(path, seq=5, count=100):
    return entry(Content.DATA, path, seq, count=count)


def deletes(path="s3://t/d", seq=6, **more):
    return entry(Content.POSITION_DELETES, path, seq, **more)


def with_ids(table, *ids):
    fields = [f.with_metadata({"PARQUET:field_id": str(i)}) for f, i in zip(table.schema, ids, strict=True)]
    return table.cast(pa.schema(fields))


def rows(*pairs):
    return pa.table(
        {"file_path": pa.array([p for p, _ in pairs], pa.string()), "pos": pa.array([n for _, n in pairs], pa.int64())}
    )


def parquet(table, **options):
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def orc(table):
    sink = io.BytesIO()
    po.write_table(table, sink)
    return sink.getvalue()


def avro(pairs, *, path_name="file_path", pos_name="pos", ids=(PATH_ID, POS_ID)):
    extra = [{} if i is None else {"field-id": i} for i in ids]
    fields = [{"name": path_name, "type": "string"} | extra[0], {"name": pos_name, "type": "long"} | extra[1]]
    schema = {"type": "record", "name": "deletes", "fields": fields}
    sink = io.BytesIO()
    fastavro.writer(sink, schema, [{path_name: p, pos_name: n} for p, n in pairs])
    return sink.getvalue()


def load(tmp_path, files, targets, ordinals=None):
    """Positions by ordinal, as lists. files: content by name under s3://t, which is mapped to `tmp_path`."""
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    planned = FilesWithDeletes(files_of([deletes.data for deletes in targets.values()]), targets)
    loader = make_loader(planned, storage=Storage(), path_map=PathMap(((MAP, str(tmp_path)),)), table="s3://t")
    return {i: list(found) for i, found in loader(list(targets) if ordinals is None else ordinals).items()}


def files_of(entries):
    return replace(from_entries(entries, (), manifest=0), manifests=("m.avro",))


def hit(path, *files, **more):
    return FileDeletes(data=data(path), position_files=files, **more)


PAIRS = [(B, 7), (A, 3), (A, 1), (C, 9), (B, 0), (A, 3)]


@pytest.mark.parametrize(
    ("file_format", "content"),
    [
        pytest.param("parquet", parquet(with_ids(rows(*PAIRS), PATH_ID, POS_ID)), id="parquet by id"),
        pytest.param("parquet", parquet(rows(*PAIRS)), id="parquet by name"),
        pytest.param("parquet", parquet(rows(*PAIRS), row_group_size=1), id="parquet, many row groups"),
        pytest.param("parquet", parquet(rows(*PAIRS), use_dictionary=False), id="parquet, plain encoding"),
        pytest.param(
            "parquet",
            parquet(with_ids(rows(*PAIRS).rename_columns(["p", "q"]), PATH_ID, POS_ID)),
            id="parquet, other names",
        ),
        pytest.param(
            "parquet", parquet(with_ids(rows(*PAIRS).select([1, 0]), POS_ID, PATH_ID)), id="parquet, other order"
        ),
        pytest.param(
            "parquet",
            parquet(with_ids(rows(*PAIRS).append_column("row", pa.array([{"x": 1}] * 6)), PATH_ID, POS_ID, ROW_ID)),
            id="parquet with row",
        ),
        pytest.param(
            "parquet",
            parquet(
                with_ids(
                    rows(*PAIRS).append_column("pos2", pa.array([1] * 6)).rename_columns(["file_path", "x", "pos"]),
                    PATH_ID,
                    POS_ID,
                    5,
                )
            ),
            id="parquet, ids before names",
        ),
        pytest.param(
            "parquet",
            parquet(rows(*PAIRS).cast(pa.schema([("file_path", pa.binary()), ("pos", pa.int32())]))),
            id="parquet, binary and int",
        ),
        pytest.param("avro", avro(PAIRS), id="avro by id"),
        pytest.param("avro", avro(PAIRS, path_name="p", pos_name="q"), id="avro, other names"),
        pytest.param("avro", avro(PAIRS, ids=(None, None)), id="avro by name"),
        pytest.param("orc", orc(rows(*PAIRS)), id="orc by name"),
    ],
)
def test_reads_unsorted_rows_of_several_data_files(tmp_path, file_format, content):
    file = deletes(file_format=file_format, count=len(PAIRS))
    found = load(tmp_path, {"d": content}, {0: hit(A, file), 1: hit(B, file)})
    assert found == {0: [1, 3], 1: [0, 7]}


def test_positions_of_several_files_are_united(tmp_path):
    evens, threes = deletes("s3://t/e"), deletes("s3://t/f")
    files = {
        "e": parquet(rows(*((p, n) for n in range(0, 20, 2) for p in (A, B)))),
        "f": parquet(rows(*((p, n) for p in (B, A) for n in range(0, 20, 3)))),
    }
    expected = sorted({*range(0, 20, 2), *range(0, 20, 3)})
    targets = {0: hit(A, evens, threes), 1: hit(B, threes, evens), 2: hit(C, evens, threes)}
    assert load(tmp_path, files, targets) == {0: expected, 1: expected}


def test_paths_are_compared_as_recorded(tmp_path):
    file = deletes()
    near = ["s3a://t/data/a.parquet", "s3://t//data/a.parquet", A.upper(), A + " ", A.replace("data/", "data/./")]
    found = load(tmp_path, {"d": parquet(rows(*((p, 1) for p in near), (A, 8)))}, {0: hit(A, file)})
    assert found == {0: [8]}


def test_positions_beyond_32_bits_and_beyond_the_file_are_kept(tmp_path):
    found = load(tmp_path, {"d": parquet(rows((A, 2**40), (A, 100), (A, 0)))}, {0: hit(A, deletes())})
    assert found == {0: [0, 100, 2**40]}


@pytest.mark.parametrize(
    "content", [parquet(rows()), parquet(rows((C, 4)))], ids=["no rows", "rows of unplanned files"]
)
def test_files_without_deleted_positions_are_absent(tmp_path, content):
    assert load(tmp_path, {"d": content}, {0: hit(A, deletes()), 1: hit(B)}, [0, 1, 99]) == {}


def test_delete_files_are_read_once_and_only_when_needed(tmp_path):
    (tmp_path / "d").write_bytes(parquet(rows((A, 1), (B, 2))))
    file = deletes()
    targets = {0: hit(A, file), 1: hit(B, file), 2: hit(C, deletes("s3://t/missing"))}
    planned = FilesWithDeletes(files_of([deletes.data for deletes in targets.values()]), targets)
    loader = make_loader(planned, storage=Storage(), path_map=PathMap(((MAP, str(tmp_path)),)))
    assert list(loader([0])[0]) == [1]
    (tmp_path / "d").unlink()
    assert {i: list(found) for i, found in loader([0, 1]).items()} == {0: [1], 1: [2]}


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        pytest.param(
            parquet(rows((A, -1))),
            CorruptDeleteError,
            "Position delete file has position -1, expected 0 or more",
            id="negative position",
        ),
        pytest.param(
            parquet(rows((A, None))),
            CorruptDeleteError,
            "Position delete file has 1 rows without pos",
            id="null position",
        ),
        pytest.param(
            parquet(rows((None, 1), (A, 2))),
            CorruptDeleteError,
            "Position delete file has 1 rows without file_path",
            id="null path",
        ),
        pytest.param(
            parquet(rows((C, -5), (A, 1))),
            CorruptDeleteError,
            "Position delete file has position -5",
            id="negative position of another file",
        ),
        pytest.param(
            parquet(rows((A, 1)).drop_columns("pos")),
            CorruptFileError,
            "Cannot read position delete file: 0 columns are pos by name",
            id="no position column",
        ),
        pytest.param(
            parquet(with_ids(rows((A, 1)), PATH_ID, 1)),
            CorruptFileError,
            f"Cannot read position delete file: 0 columns are pos by field id {POS_ID}",
            id="ids, but not this one",
        ),
        pytest.param(
            parquet(rows((A, 1)).cast(pa.schema([("file_path", pa.string()), ("pos", pa.float64())]))),
            CorruptDeleteError,
            "Position delete file has positions of type double",
            id="position is no integer",
        ),
        pytest.param(
            parquet(pa.table({"file_path": pa.array([b"\xff"]), "pos": [1]})),
            CorruptDeleteError,
            "Position delete file has paths of type binary, expected UTF-8 text",
            id="path is no text",
        ),
        pytest.param(
            parquet(pa.table({"file_path": pa.array([6], pa.uint64()), "pos": [1]})),
            CorruptDeleteError,
            "Position delete file has paths of type uint64, expected UTF-8 text",
            id="path is a number",
        ),
        pytest.param(
            parquet(pa.table({"file_path": pa.array([], pa.float64()), "pos": pa.array([], pa.int64())})),
            CorruptDeleteError,
            "Position delete file has paths of type double, expected UTF-8 text",
            id="paths are numbers, and there are none",
        ),
        pytest.param(parquet(rows((A, 1)))[:-20], CorruptFileError, "Cannot read position delete file", id="cut"),
        pytest.param(b"", CorruptFileError, "Cannot read position delete file", id="empty"),
        pytest.param(
            parquet(rows((A, 1)))[:-4] + b"PARE",
            EncryptedTableError,
            "Cannot read position delete file: it is encrypted",
            id="encrypted",
        ),
    ],
)
def test_unreadable_files_are_refused(tmp_path, content, error, message):
    with pytest.raises(HarnessError) as caught:
        load(tmp_path, {"d": content}, {0: hit(A, deletes())})
    assert type(caught.value) is error
    assert caught.value.message.startswith(message)
    assert caught.value.file == f"s3://t/d ({tmp_path}/d)"
    assert caught.value.table == "s3://t"
    assert caught.value.rule is not None


def test_missing_files_are_refused(tmp_path):
    with pytest.raises(MissingFileError):
        load(tmp_path, {}, {0: hit(A, deletes())})


def test_unknown_formats_are_refused(tmp_path):
    with pytest.raises(UnsupportedError) as caught:
        load(tmp_path, {"d": b"x"}, {0: hit(A, deletes(file_format="lance"))})
    assert (
        caught.value.message == "Cannot read position delete file: its format is lance, expected parquet, avro or orc"
    )


class TestOutOfScope:
    def test_suspect_that_names_the_file_is_refused(self, tmp_path):
        suspect = deletes(spec_id=1)
        with pytest.raises(CorruptDeleteError) as caught:
            load(tmp_path, {"d": parquet(rows((A, 1)))}, {0: FileDeletes(data=data(A), suspects=(suspect,))})
        assert (caught.value.cause, caught.value.rule) == ("DeletePartitionMismatch", "iceberg 4.4")

    def test_suspect_that_names_other_files_is_no_delete(self, tmp_path):
        suspect = deletes(spec_id=1)
        targets = {0: FileDeletes(data=data(A), suspects=(suspect,))}
        assert load(tmp_path, {"d": parquet(rows((B, 1)))}, targets) == {}

    def test_file_read_for_one_that_names_another_is_refused(self, tmp_path):
        with pytest.raises(CorruptDeleteError) as caught:
            load(tmp_path, {"d": parquet(rows((A, 1), (B, 1)))}, {0: hit(A, deletes()), 1: hit(B)}, [0])
        assert caught.value.cause == "DeletePartitionMismatch"

    def test_file_for_one_path_that_names_another_is_refused(self, tmp_path):
        file = deletes(referenced_data_file=A)
        with pytest.raises(CorruptDeleteError) as caught:
            load(tmp_path, {"d": parquet(rows((A, 1), (B, 1)))}, {0: hit(A, file), 1: hit(B)}, [0])
        assert caught.value.message == (
            "Position delete file is for data file s3://t/data/a.parquet and has rows for s3://t/data/b.parquet."
            " Rewrite it"
        )

    @pytest.mark.parametrize(
        "other",
        [
            pytest.param(FileDeletes(data=data(B, seq=7)), id="later data file"),
            pytest.param(
                FileDeletes(data=data(B), vector=deletes("s3://t/v", file_format="puffin")), id="has a vector"
            ),
        ],
    )
    def test_file_that_names_another_which_it_may_not_hit_is_fine(self, tmp_path, other):
        content = parquet(rows((A, 1), (B, 1)))
        assert load(tmp_path, {"d": content}, {0: hit(A, deletes()), 1: other}, [0]) == {0: [1]}


def blob(*positions):
    body = b"\xd1\xd3\x39\x64" + BitMap64(positions).serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def framed(*blobs):
    footer = b'{"blobs":[]}'
    return b"PFA1" + b"".join(blobs) + b"PFA1" + footer + struct.pack("<iI", len(footer), 0) + b"PFA1"


def vector(target, offset, size, count):
    return deletes(
        "s3://t/v",
        file_format="puffin",
        count=count,
        referenced_data_file=target,
        content_offset=offset,
        content_size=size,
    )


def test_vectors_that_share_a_file(tmp_path):
    stale, first, second = blob(1, 2, 3), blob(5), blob(0, 99)
    at = 4 + len(stale)
    targets = {
        0: FileDeletes(data=data(A), vector=vector(A, at, len(first), 1)),
        1: FileDeletes(data=data(B), vector=vector(B, at + len(first), len(second), 2)),
        2: hit(C),
    }
    assert load(tmp_path, {"v": framed(stale, first, second)}, targets) == {0: [5], 1: [0, 99]}


def test_vector_with_a_position_beyond_its_data_file_is_refused(tmp_path):
    one = blob(100)
    with pytest.raises(CorruptDeleteError) as caught:
        load(tmp_path, {"v": framed(one)}, {0: FileDeletes(data=data(A), vector=vector(A, 4, len(one), 1))})
    assert str(caught.value) == (
        "Cannot decode deletion vector: it deletes position 100 of a data file with 100 rows. Restore the file"
        f" [CorruptDeletionVector; table s3://t, file s3://t/v ({tmp_path}/v), field {A}, rule iceberg 4.19]"
    )


def test_bare_vector_is_refused(tmp_path):
    one = blob(1)
    with pytest.raises(CorruptFileError) as caught:
        load(tmp_path, {"v": one}, {0: FileDeletes(data=data(A), vector=vector(A, 0, len(one), 1))})
    assert caught.value.rule == "iceberg 4.22"
