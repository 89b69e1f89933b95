"""Reads with plans of a catalog's server: the rows that result from the server's answers, data files, and deletes."""

from collections import Counter
from datetime import UTC, datetime

import duckdb
import pytest

import harness
from harness.errors import (
    CorruptDeleteError,
    InvalidTableError,
    RequestError,
    StorageError,
    UnknownColumnError,
    UnsupportedError,
)
from harness.metadata.iceberg.server.protocol import Call
from harness.testing.lake_catalog import LakeCatalog, error_answer
from harness.testing.plan_faults import PlanFault
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

NAME = "sales.orders"
COLUMNS = {"id": "long", "region": "string"}


def rows_of(*ids):
    return [{"id": id_, "region": "eu" if id_ % 2 else "us"} for id_ in ids]


def table_of(directory, *, version=2, spec=()):
    return IcebergTable.create(directory, COLUMNS, format_version=version, partition_spec=spec)


def without_deletes(directory):
    table = table_of(directory)
    table.append(table.write_data(rows_of(1, 2)))
    table.append(table.write_data(rows_of(3)))
    return table, [(1, "eu"), (2, "us"), (3, "eu")]


def without_snapshots(directory):
    return table_of(directory), []


def with_position_deletes(directory):
    table = table_of(directory)
    first, second = table.write_data(rows_of(1, 2, 3)), table.write_data(rows_of(4, 5))
    table.append(first, second)
    table.commit(add=[table.write_position_deletes([(first, 0), (second, 1)])])
    table.commit(add=[table.write_position_deletes([(first, 2)], referenced=first)])
    table.append(table.write_data(rows_of(6)))
    return table, [(2, "us"), (4, "us"), (6, "us")]


def with_vectors(directory):
    table = table_of(directory, version=3)
    files = [table.write_data(rows_of(*ids)) for ids in ((1, 2, 3), (4, 5), (6, 7, 8, 9))]
    table.append(*files)
    vectors = table.write_deletion_vectors({files[0]: [1], files[1]: [0], files[2]: [0, 2]})
    table.commit(add=vectors)
    return table, [(1, "eu"), (3, "eu"), (5, "eu"), (7, "eu"), (9, "eu")]


def with_equality_deletes(directory):
    table = table_of(directory)
    table.append(table.write_data(rows_of(1, 2, 3, 4)))
    table.commit(add=[table.write_equality_deletes(["id"], [{"id": 1}])])
    table.append(table.write_data(rows_of(1, 5, 6)))
    table.commit(add=[table.write_equality_deletes(["region"], [{"region": "us"}])])
    table.append(table.write_data(rows_of(2, 8)))
    table.commit(add=[table.write_equality_deletes(["id", "region"], [{"id": 8, "region": "us"}, {"id": 2}])])
    # The first delete is older than the second data file. The last delete compares (2, null) with (2, us).
    return table, [(3, "eu"), (1, "eu"), (5, "eu"), (2, "us")]


def with_both_kinds(directory):
    table = table_of(directory)
    data = table.write_data(rows_of(1, 2, 3, 4))
    table.append(data)
    table.commit(
        add=[table.write_position_deletes([(data, 0)]), table.write_equality_deletes(["id"], [{"id": 4}])],
    )
    return table, [(2, "us"), (3, "eu")]


def partitioned(directory):
    table = table_of(directory, spec=[("region", "identity")])
    table.append(*table.write_partitioned(rows_of(1, 2, 3, 4)))
    table.commit(add=[table.write_equality_deletes(["id"], [{"id": 1}, {"id": 2}], partition={"region": "eu"})])
    return table, [(2, "us"), (3, "eu"), (4, "us")]


def with_evolved_spec(directory):
    table = table_of(directory)
    first = table.write_data(rows_of(1, 2))
    table.append(first)
    table.set_partition_spec([("id", "bucket[4]"), ("region", "identity")])
    table.append(*table.write_partitioned(rows_of(3, 4)))
    table.commit(add=[table.write_equality_deletes(["id"], [{"id": 3}], spec_id=0)])  # in all partitions
    table.commit(add=[table.write_position_deletes([(first, 1)])])
    return table, [(1, "eu"), (4, "us")]


def with_evolved_schema(directory):
    table = table_of(directory)
    table.append(table.write_data(rows_of(1, 2)))
    table.rename_column("region", "area")
    table.add_column("region", "string", initial_default="new")
    table.append(table.write_data([{"id": 3, "area": "eu", "region": "old"}]))
    return table, [(1, "eu", "new"), (2, "us", "new"), (3, "eu", "old")]


TABLES = (
    *(without_snapshots, without_deletes, with_position_deletes, with_vectors, with_equality_deletes),
    *(with_both_kinds, partitioned, with_evolved_spec, with_evolved_schema),
)


@pytest.fixture
def server():
    with LakeCatalog() as server:
        yield server


def opened(server, table, **options):
    server.add(NAME, table)
    return harness.open_table(NAME, catalog=server.catalog(), **options)


def values(rows):
    return Counter(rows.fetchall())


@pytest.mark.parametrize("build", TABLES)
@pytest.mark.parametrize("paged", [False, True])
def test_rows(build, paged, server, tmp_path):
    table, expected = build(tmp_path / "orders")
    server.page = 1 if paged else None
    served = opened(server, table)
    assert values(served.snapshot().to_duckdb()) == Counter(expected)
    assert values(harness.open_table(table.location).snapshot().to_duckdb()) == Counter(expected)
    assert served.snapshot().count() == len(expected)
    assert served.planning == "server"


@pytest.mark.harness_spark
@pytest.mark.parametrize("build", [with_position_deletes, with_vectors, with_equality_deletes])
def test_rows_on_spark(build, server, tmp_path, harness_spark):
    table, expected = build(tmp_path / "orders")
    rows = opened(server, table).snapshot().to_spark(harness_spark).collect()
    assert Counter(tuple(row) for row in rows) == Counter(expected)


@pytest.mark.parametrize("build", [with_position_deletes, with_vectors, with_equality_deletes, with_evolved_spec])
def test_plans_can_be_sent_to_another_process(build, server, tmp_path):
    table, expected = build(tmp_path / "orders")
    plan = opened(server, table).snapshot().plan()
    again = harness.ScanPlan.from_ipc(plan.to_ipc())
    assert again == plan
    assert values(harness.open_plan(again).to_duckdb()) == Counter(expected)


CONDITIONS = (
    *("id = 3", "id IN (1, 4)", "region = 'eu' AND id > 1", "id < 3 OR region = 'us'", "region IS NULL"),
    *("NOT (id = 2)", "region LIKE 'e%'", "id % 2 = 0", "length(region) = 2 AND id > 2", "id > 10", "true", "false"),
)


@pytest.mark.parametrize("where", CONDITIONS)
@pytest.mark.parametrize("build", [without_deletes, with_vectors, with_equality_deletes, partitioned])
def test_conditions(build, where, server, tmp_path):
    table, _ = build(tmp_path / "orders")
    expected = harness.open_table(table.location).snapshot().to_duckdb().filter(where).fetchall()
    served = opened(server, table).snapshot()
    assert values(served.to_duckdb(where=where)) == Counter(expected)
    assert served.count(where=where) == len(expected)


def test_the_server_skips_files_by_the_condition(server, tmp_path):
    table, _ = without_deletes(tmp_path / "orders")
    snapshot = opened(server, table).snapshot()
    assert snapshot.plan(where="id = 3").files.num_rows == 1
    assert snapshot.plan(where="id % 3 = 0").files.num_rows == 2
    assert opened(server, table, prune="off").snapshot().plan(where="id = 3").files.num_rows == 2
    assert [("filter" in request) for request in server.plan_requests] == [True, False, False]


def test_dropped_conditions_of_the_server_change_no_row(server, tmp_path):
    table, _ = without_deletes(tmp_path / "orders")
    server.faults = {PlanFault.DROPPED_RESIDUALS}
    assert values(opened(server, table).snapshot().to_duckdb(where="id = 2")) == Counter([(2, "us")])
    assert server.planted == {PlanFault.DROPPED_RESIDUALS}


def test_moments(server, tmp_path):
    table = table_of(tmp_path / "orders")
    first = table.append(table.write_data(rows_of(1)))
    table.create_tag("one")
    table.rename_column("region", "area")
    second = table.append(table.write_data([{"id": 2, "area": "us"}]))
    table.create_branch("side", first)
    side = table.write_data([{"id": 7, "area": "eu"}])
    table.commit(add=[side], branch="side")
    served = opened(server, table)
    for at, columns, ids in (
        *((first, ["id", "region"], [1]), (second, ["id", "area"], [1, 2]), ("one", ["id", "region"], [1])),
        *(("side", ["id", "area"], [1, 7]), (None, ["id", "area"], [1, 2])),
    ):
        rows = served.snapshot(at).to_duckdb()
        assert (rows.columns, sorted(rows.project("id").fetchall())) == (columns, [(id_,) for id_ in ids])
        name = columns[1]
        assert values(served.snapshot(at).to_duckdb(columns=["id"], where=f"{name} = 'eu'")) == Counter(
            [(id_,) for id_ in ids if id_ % 2]
        )


def test_names_that_mean_two_columns_are_not_sent(server, tmp_path):
    """Servers resolve names in different schemas, and here the name `region` belongs to two columns."""
    table, _ = with_evolved_schema(tmp_path / "orders")
    table.create_branch("side", table.snapshots[0]["snapshot-id"])  # the snapshot of this branch has the old schema
    served = opened(server, table)
    rows = served.snapshot("side").to_duckdb(columns=["id"], where="region = 'new' AND id = 1")
    assert values(rows) == Counter([(1,)])
    assert server.plan_requests[-1]["filter"] == {"type": "eq", "term": "id", "value": 1}
    assert "select" not in server.plan_requests[-1]


def test_projections(server, tmp_path):
    table, _ = with_vectors(tmp_path / "orders")
    served = opened(server, table).snapshot()
    assert values(served.to_duckdb(columns=["region"], where="id = 5")) == Counter([("eu",)])
    assert values(served.to_duckdb(columns=["_pos", "_row_id", "_spec_id"], where="id = 5")) == Counter([(1, 4, 0)])
    assert values(served.to_duckdb(columns=["id", "_deleted"], where="id = 4")) == Counter([(4, True)])
    assert [request.get("select") for request in server.plan_requests] == [None, ["id"], ["id"]]
    with pytest.raises(UnknownColumnError):
        served.to_arrow(columns=["missing"])
    with pytest.raises(UnsupportedError, match="planning='client'") as raised:
        served.to_arrow(columns=["_last_updated_sequence_number"])
    assert raised.value.field == "_last_updated_sequence_number"


@pytest.mark.parametrize("build", TABLES)
def test_nothing_but_data_and_deletes_is_read(build, tmp_path):
    table, expected = build(tmp_path / "orders")
    with LakeCatalog(hides_metadata=True) as server:
        served = opened(server, table, allowed_roots=[table.location])
        assert values(served.snapshot().to_duckdb(where="id < 100")) == Counter(expected)
        assert len(served.history()) == len(table.snapshots)
        assert {request for request in server.requests if request != "GET /config"} <= {
            *("GET /namespaces/sales/tables/orders", "POST /plan", "POST /tasks")
        }


def test_who_plans(server, tmp_path):
    table, _ = without_deletes(tmp_path / "orders")
    server.mode = "client"
    assert opened(server, table).planning == "client"
    assert opened(server, table, planning="server").planning == "server"
    server.mode = None
    assert opened(server, table).planning == "client"
    server.mode = "server"
    assert opened(server, table, planning="client").planning == "client"
    assert "planning='server'" in repr(opened(server, table).snapshot())
    with harness.connect(server.catalog(), planning="server") as connection:
        assert connection.sql(f"SELECT sum(id) FROM lake.{NAME}").fetchall() == [(6,)]
    server.calls = frozenset(Call) - {Call.PLAN}
    assert opened(server, table).planning == "client"
    with pytest.raises(UnsupportedError, match="does not list"):
        opened(server, table, planning="server")


def test_only_tables_of_servers_are_planned_by_servers(tmp_path):
    table, _ = without_deletes(tmp_path / "lake" / "orders")
    delta = DeltaTable.create(tmp_path / "lake" / "facts", {"id": "long"})
    warehouse = harness.open_warehouse(tmp_path / "lake")
    for location, options, error in (
        *((table.location, {}, RequestError), (str(delta.directory), {}, RequestError)),
        *(("facts", {"catalog": warehouse}, RequestError), ("orders", {"catalog": warehouse}, UnsupportedError)),
    ):
        with pytest.raises(error) as raised:
            harness.open_table(location, planning="server", **options)
        assert raised.value.options == ("planning",)
    with pytest.raises(RequestError, match="auto, server, client"):
        harness.open_table(table.location, planning="both")


def test_what_needs_metadata_files_is_refused(server, tmp_path):
    table, _ = without_deletes(tmp_path / "orders")
    served = opened(server, table)
    for action in (
        served.check,
        lambda: served.metadata("files").to_arrow(),
        lambda: served.changes().to_arrow(),
        lambda: served.trace("id = 1"),
        lambda: served.pull(tmp_path / "slice"),
    ):
        with pytest.raises(UnsupportedError, match="planning='client'") as raised:
            action()
        assert raised.value.options == ("planning",)
    assert len(served.metadata("snapshots").to_arrow()) == 2


class Edited(LakeCatalog):
    """A server that edits its plans."""

    def __init__(self, edit):
        super().__init__()
        self.edit = edit

    def answer(self, method, path, query, headers, body):
        """Return the answer, changed if it has tasks."""
        status, more, document = super().answer(method, path, query, headers, body)
        if isinstance(document, dict) and "file-scan-tasks" in document:
            self.edit(document)
        return status, more, document


def twice(answer):
    answer["file-scan-tasks"] *= 2


def without_references(answer):
    for task in answer["file-scan-tasks"]:
        task.pop("delete-file-references", None)


def last_references_alone(answer):
    for task in answer["file-scan-tasks"][:-1]:
        task.pop("delete-file-references", None)


def of_another_partition(answer):
    for delete in answer["delete-files"]:
        delete["partition"] = ["us"]


def all_with_the_last_vector(answer):
    """Reproduce bug iceberg#17497."""
    last = len(answer["delete-files"]) - 1
    for task in answer["file-scan-tasks"]:
        task["delete-file-references"] = [last]


def unnamed_last_vector_for_one_file(answer):
    """Reproduce bug iceberg#17497 if the plan has one data file and does not name the vector's data file."""
    answer["delete-files"] = [dict(answer["delete-files"][-1])]
    del answer["delete-files"][0]["referenced-data-file"]
    answer["file-scan-tasks"] = [{**answer["file-scan-tasks"][0], "delete-file-references": [0]}]


def unnamed_vectors(answer):
    for delete in answer["delete-files"]:
        delete.pop("referenced-data-file")


def wrong_count(answer):
    answer["delete-files"][0]["record-count"] += 1


@pytest.mark.parametrize(
    ("build", "edit", "error", "cause"),
    [
        (without_deletes, twice, InvalidTableError, "DuplicateDataFile"),
        (with_equality_deletes, without_references, StorageError, "CatalogAnswer"),
        (with_position_deletes, without_references, StorageError, "CatalogAnswer"),
        (with_position_deletes, last_references_alone, StorageError, "CatalogAnswer"),
        (partitioned, of_another_partition, StorageError, "CatalogAnswer"),
        (with_vectors, all_with_the_last_vector, CorruptDeleteError, "CorruptDeletionVector"),
        (with_vectors, unnamed_last_vector_for_one_file, CorruptDeleteError, "CorruptDeletionVector"),
        (with_vectors, wrong_count, CorruptDeleteError, "CorruptDeletionVector"),
    ],
)
def test_contradicting_plans_are_errors(build, edit, error, cause, tmp_path):
    table, _ = build(tmp_path / "orders")
    with Edited(edit) as server, pytest.raises(error) as raised:
        opened(server, table).snapshot().to_arrow()
    assert raised.value.cause == cause


def test_position_deletes_that_the_server_forgets_are_an_error(tmp_path):
    """The same delete file applies to another data file, so its rows reveal the missing delete."""
    table, _ = with_position_deletes(tmp_path / "orders")

    def forget(answer):
        second = next(task for task in answer["file-scan-tasks"] if task["data-file"]["record-count"] == 2)
        del second["delete-file-references"]

    with Edited(forget) as server, pytest.raises(CorruptDeleteError, match="does not apply it"):
        opened(server, table).snapshot().to_arrow()


def test_vectors_need_not_name_their_data_files(tmp_path):
    table, expected = with_vectors(tmp_path / "orders")
    with Edited(unnamed_vectors) as server:
        assert values(opened(server, table).snapshot().to_duckdb()) == Counter(expected)


def test_data_files_twice_if_allowed(tmp_path):
    table, expected = with_position_deletes(tmp_path / "orders")
    with Edited(twice) as server:
        rows = opened(server, table, allow_duplicate_files=True).snapshot().to_duckdb()
        assert values(rows) == Counter(expected * 2)


@pytest.mark.parametrize("build", [with_position_deletes, with_vectors])
def test_position_deletes_of_another_partition(build, tmp_path):
    table, expected = build(tmp_path / "orders")
    table.set_partition_spec([("region", "identity")])

    def of_another_spec(answer):
        for delete in answer["delete-files"]:
            delete.update({"spec-id": 1, "partition": ["eu"]})

    with Edited(of_another_spec) as server:
        with pytest.raises(CorruptDeleteError) as raised:
            opened(server, table).snapshot().to_arrow()
        assert raised.value.cause == "DeletePartitionMismatch"
        rows = opened(server, table, lenient_delete_partition=True).snapshot().to_duckdb()
        assert values(rows) == Counter(expected)


def test_many_sets_of_equality_deletes(server, tmp_path):
    """There are more sets than harness joins one by one in plans with sequence numbers."""
    table = table_of(tmp_path / "orders")
    for number in range(70):
        table.commit(
            add=[
                table.write_data([{"id": number, "region": "eu"}, {"id": 1000, "region": "us"}]),
                table.write_equality_deletes(["id"], [{"id": 1000}, {"id": number + 1}]),
            ]
        )
    # Each commit deletes id 1000 in older files. The last file keeps it. No id is deleted after it was written.
    expected = [(number, "eu") for number in range(70)] + [(1000, "us")]
    assert values(opened(server, table).snapshot().to_duckdb()) == Counter(expected)


def test_a_missing_file_of_an_old_snapshot(server, tmp_path):
    table, _ = without_deletes(tmp_path / "orders")
    served = opened(server, table).snapshot()
    newest = table.append(table.write_data(rows_of(9)))
    plan = served._planned()
    for row in plan.files.to_pylist():
        (tmp_path / "orders" / "data" / row["path"].rpartition("/")[2]).unlink()
    with pytest.raises(harness.MissingFileError, match=f"the newest is {newest}"):
        served.to_arrow()


def with_appends(directory):
    """Return a table whose commits append, delete, rewrite, and append."""
    table = table_of(directory, version=3)
    first = table.write_data(rows_of(1, 2))
    table.append(first)
    table.commit(add=table.write_deletion_vectors({first: [0]}))
    second = table.append(table.write_data(rows_of(3)), table.write_data(rows_of(4)))
    table.commit(add=[table.write_data(rows_of(3, 4))], operation="replace")
    table.add_column("note", "string", initial_default="old")
    table.append(table.write_data([{"id": 5, "region": "eu", "note": "new"}]))
    ids = [snapshot["snapshot-id"] for snapshot in table.snapshots]
    appended = [
        *((1, "eu", "old", "insert", 0, ids[0]), (2, "us", "old", "insert", 0, ids[0])),
        *((3, "eu", "old", "insert", 2, ids[2]), (4, "us", "old", "insert", 2, ids[2])),
        (5, "eu", "new", "insert", 3, ids[4]),  # the commit that rewrites files has no number
    ]
    assert second == ids[2]
    return table, appended


def test_appends(server, tmp_path):
    table, expected = with_appends(tmp_path / "orders")
    served = opened(server, table)
    assert values(served.changes(mode="appends").to_duckdb()) == Counter(expected)
    assert [request.get("start-snapshot-id") for request in server.plan_requests] == [
        *(None, table.snapshots[1]["snapshot-id"], table.snapshots[3]["snapshot-id"]),
    ]
    some = served.changes(table.snapshots[0]["snapshot-id"], mode="appends", columns=["id", "_change_ordinal", "_pos"])
    assert values(some.to_duckdb()) == Counter([(3, 1, 0), (4, 1, 0), (5, 2, 0)])
    where = served.changes(mode="appends", columns=["id"], where="id > 2 AND _change_ordinal < 3 AND region = 'eu'")
    assert values(where.to_duckdb()) == Counter([(3,)])
    assert "_change_ordinal" not in str(server.plan_requests)
    again = harness.ScanPlan.from_ipc(some.plan.to_ipc())
    assert values(harness.open_plan(again).to_duckdb()) == Counter([(3, 1, 0), (4, 1, 0), (5, 2, 0)])


def test_a_file_that_is_appended_twice(server, tmp_path):
    table = table_of(tmp_path / "orders")
    data = table.write_data(rows_of(1))
    table.append(data)
    table.commit(remove=[data])
    table.append(data)
    rows = opened(server, table).changes(mode="appends", columns=["id", "_change_ordinal"]).to_duckdb()
    assert values(rows) == Counter([(1, 0), (1, 2)])


class _InclusiveCatalog(LakeCatalog):
    """A server whose ranges include the files of their start snapshot, like Iceberg's own server (1.12.0).

    `parents` has the parent of each snapshot.
    """

    def __init__(self, parents):
        super().__init__()
        self.parents = parents

    def answer(self, method, path, query, headers, body):
        if isinstance(body, dict) and "start-snapshot-id" in body:
            parent = self.parents[body["start-snapshot-id"]]
            body = {key: value for key, value in body.items() if key != "start-snapshot-id"}
            body |= {} if parent is None else {"start-snapshot-id": parent}
        return super().answer(method, path, query, headers, body)


def consecutive_appends(directory):
    table = table_of(directory)
    for id_ in (1, 2, 3, 4):
        table.append(table.write_data(rows_of(id_)))
    return table


def test_appends_of_a_server_that_counts_in_the_start_of_a_range(tmp_path):
    table = consecutive_appends(tmp_path / "orders")
    columns = ["id", "_change_ordinal"]
    parents = {each["snapshot-id"]: each.get("parent-snapshot-id") for each in table.snapshots}
    with _InclusiveCatalog(parents) as server:
        served = opened(server, table)
        assert values(served.changes(mode="appends", columns=columns).to_duckdb()) == Counter(
            [(1, 0), (2, 1), (3, 2), (4, 3)]
        )
        second = table.snapshots[1]["snapshot-id"]
        assert values(served.changes(second, mode="appends", columns=columns, where="id > 3").to_duckdb()) == Counter(
            [(4, 1)]
        )


def test_appends_of_a_server_that_refuses_empty_ranges(server, tmp_path):
    table = consecutive_appends(tmp_path / "orders")
    served = opened(server, table)
    server.failures = [error_answer(400, "IllegalArgumentException", "the start is no ancestor of the end")]
    second = table.snapshots[1]["snapshot-id"]
    assert values(served.changes(second, mode="appends", columns=["id"]).to_duckdb()) == Counter([(3,), (4,)])
    # There is one request for each snapshot, and one request that checks if a range includes its start snapshot.
    ranges = [(body["start-snapshot-id"], body["end-snapshot-id"]) for body in server.plan_requests]
    third, fourth = (snapshot["snapshot-id"] for snapshot in table.snapshots[2:])
    assert ranges == [(second, third), (third, third), (third, fourth)]


@pytest.mark.harness_spark
def test_appends_on_spark(server, tmp_path, harness_spark):
    table, expected = with_appends(tmp_path / "orders")
    rows = opened(server, table).changes(mode="appends").to_spark(harness_spark).collect()
    assert Counter(tuple(row) for row in rows) == Counter(expected)


def test_appends_without_snapshots(server, tmp_path):
    table = table_of(tmp_path / "orders")
    assert opened(server, table).changes(mode="appends").to_arrow().num_rows == 0
    assert server.plan_requests == []


@pytest.mark.parametrize("build", [with_position_deletes, with_vectors, partitioned])
def test_untrusted_tables(build, server, tmp_path):
    table, expected = build(tmp_path / "orders")
    served = opened(server, table, untrusted=True)
    assert values(served.snapshot().to_duckdb(where="id > 0")) == Counter(expected)
    assert "filter" not in server.plan_requests[-1]


def test_conditions_in_the_time_zone_of_a_connection(server, tmp_path):
    table = IcebergTable.create(tmp_path / "orders", {"id": "long", "at": "timestamptz"})
    table.append(table.write_data([{"id": 1, "at": datetime(2024, 3, 1, 1, tzinfo=UTC)}]))
    table.append(table.write_data([{"id": 2, "at": datetime(2024, 3, 1, 23, tzinfo=UTC)}]))
    snapshot = opened(server, table).snapshot()
    where = "\"at\" >= TIMESTAMP '2024-03-01 00:00:00' AND \"at\" < TIMESTAMP '2024-03-02 00:00:00'"
    for zone, ids in (("UTC", [1, 2]), ("America/New_York", [2]), ("Asia/Tokyo", [1])):
        with duckdb.connect() as connection:
            connection.execute(f"SET TimeZone = '{zone}'")
            rows = snapshot.to_duckdb(connection, columns=["id"], where=where)
            assert values(rows) == Counter((id_,) for id_ in ids)
