"""Iceberg's own REST catalog: names, nested namespaces, views, and temporary credentials."""

import json
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import serving

import harness
from harness.metadata.catalogs.catalog import renewal_of, walk

pytest.importorskip("pyiceberg", reason="PyIceberg is not installed: nox -s tests-external -- catalogs")
pytestmark = pytest.mark.external
ROWS = pa.table({"id": [1, 2, 3]})


def client(uri: str, **properties: str) -> Any:
    from pyiceberg.catalog.rest import RestCatalog

    return RestCatalog("writer", uri=uri, **properties)


@pytest.fixture
def prod(rest, configure) -> Iterator[Any]:
    """The catalog `prod` with `sales.orders` (two snapshots) and `sales.eu."x.y"`, and a client that writes to it."""
    catalog = client(rest)
    catalog.create_namespace(("sales",))
    catalog.create_namespace(("sales", "eu"))
    for name in (("sales", "orders"), ("sales", "eu", "x.y")):
        table = catalog.create_table(name, schema=ROWS.schema)
        table.append(ROWS)
        table.delete("id = 2")
    configure("prod", {"uri": rest})
    yield catalog
    for name in (("sales", "eu", "x.y"), ("sales", "orders")):
        catalog.drop_table(name)
    catalog.drop_namespace(("sales", "eu"))
    catalog.drop_namespace(("sales",))


def test_names(prod):
    catalog = harness.open_catalog("prod")
    assert ("sales",) in catalog.namespaces()
    assert list(walk(catalog, ("sales",))) == [("sales", "orders"), ("sales", "eu", "x.y")]
    for name in ("prod.sales.orders", 'prod.sales.eu."x.y"'):
        table = harness.open_table(name)
        assert table.name == name
        assert sorted(table.snapshot().to_arrow()["id"].to_pylist()) == [1, 3]
        first, *_ = table.snapshots()
        assert sorted(table.snapshot(first["id"]).to_arrow()["id"].to_pylist()) == [1, 2, 3]


def test_a_table_stays_at_its_metadata_until_it_is_reopened(prod):
    before = harness.open_table("prod.sales.orders")
    given = prod.load_table(("sales", "orders"))
    prod.load_table(("sales", "orders")).append(pa.table({"id": [9]}))
    assert sorted(before.snapshot().to_arrow()["id"].to_pylist()) == [1, 3]
    assert sorted(harness.open_table("prod.sales.orders").snapshot().to_arrow()["id"].to_pylist()) == [1, 3, 9]
    assert harness.compare(given, before).equal
    assert not harness.compare(given, harness.open_table("prod.sales.orders")).equal


def test_a_table_whose_types_pyiceberg_does_not_know_is_found(prod, rest):
    # The table is created as by another writer, because PyIceberg's client would refuse the whole answer.
    fields = [{"id": 1, "name": "v", "type": "variant", "required": False}]
    schema = {"type": "struct", "schema-id": 0, "fields": fields}
    request = {"name": "v3", "schema": schema, "properties": {"format-version": "3"}}
    _post(f"{rest}/v1/namespaces/sales/tables", request)
    try:
        assert [field.name for field in harness.open_table("prod.sales.v3").schema.fields] == ["v"]
    finally:
        prod.drop_table(("sales", "v3"))


def test_a_view_is_reported_as_a_view(tmp_path, configure):
    more = {"jdbc.schema-version": "V1"}
    with serving.rest_catalog(tmp_path, f"file://{tmp_path}/warehouse", **more) as uri:
        client(uri).create_namespace(("sales",))
        fields = [{"id": 1, "name": "id", "type": "long", "required": False}]
        version = {
            "version-id": 1,
            "timestamp-ms": 1,
            "schema-id": 0,
            "summary": {},
            "default-namespace": ["sales"],
            "representations": [{"type": "sql", "sql": "SELECT id\nFROM orders", "dialect": "spark"}],
        }
        schema = {"type": "struct", "schema-id": 0, "fields": fields}
        request = {"name": "v", "schema": schema, "view-version": version, "properties": {}}
        _post(f"{uri}/v1/namespaces/sales/views", request)
        configure("prod", {"uri": uri})
        with pytest.raises(harness.IsAViewError, match="Its SQL is SELECT id FROM orders"):
            harness.open_table("prod.sales.v")


def _post(url: str, body: dict[str, Any]) -> None:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        answer.read()


def test_credentials_that_are_vended_reach_the_store_and_are_renewed(tmp_path, configure, aws):
    vended = {f"vend.{key}": value for key, value in serving.s3(aws).items()}
    own = serving.s3_catalog(serving.s3(aws))
    lent = {"vend.lifetime-ms": "1000", **vended}
    with serving.rest_catalog(tmp_path, "s3://lake/vended", **own, **lent) as uri:
        writer = client(uri, **serving.s3(aws))
        writer.create_namespace(("sales",))
        writer.create_table(("sales", "orders"), schema=ROWS.schema).append(ROWS)
        configure("prod", {"uri": uri})
        located = harness.open_catalog("prod").locate(("sales", "orders"))
        assert located.storage_options["key"] == serving.KEY
        renewal = renewal_of(located, {}, ())
        assert located.expires_ms is not None
        assert renewal is not None
        table = harness.open_table("prod.sales.orders")
        storage = table._source.storage  # type: ignore[attr-defined]
        threading.Event().wait(max(0, located.expires_ms / 1000 - __import__("time").time()))
        assert sorted(table.snapshot().to_arrow()["id"].to_pylist()) == [1, 2, 3]
        assert storage.renewal.generation >= 1
