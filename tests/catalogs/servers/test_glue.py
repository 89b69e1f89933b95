"""Glue and DynamoDB on a moto server: tables of both formats in S3."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import serving

import harness
from harness.cli import main
from harness.metadata.catalogs.catalog import walk

pytest.importorskip("pyiceberg", reason="PyIceberg is not installed: nox -s tests-external -- catalogs")
boto3 = pytest.importorskip("boto3", reason="boto3 is not installed: nox -s tests-external -- catalogs")
pytestmark = pytest.mark.external
KEYS = {"aws_access_key_id": serving.KEY, "aws_secret_access_key": serving.SECRET, "region_name": "us-east-1"}


@pytest.fixture
def prod(aws, configure, request) -> str:
    """The catalog `prod` with the Iceberg table `orders`, the Delta table `events`, and a table of CSV files."""
    from pyiceberg.catalog.glue import GlueCatalog

    own = {"glue.endpoint": aws, "glue.region": "us-east-1", "glue.access-key-id": serving.KEY}
    own |= {"glue.secret-access-key": serving.SECRET, "type": "glue", **serving.s3(aws)}
    database = f"db{abs(hash(request.node.name))}"
    catalog = GlueCatalog("prod", **{**own, "warehouse": "s3://lake/glue"})
    catalog.create_namespace(database)
    rows = pa.table({"id": [1, 2, 3]})
    orders = catalog.create_table((database, "orders"), schema=rows.schema)
    orders.append(rows)
    orders.delete("id = 2")
    _register(aws, database, "events", _delta(aws, database), {"spark.sql.sources.provider": "delta"})
    _register(aws, database, "files", "s3://lake/files", {"classification": "csv"})
    configure("prod", own)
    return database


def _delta(url: str, database: str) -> str:
    """Write a Delta table of two versions to S3 and return its location."""
    deltalake = pytest.importorskip("deltalake", reason="Delta tables in S3 are written by deltalake")
    location = f"s3://lake/delta/{database}"
    options = {"aws_endpoint_url": url, "aws_access_key_id": serving.KEY, "aws_secret_access_key": serving.SECRET}
    options |= {"aws_region": "us-east-1", "aws_allow_http": "true"}
    for number in (7, 8):
        deltalake.write_deltalake(location, pa.table({"id": [number]}), mode="append", storage_options=options)
    return location


def _register(url: str, database: str, name: str, location: str, parameters: dict[str, str]) -> None:
    described: Any = {"Location": f"{location}-__PLACEHOLDER__", "SerdeInfo": {"Parameters": {"path": location}}}
    given: Any = {"Name": name, "TableType": "EXTERNAL_TABLE", "Parameters": parameters, "StorageDescriptor": described}
    boto3.client("glue", endpoint_url=url, **KEYS).create_table(DatabaseName=database, TableInput=given)


def ids(table: harness.Table) -> list[int]:
    return sorted(table.snapshot().to_arrow()["id"].to_pylist())


def test_tables_of_both_formats_are_found_in_s3(prod, capfd, tmp_path):
    assert [name for name in walk(harness.open_catalog("prod")) if name[0] == prod] == [
        (prod, "events"),
        (prod, "orders"),
    ]
    assert ids(harness.open_table(f"prod.{prod}.orders")) == [1, 3]
    events = harness.open_table(f"prod.{prod}.events")
    assert (events.format, ids(events)) == ("delta", [7, 8])
    assert events.snapshot(0).to_arrow().num_rows == 1
    assert main(["sql", "--catalog", "prod", f"SELECT sum(id) AS n FROM {prod}.events", "--format", "csv"]) == 0
    assert capfd.readouterr().out == "n\n15\n"
    assert list(Path(tmp_path).iterdir()) == []


def test_a_catalog_in_dynamodb(aws, configure, monkeypatch):
    from pyiceberg.catalog.dynamodb import DynamoDbCatalog

    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", aws)  # PyIceberg has no property for it
    own = {"type": "dynamodb", "dynamodb.region": "us-east-1", **serving.s3(aws)}
    own |= {"dynamodb.access-key-id": serving.KEY, "dynamodb.secret-access-key": serving.SECRET}
    writer = DynamoDbCatalog("prod", **own, warehouse="s3://lake/dynamodb")
    writer.create_namespace("sales")
    # PyIceberg commits no rows to tables in this catalog
    writer.create_table("sales.orders", schema=pa.schema([("id", pa.int64())]))
    configure("prod", own)
    assert list(walk(harness.open_catalog("prod"))) == [("sales", "orders")]
    assert ids(harness.open_table("prod.sales.orders")) == []
    with pytest.raises(harness.TableNotFoundError, match=r"the nearest are sales\.orders"):
        harness.open_table("prod.sales.order")
