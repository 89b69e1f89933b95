"""What is made of a catalog's answers, with a client of PyIceberg's shape in place of PyIceberg."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import harness
from harness.catalogs.catalog import walk
from harness.catalogs.pyiceberg.adapter import PyIcebergCatalog
from harness.catalogs.pyiceberg.failures import asking
from harness.writing.delta.builder import DeltaTable

DELTA = {"spark.sql.sources.provider": "delta"}


class NoSuchTableError(Exception):
    """As PyIceberg's is called."""


class GlueCatalog:
    """Records of Glue, by database and table."""

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


@pytest.fixture(autouse=True)
def pyiceberg(monkeypatch):
    """The one class of PyIceberg that is imported to ask Glue."""
    exceptions = SimpleNamespace(NoSuchTableError=NoSuchTableError)
    monkeypatch.setitem(__import__("sys").modules, "pyiceberg.exceptions", exceptions)


def catalog(records: dict[str, dict[str, Any]]) -> PyIcebergCatalog:
    return PyIcebergCatalog("glue", GlueCatalog({("db", name): each for name, each in records.items()}))


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
def test_a_table_of_glue_is_what_its_parameters_say(parameters, path, expected):
    found = catalog({"t": record(parameters, path=path)}).locate(("db", "t"))
    assert (found.format, found.location, found.metadata_location) == expected
    assert found.storage_options == {"client_kwargs": {"region_name": "eu-west-1"}}
    assert found.qualified == "glue.db.t"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (record({"classification": "parquet"}), "of format parquet: harness reads Iceberg and Delta"),
        (record({}), "of format unknown"),
        (record({"table_type": "ICEBERG"}), "says that it is iceberg, and not where"),
        (record({}) | {"TableType": "VIRTUAL_VIEW"}, "Cannot read a view"),
    ],
)
def test_what_is_no_table_of_either_format_is_refused(given, said):
    with pytest.raises(harness.HarnessError, match=said):
        catalog({"t": given}).locate(("db", "t"))


def test_tables_of_both_formats_are_listed_and_read(tmp_path):
    table = DeltaTable.create(tmp_path / "orders", {"id": "long"})
    table.append(table.write_data([{"id": 1}, {"id": 2}]))
    iceberg = record({"table_type": "ICEBERG", "metadata_location": "s3://lake/t/metadata/1.metadata.json"})
    own = catalog({"orders": record(DELTA, str(tmp_path / "orders")), "t": iceberg, "csv": record({})})
    assert list(walk(own)) == [("db", "orders"), ("db", "t")]
    assert harness.open_table("db.orders", catalog=own).snapshot().to_arrow().num_rows == 2


def test_a_name_that_is_not_there_comes_with_the_nearest():
    own = catalog({"orders": record(DELTA)})
    with pytest.raises(harness.TableNotFoundError, match=r"no table db\.order; the nearest are db\.orders"):
        own.locate(("db", "order"))
    with pytest.raises(harness.TableNotFoundError, match=r"no namespace dv; the nearest are db"):
        own.locate(("dv", "orders"))
    with pytest.raises(harness.TableNotFoundError, match=r"glue\.orders lacks a namespace; there are glue\.db"):
        own.locate(("orders",))


def error(name: str, text: str = "") -> Exception:
    return type(name, (Exception,), {})(text)


@pytest.mark.parametrize(
    ("raised", "kind", "said"),
    [
        (
            error("UnauthorizedError", "NotAuthorized: bad\ntoken"),
            harness.StorageError,
            "set PYICEBERG_CATALOG__MY_PROD__",
        ),
        (error("ClientError", "(ExpiredTokenException) when calling"), harness.StorageError, "or they have expired"),
        (error("ConnectionError", "refused"), harness.StorageError, "Cannot reach catalog my-prod at http://host/x"),
        (error("NotInstalledError", "pip install 'pyiceberg[hive]'"), harness.RequestError, r"pyiceberg\[hive\]"),
        (ValueError("URI missing"), harness.RequestError, r"its configuration is wrong \(URI missing\)"),
        (error("ServerError", "x" * 1000), harness.StorageError, r"Catalog my-prod failed \(ServerError: x{200}…\)"),
    ],
)
def test_every_failure_is_one_line_that_says_what_to_set(raised, kind, said):
    with pytest.raises(kind, match=said) as shown, asking("my-prod", "http://user:pass@host/x?key=secret"):
        raise raised
    assert "\n" not in str(shown.value)
    assert "secret" not in str(shown.value)
    assert "pass" not in str(shown.value)
