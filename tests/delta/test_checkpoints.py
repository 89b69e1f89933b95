import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from checkpoint_rows import TYPES, VECTOR_TYPE, add, table

from harness.errors import CorruptFileError, InvalidTableError, MissingFileError
from harness.metadata.delta.checkpoint_files import concat_files
from harness.metadata.delta.checkpoints import CheckpointContent, read_checkpoint
from harness.metadata.delta.commits import Locator
from harness.metadata.delta.log_files import Checkpoint, CheckpointKind, LogFile
from harness.metadata.delta.paths import TableRoot
from harness.storage.stores import Storage

PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
METADATA = {"metaData": {"id": "i", "schemaString": "{}", "partitionColumns": [], "configuration": {"k": "v"}}}
VERSION = {"checkpointMetadata": {"version": 5}}
UUID_NAME = "checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11"


def vector(name):
    return {"storageType": "u", "pathOrInlineDv": name, "offset": 1, "sizeInBytes": 3, "cardinality": 2}


def write(root: Path, name: str, rows, types=TYPES) -> LogFile:
    path = root / "_delta_log" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".json"):
        path.write_text("\n".join(json.dumps(row) for row in rows))
    else:
        pq.write_table(rows if isinstance(rows, pa.Table) else table(rows, types), path)
    return LogFile(str(path), 5, path.stat().st_size, None)


def classic(*files: LogFile) -> Checkpoint:
    kind = CheckpointKind.CLASSIC if len(files) == 1 else CheckpointKind.MULTI_PART
    return Checkpoint(5, kind, files)


def read(root: Path, checkpoint: Checkpoint) -> CheckpointContent:
    return read_checkpoint(checkpoint, Storage(), Locator(TableRoot.at(str(root))), statistics="any")


def paths(got: CheckpointContent) -> list[str]:
    return sorted(path for part in got.adds for path in part.column("path").to_pylist())


def refused(root: Path, checkpoint: Checkpoint) -> CorruptFileError | MissingFileError:
    with pytest.raises((CorruptFileError, MissingFileError)) as caught:
        read(root, checkpoint)
    return caught.value


@pytest.mark.parametrize("bystander", [PROTOCOL, {"remove": {"path": "b"}}], ids=["protocol", "tombstone"])
def test_a_row_with_two_actions_does_not_hide_a_row_without_one(tmp_path, bystander):
    """The total number of actions equals the number of rows, but the file `a` would be lost."""
    rows = [METADATA, add("c") | bystander, {}] + ([PROTOCOL] if bystander is not PROTOCOL else [])
    error = refused(tmp_path, classic(write(tmp_path, "5.checkpoint.parquet", rows)))
    assert f"1 of its {len(rows)} rows hold more than one action" in error.message


def test_every_lost_row_is_found_in_a_file_of_many_batches(tmp_path):
    """Rows are counted over batches and row groups. Unknown actions in other rows do not compensate for lost ones."""
    types = TYPES | {"future": pa.struct({"x": pa.int64()})}
    rows = [PROTOCOL, METADATA] + [add(f"f{n}") for n in range(40_000)] + [{"future": {"x": 1}}]
    rows[35_000] = {}
    error = refused(tmp_path, classic(write(tmp_path, "5.checkpoint.parquet", rows, types)))
    assert "1 of its 40003 rows hold no action" in error.message


def test_rows_with_unknown_actions_are_skipped(tmp_path):
    types = TYPES | {"future": pa.struct({"x": pa.int64()}), "commitInfo": pa.struct({"y": pa.int64()})}
    rows = [PROTOCOL, METADATA, add("a"), {"future": {"x": 1}}, {"commitInfo": {"y": 1}}]
    got = read(tmp_path, classic(write(tmp_path, "5.checkpoint.parquet", rows, types)))
    assert (paths(got), got.actions) == (["a"], 5)


@pytest.mark.parametrize("action", ["add", "remove"])
@pytest.mark.parametrize("key", ["storageType", "pathOrInlineDv", "sizeInBytes", "cardinality"])
def test_an_incomplete_vector_is_refused(tmp_path, action, key):
    rows = [add("x"), {action: {"path": "y", "size": 1, "deletionVector": {**vector("d"), key: None}}}]
    got = refused(tmp_path, classic(write(tmp_path, "5.checkpoint.parquet", rows)))
    assert "deletion vector of y is incomplete" in got.message


@pytest.mark.parametrize("action", ["add", "remove"])
@pytest.mark.parametrize("all_of_them", [True, False])
def test_misspelt_columns_of_vectors_are_refused(tmp_path, action, all_of_them):
    names = {"storageType": "storage_type", **({key: f"{key}_" for key in vector("d")} if all_of_them else {})}
    misspelt = pa.struct([f.with_name(names.get(f.name, f.name)) for f in VECTOR_TYPE])
    types = TYPES | {action: pa.struct({"path": pa.string(), "size": pa.int64(), "deletionVector": misspelt})}
    body = {"path": "y", "size": 1, "deletionVector": {names.get(k, k): v for k, v in vector("d").items()}}
    got = refused(
        tmp_path,
        classic(write(tmp_path, "5.checkpoint.parquet", [{"add": {"path": "x", "size": 1}}, {action: body}], types)),
    )
    assert f"deletionVector of its column {action} has no storageType" in got.message
    unused = write(
        tmp_path,
        "6.checkpoint.parquet",
        [{"add": {"path": "x", "size": 1}}, {action: {**body, "deletionVector": None}}],
        types,
    )
    assert "x" in paths(read(tmp_path, classic(unused)))


@pytest.mark.parametrize(
    ("rows", "kind", "reason"),
    [
        pytest.param([VERSION, VERSION], CheckpointKind.UUID, "has 2 checkpointMetadata", id="marked twice"),
        ([{"sidecar": {"path": "a"}}], CheckpointKind.CLASSIC, "has sidecars, but"),
        pytest.param(
            [{"checkpointMetadata": {"version": 4}}], CheckpointKind.UUID, "has version 4", id="wrong version"
        ),
        pytest.param([PROTOCOL, PROTOCOL], CheckpointKind.CLASSIC, "2 protocol actions", id="two protocols"),
        pytest.param([METADATA, METADATA], CheckpointKind.CLASSIC, "2 metaData actions", id="two metaData"),
        pytest.param([add("a b"), add("a%20b")], CheckpointKind.CLASSIC, "the file a b twice", id="file twice"),
        ([add("a"), add("a", deletionVector=vector("x"))], CheckpointKind.CLASSIC, "the file a twice"),
    ],
)
def test_contradiction_is_refused(tmp_path, rows, kind, reason):
    top = write(tmp_path, "5.checkpoint.parquet", rows)
    with pytest.raises(InvalidTableError, match=reason) as caught:
        read(tmp_path, Checkpoint(5, kind, (top,)))
    assert caught.value.file == top.path


def _half_json(root: Path) -> Checkpoint:
    file = write(root, f"5.{UUID_NAME}.json", [VERSION, PROTOCOL])
    path = Path(file.path)
    path.write_bytes(path.read_bytes()[:-5])
    return Checkpoint(5, CheckpointKind.UUID, (file,))


def _short_sidecar(root: Path) -> Checkpoint:
    write(root, "_sidecars/s.parquet", [add("a")])
    rows = [VERSION, {"sidecar": {"path": "s.parquet", "sizeInBytes": 10**6}}]
    return Checkpoint(5, CheckpointKind.UUID, (write(root, f"5.{UUID_NAME}.json", rows),))


def _no_path(root: Path) -> Checkpoint:
    types = {"add": pa.struct({"size": pa.int64()})}
    return classic(write(root, "5.checkpoint.parquet", [{"add": {"size": 1}}], types))


def _no_size(root: Path) -> Checkpoint:
    return classic(write(root, "5.checkpoint.parquet", [add("x", size=None)]))


def _size_is_text(root: Path) -> Checkpoint:
    types = {"add": pa.struct({"path": pa.string(), "size": pa.string()})}
    return classic(write(root, "5.checkpoint.parquet", [{"add": {"path": "x", "size": "many"}}], types))


@pytest.mark.parametrize(
    ("make", "error", "reason"),
    [
        (_half_json, CorruptFileError, "is cut short"),
        (_short_sidecar, CorruptFileError, "is cut short"),
        (_no_path, CorruptFileError, "column add has no path"),
        (_no_size, CorruptFileError, "has no size"),
        (_size_is_text, CorruptFileError, "Cannot read the checkpoint"),
    ],
)
def test_unreadable_checkpoint_says_why(tmp_path, make, error, reason):
    got = refused(tmp_path, make(tmp_path))
    assert isinstance(got, error)
    assert reason in str(got)
    assert got.file is not None


def struct_stats(fields):
    return {"add": pa.struct({"path": pa.string(), "size": pa.int64(), "stats_parsed": pa.struct(fields)})}


def test_structs_of_different_age_are_united(tmp_path):
    old = {"numRecords": pa.int32(), "minValues": pa.struct({"a": pa.int32(), "b": pa.string(), "c": pa.int64()})}
    new = {"numRecords": pa.int64(), "minValues": pa.struct({"a": pa.int64(), "b": pa.date32(), "d": pa.float32()})}
    adds = []
    for name, fields, low in (("x", old, {"a": 1, "b": "t", "c": 5}), ("y", new, {"a": 2**40, "b": None, "d": 0.5})):
        rows = [{"add": {"path": name, "size": 1, "stats_parsed": {"numRecords": 3, "minValues": low}}}]
        file = write(tmp_path, f"{name}.parquet", rows, struct_stats(fields))
        adds += read(tmp_path, classic(file)).adds
    plain = read(tmp_path, classic(write(tmp_path, "z.parquet", [add("z", stats="{}")]))).adds
    got = concat_files([*adds, *plain])
    assert got.column("stats_parsed").to_pylist() == [
        {"numRecords": 3, "minValues": {"a": 1, "c": 5, "d": None}},
        {"numRecords": 3, "minValues": {"a": 2**40, "c": None, "d": 0.5}},
        None,
    ]
