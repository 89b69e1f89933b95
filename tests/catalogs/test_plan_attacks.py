"""Answers of a planning server that name files outside of the table, other hosts, or other calls."""

import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from leaving_tables import iceberg

import harness
from harness.errors import OutsideTableError, StorageError
from harness.testing.json_server import JsonServer
from harness.testing.lake_catalog import LakeCatalog
from harness.writing.iceberg.builder import IcebergTable

NAME = "sales.t"


class Elsewhere(JsonServer):
    """A server that must not receive any request."""

    def answer(self, method: str, path: str, *_: Any) -> Any:
        self.requests.append(f"{method} {path}")
        return 200, {}, {}


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    with Elsewhere() as server:
        yield server
    assert server.requests == []


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> set[Any]:
    """The addresses that sockets of this process connect to."""
    connect, addresses = socket.socket.connect, set[Any]()

    def connecting(self: socket.socket, address: Any) -> None:
        addresses.add(address)
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connecting)
    return addresses


class Moving(LakeCatalog):
    """A server that replaces one path in its plans."""

    moves: tuple[str, str] = ("", "")

    def answer(self, method: str, path: str, *request: Any) -> Any:
        status, headers, document = super().answer(method, path, *request)
        if path.endswith("/plan"):
            old, new = map(json.dumps, self.moves)
            document = json.loads(json.dumps(document).replace(f'"file-path": {old}', f'"file-path": {new}'))
        return status, headers, document


CONTENTS = {
    "data": (None, "parquet"),
    "position deletes": ("position-deletes", "parquet"),
    "equality deletes": ("equality-deletes", "parquet"),
    "deletion vector": ("position-deletes", "puffin"),
}
PLACES = {
    "elsewhere on this machine": "{root}/t-evil/{name}",
    "by two dots": "{root}/t/data/../../t-evil/{name}",
    "a table whose name begins alike": "file://{root}/t-evil/{name}",
    "another machine": "file://evil/{root}/t-evil/{name}",
    "another store": "memory://evil/{name}",
    "a bucket": "s3://evil/{name}",
    "a server": "{elsewhere}/{name}",
    "a server with the metadata of a machine": "http://169.254.169.254/latest/{name}",
}


def planned_path(server: LakeCatalog, kind: str) -> str:
    """Return the path of the file of a kind in the plan of the table."""
    _, _, document = server.answer("POST", "/v1/namespaces/sales/tables/t/plan", {}, {}, {})
    files = [*(task["data-file"] for task in document["file-scan-tasks"]), *document["delete-files"]]
    content, format_ = CONTENTS[kind]
    matches = (f["file-path"] for f in files if (f["content"], f["file-format"]) == (content or "data", format_))
    return str(next(matches))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", CONTENTS)
def test_a_file_of_a_plan_elsewhere_is_not_read(tmp_path, elsewhere, connected, kind, place):
    """The file in the second place is a copy of the right file, so reading it would return the right rows."""
    (tmp_path / "t-evil").mkdir()
    with Moving() as server:
        server.add(NAME, iceberg(tmp_path, kind, str))
        path = planned_path(server, kind)
        name = Path(shutil.copy(path, tmp_path / "t-evil")).name
        table = harness.open_table(NAME, catalog=server.catalog(), planning="server", outside="refuse")
        server.moves = path, PLACES[place].format(root=tmp_path, name=name, elsewhere=elsewhere.uri)
        with pytest.raises(OutsideTableError, match=name):
            table.snapshot().to_arrow()
        server.moves = path, path
        assert table.snapshot().to_arrow()["id"].to_pylist() == [2]
    assert {f"http://{host}:{port}" for host, port in connected} == {server.uri}


class Redirecting(LakeCatalog):
    """A server that redirects one of its calls.

    Attributes:
        redirected: The end of the path of the call.
        place: The other address.
        status: The status of the redirection.
    """

    redirected, place, status = "", "", 307

    def answer(self, method: str, path: str, *request: Any) -> Any:
        answer = super().answer(method, path, *request)
        return (self.status, {"Location": self.place}, None) if path.endswith(self.redirected) else answer


@pytest.fixture
def location(tmp_path: Path) -> str:
    """The location of a table with two data files."""
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]), table.write_data([{"id": 2}]))
    return table.location


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("call", ["/config", "/tables/t", "/plan", "/plan/plan-1", "/tasks"])
def test_a_redirected_call_is_not_sent_again(location, elsewhere, call, status):
    with Redirecting(token="a-token", polls=1, page=1) as server:
        server.add(NAME, location)
        server.redirected, server.place, server.status = call, f"{elsewhere.uri}/v1/plan", status
        with pytest.raises(StorageError, match="redirects to another address") as caught:
            harness.open_table(NAME, catalog=server.catalog(), planning="server").snapshot().to_arrow()
    assert caught.value.cause == "CatalogMoved"


class Renaming(LakeCatalog):
    """A server that changes the id of its plan.

    Attributes:
        plan_id: The changed id.
        paths: The paths of all requests, as they were sent.
    """

    plan_id = ""

    def __init__(self) -> None:
        super().__init__(polls=1)
        self.paths: list[str] = []

    def answer(self, method: str, path: str, *request: Any) -> Any:
        self.paths.append(path)
        front, _, last = path.rpartition("/")
        if unquote(last) == self.plan_id:
            path = f"{front}/plan-1"
        status, headers, document = super().answer(method, path, *request)
        if isinstance(document, dict) and "plan-id" in document:
            document = {**document, "plan-id": self.plan_id}
        return status, headers, document


PLAN_IDS = ("../orders", "a/../..", "a/b", "..%2F..", "%2e%2e", "plan?x=y", "plan#x", "http://evil.example/", "é", " ")


@pytest.mark.parametrize("plan_id", PLAN_IDS)
def test_the_id_of_a_plan_is_one_part_of_a_path(location, plan_id):
    with Renaming() as server:
        server.add(NAME, location)
        server.plan_id = plan_id
        table = harness.open_table(NAME, catalog=server.catalog(), planning="server")
        assert sorted(table.snapshot().to_arrow()["id"].to_pylist()) == [1, 2]
    assert server.paths[-1] == f"/v1/namespaces/sales/tables/t/plan/{quote(plan_id, safe='')}"


@pytest.mark.parametrize("plan_id", ["..", ".", "", "a\r\nHost: evil", "\x00", "a" * 1025])
def test_ids_that_no_path_can_have_are_refused(location, plan_id):
    with Renaming() as server:
        server.add(NAME, location)
        server.plan_id = plan_id
        with pytest.raises(StorageError, match="Invalid id") as caught:
            harness.open_table(NAME, catalog=server.catalog(), planning="server").snapshot().to_arrow()
    assert caught.value.cause == "CatalogAnswer"
    assert all(path.endswith(("/config", "/tables/t", "/tables/t/plan")) for path in server.paths)
