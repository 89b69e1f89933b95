"""Credentials that a server lends for a plan: their files, their renewal, and places that get no request."""

import json
import shutil
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from lending import Buckets, Clock, Credentials, Lender

import harness
from harness.errors import OutsideTableError, RequestError, StorageError
from harness.metadata.iceberg.server.protocol import Call
from harness.storage import scoped_options
from harness.storage.paths import canonical_path
from harness.writing.iceberg.builder import IcebergTable

TABLE = "lake/t"
DATA = f"s3://{TABLE}/data"
SERVER = {"key": "server", "secret": "s"}


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    clock.install(monkeypatch)
    return clock


@pytest.fixture
def buckets(tmp_path, monkeypatch) -> Buckets:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    buckets = Buckets(tmp_path)
    monkeypatch.setattr("harness.storage.clients.open_client", buckets.open_client)
    return buckets


@pytest.fixture
def server(buckets, clock):
    """A server with a table of three files below `data`. A delete file in `data/us` applies to all of them."""
    table = IcebergTable.create(buckets.directory / TABLE, {"id": "long"}, recorded_location=f"s3://{TABLE}")
    places = ("data/eu/1.parquet", "data/us/2.parquet", "data/3.parquet")
    files = [table.write_data([{"id": 10 * number}, {"id": number}], path=path) for number, path in enumerate(places)]
    table.append(*files)
    table.commit(add=[table.write_position_deletes([(file, 0) for file in files], path="data/us/d.parquet")])
    with Lender(Credentials(clock)) as server:
        server.add("sales.orders", f"s3://{TABLE}", storage_options=SERVER)
        yield server


def opened(server: Lender, **options: Any) -> harness.Table:
    return harness.open_table("sales.orders", catalog=server.catalog(), outside="refuse", **options)


def ids(table: harness.Table) -> list[int]:
    return sorted(table.snapshot().to_arrow()["id"].to_pylist())


def keys(buckets: Buckets) -> dict[str, set[object]]:
    """Return the keys that the reader used for each file of the table, by its path below `data`."""
    read = {path.removeprefix(f"{TABLE}/data/"): keys - {"server"} for path, keys in buckets.keys().items()}
    return {path: keys for path, keys in read.items() if keys}


@pytest.mark.parametrize(
    ("names", "of_table", "expected"),
    [
        pytest.param(
            {f"{DATA}/eu/": "e", f"{DATA}/us": "u"},
            "own",
            {"eu/1.parquet": {"e-1"}, "us/2.parquet": {"u-1"}, "us/d.parquet": {"u-1"}, "3.parquet": {"own-1"}},
            id="a file without a prefix is read with the credentials of the table",
        ),
        pytest.param(
            {f"{DATA}/us/": "u", f"s3a://{TABLE}/": "t"},
            "own",
            {"eu/1.parquet": {"t-1"}, "us/2.parquet": {"u-1"}, "us/d.parquet": {"u-1"}, "3.parquet": {"t-1"}},
            id="the longest prefix counts, whatever the order and the scheme",
        ),
        pytest.param(
            {"s3": "all", f"{DATA}/eu/1": "e", f"{DATA}/us/d.parquet": "d"},
            None,
            {"eu/1.parquet": {"e-1"}, "us/2.parquet": {"all-1"}, "us/d.parquet": {"d-1"}, "3.parquet": {"all-1"}},
            id="a scheme, a part of a name, and one file",
        ),
        pytest.param(
            {f"s3://{TABLE}": "t", "s3://lake2": "no", "s3://other/": "no", "gs://lake": "no"},
            None,
            {path: {"t-1"} for path in ("eu/1.parquet", "us/2.parquet", "us/d.parquet", "3.parquet")},
            id="credentials for other buckets",
        ),
    ],
)
def test_each_file_is_read_with_the_credentials_of_its_prefix(server, buckets, names, of_table, expected):
    server.names, server.of_table = names, of_table
    assert ids(opened(server)) == [0, 1, 2]
    assert keys(buckets) == expected


def test_credentials_of_later_answers_replace_those_with_the_same_prefix(server, buckets):
    server.names, server.page = {f"s3://{TABLE}/": "t"}, 1
    assert ids(opened(server)) == [0, 1, 2]
    used = set.union(*keys(buckets).values())
    assert len(used) == 1
    assert used != {"t-1"}


def test_credentials_of_the_user_are_used_instead(server, buckets):
    server.names, server.of_table = {f"{DATA}/eu/": "e"}, "own"
    assert ids(opened(server, storage_options={"key": "mine", "secret": "s"})) == [0, 1, 2]
    assert set.union(*keys(buckets).values()) == {"mine"}


@pytest.mark.parametrize(
    ("calls", "names", "of_table", "renewals"),
    [
        pytest.param(set(Call), ["eu", "us", "3"], None, {"GET /credentials"}, id="by the plan"),
        pytest.param(
            set(Call),
            ["eu", "us"],
            "own",
            {"GET /credentials", "GET /namespaces/sales/tables/orders"},
            id="by the plan, and by the table for its own",
        ),
        pytest.param(
            set(Call) - {Call.CREDENTIALS},
            ["eu", "us"],
            "own",
            {"GET /namespaces/sales/tables/orders"},
            id="by the table if the server does not offer the call",
        ),
    ],
)
def test_credentials_are_renewed_during_a_read(server, buckets, clock, calls, names, of_table, renewals):
    server.calls, server.of_table = frozenset(calls), of_table
    server.names, server.issuer.lifetime_ms = {f"{DATA}/{name}": name for name in names}, 60_000
    moves = iter([55_000])  # renewal is due, but requests that other threads have begun are still valid

    def before_request(path: str, key: object) -> None:
        if key != "server":
            server.issuer.check(path, key)
            clock.ms += next(moves, 0)

    buckets.before_request = before_request
    assert ids(opened(server)) == [0, 1, 2]
    assert not all(key == "server" or str(key).endswith("-1") for _, key in buckets.requests)
    after_plan = server.requests[server.requests.index("POST /plan") + 1 :]
    assert set(after_plan) - {"GET /config"} == renewals


def answer_expired(server: Lender, clock: Clock, renewed: Any) -> None:
    """Let the credentials of plans expire before the answer arrives, and return `renewed` for their renewal."""
    server.issuer.lifetime_ms = 60_000

    def spoil(document: dict[str, Any]) -> Any:
        if "status" not in document:
            return renewed
        clock.ms += 60_000
        return document

    server.spoil = spoil


@pytest.mark.parametrize("calls", [set(Call), set(Call) - {Call.CREDENTIALS}], ids=["offered", "not offered"])
def test_a_renewal_without_credentials_is_an_error(server, buckets, clock, calls):
    """The credentials of this machine must not be sent instead."""
    server.names, server.calls = {f"s3://{TABLE}/": "t"}, frozenset(calls)
    answer_expired(server, clock, {"storage-credentials": []})
    with pytest.raises(
        StorageError, match=r"catalog lake lends no new credentials for s3://lake/t/data/\S+, and the old"
    ):
        ids(opened(server))
    assert keys(buckets) == {}


def test_a_failed_renewal_is_an_error_that_names_the_table(server, buckets, clock):
    server.names = {f"s3://{TABLE}/": "t"}
    answer_expired(server, clock, {"storage-credentials": 7})
    with pytest.raises(StorageError, match=r"lake\.sales\.orders") as caught:
        ids(opened(server))
    assert "storage-credentials" in str(caught.value)
    assert keys(buckets) == {}


def foreign(path: str) -> Any:
    """Return a change of a plan that replaces the path of its delete file."""

    def spoil(document: dict[str, Any]) -> Any:
        return json.loads(json.dumps(document).replace(f"{DATA}/us/d.parquet", path))

    return spoil


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("s3://other/t/d.parquet", id="another bucket"),
        pytest.param("s3://lake/u/d.parquet", id="another table"),
        pytest.param(f"{DATA}/eu/../../../u/d.parquet", id="by two dots"),
        pytest.param("gs://lake/t/data/d.parquet", id="another kind of store"),
    ],
)
def test_nothing_is_sent_to_a_foreign_location(server, buckets, path):
    """The server lends credentials for the foreign location. No file of the plan may be requested."""
    server.names = {f"s3://{TABLE}/": "t", "s3://other/": "o", "s3://lake/u/": "u", "gs://lake/": "g"}
    server.spoil = foreign(path)
    with pytest.raises(OutsideTableError):
        ids(opened(server))
    assert keys(buckets) == {}


def test_credentials_for_another_bucket_are_used_if_the_user_allows_it(server, buckets):
    target = buckets.directory / "other" / "t" / "d.parquet"
    target.parent.mkdir(parents=True)
    shutil.copy(buckets.directory / TABLE / "data" / "us" / "d.parquet", target)
    server.names = {f"s3://{TABLE}/": "t", "s3://other/t/": "o", "s3://other/": "no"}
    server.spoil = foreign("s3://other/t/d.parquet")
    assert ids(opened(server, allowed_roots=["s3://other/t"])) == [0, 1, 2]
    assert keys(buckets)["other/t/d.parquet"] == {"o-1"}


KEY = {"s3.access-key-id": "lent", "s3.secret-access-key": "secret"}
EVIL = {"s3.endpoint": "http://evil:1"}


@pytest.mark.parametrize(
    ("of_table", "lent", "expected"),
    [
        pytest.param({}, {f"{DATA}/us/": EVIL}, None, id="an address without credentials"),
        pytest.param({}, {f"{DATA}/us/": EVIL, f"s3://{TABLE}/": KEY}, None, id="credentials for a shorter prefix"),
        pytest.param(EVIL, {f"{DATA}/us/": KEY}, None, id="credentials for some of the files"),
        pytest.param({}, {f"{DATA}/": {**EVIL, "s3.profile-name": "prod"}}, None, id="a profile of this machine"),
        pytest.param(EVIL, {f"{DATA}/": KEY}, {"lent"}, id="credentials for all files, and the address for the table"),
        pytest.param({}, {f"{DATA}/": {**EVIL, **KEY}}, {"lent"}, id="credentials and an address"),
    ],
)
def test_an_address_of_the_server_gets_only_credentials_of_the_server(server, buckets, of_table, lent, expected):
    configs = {"table": of_table, **lent}
    server.issuer = SimpleNamespace(issue=lambda name: configs[name])
    server.of_table, server.names = "table", {prefix: prefix for prefix in lent}
    if expected is None:
        with pytest.raises(RequestError, match="names http://evil:1 as the address of"):
            ids(opened(server))
        assert keys(buckets) == {}
    else:
        assert ids(opened(server)) == [0, 1, 2]
        assert set.union(*keys(buckets).values()) == expected


def test_files_that_are_mapped_elsewhere_need_no_credentials(server, buckets):
    """No request is sent to the store address that the server names, so this address needs no credentials."""
    server.issuer = SimpleNamespace(issue=lambda name: EVIL)
    server.names = {f"{DATA}/": "all"}
    table = opened(server, path_map={f"s3://{TABLE}": str(buckets.directory / TABLE)})
    assert ids(table) == [0, 1, 2]
    assert keys(buckets) == {}


@pytest.mark.parametrize(
    ("lent", "message"),
    [
        pytest.param(
            {**KEY, "s3.region": "evil/x"}, r"answer is invalid: its properties for s3://lake/t/data/", id="host"
        ),
        pytest.param({**KEY, "s3.session-token-expires-at-ms": "9" * 5000}, None, id="an endless time"),
    ],
)
def test_strange_properties_are_errors_of_the_catalog_or_ignored(server, lent, message):
    server.issuer = SimpleNamespace(issue=lambda name: lent)
    server.names = {f"{DATA}/": "all"}
    if message is None:
        assert ids(opened(server)) == [0, 1, 2]
    else:
        with pytest.raises(StorageError, match=message) as caught:
            ids(opened(server))
        assert caught.value.cause == "CatalogAnswer"


@pytest.mark.parametrize(
    "prefix", [":", "s3:/", "/", "s3:///t", "s3://\x00", "x" * 5000, "s3://lake/../t", "http://h/"]
)
def test_strange_prefixes_are_harmless(server, buckets, prefix):
    server.names = {prefix: "x", f"s3://{TABLE}/": "t"}
    assert ids(opened(server)) == [0, 1, 2]
    assert set.union(*keys(buckets).values()) == {"t-1"}


@pytest.mark.parametrize("is_of_user", [False, True])
def test_the_cost_of_many_prefixes_grows_with_their_number(server, buckets, monkeypatch, is_of_user):
    """The server names an address for each prefix. Comparing each prefix with all others would be 90,000 calls."""
    config, of_user = {**KEY, **EVIL}, {"key": "mine", "secret": "s"}
    server.issuer = SimpleNamespace(issue=lambda name: config)
    server.names = {f"s3://{TABLE}/{number}/": "x" for number in range(300)} | {f"{DATA}/": "x"}
    calls: list[str] = []

    def count(path: str) -> Any:
        calls.append(path)
        return canonical_path(path)

    monkeypatch.setattr(scoped_options, "canonical_path", count)
    with pytest.raises(RequestError, match="names http://evil:1 as the address") if is_of_user else nullcontext():
        assert ids(opened(server, storage_options=of_user if is_of_user else {})) == [0, 1, 2]
    assert len(calls) < 30_000
