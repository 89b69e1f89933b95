"""Why no live row matches: skipped files, deleted rows, and false statistics, worked out by hand."""

import json
from datetime import UTC, date, datetime

import pytest

import harness
from harness.trace.model import EventKind, FileDecision
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

READ, BY_STATISTICS = FileDecision.READ, FileDecision.BY_STATISTICS
BY_PARTITION, BY_MANIFEST = FileDecision.BY_PARTITION, FileDecision.BY_MANIFEST


@pytest.fixture
def iceberg(tmp_path):
    return IcebergTable.create(
        tmp_path / "orders", {"id": "long", "day": "string"}, partition_spec=[("day", "identity")]
    )


def rows_of(day, *ids):
    return [{"id": id_, "day": day} for id_ in ids]


def bound(column_id, value):
    """Return a change of a manifest entry that sets the upper bound of a column, an Iceberg long."""

    def change(document):
        for record in document.records:
            for each in record["data_file"]["upper_bounds"]:
                if each["key"] == column_id:
                    each["value"] = value.to_bytes(8, "little", signed=True)

    return change


def decisions(trace):
    """Return what a read does with each file, and its numbers of visible and deleted matching rows."""
    return {file.path.rpartition("/")[2]: (file.decision, file.visible, file.deleted) for file in trace.missing.files}


def test_each_live_file_has_a_verdict(iceberg):
    read = iceberg.write_data(rows_of("mon", 1, 9), path="data/read.parquet")
    deleted = iceberg.write_data(rows_of("mon", 4, 5), path="data/deleted.parquet")
    bounds = iceberg.write_data(rows_of("mon", 7, 9), path="data/bounds.parquet")
    partition = iceberg.write_data(rows_of("tue", 5), path="data/partition.parquet")
    manifest = iceberg.write_data(rows_of("wed", 5), path="data/manifest.parquet")
    ended = iceberg.write_data(rows_of("mon", 5), path="data/ended.parquet")
    iceberg.append(read, deleted, bounds, partition, ended)
    iceberg.append(manifest)
    iceberg.commit(add=[iceberg.write_position_deletes([(deleted, 1)])], remove=[ended])
    trace = harness.open_table(iceberg.metadata_path).trace("id = 5 AND day = 'mon'", missing=True)
    assert decisions(trace) == {
        "read.parquet": (READ, 0, 0),
        "deleted.parquet": (READ, 0, 1),
        "bounds.parquet": (BY_STATISTICS, 0, 0),
        "partition.parquet": (BY_PARTITION, 0, 0),
        "manifest.parquet": (BY_MANIFEST, 0, 0),
    }
    assert not trace.missing.hides_rows
    facts = {file.path.rpartition("/")[2]: file for file in trace.missing.files}
    assert facts["bounds.parquet"].bounds["id"] == "from 7 to 9"
    assert facts["partition.parquet"].partition == "{day='tue'}"
    assert all(file.sentence.endswith(".") for file in trace.missing.files)
    assert [[event.kind for event in row.events] for row in trace.rows] == [
        *([EventKind.ADDED, EventKind.DELETED], [EventKind.ADDED, EventKind.REMOVED]),
    ]


def test_a_false_bound_is_found_by_reading_the_skipped_file(iceberg):
    file = iceberg.write_data(rows_of("mon", 3, 4, 42), path="data/false.parquet")
    iceberg.append(file)
    iceberg.edit_manifest(file, bound(1, 10))
    table = harness.open_table(iceberg.metadata_path)
    assert table.count(where="id = 42") == 0  # what other readers see, and what the trace explains
    trace = table.trace("id = 42", missing=True)
    assert (decisions(trace), trace.missing.hides_rows) == ({"false.parquet": (BY_STATISTICS, 1, 0)}, True)
    ((false,),) = [candidate.false for candidate in trace.missing.files]
    assert (false.column, false.value, false.position) == ("id", "42", 2)
    assert "upper bound is 10" in false.recorded


def test_a_false_null_count_is_found(iceberg):
    file = iceberg.write_data([{"id": None, "day": "mon"}, {"id": 1, "day": "mon"}])
    iceberg.append(file)

    def no_nulls(document):
        for record in document.records:
            for each in record["data_file"]["null_value_counts"]:
                each["value"] = 0

    iceberg.edit_manifest(file, no_nulls)
    trace = harness.open_table(iceberg.metadata_path).trace("id IS NULL", missing=True)
    ((false,),) = [candidate.false for candidate in trace.missing.files]
    assert (false.column, false.value, false.position, trace.missing.hides_rows) == ("id", "NULL", 0, True)


def test_a_deleted_row_in_a_wrongly_skipped_file_hides_nothing(iceberg):
    file = iceberg.write_data(rows_of("mon", 3, 42), path="data/false.parquet")
    iceberg.append(file)
    iceberg.edit_manifest(file, bound(1, 10))
    iceberg.commit(add=[iceberg.write_position_deletes([(file, 1)])])
    trace = harness.open_table(iceberg.metadata_path).trace("id = 42", missing=True)
    assert (decisions(trace), trace.missing.hides_rows) == ({"false.parquet": (BY_STATISTICS, 0, 1)}, False)


@pytest.mark.parametrize(
    ("type_text", "values", "where", "upper"),
    [
        ("date", [date(2024, 1, 1), date(2024, 3, 1)], "v = DATE '2024-03-01'", "2024-02-01"),
        (
            "timestamp",
            [datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC)],
            "v > '2024-02-15'",
            "2024-02-01T00:00:00.000000Z",
        ),
        ("decimal(9, 2)", ["1.50", "7.25"], "v = 7.25", 2.5),
        ("string", ["a", "z"], "v = 'z'", "b"),
        ("double", [1.5, 7.25], "v = 7.25", 2.5),
    ],
)
def test_false_bounds_of_delta(tmp_path, type_text, values, where, upper):
    table = DeltaTable.create(tmp_path / "orders", {"v": type_text})
    file = table.write_data([{"v": value} for value in values])
    stats = json.loads(file.add["stats"])
    file.add["stats"] = json.dumps({**stats, "maxValues": {"v": upper}})
    table.append(file)
    trace = harness.open_table(tmp_path / "orders").trace(where, missing=True)
    assert [(each.column, each.position) for f in trace.missing.files for each in f.false] == [("v", 1)]
    assert trace.missing.hides_rows


def test_a_live_file_that_does_not_exist_is_not_said_to_have_no_row(iceberg):
    gone = iceberg.write_data(rows_of("mon", 1), path="data/gone.parquet")
    iceberg.append(gone, iceberg.write_data(rows_of("mon", 1, 2), path="data/read.parquet"))
    iceberg.file_of(gone.path).unlink()
    trace = harness.open_table(iceberg.metadata_path).trace("id = 1 AND day = 'mon'", missing=True)
    assert decisions(trace) == {"gone.parquet": (FileDecision.LOST, 0, 0), "read.parquet": (READ, 1, 0)}
    assert len(trace.gaps) == 1


def test_nothing_is_missing_if_a_live_row_matches(iceberg):
    iceberg.append(iceberg.write_data(rows_of("mon", 1), path="data/a.parquet"))
    trace = harness.open_table(iceberg.metadata_path).trace("id = 1", missing=True)
    assert (decisions(trace), trace.missing.hides_rows) == ({"a.parquet": (READ, 1, 0)}, False)
