"""Metadata tables, compared with expectations written by hand."""

import datetime
import json

import pyarrow as pa
import pytest

import harness
from harness.errors import MissingFileError, RequestError, UnknownColumnError
from harness.metadata.iceberg.columns import entries
from harness.metadata.tables.reading import NAMES
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

DAY = datetime.date(2022, 1, 8)  # 19000 days after 1970-01-01
NEXT = datetime.date(2022, 1, 9)
FIRST = 7_000_000_000_000_001  # the builder counts snapshots from this number


@pytest.fixture(scope="module")
def iceberg(tmp_path_factory) -> harness.Table:
    """Three files in two partitions. A row is deleted by position, another by key, and a file is removed."""
    t = IcebergTable.create(
        tmp_path_factory.mktemp("ice") / "t", {"id": "long", "day": "date"}, partition_spec=[("day", "identity")]
    )
    one = t.write_data([{"id": 1, "day": DAY}, {"id": 2, "day": DAY}], path="data/one.parquet")
    two = t.write_data([{"id": 3, "day": NEXT}, {"id": None, "day": NEXT}], path="data/two.parquet")
    three = t.write_data([{"id": 5, "day": NEXT}], path="data/three.parquet")
    t.append(one, two, three)
    t.create_tag("before")
    t.append(
        t.write_position_deletes([(one, 0)], path="data/positions.parquet"),
        t.write_equality_deletes(["id"], [{"id": 3}], partition={"day": NEXT}, path="data/keys.parquet"),
    )
    t.commit(remove=[three])
    return harness.open_table(t.location)


@pytest.fixture(scope="module")
def delta(tmp_path_factory) -> harness.Table:
    """Two files in two partitions. Then a vector deletes a row of one file."""
    t = DeltaTable.create(
        tmp_path_factory.mktemp("delta") / "t", {"id": "long", "s": "string"}, partition_columns=["s"]
    )
    one = t.write_data([{"id": 1, "s": "a"}, {"id": 2, "s": "a"}])
    t.append(one, t.write_data([{"id": 3, "s": None}]))
    t.delete(one, [1])
    return harness.open_table(str(t.directory))


def answer(table: harness.Table | harness.Snapshot, query: str) -> list[tuple]:
    return harness.sql(query, {"t": table}).fetchall()


def test_every_table_is_the_same_in_python_and_in_sql(iceberg, delta):
    for table in (iceberg, delta):
        for name in NAMES[table.format]:
            found = table.metadata(name).to_arrow()
            found.validate(full=True)
            assert pa.table(table.metadata(name)) == found
            assert harness.sql(f"SELECT * FROM t.{name}", {"t": table}).columns == found.schema.names
            assert answer(table, f"SELECT count(*) FROM t.{name}") == [(found.num_rows,)]
            assert found.num_rows > 0


SNAPSHOTS = "SELECT snapshot_id, parent_id, operation, summary['operation'] FROM t.snapshots ORDER BY committed_at"
FILES = """
SELECT content, parse_filename(file_path), file_format, spec_id, partition.day, record_count, equality_ids,
  value_counts, null_value_counts, lower_bounds[1], upper_bounds[1] FROM t.files WHERE content < 1 ORDER BY 1, 2"""
DELETES = "SELECT content, parse_filename(file_path), partition.day, record_count, equality_ids FROM t.files"
ENTRIES = """
SELECT status, snapshot_id, sequence_number, parse_filename(data_file.file_path), data_file.partition.day
FROM t.entries ORDER BY ALL"""
MANIFESTS = """
SELECT content, partition_spec_id, added_snapshot_id, added_data_files_count, existing_data_files_count,
  deleted_data_files_count, added_delete_files_count, partition_summaries[1].lower_bound,
  partition_summaries[1].upper_bound FROM t.manifests ORDER BY content"""
PARTITIONS = """
SELECT partition.day, spec_id, record_count, file_count, position_delete_record_count, position_delete_file_count,
  equality_delete_record_count, equality_delete_file_count, last_updated_snapshot_id FROM t.partitions ORDER BY 1"""
METRICS = """
SELECT m.value_count, m.null_value_count, m.nan_value_count, m.lower_bound, m.upper_bound, lowest
FROM (SELECT readable_metrics.id AS m, readable_metrics.day.lower_bound AS lowest, file_path FROM t.files)"""
OF_ENTRY = "SELECT readable_metrics.id.upper_bound FROM t.entries WHERE data_file.file_path LIKE '%three.parquet'"
ONE, TWO, THREE, FIVE = ((n).to_bytes(8, "little") for n in (1, 2, 3, 5))
DELTA_FILES = """
SELECT partition.s, num_records, deletion_vector_storage_type IS NOT NULL, deleted_rows FROM t.files ORDER BY 1"""
DELTA_PARTITIONS = "SELECT partition.s, record_count, file_count, deleted_rows FROM t.partitions ORDER BY 1"


@pytest.mark.parametrize(
    ("at", "query", "expected"),
    [
        (
            None,
            SNAPSHOTS,
            [(FIRST, None, *["append"] * 2), *((FIRST + n, FIRST + n - 1, *["delete"] * 2) for n in (1, 2))],
        ),
        (
            None,
            "SELECT snapshot_id, parent_id, is_current_ancestor FROM t.history",
            [(FIRST, None, True), (FIRST + 1, FIRST, True), (FIRST + 2, FIRST + 1, True)],
        ),
        (
            None,
            "SELECT name, type, snapshot_id FROM t.refs ORDER BY name",
            [("before", "TAG", FIRST), ("main", "BRANCH", FIRST + 2)],
        ),
        (
            "before",
            FILES,
            [
                (0, "one.parquet", "PARQUET", 0, DAY, 2, None, {1: 2, 2: 2}, {1: 0, 2: 0}, ONE, TWO),
                (0, "three.parquet", "PARQUET", 0, NEXT, 1, None, {1: 1, 2: 1}, {1: 0, 2: 0}, FIVE, FIVE),
                (0, "two.parquet", "PARQUET", 0, NEXT, 2, None, {1: 2, 2: 2}, {1: 1, 2: 0}, THREE, THREE),
            ],
        ),
        (
            None,
            f"{DELETES} WHERE content > 0 ORDER BY 1",
            [(1, "positions.parquet", DAY, 1, None), (2, "keys.parquet", NEXT, 1, [1])],
        ),
        (
            None,
            ENTRIES,
            [
                (0, FIRST, 1, "one.parquet", DAY),
                (0, FIRST, 1, "two.parquet", NEXT),
                (1, FIRST + 1, 2, "keys.parquet", NEXT),
                (1, FIRST + 1, 2, "positions.parquet", DAY),
                (2, FIRST + 2, 1, "three.parquet", NEXT),
            ],
        ),
        (
            None,
            MANIFESTS,
            [
                (0, 0, FIRST + 2, 0, 2, 1, 0, "2022-01-08", "2022-01-09"),
                (1, 0, FIRST + 1, 0, 0, 0, 2, "2022-01-08", "2022-01-09"),
            ],
        ),
        (None, PARTITIONS, [(DAY, 0, 2, 1, 1, 1, 0, 0, FIRST + 1), (NEXT, 0, 2, 1, 0, 0, 1, 1, FIRST + 1)]),
        ("before", PARTITIONS, [(DAY, 0, 2, 1, 0, 0, 0, 0, FIRST), (NEXT, 0, 3, 2, 0, 0, 0, 0, FIRST)]),
        (None, f"{METRICS} WHERE file_path LIKE '%two.parquet'", [(2, 1, None, 3, 3, NEXT)]),
        (None, OF_ENTRY, [(5,)]),
    ],
)
def test_tables_of_iceberg(iceberg, at, query, expected):
    assert answer(iceberg if at is None else iceberg.snapshot(f"ref={at}"), query) == expected


def test_sums_of_sizes_and_times_are_those_of_the_files_and_snapshots(iceberg):
    sizes = iceberg.metadata("files").to_arrow(["content", "file_size_in_bytes"]).to_pylist()
    total = sum(file["file_size_in_bytes"] for file in sizes if file["content"] == 0)
    assert answer(iceberg, "SELECT sum(total_data_file_size_in_bytes)::BIGINT FROM t.partitions") == [(total,)]
    times = [snapshot["timestamp_ms"] * 1000 for snapshot in iceberg.snapshots()]
    assert iceberg.metadata("snapshots").to_arrow()["committed_at"].cast("int64").to_pylist() == times


def test_files_and_partitions_of_delta(delta):
    assert answer(delta, DELTA_FILES) == [("a", 2, True, 1), (None, 1, False, 0)]
    assert answer(delta, DELTA_PARTITIONS) == [("a", 2, 1, 1), (None, 1, 1, 0)]
    assert answer(delta.snapshot(1), "SELECT sum(deleted_rows)::INT FROM t.files") == [(0,)]


def test_a_rolled_back_snapshot_is_not_an_ancestor(tmp_path):
    t = IcebergTable.create(tmp_path / "t", {"id": "long"})
    first = t.append(t.write_data([{"id": 1}]))
    t.append(t.write_data([{"id": 2}]))
    t.set_ref("main", first, "branch")
    history = harness.open_table(t.location).metadata("history").to_arrow(["snapshot_id", "is_current_ancestor"])
    assert history.to_pylist()[:2] == [
        {"snapshot_id": FIRST, "is_current_ancestor": True},
        {"snapshot_id": FIRST + 1, "is_current_ancestor": False},
    ]


def test_tables_of_all_snapshots(iceberg):
    names = ("all_files", "all_data_files", "all_delete_files")
    found = {name: iceberg.metadata(name).to_arrow(["file_path"])["file_path"].to_pylist() for name in names}
    ends = {name: sorted({path.rpartition("/")[2] for path in paths}) for name, paths in found.items()}
    assert ends["all_data_files"] == ["one.parquet", "three.parquet", "two.parquet"]
    assert ends["all_delete_files"] == ["keys.parquet", "positions.parquet"]
    assert ends["all_files"] == sorted(ends["all_data_files"] + ends["all_delete_files"])
    # The first data manifest lists three files, its replacement three, and the delete manifest two.
    assert iceberg.metadata("all_entries").to_arrow().num_rows == 8
    references = iceberg.metadata("all_manifests").to_arrow(["reference_snapshot_id", "content"]).to_pylist()
    found = [(row["reference_snapshot_id"] - FIRST, row["content"]) for row in references]
    assert found == [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1)]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> harness.Table:
    """Values that the builder does not write: sizes, offsets, and a sort order."""
    t = IcebergTable.create(tmp_path_factory.mktemp("recorded") / "t", {"id": "long", "s": "struct<x: string>"})
    files = [t.write_data([{"id": i, "s": {"x": "a"}}], path=f"data/{i}.parquet") for i in range(3)]
    said = [({1: 40, 3: 7}, [4, 1 << 40], 2), ({}, [], None), ({3: 9, 99: 1}, [300, 5, -7], 0)]
    for file, (sizes, offsets, order) in zip(files, said, strict=True):
        pairs = [{"key": key, "value": value} for key, value in sizes.items()]
        file.data_file.update(column_sizes=pairs, split_offsets=offsets, sort_order_id=order)
    t.append(*files)
    return harness.open_table(t.location)


@pytest.mark.parametrize("in_step", [True, False])
def test_rarely_read_columns_of_manifests(recorded, monkeypatch, in_step):
    """Decoded in lockstep with other manifests, and entry by entry."""
    monkeypatch.setattr(entries, "manifests_for_lockstep", lambda batch: frozenset(b.number for b in batch if in_step))
    wanted = ["column_sizes", "split_offsets", "sort_order_id", "key_metadata"]
    assert [tuple(row.values()) for row in recorded.metadata("files").to_arrow(wanted).to_pylist()] == [
        ([(1, 40), (3, 7)], [4, 1 << 40], 2, None),
        (None, None, None, None),
        ([(3, 9)], [300, 5, -7], 0, None),  # 99 is not a column
    ]
    rows = recorded.metadata("entries").to_arrow()
    assert [tuple(row.values())[:4] for row in rows.to_pylist()] == [(1, FIRST, 1, 1)] * 3
    assert rows["data_file"].combine_chunks().field("split_offsets").to_pylist()[0] == [4, 1 << 40]
    metrics = rows["readable_metrics"].to_pylist()
    assert [row["s.x"]["column_size"] for row in metrics] == [7, None, 9]


def test_deleted_positions(iceberg, tmp_path):
    root = f"{iceberg.location}/data"
    columns = "file_path, pos, partition.day, spec_id, delete_file_path, content_offset, content_size_in_bytes"
    assert answer(iceberg, f"SELECT {columns} FROM t.position_deletes") == [
        (f"{root}/one.parquet", 0, DAY, 0, f"{root}/positions.parquet", None, None)
    ]
    t = IcebergTable.create(tmp_path / "t", {"id": "long"}, format_version=3)
    file = t.write_data([{"id": i} for i in range(9)])
    t.append(file)
    (vector,) = t.write_deletion_vectors({file: [7, 2]})
    t.append(vector)
    found = harness.open_table(t.location).metadata("position_deletes").to_arrow()
    assert "partition" not in found.schema.names
    assert found.select(["file_path", "pos", "delete_file_path"]).to_pylist() == [
        {"file_path": file.path, "pos": pos, "delete_file_path": vector.path} for pos in (2, 7)
    ]
    entry = harness.open_table(t.location).metadata("delete_files").to_arrow().to_pylist()[0]
    for name in ("content_offset", "content_size_in_bytes"):
        assert set(found[name].to_pylist()) == {entry[name]}
    t.file_of(vector.path).unlink()
    with pytest.raises(MissingFileError, match=r"[Pp]uffin"):
        harness.open_table(t.location).metadata("position_deletes").to_arrow()


def test_partitions_of_several_specs(tmp_path):
    """One struct has the fields of all specs, null if a tuple's spec lacks the field.

    A repeated field name gets its id.
    """
    t = IcebergTable.create(tmp_path / "t", {"id": "long", "s": "string"}, partition_spec=[("s", "identity")])
    t.append(t.write_data([{"id": 1, "s": "a"}]))
    t.set_partition_spec([("id", "bucket[4]")])
    t.append(t.write_data([{"id": 1, "s": "a"}]))
    found = harness.open_table(t.location).metadata("files").to_arrow(["spec_id", "partition"]).to_pylist()
    # bucket[4] of the long 1: murmur3 of its 8 bytes is 1392991556, and 1392991556 % 4 = 0.
    assert sorted(found, key=lambda file: file["spec_id"]) == [
        {"spec_id": 0, "partition": {"s": "a", "id_bucket": None}},
        {"spec_id": 1, "partition": {"s": None, "id_bucket": 0}},
    ]


def test_a_table_without_partitions_or_snapshots(tmp_path):
    t = IcebergTable.create(tmp_path / "t", {"id": "long"})
    empty = harness.open_table(t.location)
    assert {name for name in NAMES["iceberg"] if empty.metadata(name).to_arrow().num_rows} == {"metadata_log_entries"}
    assert "partition" not in empty.metadata("files").schema.names


def test_values_in_delta_commits(tmp_path):
    t = DeltaTable.create(tmp_path / "t", {"id": "long"})
    info = {
        "operation": "MERGE",
        "operationParameters": {"predicate": "id = 1", "matchedPredicates": [{"actionType": "update"}]},
        "operationMetrics": {"numOutputRows": "7"},
        "readVersion": 0,
        "isBlindAppend": "yes",  # not a Boolean
        "userId": 7,  # not a text
        "engineInfo": "test",
    }
    commit = {"commitInfo": info}
    (t.directory / "_delta_log" / f"{1:020}.json").write_text(json.dumps(commit) + "\n")
    row = harness.open_table(str(t.directory)).metadata("versions").to_arrow().slice(0, 1).to_pylist()[0]
    assert row["operation"] == "MERGE"
    told = {"predicate": "id = 1", "matchedPredicates": '[{"actionType": "update"}]'}
    assert dict(row["operationParameters"]) == told
    assert (dict(row["operationMetrics"]), row["readVersion"]) == ({"numOutputRows": "7"}, 0)
    assert (row["isBlindAppend"], row["userId"], row["engineInfo"]) == (None, None, "test")


def test_errors_list_the_available_tables_and_columns(iceberg, delta):
    with pytest.raises(
        RequestError, match="Unknown metadata table 'snapshot' for iceberg tables: did you mean snapshots"
    ):
        iceberg.metadata("snapshot")
    with pytest.raises(RequestError, match="Unknown metadata table 'refs' for delta tables: there are versions, files"):
        delta.metadata("refs")
    with pytest.raises(UnknownColumnError, match="Unknown column 'path': there are content, file_path"):
        iceberg.metadata("files").to_arrow(["path"])


def test_metadata_tables_are_refused_on_spark(iceberg):
    pytest.importorskip("pyspark")
    with pytest.raises(RequestError, match=r"Cannot read t\.files on Spark"):
        harness.sql("SELECT count(*) FROM t.files", {"t": iceberg}, engine="spark")
