"""Credentials that a catalog lends by prefix, as an S3 server receives them."""

from pathlib import Path
from typing import Any

import answering_server
import pytest
from buckets import BUCKET, s3_store, upload
from lending import Clock, Credentials, Lender

import harness
from harness.metadata.catalogs.pyiceberg import PyIcebergCatalog
from harness.writing.iceberg.builder import IcebergTable

pytestmark = pytest.mark.external
PLACES = ("data/eu/1.parquet", "data/us/2.parquet", "data/3.parquet")


@pytest.fixture(autouse=True)
def installed() -> None:
    pytest.importorskip("obstore", reason="obstore is not installed")


@pytest.fixture
def location(tmp_path: Path, options: dict[str, Any]) -> str:
    """A table with a file in each of three places, and a position delete in each file."""
    location = f"s3://{BUCKET}/{tmp_path.name}"
    table = IcebergTable.create(tmp_path / "t", {"id": "long"}, recorded_location=location)
    files = [table.write_data([{"id": 10 * number}, {"id": number}], path=path) for number, path in enumerate(PLACES)]
    table.append(*files)
    table.commit(add=[table.write_position_deletes([(file, 0) for file in files], path="data/us/d.parquet")])
    upload(s3_store(options), tmp_path / "t", tmp_path.name)
    return location


def of_harness(server: Lender) -> harness.Catalog:
    return server.catalog()


def of_pyiceberg(server: Lender) -> harness.Catalog:
    pytest.importorskip("pyiceberg", reason="PyIceberg is not installed")
    from pyiceberg.catalog.rest import RestCatalog

    return PyIcebergCatalog.of_client(RestCatalog("lake", uri=server.uri))


@pytest.mark.parametrize("catalog", [of_harness, of_pyiceberg])
@pytest.mark.parametrize("lifetime_ms", [None, 60_000], ids=["for ever", "for one request"])
def test_a_store_gets_the_key_of_each_prefix(location, options, monkeypatch, lifetime_ms, catalog):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "machine")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "machine")
    clock = Clock()
    clock.install(monkeypatch)

    def forward(number: int, path: str) -> None:
        clock.ms += 55_000 if number == 0 else 0  # renewal is due, but no key has expired

    with (
        answering_server.server(forward, options["endpoint_url"]) as store,
        Lender(Credentials(clock, lifetime_ms, {"s3.endpoint": store.endpoint})) as server,
    ):
        server.add("sales.orders", location, storage_options=options)
        server.names = {f"{location}/data/eu/": "eu", f"{location}/data/us": "us"}
        server.of_table = "own"
        table = harness.open_table("sales.orders", catalog=catalog(server), outside="refuse")
        assert sorted(table.snapshot().to_arrow()["id"].to_pylist()) == [0, 1, 2]
    used: dict[str, set[str]] = {}
    for (_, path), key in zip(store.requests, store.keys, strict=True):
        assert key is not None
        used.setdefault(path.partition("/data/")[2], set()).add(key.partition("-")[0])
    assert used == {"eu/1.parquet": {"eu"}, "us/2.parquet": {"us"}, "us/d.parquet": {"us"}, "3.parquet": {"own"}}
    assert all(str(key).endswith("-1") for key in store.keys) == (lifetime_ms is None)
