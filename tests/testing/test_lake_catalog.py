"""The REST catalog of `harness.testing`. The expected answers are written by hand from Iceberg's REST specification."""

import datetime as dt
import json
import os
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from harness.errors import RequestError, StorageError, TableNotFoundError
from harness.metadata.iceberg.server.protocol import Call, Credential
from harness.testing import IcebergTable, LakeCatalog, PlanFault
from harness.writing.iceberg.builder import FIRST_SNAPSHOT_ID

pytest_plugins = ["pytester"]

ORDERS = "/v1/namespaces/sales/tables/orders"
REGION = {"type": "eq", "term": "region", "value": "eu"}
LATE = {"type": "gt", "term": "id", "value": 1}


@pytest.fixture
def server():
    with LakeCatalog() as server:
        yield server


@pytest.fixture
def orders(tmp_path) -> IcebergTable:
    """A table with the files eu (ids 1 and 2), us (id 3), and ap (id 4, with an equality delete of id 4)."""
    table = IcebergTable.create(
        tmp_path / "orders", {"id": "long", "region": "string"}, partition_spec=[("region", "identity")]
    )
    for place, (region, ids) in enumerate({"eu": [1, 2], "us": [3], "ap": [4]}.items()):
        table.append(table.write_data([{"id": id_, "region": region} for id_ in ids], path=f"{place}-{region}.parquet"))
    table.commit(
        add=[table.write_equality_deletes(["id"], [{"id": 4}], partition={"region": "ap"}, path="keys.parquet")]
    )
    return table


@pytest.fixture
def vectors(tmp_path) -> IcebergTable:
    """A table with the files a, b, and c of two rows each, and a Puffin file with vectors for a and c."""
    table = IcebergTable.create(tmp_path / "vectors", {"id": "long"}, format_version=3)
    a, b, c = (
        table.write_data([{"id": first}, {"id": first + 1}], path=f"{name}.parquet")
        for name, first in (("a", 1), ("b", 3), ("c", 5))
    )
    table.append(a, b, c)
    table.commit(add=table.write_deletion_vectors({a: [0], c: [1]}, path="v.puffin"))
    return table


def ask(server: LakeCatalog, method: str, path: str, body: object = None, token: str | None = None) -> tuple[int, Any]:
    """Return the status and the parsed body of an answer over HTTP."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(server.uri + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.loads(response.read() or b"null")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read() or b"null")


def plan(server: LakeCatalog, table: IcebergTable, **request: Any) -> dict[str, Any]:
    """Add a table as `sales.orders`, and return the answer to a request for its plan."""
    server.add("sales.orders", table)
    status, answer = ask(
        server, "POST", f"{ORDERS}/plan", {key.replace("_", "-"): value for key, value in request.items()}
    )
    assert status == 200, answer
    return answer


def pages(server: LakeCatalog, answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a completed plan's answer, and the answers to all plan tasks that the answers name."""
    result, names = [answer], list(answer.get("plan-tasks", ()))
    while names:
        status, page = ask(server, "POST", f"{ORDERS}/tasks", {"plan-task": names.pop(0)})
        assert status == 200, page
        result.append(page)
        names += page.get("plan-tasks", ())
    return result


def tasks_of(server: LakeCatalog, table: IcebergTable, **request: Any) -> list[tuple[str, list[tuple[Any, ...]], Any]]:
    """Return the name, the deletes, and the residual of each file in a plan.

    A delete is described by its name, offset, and length.
    """
    result = []
    for page in pages(server, plan(server, table, **request)):
        deletes = [
            (os.path.basename(each["file-path"]), each.get("content-offset"), each.get("content-size-in-bytes"))
            for each in page.get("delete-files", ())
        ]
        for task in page["file-scan-tasks"]:
            places = task.get("delete-file-references", ())
            name = os.path.basename(task["data-file"]["file-path"])
            result.append((name, [deletes[place] for place in places], task.get("residual-filter")))
    return sorted(result, key=lambda each: each[0])


def names_of(server: LakeCatalog, table: IcebergTable, **request: Any) -> list[str]:
    return [name for name, _, _ in tasks_of(server, table, **request)]


def test_the_configuration_lists_the_planning_calls(server):
    table = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
    assert ask(server, "GET", "/v1/config?warehouse=w") == (
        200,
        {
            "defaults": {},
            "overrides": {"scan-planning-mode": "server"},
            "endpoints": [
                "GET /v1/{prefix}/namespaces",
                "GET /v1/{prefix}/namespaces/{namespace}",
                "GET /v1/{prefix}/namespaces/{namespace}/tables",
                f"GET {table}",
                f"HEAD {table}",
                f"POST {table}/plan",
                f"GET {table}/plan/{{plan-id}}",
                f"DELETE {table}/plan/{{plan-id}}",
                f"POST {table}/tasks",
                f"GET {table}/credentials",
            ],
        },
    )
    server.mode, server.calls = None, frozenset()
    config = ask(server, "GET", "/v1/config")[1]
    assert config["overrides"] == {}
    assert len(config["endpoints"]) == 5


def test_names(server, orders):
    server.add("sales.orders", orders)
    server.add("sales.eu.west.orders", orders.location)
    server.add('other."a.b"', orders)
    cases = {
        "namespaces": {"namespaces": [["other"], ["sales"]]},
        "namespaces?parent=sales": {"namespaces": [["sales", "eu"]]},
        "namespaces?parent=sales%1Feu": {"namespaces": [["sales", "eu", "west"]]},
        "namespaces/sales": {"namespace": ["sales"], "properties": {}},
        "namespaces/sales/tables": {"identifiers": [{"namespace": ["sales"], "name": "orders"}]},
        "namespaces/sales%1Feu/tables": {"identifiers": []},
        "namespaces/other/tables": {"identifiers": [{"namespace": ["other"], "name": "a.b"}]},
    }
    assert {path: ask(server, "GET", f"/v1/{path}") for path in cases} == {
        path: (200, answer) for path, answer in cases.items()
    }
    assert ask(server, "HEAD", "/v1/namespaces/sales%1Feu%1Fwest/tables/orders") == (204, None)
    catalog = server.catalog("prod")
    assert catalog.name == "prod"
    assert catalog.namespaces() == (("other",), ("sales",))
    assert catalog.namespaces(("sales",)) == (("sales", "eu"),)
    assert catalog.tables(("sales", "eu", "west")) == (("sales", "eu", "west", "orders"),)
    with pytest.raises(TableNotFoundError, match=r"prod has no table sales\.order; the nearest are sales\.orders"):
        catalog.locate(("sales", "order"))


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"),
    [
        ("GET", "/v1/namespaces/none", None, 404, "NoSuchNamespaceException"),
        ("GET", "/v1/namespaces?parent=none", None, 404, "NoSuchNamespaceException"),
        ("GET", "/v1/namespaces/none/tables/orders", None, 404, "NoSuchNamespaceException"),
        ("GET", "/v1/namespaces/sales/tables/none", None, 404, "NoSuchTableException"),
        ("POST", "/v1/namespaces/sales/tables/none/plan", {}, 404, "NoSuchTableException"),
        ("GET", f"{ORDERS}/plan/plan-9", None, 404, "NoSuchPlanIdException"),
        ("DELETE", f"{ORDERS}/plan/plan-9", None, 404, "NoSuchPlanIdException"),
        ("GET", f"{ORDERS}/credentials?planId=plan-9", None, 404, "NoSuchPlanIdException"),
        ("POST", f"{ORDERS}/tasks", {"plan-task": "plan-9:1-2"}, 404, "NoSuchPlanTaskException"),
        ("POST", f"{ORDERS}/tasks", {}, 404, "NoSuchPlanTaskException"),
        ("POST", f"{ORDERS}/metrics", {}, 406, "UnsupportedOperationException"),
        ("POST", f"{ORDERS}/plan", None, 400, "BadRequestException"),
        ("POST", f"{ORDERS}/plan", [1], 400, "BadRequestException"),
        ("POST", f"{ORDERS}/plan", {"snapshot-id": 5}, 400, "BadRequestException"),
        ("POST", f"{ORDERS}/plan", {"start-snapshot-id": 5}, 400, "BadRequestException"),
        ("POST", f"{ORDERS}/plan", {"snapshot-id": 1, "end-snapshot-id": 5}, 400, "BadRequestException"),
        (
            "POST",
            f"{ORDERS}/plan",
            {"start-snapshot-id": 5, "end-snapshot-id": FIRST_SNAPSHOT_ID},
            400,
            "BadRequestException",
        ),
        ("POST", f"{ORDERS}/plan", {"select": ["ID"]}, 400, "BadRequestException"),
        ("POST", f"{ORDERS}/plan", {"stats-fields": ["none"]}, 400, "BadRequestException"),
        ("POST", f"{ORDERS}/plan", {"filter": {**LATE, "term": "none"}}, 400, "BadRequestException"),
        ("POST", f"{ORDERS}/plan", {"filter": {**LATE, "value": "x"}}, 400, "BadRequestException"),
        ("POST", f"{ORDERS}/plan", {"filter": {**LATE, "type": "near"}}, 400, "BadRequestException"),
        ("GET", "/elsewhere", None, 404, "NotFoundException"),
    ],
)
def test_errors_have_the_form_of_the_specification(server, orders, method, path, body, status, kind):
    server.add("sales.orders", orders)
    got, answer = ask(server, method, path, body)
    assert (got, answer["error"]["type"], answer["error"]["code"]) == (status, kind, status)
    assert answer["error"]["message"]


def test_a_body_that_is_not_json_is_refused(server, orders):
    server.add("sales.orders", orders)
    assert ask(server, "POST", f"{ORDERS}/plan", b"{") == (400, None)


def test_a_table_that_cannot_be_read_is_an_error_of_the_server(server, orders, tmp_path):
    server.add("sales.orders", tmp_path / "none")
    status, answer = ask(server, "GET", ORDERS)
    assert (status, answer["error"]["type"]) == (500, "InternalServerError")


def test_the_token_is_required(orders):
    with LakeCatalog(token="abc") as server:
        server.add("sales.orders", orders)
        assert [ask(server, "GET", "/v1/config", token=token)[0] for token in (None, "ab", "abc")] == [401, 401, 200]
        assert server.catalog().locate(("sales", "orders")).metadata_location == str(orders.metadata_path)


def test_a_table_is_loaded_with_its_metadata(server, orders):
    server.add("sales.orders", orders)
    document = json.loads(orders.metadata_path.read_bytes())
    status, answer = ask(server, "GET", ORDERS)
    expected = {
        "metadata-location": str(orders.metadata_path),
        "metadata": document,
        "config": {"scan-planning-mode": "server"},
    }
    assert (status, answer) == (200, expected)
    orders.append(orders.write_data([{"id": 9, "region": "eu"}]))
    answer = ask(server, "GET", f"{ORDERS}?snapshots=refs")[1]
    assert [each["snapshot-id"] for each in answer["metadata"]["snapshots"]] == [orders.snapshot_id]
    assert answer["metadata-location"] == str(orders.metadata_path)
    located = server.catalog().locate(("sales", "orders"))
    assert json.loads(located.server.metadata()) == json.loads(orders.metadata_path.read_bytes())
    assert (located.server.mode, located.server.transport.calls) == ("server", frozenset(Call))


def test_hidden_metadata_is_in_answers_only(server, orders):
    server.hides_metadata = True
    server.add("sales.orders", orders)
    answer = ask(server, "GET", ORDERS)[1]
    lists = [each["manifest-list"] for each in answer["metadata"]["snapshots"]]
    assert not any(os.path.exists(path) for path in (answer["metadata-location"], *lists))
    assert len(names_of(server, orders)) == 3


def test_a_plan_describes_each_file(server, tmp_path):
    table = IcebergTable.create(
        tmp_path / "t", {"id": "long", "d": "date", "x": "double"}, partition_spec=[("d", "month"), ("id", "bucket[4]")]
    )
    # 2024-02 is month 649, and bucket[4] of 34 is 3: Iceberg's hash of 34 is 2017239379.
    rows = [
        {"id": 34, "d": dt.date(2024, 2, 3), "x": 1.5},
        {"id": 34, "d": dt.date(2024, 2, 28), "x": None},
    ]
    data = table.write_data(rows, path="data.parquet")
    table.append(data)
    positions = table.write_position_deletes([(data, 0)], referenced=data, path="positions.parquet")
    keys = table.write_equality_deletes(
        ["id"], [{"id": 34}], partition={"d_month": 649, "id_bucket": 3}, path="keys.parquet"
    )
    table.commit(add=[positions, keys])
    answer = plan(server, table, stats_fields=["id", "d"])

    def described(name: str, content: str, rows: int, **more: Any) -> dict[str, Any]:
        path = f"{table.location}/{name}"
        return {
            "content": content,
            "file-path": path,
            "file-format": "parquet",
            "spec-id": 0,
            "partition": [649, 3],
            "file-size-in-bytes": os.path.getsize(path),
            "record-count": rows,
            "split-offsets": [4],
            **more,
        }

    statistics = {
        "column-sizes": answer["file-scan-tasks"][0]["data-file"]["column-sizes"],
        "value-counts": {"keys": [1, 2], "values": [2, 2]},
        "null-value-counts": {"keys": [1, 2], "values": [0, 0]},
        "lower-bounds": {"keys": [1, 2], "values": [34, "2024-02-03"]},
        "upper-bounds": {"keys": [1, 2], "values": [34, "2024-02-28"]},
    }
    server.encodes_bounds = True
    (encoded,) = plan(server, table, stats_fields=["id", "d"])["file-scan-tasks"]
    # A long has 8 bytes and a date 4, both little-endian; 2024-02-03 is day 19756.
    assert encoded["data-file"]["lower-bounds"] == {"keys": [1, 2], "values": ["2200000000000000", "2C4D0000"]}
    assert answer == {
        "status": "completed",
        "plan-id": "plan-1",
        "file-scan-tasks": [
            {
                "data-file": {**described("data.parquet", "data", 2, **{"sort-order-id": 0}), **statistics},
                "delete-file-references": [0, 1],
            }
        ],
        "delete-files": [
            described("keys.parquet", "equality-deletes", 1, **{"equality-ids": [1]}),
            described(
                "positions.parquet", "position-deletes", 1, **{"referenced-data-file": f"{table.location}/data.parquet"}
            ),
        ],
    }


def test_only_deletes_that_apply_to_a_file_are_referred_to(server, orders, vectors):
    keys = ("keys.parquet", None, None)
    assert tasks_of(server, orders) == [
        ("0-eu.parquet", [], None),
        ("1-us.parquet", [], None),
        ("2-ap.parquet", [keys], None),
    ]
    (_, first, _), (_, none, _), (_, second, _) = tasks_of(server, vectors)
    assert none == []
    assert [name for name, _, _ in first + second] == ["v.puffin", "v.puffin"]
    assert first[0][1] < second[0][1]


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        (REGION, {"0-eu.parquet": True}),
        ({"type": "not", "child": REGION}, {"1-us.parquet": True, "2-ap.parquet": True}),
        ({"type": "and", "left": REGION, "right": LATE}, {"0-eu.parquet": LATE}),
        (
            {"type": "or", "left": REGION, "right": {**LATE, "value": 3}},
            {"0-eu.parquet": True, "2-ap.parquet": {**LATE, "value": 3}},
        ),
        (
            {"type": "not", "child": {"type": "or", "left": {**REGION, "value": "us"}, "right": LATE}},
            {"0-eu.parquet": {"type": "not", "child": LATE}},
        ),
        (
            {"type": "and", "left": LATE, "right": {**LATE, "value": 2}},
            {
                name: {"type": "and", "left": LATE, "right": {**LATE, "value": 2}}
                for name in ("1-us.parquet", "2-ap.parquet")
            },
        ),
        ({"type": "not-in", "term": "region", "values": ["us", "ap"]}, {"0-eu.parquet": True}),
        ({**REGION, "value": "zz"}, {}),
        (True, {"0-eu.parquet": True, "1-us.parquet": True, "2-ap.parquet": True}),
    ],
)
def test_residuals_are_what_the_partition_leaves_open(server, orders, filter_, expected):
    assert {name: residual for name, _, residual in tasks_of(server, orders, filter=filter_)} == expected


def test_residuals_of_transforms_and_nulls(server, tmp_path):
    table = IcebergTable.create(
        tmp_path / "t", {"n": "int", "s": "string"}, partition_spec=[("n", "truncate[10]"), ("s", "identity")]
    )
    table.append(table.write_data([{"n": 12, "s": None}, {"n": 19, "s": None}]))
    cases = [
        ({"type": "gt-eq", "term": "n", "value": 10}, True),
        ({"type": "gt", "term": "n", "value": 12}, {"type": "gt", "term": "n", "value": 12}),
        ({"type": "is-null", "term": "s"}, True),
        ({"type": "not-eq", "term": "s", "value": "a"}, True),  # in Iceberg, null is not equal to a
        ({"type": "eq", "term": {"type": "transform", "transform": "bucket[4]", "term": "n"}, "value": 1},) * 2,
    ]
    assert [tasks_of(server, table, filter=filter_)[0][2] for filter_, _ in cases] == [
        residual for _, residual in cases
    ]


def test_names_in_requests_may_have_any_letter_case(server, orders):
    request = {"filter": {**LATE, "term": "ID"}, "select": ["Region"], "stats_fields": ["ID"], "case_sensitive": False}
    assert [residual for _, _, residual in tasks_of(server, orders, **request)] == [LATE] * 3


def test_a_partition_spec_may_be_in_a_manifest_only(server, orders):
    orders.set_partition_spec([])
    orders.edit_metadata(lambda document: document["partition-specs"].pop(0))
    eu = plan(server, orders, filter=REGION)["file-scan-tasks"][0]
    assert (eu["data-file"]["spec-id"], eu["data-file"]["partition"], eu["residual-filter"]) == (0, ["eu"], True)


def test_a_plan_may_be_of_an_older_snapshot(server, orders):
    first = orders.snapshots[0]["snapshot-id"]
    orders.rename_column("region", "area")
    assert names_of(server, orders, snapshot_id=first) == ["0-eu.parquet"]
    assert names_of(server, orders, snapshot_id=first, use_snapshot_schema=True, filter=REGION) == ["0-eu.parquet"]
    assert names_of(server, orders, filter={**REGION, "term": "area"}) == ["0-eu.parquet"]


def test_a_range_has_the_files_that_its_snapshots_appended(server, orders):
    first, second, third, deletes = (each["snapshot-id"] for each in orders.snapshots)
    assert tasks_of(server, orders, start_snapshot_id=first, end_snapshot_id=deletes) == [
        ("1-us.parquet", [], None),
        ("2-ap.parquet", [], None),
    ]
    assert names_of(server, orders, start_snapshot_id=first, end_snapshot_id=second) == ["1-us.parquet"]
    assert names_of(server, orders, end_snapshot_id=second) == ["0-eu.parquet", "1-us.parquet"]
    assert names_of(server, orders, start_snapshot_id=third, end_snapshot_id=deletes) == []
    filter_ = {**REGION, "value": "ap"}
    assert names_of(server, orders, start_snapshot_id=first, end_snapshot_id=third, filter=filter_) == ["2-ap.parquet"]


def test_a_table_without_snapshots_has_an_empty_plan(server, tmp_path):
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    assert plan(server, table) == {"status": "completed", "plan-id": "plan-1", "file-scan-tasks": []}


def test_pages_are_plan_tasks_of_plan_tasks(server, tmp_path):
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    table.append(*(table.write_data([{"id": number}], path=f"{number:02}.parquet") for number in range(11)))
    server.page = 2
    answers = pages(server, plan(server, table))
    sizes = [len(answer["file-scan-tasks"]) for answer in answers]
    assert sizes == [2, 2, 2, 2, 2, 1]
    assert [len(answer.get("plan-tasks", ())) for answer in answers] == [2, 1, 2, 0, 0, 0]
    names = [os.path.basename(t["data-file"]["file-path"]) for answer in answers for t in answer["file-scan-tasks"]]
    assert sorted(names) == [f"{number:02}.parquet" for number in range(11)]


def test_references_are_places_in_the_same_answer(server, vectors):
    server.page = 1
    answers = pages(server, plan(server, vectors))
    assert [
        (t.get("delete-file-references"), len(answer.get("delete-files", ())))
        for answer in answers
        for t in answer["file-scan-tasks"]
    ] == [([0], 1), (None, 0), ([0], 1)]


def test_a_plan_may_need_polling(server, orders):
    server.polls = 2
    assert plan(server, orders) == {"status": "submitted", "plan-id": "plan-1"}
    assert ask(server, "GET", f"{ORDERS}/plan/plan-1") == (200, {"status": "submitted"})
    status, answer = ask(server, "GET", f"{ORDERS}/plan/plan-1")
    assert (status, answer["status"], len(answer["file-scan-tasks"])) == (200, "completed", 3)
    assert "plan-id" not in answer
    assert server.requests == ["POST /plan", "GET /plan/plan-1", "GET /plan/plan-1"]


def test_a_plan_that_fails_later_says_so(server, orders):
    server.polls = 1
    plan(server, orders)
    for manifest in orders.metadata_path.parent.glob("*.avro"):
        manifest.unlink()
    status, answer = ask(server, "GET", f"{ORDERS}/plan/plan-1")
    assert (status, answer["status"], answer["error"]["code"]) == (200, "failed", 500)


def test_a_cancelled_plan_is_over(server, orders):
    server.page = 1
    names = plan(server, orders)["plan-tasks"]
    assert ask(server, "DELETE", f"{ORDERS}/plan/plan-1") == (204, None)
    assert ask(server, "GET", f"{ORDERS}/plan/plan-1") == (200, {"status": "cancelled"})
    assert ask(server, "POST", f"{ORDERS}/tasks", {"plan-task": names[0]})[0] == 404


def test_a_plan_belongs_to_its_table(server, orders):
    server.page = 1
    names = plan(server, orders)["plan-tasks"]
    server.add("sales.other", orders)
    other = ORDERS.replace("orders", "other")
    assert ask(server, "GET", f"{other}/plan/plan-1")[0] == 404
    assert ask(server, "POST", f"{other}/tasks", {"plan-task": names[0]})[0] == 404


def test_calls_that_the_server_does_not_offer_fail(server, orders):
    server.add("sales.orders", orders)
    server.calls = frozenset({Call.RESULT})
    assert ask(server, "POST", f"{ORDERS}/plan", {})[0] == 406
    assert server.catalog().locate(("sales", "orders")).server.transport.calls == {Call.RESULT}


def test_failures_come_before_other_answers_to_planning_calls(server, orders):
    server.add("sales.orders", orders)
    server.failures = [(503, {"Retry-After": "3"}, {"error": {"message": "busy"}})]
    transport = server.catalog().locate(("sales", "orders")).server.transport
    busy = transport.send(Call.PLAN, body={})
    assert (busy.status, busy.retry_after_s, busy.document) == (503, 3.0, {"error": {"message": "busy"}})
    assert transport.send(Call.PLAN, body={}).status == 200
    server.failures = [(307, {"Location": "http://127.0.0.1:9/"}, None), (200, {}, b"[]")]
    with pytest.raises(StorageError, match="redirects"):
        transport.send(Call.PLAN, body={})
    with pytest.raises(StorageError, match="did not answer with a JSON object"):
        transport.send(Call.PLAN, body={})


def test_a_token_that_the_server_repeats_is_not_in_answers(orders):
    with LakeCatalog(token="secret-of-the-client") as server:
        server.add("sales.orders", orders)
        server.failures = [(403, {}, {"error": {"message": "secret-of-the-client is too old", "code": 403}})]
        transport = server.catalog().locate(("sales", "orders")).server.transport
        answer = transport.send(Call.PLAN, body={})
    assert answer.document == {"error": {"message": "… is too old", "code": 403}}


def test_credentials_are_lent_with_the_answers_that_were_chosen(server, orders):
    config = {"s3.access-key-id": "k", "s3.secret-access-key": "s"}
    server.credentials, server.page = {"s3://b/orders": config}, 1
    expected = [{"prefix": "s3://b/orders", "config": config}]
    for lend, with_credentials in [((), "---"), (("table",), "x--"), (("plan",), "-x-"), (("table", "tasks"), "x-x")]:
        server.lend = frozenset(lend)
        answer = plan(server, orders)
        answers = (ask(server, "GET", ORDERS)[1], answer, pages(server, answer)[1])
        assert [each.get("storage-credentials") for each in answers] == [
            expected if mark == "x" else None for mark in with_credentials
        ]
    assert ask(server, "GET", f"{ORDERS}/credentials?planId=plan-1") == (200, {"storage-credentials": expected})
    assert server.requests[-1] == "GET /credentials"


@pytest.mark.parametrize(
    ("key", "expiry"),
    [
        ("s3.access-key-id", "s3.session-token-expires-at-ms"),
        ("gcs.oauth2.token", "gcs.oauth2.token-expires-at"),
        ("adls.sas-token.acc.dfs.core.windows.net", "adls.sas-token-expires-at-ms.acc.dfs.core.windows.net"),
    ],
)
def test_credentials_expire(server, orders, key, expiry):
    server.add("sales.orders", orders)
    server.credentials, server.lifetime_ms = {"x://b": {key: "secret"}}, 60_000
    before = int(time.time() * 1000)
    (lent,) = ask(server, "GET", f"{ORDERS}/credentials")[1]["storage-credentials"]
    assert lent["config"].keys() == {key, expiry}
    assert before + 60_000 <= int(lent["config"][expiry]) <= int(time.time() * 1000) + 60_000


def test_the_catalog_has_the_credentials_of_tables_and_of_plans(server, orders):
    server.add("sales.orders", orders)
    server.credentials, server.lend, server.lifetime_ms = {"s3://b": {"s3.access-key-id": "k"}}, {"table"}, 60_000
    located = server.catalog().locate(("sales", "orders"))
    assert located.storage_options == {"s3://b": {"key": "k"}}
    assert located.expires_ms is not None
    assert located.renew().storage_options == located.storage_options
    planned = located.server.located([Credential("s3://c/t", {"s3.access-key-id": "p"})], ["s3://c/t/a", "s3://b/x"])
    assert planned.storage_options == {"s3://b": {"key": "k"}, "s3://c/t": {"key": "p"}}
    assert planned.expires_ms == located.expires_ms  # the expiry of the table's own credentials, which are still used


@pytest.mark.parametrize("key", ["metadata", "metadata-location", "config", "storage-credentials"])
def test_the_catalog_refuses_invalid_answers(orders, key):
    class Server(LakeCatalog):
        def answer(self, *request: Any) -> Any:
            status, headers, document = super().answer(*request)
            return status, headers, {**document, key: 0.125}

    with Server() as server:
        server.add("sales.orders", orders)
        with pytest.raises(StorageError, match=f"returned an invalid answer: {key}: expected .*, got float") as caught:
            server.catalog().locate(("sales", "orders"))
    assert "0.125" not in caught.value.message  # the value may contain credentials


def test_requests_are_answered_at_the_same_time(server, orders):
    server.add("sales.orders", orders)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: ask(server, "POST", f"{ORDERS}/plan", {})[1], range(24)))
    assert {answer["plan-id"] for answer in answers} == {f"plan-{number}" for number in range(1, 25)}
    assert server.requests == ["POST /plan"] * 24
    assert server.plan_requests == [{}] * 24


def test_a_delay_ends_with_the_server(orders):
    with ThreadPoolExecutor(1) as pool:
        with LakeCatalog(delay_ms=3_600_000) as server:
            server.add("sales.orders", orders)
            answer = pool.submit(ask, server, "POST", f"{ORDERS}/plan", {})
            while not server.requests:
                pass
        assert answer.result(timeout=60)[0] == 200


def test_answers_can_be_changed_by_a_subclass(orders):
    class Server(LakeCatalog):
        def answer(self, *request: Any) -> Any:
            status, headers, document = super().answer(*request)
            return status, headers, {**document, "future": 1}

    with Server() as server:
        assert plan(server, orders)["future"] == 1


# The faults. Each test compares the whole plan without the fault and with the fault.


@pytest.mark.parametrize("fault", PlanFault)
def test_each_fault_changes_a_plan_that_can_have_it(server, tmp_path, fault):
    """A fault changes the right plan and is listed in `planted`. A plan that cannot have the fault is unchanged."""
    table = IcebergTable.create(
        tmp_path / "t", {"id": "long", "region": "string"}, format_version=3, partition_spec=[("region", "identity")]
    )
    eu, us, gone = (
        table.write_data([{"id": id_, "region": region}, {"id": id_ + 1, "region": region}], path=f"{region}-{id_}")
        for region, id_ in (("eu", 1), ("us", 3), ("us", 5))
    )
    table.append(eu, us, gone)
    table.commit(remove=[gone])
    keys = [
        table.write_equality_deletes(["id"], [{"id": id_}], partition={"region": region})
        for region, id_ in (("eu", 2), ("us", 4))
    ]
    table.commit(add=[*keys, *table.write_deletion_vectors({eu: [0], us: [1]})])
    request = {"filter": LATE, "stats_fields": ["id"]}
    server.page = 1
    right = pages(server, plan(server, table, **request))
    assert server.planted == set()
    server.faults = [fault.value]
    wrong = pages(server, plan(server, table, **request))
    assert server.planted == {fault}
    without_ids = [
        [{k: v for k, v in page.items() if k not in ("plan-id", "plan-tasks")} for page in each]
        for each in (right, wrong)
    ]
    assert without_ids[0] != without_ids[1]
    server.planted.clear()
    empty = IcebergTable.create(tmp_path / "empty", {"id": "long"})
    assert plan(server, empty)["file-scan-tasks"] == []
    assert server.planted == set()


def faulty(server: LakeCatalog, fault: PlanFault, table: IcebergTable, **request: Any) -> Any:
    server.faults = [fault]
    return tasks_of(server, table, **request)


def test_dropped_and_wider_residuals(server, orders):
    both = {"type": "and", "left": LATE, "right": {**LATE, "value": 2}}
    request = {"filter": both}
    assert [r for _, _, r in tasks_of(server, orders, **request)] == [both, both]
    assert [r for _, _, r in faulty(server, PlanFault.DROPPED_RESIDUALS, orders, **request)] == [True, True]
    assert sorted(map(str, [r for _, _, r in faulty(server, PlanFault.WIDER_RESIDUAL, orders, **request)])) == sorted(
        map(str, [LATE, both])
    )


def test_ignored_deletes_are_listed(server, vectors):
    server.faults = [PlanFault.IGNORED_DELETES]
    answer = plan(server, vectors)
    assert len(answer["delete-files"]) == 2
    assert not any("delete-file-references" in task for task in answer["file-scan-tasks"])


def test_all_files_get_the_last_vector(server, vectors):
    (_, [first], _), (_, [], _), (_, [last], _) = tasks_of(server, vectors)
    assert faulty(server, PlanFault.LAST_VECTOR, vectors) == [
        ("a.parquet", [last], None),
        ("b.parquet", [], None),
        ("c.parquet", [last], None),
    ]
    name, offset, length = first
    moved = faulty(server, PlanFault.VECTOR_OFFSET, vectors)
    assert [deletes for _, deletes, _ in moved] == [[(name, offset + 1, length)], [], [last]]
    longer = faulty(server, PlanFault.VECTOR_LENGTH, vectors)
    assert [deletes for _, deletes, _ in longer] == [[(name, offset, length + 1)], [], [last]]


def test_deletes_of_later_pages_are_lost(server, vectors):
    server.page, server.faults = 1, [PlanFault.DELETES_OF_FIRST_PAGE]
    answers = pages(server, plan(server, vectors))
    assert [len(answer.get("delete-files", ())) for answer in answers] == [1, 0, 0]


def test_missing_removed_and_repeated_files(server, orders):
    right = names_of(server, orders)
    missing = [name for name, _, _ in faulty(server, PlanFault.MISSING_FILE, orders)]
    assert len(missing) == 2
    assert set(missing) < set(right)
    twice = [name for name, _, _ in faulty(server, PlanFault.FILE_TWICE, orders)]
    assert (len(twice), set(twice)) == (4, set(right))
    removed = orders.write_data([{"id": 9, "region": "eu"}], path="removed.parquet")
    orders.append(removed)
    orders.commit(remove=[removed])
    assert [name for name, _, _ in faulty(server, PlanFault.REMOVED_FILE, orders)] == [*right, "removed.parquet"]
    # A file that the filter excludes would not change the rows.
    assert [
        name for name, _, _ in faulty(server, PlanFault.REMOVED_FILE, orders, filter={**REGION, "value": "us"})
    ] == ["1-us.parquet"]


def test_a_file_gets_the_equality_delete_of_another(server, orders):
    orders.commit(
        add=[orders.write_equality_deletes(["id"], [{"id": 3}], partition={"region": "us"}, path="more.parquet")]
    )
    right = {name: deletes[0][0] for name, deletes, _ in tasks_of(server, orders) if deletes}
    assert right == {"1-us.parquet": "more.parquet", "2-ap.parquet": "keys.parquet"}
    wrong = {
        name: deletes[0][0] for name, deletes, _ in faulty(server, PlanFault.OTHER_EQUALITY_DELETE, orders) if deletes
    }
    assert len(set(wrong.values())) == 1


def test_wrong_partition_and_statistics(server, orders):
    server.add("sales.orders", orders)
    right = {
        t["data-file"]["file-path"]: t["data-file"]
        for t in plan(server, orders, stats_fields=["id"])["file-scan-tasks"]
    }
    for fault, key in ((PlanFault.PARTITION, "partition"), (PlanFault.STATISTICS, "null-value-counts")):
        server.faults = [fault]
        tasks = plan(server, orders, stats_fields=["id"])["file-scan-tasks"]
        wrong = [t["data-file"] for t in tasks if t["data-file"] != right[t["data-file"]["file-path"]]]
        assert [{k for k in file if file[k] != right[file["file-path"]][k]} for file in wrong] == [{key}]


def test_unknown_faults_are_refused():
    with pytest.raises(RequestError, match="Unknown fault 'lost': there are dropped-residuals, ignored-deletes, "):
        LakeCatalog(faults=["lost"])


def test_the_fixture_is_a_running_server(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(
        """
        import harness

        def test_it(lake_table, lake_catalog):
            table = lake_table('''
                format: iceberg
                table: {format-version: 2, schema: {id: long}}
                history: [{append: [{data: a, rows: [[1]]}]}]
            ''')
            lake_catalog.add("sales.orders", table)
            assert harness.open_table("sales.orders", catalog=lake_catalog.catalog()).count() == 1
        """
    )
    pytester.runpytest_inprocess("-p", "harness.testing.plugin").assert_outcomes(passed=1)
