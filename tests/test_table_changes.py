"""`Table.changes` of both formats: its arguments, rows, and exports. Expected rows are worked out by hand."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import changed_tables
import pyarrow as pa
import pytest
from changed_tables import CHANGELOG, FEED, INSERTS_1, NET, S1, S2, S3, S4, UPDATES

import harness

COLUMNS = ["id", "n", "_change_type", "_change_ordinal", "_commit_snapshot_id"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("changed")


@pytest.fixture(scope="module", params=[2, 3])
def iceberg(folder: Path, request: pytest.FixtureRequest) -> harness.Table:
    return harness.open_table(changed_tables.iceberg(folder / f"v{request.param}", request.param).location)


@pytest.fixture(scope="module")
def delta(folder: Path) -> harness.Table:
    return harness.open_table(str(changed_tables.delta(folder / "delta").directory))


def rows(changes: harness.Changes) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in changes.to_arrow().to_pylist())


def numbered(changes: list[changed_tables.Row], by: int) -> list[changed_tables.Row]:
    """Return changes with other ordinals."""
    return [(*row[:3], row[3] + by, row[4]) for row in changes]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param({"from_": S1}, CHANGELOG, id="exclusive"),
        pytest.param({"from_": "first"}, CHANGELOG, id="tag"),
        pytest.param({"from_": "main", "from_inclusive": True}, numbered(CHANGELOG[1:3], -2), id="branch-inclusive"),
        pytest.param({"from_": S1, "to": S2}, CHANGELOG[3:], id="one-commit"),
        pytest.param({"from_": S2, "to": S3}, numbered(CHANGELOG[:1], -1), id="one-later-commit"),
        pytest.param({"from_": S2, "to": S2}, [], id="no-commit"),
        pytest.param({"from_": S1, "to": S1, "from_inclusive": True}, INSERTS_1, id="inclusive"),
        pytest.param({}, sorted([*INSERTS_1, *numbered(CHANGELOG, 1)]), id="all"),
        pytest.param({"to": S1}, INSERTS_1, id="from-the-oldest"),
        pytest.param(
            {"from_": "2023-11-14T22:13:24", "to": "2023-11-14T22:13:26"}, numbered(CHANGELOG[1:3], -2), id="times"
        ),
        pytest.param(
            {"from_": datetime(2023, 11, 14, 22, 13, 24, tzinfo=UTC)}, numbered(CHANGELOG[1:3], -2), id="datetime"
        ),
        pytest.param({"mode": "net"}, NET, id="net"),
        pytest.param({"mode": "appends"}, [*INSERTS_1, (3, 30, "insert", 1, S2)], id="appends"),
        pytest.param({"from_": S1, "mode": "updates"}, UPDATES, id="updates"),
        pytest.param({"from_": S1, "mode": "updates", "keys": ["n"]}, CHANGELOG, id="updates-by-other-keys"),
        pytest.param({"from_": S1, "where": "id = 2"}, CHANGELOG[1:3], id="where"),
        pytest.param({"from_": S1, "where": "_change_type = 'delete'"}, CHANGELOG[:2], id="where-of-the-type"),
        pytest.param(
            {"from_": S1, "where": f"n > 20 AND _commit_snapshot_id = {S4}"}, CHANGELOG[2:3], id="where-of-both"
        ),
        pytest.param({"from_": S1, "mode": "updates", "where": "n = 21"}, UPDATES[2:3], id="where-keeps-labels"),
        pytest.param(
            {"from_": S1, "columns": ["n", "_change_ordinal"]}, [(10, 1), (20, 2), (21, 2), (30, 0)], id="columns"
        ),
        pytest.param({"from_": S1, "columns": ["id"], "where": "n = 10"}, [(1,)], id="columns-and-where"),
        pytest.param(
            {"from_": S1, "columns": ["_pos", "n"], "where": "id = 2"}, [(0, 21), (1, 20)], id="metadata-columns"
        ),
    ],
)
def test_changes_of_an_iceberg_table(iceberg: harness.Table, arguments: dict[str, Any], expected: object) -> None:
    assert rows(iceberg.changes(**arguments)) == expected


@pytest.mark.parametrize(("mode", "count"), [("appends", 3), ("changelog", 6), ("net", 2), ("updates", 6)])
def test_changes_without_columns_are_counted(iceberg: harness.Table, mode: str, count: int) -> None:
    assert iceberg.changes(mode=mode, columns=[]).to_arrow().num_rows == count


def test_columns_of_changes_of_an_iceberg_table(iceberg: harness.Table) -> None:
    changes = iceberg.changes(S1)
    assert list(changes.schema.names()) == COLUMNS
    assert changes.to_arrow().column_names == COLUMNS


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"from_": 5}, harness.SnapshotNotFoundError, "Cannot find snapshot 5"),
        ({"from_": "audit"}, harness.SnapshotNotFoundError, "Cannot find branch or tag 'audit'"),
        ({"from_": S3, "to": S1}, harness.RequestError, "is not an ancestor of snapshot"),
        ({"from_": S1, "keys": ["id"]}, harness.RequestError, "Invalid option keys: only mode='updates' uses keys"),
        ({"mode": "updates", "keys": ["x"]}, harness.UnknownColumnError, 'Unknown column "x"'),
        (
            {"mode": "all"},
            harness.RequestError,
            "Invalid option mode='all': expected one of appends, changelog, net, up",
        ),
        ({"columns": ["_deleted"]}, harness.UnknownColumnError, "_deleted"),
        ({"columns": ["_commit_version"]}, harness.UnknownColumnError, "_commit_version"),
        ({"where": "_added_commit = 0"}, harness.UnknownColumnError, "_added_commit"),
        ({"allow_out_of_range": True}, harness.RequestError, "Invalid option allow_out_of_range: the table is iceberg"),
    ],
)
def test_refused_arguments(
    iceberg: harness.Table, arguments: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        iceberg.changes(**arguments)


def test_changes_of_a_delta_table(delta: harness.Table) -> None:
    columns = ["id", "n", "_change_type", "_commit_version"]
    feed = dict.fromkeys(FEED)
    assert rows(delta.changes(1, columns=columns)) == sorted(feed)
    assert rows(delta.changes(1, 3, from_inclusive=False, columns=columns)) == [FEED[1], FEED[5]]


def test_an_empty_table_has_no_changes(tmp_path: Path) -> None:
    from harness.writing.iceberg.builder import IcebergTable

    table = harness.open_table(IcebergTable.create(tmp_path / "t", {"id": "long"}).location)
    assert table.changes().to_arrow().num_rows == 0


def test_changes_describe_themselves(iceberg: harness.Table) -> None:
    changes = iceberg.changes("first", mode="updates", keys=["id"])
    assert repr(changes) == (
        f"Changes({iceberg.location!r}, format='iceberg', from_='first', to=None, from_inclusive=False, "
        "mode='updates', files=3, skipped=0)"
    )
    page = changes._repr_html_()
    for fact in ("from: <code>first (excluded)", "mode: <code>updates", "keys: <code>id", "commits: <code>3"):
        assert fact in page
    assert "_commit_snapshot_id" in page


def test_changes_export_everywhere(iceberg: harness.Table) -> None:
    changes = iceberg.changes(S1)
    assert sorted(changes.to_duckdb().fetchall()) == CHANGELOG
    assert sorted(map(tuple, changes.to_pandas().to_numpy().tolist())) == CHANGELOG
    assert sorted(changes.to_polars().rows()) == CHANGELOG
    with changes.to_batches(batch_rows=1) as batches:
        assert [batch.num_rows for batch in batches] == [1] * 4


class Snapshots:
    """An engine of another package, which does not know of lifetimes."""

    name, dialect = "snapshots", "duckdb"

    def load(self) -> "Snapshots":
        return self

    value = "snapshots"

    def version(self) -> str:
        return "1"

    def to_arrow(self, plan: object) -> pa.Table:
        return pa.table({"id": [0]})

    def query(self, text: str, plans: object) -> pa.Table:
        return pa.table({"id": [0]})


def test_engines_that_know_only_snapshots_return_no_changes(
    iceberg: harness.Table, delta: harness.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.engines.registry.registered_engines", lambda: {"snapshots": Snapshots()})
    assert iceberg.to_arrow(engine="snapshots").to_pylist() == [{"id": 0}]
    assert delta.changes(1).to_arrow(engine="snapshots").to_pylist() == [{"id": 0}]
    with pytest.raises(harness.UnsupportedError, match="Cannot read changes with snapshots: use duckdb or spark"):
        iceberg.changes(S1).to_arrow(engine="snapshots")
    with pytest.raises(harness.UnsupportedError, match="Cannot read changes with snapshots: use duckdb or spark"):
        harness.sql(f"FROM changes('t', {S1})", {"t": iceberg}, engine="snapshots")


@pytest.mark.harness_spark
def test_changes_on_spark(folder: Path, spark: Any) -> None:
    table = harness.open_table(changed_tables.iceberg(folder / "spark", 3).location)
    assert sorted(map(tuple, table.changes(S1).to_spark(spark).collect())) == CHANGELOG
    assert sorted(map(tuple, table.changes(mode="net").to_spark(spark).collect())) == NET
