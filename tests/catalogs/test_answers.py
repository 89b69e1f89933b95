"""Handling of catalogs' answers, with fake clients that have the interface of PyIceberg."""

import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

import harness
from harness.metadata.catalogs.catalog import renewal_of
from harness.metadata.catalogs.pyiceberg import PyIcebergCatalog, translate_errors

DELTA = {"spark.sql.sources.provider": "delta"}


class NoSuchTableError(Exception):
    """An error with the name of PyIceberg's class."""


class GlueCatalog:
    """A fake Glue catalog: records by database and table."""

    def __init__(self, records: dict[tuple[str, str], dict[str, Any]]) -> None:
        self.records = records
        self.properties = {"type": "glue", "s3.region": "eu-west-1"}
        pages = lambda DatabaseName: [  # noqa: E731  # the argument's name in boto3
            {"TableList": [{"Name": t, **record} for (d, t), record in records.items() if d == DatabaseName]}
        ]
        self.glue = SimpleNamespace(get_paginator=lambda _: SimpleNamespace(paginate=pages))

    def list_namespaces(self, parent: tuple[str, ...]) -> list[tuple[str, ...]]:
        return [] if parent else [(database,) for database, _ in self.records]

    def list_tables(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        return [k for k, r in self.records.items() if k[0] == namespace[0] and r["Parameters"].get("table_type")]

    def identifier_to_database_and_table(self, name: tuple[str, ...], error: type[Exception]) -> tuple[str, ...]:
        return name

    def _get_glue_table(self, database_name: str, table_name: str) -> dict[str, Any]:
        if (database_name, table_name) not in self.records:
            raise NoSuchTableError(table_name)
        return self.records[database_name, table_name]


def record(parameters: dict[str, str], location: str = "s3://lake/t", path: str | None = None) -> dict[str, Any]:
    serde = {} if path is None else {"SerdeInfo": {"Parameters": {"path": path}}}
    return {
        "Parameters": parameters,
        "StorageDescriptor": {"Location": location, **serde},
        "TableType": "EXTERNAL_TABLE",
    }


class HiveCatalog(GlueCatalog):
    """A fake Hive catalog with the same tables, in the form of Hive's client."""

    @property
    def _client(self) -> Any:
        def tables_by_name(dbname: str, tbl_names: list[str]) -> list[Any]:
            return [self._get_hive_table(None, dbname, name) for name in tbl_names]

        names = [table for _, table in self.records]
        return nullcontext(
            SimpleNamespace(get_all_tables=lambda db_name: names, get_table_objects_by_name=tables_by_name)
        )

    def _get_hive_table(self, client: Any, database: str, table: str) -> Any:
        record = self._get_glue_table(database, table)
        described = record["StorageDescriptor"]
        serde = SimpleNamespace(parameters=described.get("SerdeInfo", {}).get("Parameters"))
        return SimpleNamespace(
            dbName=database,
            tableName=table,
            parameters=record["Parameters"],
            tableType=record["TableType"],
            sd=SimpleNamespace(location=described["Location"], serdeInfo=serde),
        )


class RestCatalog:
    """A fake REST catalog with one answer."""

    def __init__(self, response: dict[str, Any]) -> None:
        self.response = response
        self.properties = {"uri": "http://catalog", "s3.region": "eu-west-1"}
        self._session = SimpleNamespace(get=self._get)

    def _get(self, url: str, params: dict[str, str]) -> Any:
        assert (url, params) == ("/tables/t", {"snapshots": "refs"})
        return SimpleNamespace(status_code=200, raise_for_status=lambda: None, json=lambda: self.response)

    def _split_identifier_for_path(self, name: tuple[str, ...]) -> dict[str, str]:
        return {"table": name[-1]}

    def url(self, endpoint: str, **parts: str) -> str:
        return endpoint.format(**parts)


@pytest.fixture(autouse=True)
def pyiceberg(monkeypatch):
    """Replacements for the PyIceberg modules that harness imports to query catalogs."""
    exceptions = SimpleNamespace(NoSuchTableError=NoSuchTableError)
    monkeypatch.setitem(sys.modules, "pyiceberg.exceptions", exceptions)
    endpoints = SimpleNamespace(load_table="/tables/{table}")
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog.rest", SimpleNamespace(Endpoints=endpoints))
    monkeypatch.setitem(
        sys.modules, "pyiceberg.catalog.rest.response", SimpleNamespace(_handle_non_200_response=pytest.fail)
    )


def catalog(records: dict[str, dict[str, Any]], kind: type[GlueCatalog] = GlueCatalog) -> PyIcebergCatalog:
    return PyIcebergCatalog("glue", kind({("db", name): each for name, each in records.items()}))


@pytest.mark.parametrize(
    ("parameters", "path", "expected"),
    [
        (DELTA, None, ("delta", "s3://lake/t", None)),
        ({"table_type": "DELTA"}, None, ("delta", "s3://lake/t", None)),
        ({"classification": "delta", "table_type": "EXTERNAL"}, None, ("delta", "s3://lake/t", None)),
        pytest.param(DELTA, "s3://lake/real", ("delta", "s3://lake/real", None), id="the location is a placeholder"),
        (
            {"table_type": "ICEBERG", "metadata_location": "s3://lake/t/metadata/1.metadata.json"},
            None,
            ("iceberg", "s3://lake/t", "s3://lake/t/metadata/1.metadata.json"),
        ),
    ],
)
@pytest.mark.parametrize("kind", [GlueCatalog, HiveCatalog])
def test_parameters_determine_the_format_of_glue_and_hive_tables(parameters, path, expected, kind):
    found = catalog({"t": record(parameters, path=path)}, kind).locate(("db", "t"))
    assert (found.format, found.location, found.metadata_location) == expected
    assert found.storage_options == REGION
    assert found.qualified == "glue.db.t"


@pytest.mark.parametrize(
    ("glue_table", "message"),
    [
        (record({"classification": "parquet"}), "of format parquet: harness reads Iceberg and Delta"),
        (record({}), "of format unknown"),
        (record({"table_type": "ICEBERG"}), "of format iceberg whose catalog does not name its location"),
        (record({}) | {"TableType": "VIRTUAL_VIEW"}, "Cannot read a view"),
    ],
)
def test_tables_of_other_formats_are_refused(glue_table, message):
    with pytest.raises(harness.HarnessError, match=message):
        catalog({"t": glue_table}).locate(("db", "t"))


METADATA = "s3://lake/t/metadata/1.metadata.json"
REGION = {"client_kwargs": {"region_name": "eu-west-1"}}


def key(name: str, **more: str) -> dict[str, str]:
    return {"s3.access-key-id": name, **more}


def placed(location: str, data: str) -> dict[str, Any]:
    return {"metadata": {"location": location, "properties": {"write.data.path": data}}}


VENDED = {
    "s3": key("b"),
    "s3://lake/t": key("c", **{"s3.session-token-expires-at-ms": "9"}),
    "s3://lake/u": key("d"),
    "s3://data/": key("e"),
    "s3://lake2": key("f"),
}
CREDENTIALS = [{"prefix": prefix, "config": config} for prefix, config in VENDED.items()]


@pytest.mark.parametrize(
    ("response", "options", "ends"),
    [
        ({}, {}, None),
        ({"config": key("a"), "metadata": {"location": "s3://lake/t"}}, {"key": "a"}, None),
        # The credentials of the longest prefix of a path are used. Credentials of other buckets are sent to those
        # buckets.
        (
            {"config": key("a", **{"s3.secret-access-key": "s"}), "storage-credentials": CREDENTIALS},
            {
                "key": "c",
                "secret": "s",
                "s3://lake": REGION | {"key": "b", "secret": "s"},
                "s3://lake/t": REGION | {"key": "c", "secret": "s"},
                "s3://lake/u": REGION | {"key": "d", "secret": "s"},
                "s3://data": REGION | {"key": "e", "secret": "s"},
                "s3://lake2": REGION | {"key": "f", "secret": "s"},
            },
            9,
        ),
        (placed("/", "file:///"), {}, None),
        (placed("s3://lake/t", "s3://data/t"), {"s3://data": REGION}, None),
    ],
)
def test_an_answer_of_a_rest_catalog(response, options, ends):
    own = PyIcebergCatalog("prod", RestCatalog({"metadata-location": METADATA, **response}))
    found = own.locate(("sales", "t"))
    assert found.storage_options == {**REGION, **options}
    assert (found.location, found.metadata_location) == ("s3://lake/t", METADATA)
    assert (found.expires_ms, found.renew is None) == (ends, ends is None)


def test_whole_credentials_for_a_prefix_are_not_combined_with_others(home):
    config = {**KEYS, "s3.session-token": "t", "s3.session-token-expires-at-ms": "5", "s3.endpoint": "http://e"}
    lent = {"s3.access-key-id": "c", "s3.secret-access-key": "d"}
    said = {"config": config, "storage-credentials": [{"prefix": "s3://lake/u/", "config": lent}]}
    found = PyIcebergCatalog("prod", RestCatalog({"metadata-location": METADATA, **said})).locate(("sales", "t"))
    endpoint = REGION | {"endpoint_url": "http://e"}
    assert found.storage_options == {
        **endpoint,
        "key": "a",
        "secret": "b",
        "token": "t",
        "s3://lake/u/": {**endpoint, "key": "c", "secret": "d"},
    }
    assert found.expires_ms == 5  # that of the other credentials, which stay in use


def test_an_address_that_a_server_names_for_a_prefix_gets_no_credentials_of_the_user(home):
    said = {"storage-credentials": [{"prefix": "s3://lake/u/", "config": {**EVIL, "s3.anonymous": "false"}}]}
    found = PyIcebergCatalog("prod", RestCatalog({"metadata-location": METADATA, **said})).locate(("sales", "t"))
    for caller_options in ({}, {"key": "c", "secret": "d"}):
        with pytest.raises(harness.RequestError, match=r"names http://evil:1 as the address of s3://lake/u/"):
            found.store_options(caller_options, ())
        with pytest.raises(harness.RequestError, match=r"names http://evil:1 as the address of s3://lake/u/"):
            found.store_options(caller_options, (), ["s3://lake/t/f", "s3://lake/u/f"])
        assert found.store_options(caller_options, (), ["s3://lake/t/f"]) is not None  # nothing is read there
    own = {"s3://lake/u/": {"key": "c", "secret": "d", "endpoint_url": "http://mine:1"}}
    assert found.store_options(own, ()) == {**REGION, **own}


KEYS = {"s3.access-key-id": "a", "s3.secret-access-key": "b"}
EVIL = {"s3.endpoint": "http://evil:1"}
AZURE = "abfss://c@acc.dfs.core.windows.net/t/metadata/1.metadata.json"
EVIL_AZURE = {"adls.account-host": "evil"}
GCS = "gs://lake/t/metadata/1.metadata.json"
EVIL_GCS = {"gcs.service.host": "http://evil:1"}


def location_from(
    config: dict[str, Any], configured: dict[str, Any], server: dict[str, Any], at: str
) -> harness.TableLocation:
    client = RestCatalog({"metadata-location": at, "config": config})
    client.properties = {"type": "rest", **configured, **server}
    return PyIcebergCatalog("prod", client, configured).locate(("sales", "t"))


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A user without configuration files."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("configured", "server", "config", "at"),
    [
        pytest.param({}, {}, EVIL, METADATA, id="of the answer"),
        pytest.param({}, EVIL, {}, METADATA, id="of the server's settings"),
        pytest.param({}, {}, {**EVIL, "s3.profile-name": "prod"}, METADATA, id="a profile of this machine's"),
        pytest.param({}, {}, {**EVIL, "client.profile-name": "prod"}, METADATA, id="the same for all services"),
        pytest.param({}, {}, {**EVIL, "s3.anonymous": "false"}, METADATA, id="signed"),
        pytest.param({}, {}, {**EVIL, "s3.access-key-id": "a"}, METADATA, id="half a key"),
        pytest.param({}, {}, {**EVIL, "s3.access-key-id.x": "a"}, METADATA, id="what is no key"),
        pytest.param({}, {}, {**EVIL, "s3.access-key-id": "", "s3.secret-access-key": ""}, METADATA, id="empty"),
        pytest.param({}, {}, EVIL_AZURE, AZURE, id="Azure"),
        pytest.param({}, {}, {**EVIL_AZURE, "adls.sas-token.other": "x"}, AZURE, id="a token of another account"),
        pytest.param({}, {}, {**EVIL_AZURE, "adls.client-secret": "x"}, AZURE, id="a part of a client"),
        pytest.param({}, {}, {"adls.connection-string": "BlobEndpoint=evil"}, AZURE, id="in a connection string"),
        pytest.param({}, {}, {**EVIL_GCS, "gcs.oauth2.token-expires-at": "9"}, GCS, id="when no token ends"),
        pytest.param(KEYS, {}, EVIL, METADATA, id="configured for the catalog"),
        pytest.param(KEYS, EVIL, {}, METADATA, id="configured, and the server's settings"),
        pytest.param(KEYS, {}, {**EVIL, "s3.access-key-id": "c"}, METADATA, id="half of the configured key"),
        pytest.param({"s3.profile-name": "p"}, {}, EVIL, METADATA, id="a profile configured for the catalog"),
        pytest.param({"adls.sas-token": "x"}, {}, EVIL_AZURE, AZURE, id="a configured token of Azure"),
        pytest.param({"gcs.oauth2.token": "x"}, {}, EVIL_GCS, GCS, id="a configured token of Google's"),
    ],
)
def test_only_credentials_of_a_server_go_to_an_address_of_the_server(configured, server, config, at, home):
    found = location_from(config, configured, server, at)
    with pytest.raises(harness.RequestError, match=r"names \S*evil\S* as the address of"):
        found.store_options({}, ())


@pytest.mark.parametrize("config", [EVIL, {**EVIL, **KEYS}])
def test_credentials_of_the_caller_are_not_sent_to_an_address_of_a_server(config, home):
    with pytest.raises(harness.RequestError, match="set the address yourself"):
        location_from(config, {}, {}, METADATA).store_options({"key": "c", "secret": "d", "token": "e"}, ())


def test_credentials_of_a_server_come_without_those_of_the_user(home):
    mine = {**KEYS, "s3.session-token": "c", "client.session-token": "d", "s3.profile-name": "p", "s3.region": "r"}
    given = {"s3.access-key-id": "e", "s3.secret-access-key": "f"}
    expected = {"key": "e", "secret": "f", "client_kwargs": {"region_name": "r"}}
    assert location_from(given, mine, {}, METADATA).store_options({}, ()) == expected


@pytest.mark.parametrize(
    ("configured", "config", "at", "caller_options"),
    [
        pytest.param({}, {**EVIL, **KEYS}, METADATA, {}, id="they came with it"),
        pytest.param({**KEYS, **EVIL}, EVIL, METADATA, {}, id="both are configured for the catalog"),
        pytest.param({}, EVIL, METADATA, {"key": "a", "endpoint_url": "http://evil:1"}, id="the caller names it too"),
        pytest.param({}, EVIL, METADATA, {"endpoint_url": "http://mine:1"}, id="the caller says another"),
        pytest.param(KEYS, {**EVIL, "s3.anonymous": "true"}, METADATA, {}, id="unsigned, beside a key"),
        pytest.param({}, {**EVIL, "s3.anonymous": "true"}, METADATA, {}, id="unsigned"),
        pytest.param(EVIL, {}, METADATA, {}, id="the address is configured"),
        pytest.param({}, {}, METADATA, {}, id="no address"),
        pytest.param({}, {**EVIL_AZURE, "adls.sas-token.acc": "x"}, AZURE, {}, id="a token of the account"),
        pytest.param({}, {"adls.connection-string": "BlobEndpoint=h;AccountKey=a"}, AZURE, {}, id="all in one string"),
        pytest.param({}, {**EVIL_GCS, "gcs.oauth2.token": "x"}, GCS, {}, id="Google's"),
    ],
)
def test_an_address_of_a_server_gets_the_credentials_set_for_it(configured, config, at, caller_options, home):
    assert location_from(config, configured, {}, at).store_options(caller_options, ()) is not None


def test_an_address_is_trusted_if_a_configuration_file_also_names_it(home):
    file = home / "harness" / "config.toml"
    file.parent.mkdir()
    own = '[tool.harness.stores."s3://lake"]\naccess_key_id = "k"\nsecret_access_key = "s"\n'
    file.write_text(own)
    found = location_from(EVIL, {}, {}, METADATA)
    with pytest.raises(harness.RequestError, match="set the address yourself"):
        found.store_options({}, ())
    file.write_text(f'{own}endpoint = "http://evil:1"')
    assert found.store_options({}, ()) == location_from(EVIL, {}, {}, METADATA).storage_options


def test_an_address_for_another_bucket_gets_no_credentials(home):
    said = {"config": EVIL | {"s3.anonymous": "false"}, "metadata": {"location": "s3://archive/t"}}
    found = PyIcebergCatalog("prod", RestCatalog({"metadata-location": METADATA, **said})).locate(("sales", "t"))
    mine = {"key": "a", "secret": "b", "endpoint_url": "http://mine:1"}
    assert "s3://archive" not in found.store_options(mine, ())
    with pytest.raises(harness.RequestError, match="as the address of s3://archive"):
        found.store_options(mine, ["s3://archive/t"])
    assert found.store_options({**mine, "s3://archive": mine}, ["s3://archive/t"])["s3://archive"] == mine


def test_an_address_in_a_renewed_answer_gets_no_credentials(home, monkeypatch):
    first = location_from({**KEYS, "s3.session-token-expires-at-ms": "1"}, {}, {}, METADATA)
    second = location_from(EVIL, {}, {}, METADATA)
    monkeypatch.setattr(PyIcebergCatalog, "locate", lambda *_: second)
    renewal = renewal_of(first, {}, ())
    assert renewal is not None
    with pytest.raises(harness.RequestError, match="set the address yourself"):
        renewal.current()


@pytest.mark.parametrize("response", [{}, {"metadata-location": None}, {"metadata-location": 1}])
def test_an_answer_without_a_location_is_refused(response):
    with pytest.raises(harness.UnsupportedError, match="does not name its metadata file"):
        PyIcebergCatalog("prod", RestCatalog(response)).locate(("sales", "t"))


@pytest.mark.parametrize(
    "response",
    [
        {"config": [1]},
        {"config": 7},
        {"metadata": "a"},
        {"metadata": {"properties": [1]}},
        {"storage-credentials": [{"prefix": METADATA, "config": [1]}]},
    ],
)
def test_an_answer_whose_parts_are_not_objects_is_refused(response):
    with pytest.raises(harness.StorageError, match=r"answer is invalid: its \S+ is not a JSON object"):
        PyIcebergCatalog("prod", RestCatalog({"metadata-location": METADATA, **response})).locate(("sales", "t"))


def test_a_missing_name_is_reported_with_similar_names():
    own = catalog({"orders": record(DELTA)})
    with pytest.raises(harness.TableNotFoundError, match=r"no table db\.order; the nearest are db\.orders"):
        own.locate(("db", "order"))
    with pytest.raises(harness.TableNotFoundError, match=r"no namespace dv; the nearest are db"):
        own.locate(("dv", "orders"))
    with pytest.raises(harness.TableNotFoundError, match=r"glue\.orders has no namespace; the namespaces are glue\.db"):
        own.locate(("orders",))


def test_a_user_who_may_not_list_gets_the_error_for_a_missing_table():
    own = catalog({"orders": record(DELTA)})

    def forbidden(_: object) -> Any:
        raise error("ForbiddenError", "not allowed")

    own.client.list_namespaces = own.client.list_tables = forbidden
    assert own.locate(("db", "orders")).format == "delta"
    with pytest.raises(harness.TableNotFoundError, match=r"no table db\.order; it does not list its contents"):
        own.locate(("db", "order"))
    with pytest.raises(harness.StorageError, match="refuses the credentials"):
        own.tables(("db",))


def error(name: str, text: str = "") -> Exception:
    return type(name, (Exception,), {})(text)


def refused() -> Exception:
    """Return an error wrapped in another one, as clients do."""
    try:
        try:
            raise ConnectionRefusedError(111, "Connection refused")
        except OSError as first:
            raise error("ConnectionError", "HTTPConnectionPool(...): Max retries exceeded") from first
    except Exception as wrapped:
        return wrapped


@pytest.mark.parametrize(
    ("raised", "kind", "message"),
    [
        (
            error("UnauthorizedError", "NotAuthorized: bad\ntoken"),
            harness.StorageError,
            "set PYICEBERG_CATALOG__MY_PROD__",
        ),
        (error("ClientError", "(ExpiredTokenException) when calling"), harness.StorageError, "or they have expired"),
        (error("ConnectionError", "refused"), harness.StorageError, "Cannot reach catalog my-prod at http://host/x"),
        (refused(), harness.StorageError, r"\(Connection refused\); check that it runs"),
        (error("NotInstalledError", "pip install 'pyiceberg[hive]'"), harness.RequestError, r"pyiceberg\[hive\]"),
        (ValueError("URI missing"), harness.RequestError, r"its configuration is wrong \(URI missing\)"),
        (error("ServerError", "x" * 1000), harness.StorageError, r"Catalog my-prod failed \(ServerError: x{200}…\)"),
    ],
)
def test_every_failure_is_one_line_that_names_the_setting(raised, kind, message, caplog):
    caplog.set_level("DEBUG", "harness.catalogs")
    with (
        pytest.raises(kind, match=message) as shown,
        translate_errors("my-prod", "http://user:pass@host/x?key=secret", "its name"),
    ):
        raise raised
    assert caplog.text.count("my-prod: its name, ") == 1
    assert "\n" not in str(shown.value)
    assert "secret" not in str(shown.value)
    assert "pass" not in str(shown.value)
