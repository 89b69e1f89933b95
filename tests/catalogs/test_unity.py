"""Unity Catalog, with a test server that implements its calls (frontier F4.5, F4.6)."""

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import fsspec
import pytest

import harness
from harness.errors import (
    HarnessWarning,
    InvalidTableError,
    IsAViewError,
    RequestError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
)
from harness.metadata.catalogs.catalog import Catalog, walk
from harness.metadata.catalogs.unity import UnityCatalog, open_unity, parse_credentials
from harness.testing.unity_server import ROOT, UnityServer
from harness.writing.delta.builder import DeltaTable

TOKEN = "dapi-0123456789abcdef"
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def orders(tmp_path_factory) -> DeltaTable:
    """A table whose version n adds the id n. Versions 3 and 4 are staged, next to a competing commit 4."""
    table = DeltaTable.create(
        tmp_path_factory.mktemp("unity") / "orders",
        {"id": "long"},
        features=["catalogManaged"],
        configuration={"delta.enableInCommitTimestamps": "true"},
    )
    for number in range(1, 5):
        table.append(table.write_data([{"id": number}]))
    table.log.stage(3)
    table.log.stage(4)
    rival = f"{4:020}.b91807ba-fe18-488c-a15e-c4807dbd2174.json"
    (table.log.directory / "_staged_commits" / rival).write_text("lost")
    return table


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> DeltaTable:
    table = DeltaTable.create(tmp_path_factory.mktemp("unity") / "plain", {"id": "long"})
    table.append(table.write_data([{"id": 7}]))
    return table


@pytest.fixture(params=["1.0", "older"])
def server(request, orders, plain) -> Iterator[UnityServer]:
    with UnityServer(token=TOKEN, older=request.param == "older", page=1) as server:
        server.add("main.sales.orders", orders.directory, latest=4, ratified=list(orders.log.staged.values()))
        server.add("main.sales.plain", plain.directory, managed=False, kind="EXTERNAL", latest=99)
        server.add("other.hr.people", plain.directory, managed=False)
        yield server


@pytest.fixture
def newer(orders) -> Iterator[UnityServer]:
    with UnityServer(token=TOKEN) as server:
        server.add("main.sales.orders", orders.directory, latest=4, ratified=list(orders.log.staged.values()))
        yield server


def unity(server: UnityServer, **more: Any) -> UnityCatalog:
    """Return a catalog that does not sleep before retries."""
    found = open_unity(server.uri, **{"token": TOKEN, **more})
    return dataclasses.replace(found, server=dataclasses.replace(found.server, wait=lambda seconds: None))


def ids(table: harness.Table) -> list[int]:
    return sorted(table.snapshot().to_arrow().column("id").to_pylist())


def test_names_are_listed_page_by_page(server):
    catalog = unity(server)
    assert isinstance(catalog, Catalog)
    assert catalog.namespaces() == (("main",), ("other",))
    assert catalog.namespaces(("main",)) == (("main", "sales"),)
    assert catalog.tables(("main", "sales")) == (("main", "sales", "orders"), ("main", "sales", "plain"))
    assert (catalog.namespaces(("main", "sales")), catalog.tables(("main",))) == ((), ())
    assert [".".join(name) for name in walk(catalog)] == ["main.sales.orders", "main.sales.plain", "other.hr.people"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("main.sales.order", "catalog unity has no table main.sales.order; the nearest are main.sales.orders"),
        ("main.sale.orders", "catalog unity has no namespace main.sale; the nearest are main.sales"),
        ("mains.sales.orders", "catalog unity has no namespace mains; the nearest are main"),
        ("sales.orders", "catalog unity has no namespace sales; the nearest are main, other"),
    ],
)
def test_missing_names_are_reported_with_similar_names(server, name, message):
    with pytest.raises(TableNotFoundError, match=message):
        harness.open_table(name, catalog=unity(server))


@pytest.mark.parametrize(
    ("entry", "error", "words"),
    [
        ({"format": "ICEBERG"}, UnsupportedError, "it is an Iceberg table, .* configure a PyIceberg .*/iceberg"),
        ({"format": "PARQUET", "kind": "EXTERNAL"}, UnsupportedError, r"a table of format PARQUET \(EXTERNAL\)"),
        ({"format": "", "kind": "VIEW"}, IsAViewError, r"it is a view \(VIEW\); query its tables instead \["),
        (
            {"format": "", "kind": "VIEW", "sql": "SELECT 1"},
            IsAViewError,
            "query its tables instead; its SQL is SELECT 1",
        ),
    ],
)
def test_other_kinds_of_tables_are_named(server, entry, error, words):
    server.add("main.sales.other", "file:///nowhere", managed=False, **entry)
    with pytest.raises(error, match=words):
        harness.open_table("main.sales.other", catalog=unity(server))


@pytest.mark.parametrize(
    ("entry", "error", "words"),
    [
        (
            {"ratified": [f"{4:020}.json"]},
            StorageError,
            "invalid answer about .*: ratified: got .*expected the name of a staged",
        ),
        ({"latest": 6}, InvalidTableError, "the log lacks the commits of 5 to 6.*; ask the catalog for its commits"),
    ],
)
def test_an_answer_about_commits_that_does_not_fit(server, entry, error, words):
    for field, value in entry.items():
        setattr(server.tables["main", "sales", "orders"], field, value)
    with pytest.raises(error, match=words):
        harness.open_table("main.sales.orders", catalog=unity(server))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"metadata": {}}, "an invalid answer about main.sales.orders: location is None, expected str"),
        ({"commits": []}, "an invalid answer about .*: metadata is None, expected dict"),
        ([1], "did not answer with a JSON object; check that `uri` is the address of a catalog"),
        (b"<html>", "did not answer with a JSON object; check that `uri` is the address of a catalog"),
    ],
)
def test_an_invalid_answer(newer, answer, words):
    catalog = unity(newer)
    assert catalog.locate(("main", "sales", "orders")).format == "delta"
    newer.failures = [(200, answer)]
    with pytest.raises(StorageError, match=words):
        catalog.locate(("main", "sales", "orders"))


def test_a_server_without_a_call_for_commits(orders):
    with UnityServer(oldest=True) as server:
        server.add("main.sales.orders", orders.directory)
        with pytest.warns(HarnessWarning) as said:
            assert ids(harness.open_table("main.sales.orders", catalog=unity(server), published_only=True)) == [1, 2]
        words = ("too old to return the commits of unity.main.sales.orders", "up to version 2")
        assert [word in str(each.message) for word, each in zip(words, said, strict=True)] == [True, True]
        with (
            pytest.warns(HarnessWarning, match="too old to return"),
            pytest.raises(UnsupportedError, match="published_only reads the published versions"),
        ):
            harness.open_table("main.sales.orders", catalog=unity(server))


@pytest.mark.parametrize(
    ("failures", "cause", "words"),
    [
        ([(401, {})], "NotAuthorized", "rejected the token: it is wrong or expired; set `token`"),
        (
            [(403, {"message": "no SELECT"})],
            "PermissionDenied",
            "refused access: no SELECT. Ask its administrator for USE",
        ),
        ([(403, {"message": f"not {TOKEN}"})], "PermissionDenied", "refused access: not …. Ask"),
        ([(500, b"oops")], "CatalogFailed", "failed with HTTP 500: no message; try again, or ask its administrator"),
        ([(302, b"")], "CatalogMoved", "redirects to another address; set `uri`"),
        ([(503, b"")] * 3, "CatalogBusy", r"is busy or down \(HTTP 503, 3 times\); try again later"),
        (
            [(400, {"error": {"type": "BadRequestException", "message": "what"}})],
            "CatalogFailed",
            r"\(HTTP 400\): what",
        ),
    ],
)
def test_every_failure_is_one_line_that_names_the_setting(newer, failures, cause, words):
    newer.failures = list(failures)
    with pytest.raises(StorageError, match=words) as error:
        harness.open_table("main.sales.orders", catalog=unity(newer))
    assert (error.value.cause, newer.failures) == (cause, [])
    text = str(error.value)
    assert text.startswith(f"Catalog unity at {newer.uri} ")
    assert (TOKEN in text, "\n" in text) == (False, False)


def test_a_busy_server_is_retried(newer, caplog):
    newer.failures = [(429, b""), (503, b"")]
    with caplog.at_level("DEBUG", "harness.catalogs"):
        assert ids(harness.open_table("main.sales.orders", catalog=unity(newer))) == [1, 2, 3, 4]
    own = [record.getMessage() for record in caplog.records if record.name == "harness.catalogs"]
    assert [message for message in own if "busy" in message] == [
        "unity is busy (HTTP 429); retrying in 0.5 s",
        "unity is busy (HTTP 503); retrying in 2 s",
    ]
    assert sum("GET api/2.1/unity-catalog/delta/v1/config: HTTP" in message for message in own) == 3
    assert TOKEN not in caplog.text


def test_a_server_that_is_down():
    with UnityServer() as server:
        catalog = unity(server)
    with pytest.raises(StorageError, match=r"does not answer \(.*refused\); check `uri`, and that the server runs"):
        catalog.tables(("main", "sales"))


def test_pages_that_do_not_end(newer):
    newer.failures = [(200, {"catalogs": [{"name": "a"}], "next_page_token": "x"})] * 2
    with pytest.raises(StorageError, match="returned an endless list of catalogs"):
        unity(newer).namespaces()


@pytest.mark.parametrize(("status", "words"), [(200, "with too many values"), (500, "no message")])
def test_an_answer_of_millions_of_empty_values_is_not_parsed(newer, status, words):
    """An answer of 64 MiB may have 21 million values, which take 1.7 GiB of memory."""
    newer.failures = [(status, b'{"message": "a", "of": [' + b"[]," * 8_000_001 + b"1]}")]
    with pytest.raises(StorageError, match=words):
        unity(newer).locate(("main", "sales", "orders"))


def test_a_repeated_page_of_commits(orders):
    """Otherwise a server that ignores `start_version` would be queried 10,000 times."""
    with UnityServer(token=TOKEN, older=True) as older:
        older.add("main.sales.orders", orders.directory, latest=9, ratified=list(orders.log.staged.values()))
        ratified = older.tables["main", "sales", "orders"].commits("_")[::-1]
        again = (200, {"commits": ratified, "latest_table_version": 9})
        catalog = unity(older)
        headers = {"authorization": f"Bearer {TOKEN}"}
        status, _, table = older.answer("GET", f"{ROOT}tables/main.sales.orders", {}, headers, None)
        older.failures = [(404, {}), (status, table), *[again] * 20]
        with pytest.raises(StorageError, match="its commits from version 5 on end at 4"):
            catalog.locate(("main", "sales", "orders"))
        assert len(older.failures) == 18


def test_the_token_appears_in_no_text(newer):
    catalog = unity(newer)
    assert TOKEN not in repr(catalog) + repr(catalog.locate(("main", "sales", "orders")))
    with pytest.warns(HarnessWarning, match="the token is sent to http://lake:8080 without encryption") as said:
        open_unity("http://lake:8080", token=TOKEN)
    assert TOKEN not in str(said[0].message)


@pytest.mark.parametrize(
    ("uri", "token", "words"),
    [
        ("lake:8080", TOKEN, "Invalid uri of catalog unity: expected the address of a server"),
        ("https://user:secret@lake", TOKEN, "Invalid uri of catalog unity"),
        ("ftp://lake", TOKEN, "Invalid uri of catalog unity"),
        ("https://lake", "two lines\nx", "Invalid token of catalog unity"),
    ],
)
def test_an_invalid_address_or_token(uri, token, words):
    with pytest.raises(RequestError, match=words) as error:
        open_unity(uri, token=token)
    assert "secret" not in str(error.value)
    assert token not in str(error.value)


S3 = {"s3.access-key-id": "A", "s3.secret-access-key": "B", "s3.session-token": "C"}


def test_credentials_are_renewed_before_they_expire(server, plain, monkeypatch):
    now = int(time.time() * 1000)
    fsspec.filesystem("memory").put(str(plain.directory), "/unity/plain", recursive=True)
    server.add("main.sales.far", "memory://unity/plain", managed=False)
    server.credentials = (S3, now + HOUR_MS)
    table = harness.open_table("main.sales.far", catalog=unity(server))
    assert (ids(table), lending(server)) == ([7], 1)
    monkeypatch.setattr(time, "time_ns", lambda: (now + HOUR_MS - 30_000) * 1_000_000)
    server.credentials = (S3, now + 2 * HOUR_MS)
    assert (ids(table), lending(server)) == ([7], 2)


def lending(server: UnityServer) -> int:
    return sum("credentials" in asked for asked in server.requests)


def test_a_catalog_without_credentials(server):
    server.add("main.sales.far", "s3://bucket/orders", managed=False)
    with pytest.raises(
        StorageError, match=r"provided no credentials for s3://bucket/orders of unity\.main\.sales\.far; pass"
    ):
        unity(server).locate(("main", "sales", "far"))
    located = unity(server, storage_options={"key": "own"}).locate(("main", "sales", "far"))
    assert (dict(located.storage_options), located.expires_ms) == ({"key": "own"}, None)


def credential(prefix: str, config: dict[str, str]) -> dict[str, Any]:
    return {"prefix": prefix, "operation": "READ", "config": config, "expiration-time-ms": 9}


@pytest.mark.parametrize(
    ("answer", "location", "expected"),
    [
        ({"storage-credentials": []}, "s3://b/t", None),
        ({"storage-credentials": [credential("s3://b/other", S3)]}, "s3://b/t", None),
        ({"storage-credentials": [credential("s3://b/t", S3)]}, "s3://b/t2", None),
        (
            {"storage-credentials": [credential("s3://b", {"s3.access-key-id": "wide"}), credential("s3://b/t/", S3)]},
            "s3://b/t",
            ({"key": "A", "secret": "B", "token": "C"}, 9),
        ),
        (
            {"azure_user_delegation_sas": {"sas_token": "S"}, "expiration_time": 8},
            "abfss://box@lake.dfs.core.windows.net/t",
            ({"sas_token": "S", "account_name": "lake"}, 8),
        ),
        ({"gcp_oauth_token": {"oauth_token": "G"}, "expiration_time": 0}, "gs://b/t", ({"token": "G"}, None)),
        ({"aws_temp_credentials": None}, "s3://b/t", None),
    ],
)
def test_vended_credentials_become_store_options(answer, location, expected):
    assert parse_credentials(answer, location) == expected
