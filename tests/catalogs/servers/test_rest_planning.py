"""Plans that a server makes, requested by PyIceberg's REST client."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from serving import recording

import harness
from harness.metadata.catalogs import pyiceberg_rest
from harness.metadata.iceberg.server.calls import request_plan
from harness.metadata.iceberg.server.protocol import Call, ScanRequest, Transport
from harness.testing.json_server import HttpAnswer
from harness.testing.lake_catalog import LakeCatalog
from harness.writing.iceberg.builder import IcebergTable

pytest.importorskip("pyiceberg", reason="PyIceberg is not installed: nox -s tests-external -- catalogs")
pytestmark = pytest.mark.external

TOKEN = "dapi-0123456789abcdef"
NAME = "prod.sales.orders"
EMPTY = {"status": "completed", "plan-tasks": []}


@pytest.fixture
def orders(tmp_path: Path) -> IcebergTable:
    table = IcebergTable.create(tmp_path / "orders", {"id": "long"})
    for number in range(4):
        table.append(table.write_data([{"id": number}]))
    return table


class Scripted(LakeCatalog):
    """A catalog whose answers to planning calls are a function of the method and the path below the table."""

    def __init__(self, script: Callable[[str, str], HttpAnswer], **more: Any) -> None:
        super().__init__(**more)
        self.script, self.received = script, list[tuple[str, str, Mapping[str, str]]]()

    def answer(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Any
    ) -> HttpAnswer:
        _, is_of_table, rest = path.partition("/tables/orders/")
        if not is_of_table:
            return super().answer(method, path, query, headers, body)
        self.received.append((method, rest, query))
        return self.script(method, rest)


def transport_of(server: LakeCatalog, orders: IcebergTable, configure: Any, **properties: str) -> Transport:
    server.add("sales.orders", orders)
    configure("prod", {"uri": server.uri, **properties})
    located = harness.open_catalog("prod").locate(("sales", "orders"))
    assert located.server is not None
    return located.server.transport


@pytest.mark.parametrize("token", [None, TOKEN])
@pytest.mark.parametrize(("polls", "page"), [(0, None), (2, None), (1, 1)])
def test_a_table_is_read_by_plans_of_its_server(orders, configure, token, polls, page):
    with LakeCatalog(token=token, polls=polls, page=page) as server:
        server.add("sales.orders", orders)
        configure("prod", {"uri": server.uri} if token is None else {"uri": server.uri, "token": token})
        table = harness.open_table(NAME)
        assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 1, 2, 3]
        assert server.requests.count("POST /plan") == 1
        assert server.requests.count("GET /plan/plan-1") == polls
        assert server.requests.count("POST /tasks") == (0 if page is None else 3)


@pytest.mark.parametrize(
    ("of_catalog", "of_table", "mode"),
    [("server", {}, "server"), ("client", {"scan-planning-mode": "SERVER"}, "server"), (None, {}, None)],
)
def test_the_mode_of_a_table_is_before_that_of_its_catalog(orders, configure, of_catalog, of_table, mode):
    class Catalog(LakeCatalog):
        def answer(self, *request: Any) -> HttpAnswer:
            status, headers, document = super().answer(*request)
            return status, headers, {**document, "config": of_table} if "metadata" in document else document

    with Catalog(mode=of_catalog) as server:
        server.add("sales.orders", orders)
        configure("prod", {"uri": server.uri})
        located = harness.open_catalog("prod").locate(("sales", "orders"))
    assert located.server is not None
    assert located.server.mode == mode


@pytest.mark.parametrize("calls", [frozenset(Call), frozenset({Call.PLAN, Call.TASKS}), frozenset[Call]()])
def test_the_calls_are_those_that_the_configuration_lists(orders, configure, calls):
    with LakeCatalog() as server:
        server.calls = calls
        assert transport_of(server, orders, configure).calls == calls


@pytest.mark.parametrize(
    ("plan_id", "path"), [("a/../b", "a%2F..%2Fb"), ("ä b?c#d%2e", "%C3%A4%20b%3Fc%23d%252e"), ("...", "...")]
)
def test_the_id_of_a_plan_is_one_part_of_the_path(orders, configure, plan_id, path):
    with Scripted(lambda method, rest: (200, {}, {"storage-credentials": []})) as server:
        transport = transport_of(server, orders, configure)
        for call in (Call.RESULT, Call.CANCEL, Call.CREDENTIALS):
            assert transport.send(call, plan_id=plan_id).status == 200
    assert server.received == [
        ("GET", f"plan/{path}", {}), ("DELETE", f"plan/{path}", {}), ("GET", "credentials", {"planId": plan_id}),
    ]  # fmt: skip


def test_a_redirect_is_not_followed(orders, configure):
    with LakeCatalog() as elsewhere:
        for place in (elsewhere.uri, ""):
            redirect = (307, {"Location": f"{place}/v1/plan"}, None)
            with Scripted(lambda method, rest, answer=redirect: answer) as server:
                transport = transport_of(server, orders, configure, token=TOKEN)
                with pytest.raises(harness.StorageError, match="redirects to another address") as caught:
                    request_plan(transport, ScanRequest(), table=NAME)
                assert caught.value.cause == "CatalogMoved"
                assert len(server.received) == 1
    assert elsewhere.requests == []


def test_a_busy_server_may_answer_with_a_page(orders, configure):
    answers = [(503, {"Retry-After": "0", "Content-Type": "text/html"}, b"<html>wait</html>"), (200, {}, EMPTY)]
    with Scripted(lambda method, rest: answers.pop(0)) as server:
        assert request_plan(transport_of(server, orders, configure), ScanRequest(), table=NAME).requests == 2


def test_an_answer_has_its_size_and_the_wait_that_the_server_asks_for(orders, configure):
    with Scripted(lambda method, rest: (200, {"Retry-After": "7"}, b'{"status": "submitted"}')) as server:
        answer = transport_of(server, orders, configure).send(Call.RESULT, plan_id="p")
    assert (answer.document, answer.retry_after_s, answer.size) == ({"status": "submitted"}, 7.0, 23)


@pytest.mark.parametrize("content", [b"", b"no", b"[]", b"{", b"[" * 100_000])
def test_an_answer_that_is_no_object_is_refused(orders, configure, content):
    with Scripted(lambda method, rest: (200, {}, content)) as server, pytest.raises(harness.StorageError) as caught:
        request_plan(transport_of(server, orders, configure), ScanRequest(), table=NAME)
    assert (caught.value.cause, caught.value.table) == ("CatalogAnswer", NAME)


@pytest.mark.parametrize("is_of_the_user", [False, True])
def test_an_answer_that_is_too_large_is_refused(orders, configure, monkeypatch, is_of_the_user):
    """The size is also limited for a client that the user created, although that client has no limit."""
    from pyiceberg.catalog.rest import RestCatalog

    with Scripted(lambda method, rest: (200, {}, b" " * 300_000 + b"{}")) as server:
        transport = transport_of(server, orders, configure)
        if is_of_the_user:
            client = RestCatalog("prod", uri=server.uri)
            located = harness.open_catalog(client).locate(("sales", "orders"))
            transport = located.server.transport
        monkeypatch.setattr(pyiceberg_rest, "LARGEST_ANSWER", 200_000)
        with pytest.raises(harness.StorageError, match="returned an answer of more than") as caught:
            transport.send(Call.PLAN, body={})
    assert caught.value.cause == "CatalogAnswer"


@pytest.mark.parametrize(("status", "document"), [(500, {}), (200, {"status": "failed"})])
def test_an_error_does_not_contain_the_token(orders, configure, status, document):
    error = {"error": {"message": f"the key {TOKEN} is wrong", "type": "E", "code": 500}}
    with Scripted(lambda method, rest: (status, {}, {**document, **error})) as server:
        transport = transport_of(server, orders, configure, token=TOKEN)
        with pytest.raises(harness.StorageError, match="the key … is wrong") as caught:
            request_plan(transport, ScanRequest(), table=NAME)
    assert TOKEN not in f"{caught.value!r} {caught.value.__cause__!r}"


def test_a_server_that_ends_is_named(orders, configure):
    with LakeCatalog() as server:
        transport = transport_of(server, orders, configure)
    with pytest.raises(harness.StorageError, match="Cannot reach catalog prod") as caught:
        request_plan(transport, ScanRequest(), table=NAME)
    assert (caught.value.cause, caught.value.table) == ("CatalogDown", NAME)


def test_an_expired_token_is_renewed_once(orders, configure):
    tokens, sent = iter("abcdef"), list[str]()

    class Catalog(Scripted):
        def answer(
            self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: Any
        ) -> HttpAnswer:
            if path.endswith("/plan"):
                sent.append(headers["authorization"])
            return super().answer(method, path, query, headers, body)

    def script(method: str, rest: str) -> HttpAnswer:
        return (200, {}, EMPTY) if len(sent) == 2 else (419, {}, {"error": {"message": "expired"}})

    def token(path: str) -> tuple[int, dict[str, str], Any]:
        return 200, {}, {"access_token": next(tokens), "token_type": "bearer"}

    with Catalog(script) as server, recording(token) as authority:
        properties = {"credential": "id:secret", "oauth2-server-uri": authority.uri}
        transport = transport_of(server, orders, configure, **properties)
        assert request_plan(transport, ScanRequest(), table=NAME).pages == ()
        assert len(set(sent)) == 2
        with pytest.raises(harness.StorageError, match="refuses the credentials"):
            request_plan(transport, ScanRequest(), table=NAME)
        assert len(sent) == 4


def test_the_metadata_has_all_snapshots(orders, configure):
    with LakeCatalog() as server:
        server.add("sales.orders", orders)
        configure("prod", {"uri": server.uri})
        assert len(harness.open_table(NAME).history()) == 4
