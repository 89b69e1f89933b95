"""The history of a table: hand-counted additions and removals of each commit, and the picture."""

from pathlib import Path
from typing import Any

import pytest

import harness
from harness.errors import CorruptFileError
from harness.metadata.tables.history import COUNTS, draw_history, history
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


def counts(entry: dict[str, Any]) -> tuple[int | None, ...]:
    """Rows added and removed, files added and removed, bytes added and removed."""
    return tuple(entry[name] for name in COUNTS)


APPENDED = "added-data-files=2 added-records=9 added-files-size=800"
TOTALS = ("records", "data-files", "files-size", "position-deletes", "equality-deletes")
COMPACTED = (
    "added-data-files=1 deleted-data-files=2 added-records=5 deleted-records=9 added-files-size=300 "
    "removed-files-size=850 removed-position-deletes=4"
)
SUMMARIES = {
    "an append, which removes nothing": [("append", APPENDED, (), (9, 0, 2, 0, 800, 0))],
    "deletes of positions; then they are compacted": [
        ("append", APPENDED, (9, 2, 800, 0, 0), (9, 0, 2, 0, 800, 0)),
        ("delete", "added-position-deletes=4 added-files-size=50", (9, 2, 850, 4, 0), (0, 4, 0, 0, 50, 0)),
        ("replace", COMPACTED, (5, 1, 300, 0, 0), (5, 5, 1, 2, 300, 850)),
    ],
    "rows that equality deletes hit, which nobody counts": [
        ("append", APPENDED, (9, 2, 800, 0, 0), (9, 0, 2, 0, 800, 0)),
        ("delete", "added-equality-deletes=1", (9, 2, 830, 0, 1), (0, None, 0, 0, None, None)),
    ],
    "counts that only the totals tell": [
        ("append", "", (9, 2, 800, 0, 0), (9, 0, 2, 0, 800, 0)),
        ("overwrite", "deleted-records=9 removed-files-size=800", (7, 1, 500, 0, 0), (7, 9, None, None, 500, 800)),
        ("delete", "deleted-data-files=1", (0, 0, 0, 0, 0), (0, 7, 0, 1, None, None)),
    ],
    "no totals, but counts of delete files": [
        ("append", APPENDED, (), (9, 0, 2, 0, 800, 0)),
        ("delete", "added-delete-files=1 added-position-deletes=4 added-files-size=5", (), (0, 4, 0, 0, 5, 0)),
        ("delete", "added-delete-files=1 added-equality-deletes=1", (), (0, None, 0, 0, 0, 0)),
    ],
    "no totals": [
        ("append", APPENDED, (), (9, 0, 2, 0, 800, 0)),
        ("delete", "added-position-deletes=4", (), (0, None, 0, None, None, None)),
        ("overwrite", "", (), (None,) * 6),
    ],
    "numbers that are none, and totals that contradict": [
        ("append", "added-records=many added-data-files=-1", (), (None, 0, None, 0, None, 0)),
        ("overwrite", "added-records=1", (5, 1, 1, 0, 0), (1, None, None, None, None, None)),
        ("overwrite", "added-records=1", (9, 1, 1, 0, 0), (1, None, None, None, None, None)),
    ],
}
"""For an operation: its summaries in order, the totals after each if the writer recorded them, and the counts."""


@pytest.mark.parametrize("chain", SUMMARIES.values(), ids=SUMMARIES)
def test_the_summaries_of_iceberg(chain: list[Any], tmp_path: Path) -> None:
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    for _ in chain:
        table.append()

    def write(document: dict[str, Any]) -> None:
        for snapshot, (operation, said, totals, _) in zip(document["snapshots"], chain, strict=True):
            told = {f"total-{name}": str(total) for name, total in zip(TOTALS, totals, strict=False)}
            snapshot["summary"] = {"operation": operation, **dict(pair.split("=") for pair in said.split()), **told}

    table.edit_metadata(write)
    found = harness.open_table(table.location).history()
    assert [counts(entry) for entry in reversed(found)] == [expected for *_, expected in chain]
    assert [entry["operation"] for entry in reversed(found)] == [operation for operation, *_ in chain]


def test_writers_and_refs_of_iceberg(tmp_path: Path) -> None:
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    library = {"iceberg-version": "Apache Iceberg 1.10.0 (commit 2114bf6)"}
    ids = [
        table.commit(summary=s) for s in ({}, library, {"engine-name": "spark", "engine-version": "4.0.1"} | library)
    ]
    table.create_tag("v1", ids[0])
    found = harness.open_table(table.location).history()
    assert [(entry["id"], entry["writer"], entry["refs"]) for entry in found] == [
        (ids[2], "spark 4.0.1, Apache Iceberg 1.10.0", ["main"]),
        (ids[1], "Apache Iceberg 1.10.0", []),
        (ids[0], None, ["v1"]),
    ]


def rows(*ids: int) -> list[dict[str, int]]:
    return [{"id": i} for i in ids]


def test_the_actions_of_delta(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    first = table.write_data(rows(1, 2, 3, 4, 5))
    second = table.write_data(rows(6, 7))
    table.append(first, second)
    table.delete(first, [0, 1])
    table.delete(first, [4])
    third = table.write_data(rows(8, 9, 10))
    table.commit(add=[third], remove=[first], operation="MERGE", info={"engineInfo": "x/1"})
    bare = table.write_data(rows(11), statistics="none")
    table.commit(add=[bare], operation="WRITE", info={"clientVersion": "delta-rs.1", "engineInfo": None})
    table.commit(add=[{**bare.add, "dataChange": False}], operation="COMPUTE STATS")
    table.overwrite()
    found = harness.open_table(str(table.directory)).history()
    sizes = {
        name: file.file.stat().st_size
        for name, file in locals().items()
        if name in ("first", "second", "third", "bare")
    }
    a, b, c, d = (sizes[name] for name in ("first", "second", "third", "bare"))
    assert [counts(entry) for entry in reversed(found)] == [
        (0, 0, 0, 0, 0, 0),
        (7, 0, 2, 0, a + b, 0),
        (0, 2, 0, 0, 0, 0),
        (0, 1, 0, 0, 0, 0),
        (3, 2, 1, 1, c, a),
        (None, 0, 1, 0, d, 0),
        (None, None, 0, 0, 0, 0),
        (0, None, 0, 3, 0, b + c + d),
    ]
    assert [entry["id"] for entry in found] == [7, 6, 5, 4, 3, 2, 1, 0]
    assert [entry["writer"] for entry in found][2:4] == ["delta-rs.1", "x/1"]
    assert "refs" not in found[0]


def test_without_statistics_the_writers_row_counts_are_used(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    for metrics in ({"numOutputRows": "12"}, {"num_added_rows": 3}, {"numOutputRows": "x"}):
        bare = table.write_data(rows(1), statistics="none")
        table.commit(add=[bare], info={"operationMetrics": metrics})
    found = harness.open_table(str(table.directory)).history()
    assert [entry["rows_added"] for entry in found] == [None, 3, 12, 0]


@pytest.mark.parametrize("stats", ['{"numRecords": "many"}', "{", "[1]", 7, {"numRecords": 1}, "[" * 100_000])
def test_odd_values_in_a_commit_are_ignored(stats: Any, tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data(rows(1)))
    source = harness.open_table(str(table.directory))._source

    def spoil(actions: list[dict[str, Any]]) -> None:
        for action in actions:
            action.get("add", {}).update(stats=stats, size="big")
            action.get("commitInfo", {}).update(
                engineInfo=["x"],
                clientVersion={},
                operationMetrics={"numOutputRows": []},
                padding="x" * 1000,  # the file may not be shorter than its listed size
            )

    table.edit_commit(1, spoil)
    newest = history(source)[0]
    assert (newest["writer"], counts(newest)) == (None, (None, 0, 1, 0, None, 0))


def test_versions_without_their_commits_are_unknown(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    file = table.write_data(rows(1, 2))
    table.append(file)
    table.checkpoint()
    table.commit(remove=[{key: file.add[key] for key in ("path", "dataChange")}])
    table.expire_log(2)
    newest, oldest = harness.open_table(str(table.directory), allow_checkpoint_only=True).history()
    assert counts(oldest) == (None,) * 6
    assert (newest["id"], counts(newest)) == (2, (0, None, 0, 1, 0, None))


def test_a_commit_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    table.append()
    opened = harness.open_table(str(table.directory))._source
    table.log.commit_path(1).write_text("{" + " " * 1000)
    with pytest.raises(CorruptFileError, match=r"1\.json"):
        history(opened)


def test_an_iceberg_table(tmp_path):
    t = IcebergTable.create(tmp_path / "t", {"id": "int", "old": "string", "gone": "string"})
    first = t.append(t.write_data([{"id": i} for i in range(4)]))
    t.create_tag("v1", first)
    t.add_column("new", "string")
    t.drop_column("gone")
    t.rename_column("old", "named")
    t.widen_column("id", "long")
    t.append(*(t.write_data([{"id": 9}]) for _ in range(2)))
    none = {f"{word}-{kind}-deletes": "0" for word in ("added", "removed") for kind in ("position", "equality")}
    t.commit(operation="delete", summary={"deleted-records": "3", "deleted-data-files": "1", **none})
    found = harness.open_table(t.location).history()
    assert [entry["schema_changes"] for entry in found] == [
        [],
        ["added new", "dropped gone", "renamed old to named", "retyped id"],
        [],
    ]
    assert (
        draw_history(found, 3).note == "3 snapshots, 2023-11-14 22:13:21 to 2023-11-14 22:13:28"
    )  # each change takes a second
    assert "<svg" in found._repr_html_()
    assert "schema_changes" in str(found)
    assert "ref v1" in harness.open_table(t.location)._repr_html_()


@pytest.mark.parametrize("mapping", [None, "name"])
def test_changes_of_a_delta_table(tmp_path, mapping):
    more = {} if mapping is None else {"column_mapping": mapping}
    t = DeltaTable.create(tmp_path / "t", {"id": "int", "old": "string"}, **more)
    t.add_column("new", "string")
    if mapping:
        t.rename_column("old", "named")
        t.drop_column("new")
        t.set_configuration({"a": "b"})  # repeats the schema unchanged
    t.append(t.write_data([{"id": 1}]))
    found = harness.open_table(str(t.directory)).history()[::-1]
    expected = (
        [[], ["added new"], ["renamed old to named"], ["dropped new"], [], []] if mapping else [[], ["added new"], []]
    )
    assert [entry["schema_changes"] for entry in found] == expected


def test_an_unreadable_schema_is_not_a_change(tmp_path):
    t = DeltaTable.create(tmp_path / "t", {"id": "int"})
    t.set_configuration({"a": "b"})
    t.edit_commit(
        1, lambda actions: [a["metaData"].update(schemaString='{"fields": 1}') for a in actions if "metaData" in a]
    )
    t.set_configuration({"a": None})
    entries = harness.open_table(str(t.directory)).history()
    assert [entry["schema_changes"] for entry in entries] == [[], [], []]
