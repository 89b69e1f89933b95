import os
from typing import Any

import pytest

import harness
from harness import errors
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


@pytest.fixture
def table(tmp_path) -> DeltaTable:
    """A table of 4 versions: 1 adds id 1 in eu, 2 adds id 2 in us, 3 adds a column, and 4 removes id 1."""
    schema = {"id": "long", "region": "string"}
    table = DeltaTable.create(tmp_path / "t", schema, partition_columns=["region"], timestamp=1_000_000_000_000)
    first = table.write_data([{"id": 1, "region": "eu"}])
    table.append(first, timestamp=1_000_000_001_000)
    table.append(table.write_data([{"id": 2, "region": "us"}]), timestamp=1_000_000_002_000)
    table.change("ADD COLUMNS", lambda doc: doc.add("n", "integer", None, {}), timestamp=1_000_000_003_000)
    table.remove(first, timestamp=1_000_000_004_000)
    return table


def opened(table: DeltaTable, **how: Any) -> harness.Table:
    return harness.open_table(str(table.directory), **how)


def ids(snapshot: harness.Snapshot) -> list[int]:
    return sorted(snapshot.to_arrow(columns=["id"]).column(0).to_pylist())


def test_format_of_both(tmp_path):
    DeltaTable.create(tmp_path / "t", {"id": "long"})
    IcebergTable.create(tmp_path / "i", {"id": "long"})
    os.rename(tmp_path / "i" / "metadata", tmp_path / "t" / "metadata")
    location = str(tmp_path / "t")
    with pytest.raises(errors.AmbiguousTableError) as caught:
        harness.open_table(location)
    assert str(caught.value) == (
        "Cannot detect the table format: there are both a _delta_log and Iceberg metadata. Set format_hint='delta' or "
        f"format_hint='iceberg' [AmbiguousTable; table {location}, rule delta U1]"
    )
    assert harness.open_table(location, format_hint="delta").format == "delta"
    assert harness.open_table(location, format_hint="iceberg").format == "iceberg"


def test_a_folder_named_metadata_is_not_an_iceberg_table(table):
    (table.directory / "metadata").mkdir()
    (table.directory / "metadata" / "notes.txt").write_text("")
    assert opened(table).format == "delta"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"prune": "some"}, "expected one of off, partition, files, all", id="unknown prune"),
        pytest.param({"format_hint": "hudi"}, "expected one of iceberg, delta", id="format_hint"),
        pytest.param({"allow_version_guess": True}, "option allow_version_guess: the table is delta", id="guess"),
        pytest.param({"lenient_delete_partition": True}, "option is for iceberg tables", id="lenient"),
        pytest.param({"allow_duplicate_files": True}, "allow_duplicate_files", id="duplicates"),
    ],
)
def test_options(table, options, message):
    with pytest.raises(errors.RequestError, match=message):
        opened(table, **options)


def test_options_of_delta_are_refused_for_iceberg(tmp_path):
    table = IcebergTable.create(tmp_path / "i", {"id": "long"})
    location = str(table.store.directory)
    with pytest.raises(
        errors.RequestError, match="allow_checkpoint_only: the table is iceberg, the option is for delta tables"
    ):
        harness.open_table(location, allow_checkpoint_only=True)
    with pytest.raises(errors.RequestError, match="enforce_retention: the table is iceberg"):
        harness.open_table(location, enforce_retention=True)
    with pytest.raises(errors.UnknownColumnError, match="only Delta tables have it"):
        harness.open_table(location).snapshot().plan(columns=["_row_commit_version"])


@pytest.mark.parametrize(
    ("at", "error"),
    [
        pytest.param(-1, errors.SnapshotNotFoundError, id="negative"),
        pytest.param("timestamp=soon", errors.RequestError, id="no time"),
        pytest.param("main", errors.RequestError, id="ref"),
    ],
)
def test_impossible_time_travel(table, at, error):
    with pytest.raises(error) as caught:
        opened(table).snapshot(at)
    assert caught.value.table == str(table.directory)


# Versions older than the retention (delta L37).

RETENTION = "delta.deletedFileRetentionDuration"


@pytest.mark.parametrize("at", [2, "timestamp=1000000002000"])
def test_old_versions_are_refused_where_retention_is_enforced(table, at):
    assert ids(opened(table).snapshot(at)) == [1, 2]
    with pytest.raises(errors.SnapshotNotFoundError) as caught:
        opened(table, enforce_retention=True).snapshot(at)
    assert str(caught.value) == (
        f"Cannot read version 2 of 2001-09-09T01:46:42.000Z: it is older than {RETENTION} (interval 1 week), so its "
        "files may have been deleted; leave enforce_retention out to read it anyway "
        f"[BeyondRetention; table {table.directory}, rule delta L37]"
    )


def test_the_retention_of_the_latest_version_counts(table):
    table.set_configuration({RETENTION: "interval 10000 weeks"})
    assert ids(opened(table, enforce_retention=True).snapshot(2)) == [1, 2]
    table.set_configuration({RETENTION: "interval 1 month"})
    with pytest.raises(errors.InvalidTableError, match="expected an interval such as 'interval 7 days'"):
        opened(table, enforce_retention=True).snapshot(2)


def test_the_age_of_a_checkpoint_without_its_commit_is_not_known(table):
    table.checkpoint()
    table.append(table.write_data([{"id": 9, "region": "eu"}]))
    for version in range(5):
        (table.directory / "_delta_log" / f"{version:020}.json").unlink()
    found = opened(table, allow_checkpoint_only=True, enforce_retention=True)
    assert ids(found.snapshot()) == [2, 9]
    with pytest.raises(errors.UnsupportedError, match="Cannot determine the age of version 4") as caught:
        found.snapshot(4)
    assert caught.value.rule == "delta L37"
