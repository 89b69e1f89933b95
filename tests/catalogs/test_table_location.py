"""How a catalog's answer affects a read: roots, options, the user's catalog class, and tables that others opened."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import harness
from harness.metadata.catalogs.server_properties import options_of
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


@dataclass
class UserCatalog:
    """A catalog with one table, as a user may write it."""

    answer: dict[str, Any]
    name: str = "own"
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def namespaces(self, parent: tuple[str, ...] = ()) -> tuple[tuple[str, ...], ...]:
        return () if parent else (("sales",),)

    def tables(self, namespace: tuple[str, ...] = ()) -> tuple[tuple[str, ...], ...]:
        return (("sales", "orders"),) if namespace == ("sales",) else ()

    def locate(self, name: tuple[str, ...]) -> harness.TableLocation:
        self.asked.append(name)
        return harness.TableLocation(catalog=self.name, name=name, **self.answer)


@pytest.fixture
def orders(tmp_path) -> Path:
    """A table whose data is in the neighboring directory `archive`, reached by a link."""
    table = IcebergTable.create(tmp_path / "orders", {"id": "long"})
    table.append(table.write_data([{"id": 1}, {"id": 2}]))
    shutil.move(tmp_path / "orders" / "data", tmp_path / "archive")
    (tmp_path / "orders" / "data").symlink_to("../archive")
    return tmp_path / "orders"


def test_the_location_of_the_catalog_and_what_the_user_allows_are_read(orders):
    catalog = UserCatalog({"location": str(orders)})
    roots = [orders.parent / "archive"]
    table = harness.open_table("sales.orders", catalog=catalog, outside="refuse", allowed_roots=roots)
    assert (table.name, catalog.asked) == ("own.sales.orders", [("sales", "orders")])
    assert table.snapshot().to_arrow().num_rows == 2


@pytest.mark.parametrize("metadata", [False, True], ids=["the directory", "a metadata file"])
@pytest.mark.parametrize("more", [{"outside": "refuse"}, {"untrusted": True}], ids=["refused", "untrusted"])
def test_other_locations_are_not_read(orders, more, metadata):
    """This includes the location of a table with a metadata file, because a catalog may name any location."""
    answer = {"location": str(orders)}
    if metadata:
        answer = {"location": "/", "metadata_location": str(max((orders / "metadata").glob("v*.metadata.json")))}
    catalog = UserCatalog(answer)
    with pytest.raises(harness.OutsideTableError, match="beyond the table's roots"):
        harness.open_table("sales.orders", catalog=catalog, **more).snapshot().plan()


def test_options_for_another_bucket_are_used_if_the_user_allows_it():
    both = {"key": "a", "s3://archive": {"key": "b"}, "s3://evil": {"key": "c"}}
    found = harness.TableLocation(catalog="own", name=("t",), location="s3://lake/t", storage_options=both)
    assert found.store_options({}, ()) == {"key": "a"}
    assert found.store_options({"secret": "mine"}, ["s3a://archive/t"]) == {
        "key": "a",
        "s3://archive": {"key": "b"},
        "secret": "mine",
    }


@pytest.mark.parametrize(
    ("vended", "user_options", "expected"),
    [
        ({"key": "a", "secret": "b"}, {}, {"key": "a", "secret": "b"}),
        ({"key": "a", "secret": "b"}, {"key": "mine"}, {"key": "mine", "secret": "b"}),
    ],
)
def test_options_of_the_catalog_go_to_the_store(orders, vended, user_options, expected):
    renewed = {"location": str(orders), "storage_options": {"key": "new"}, "expires_ms": None}
    catalog = UserCatalog({"location": str(orders), "storage_options": vended, "expires_ms": 0})
    catalog.answer["renew"] = lambda: harness.TableLocation(catalog="own", name=("sales", "orders"), **renewed)
    table = harness.open_table(
        "sales.orders", catalog=catalog, storage_options=user_options, allowed_roots=[orders.parent]
    )
    storage = table._source.storage
    assert storage.options == expected
    assert storage.renewal.current() == {"key": "new", **user_options}


def fake_object(module: str, kind: str, /, **members: Any) -> Any:
    """Return an object whose class has the given name."""
    return type(kind, (SimpleNamespace,), {"__module__": module})(**members)


@pytest.fixture
def deltalake_table(tmp_path) -> Any:
    """A table of three versions, opened at version 1. The second version has a row, the third another one."""
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    for number in (1, 2):
        table.append(table.write_data([{"id": number}]))
    return fake_object(
        "deltalake.table", "DeltaTable", table_uri=f"file://{tmp_path}/t/", version=lambda: 1, _storage_options=None
    )


@pytest.fixture
def pyiceberg_table(tmp_path) -> Any:
    """A table of two snapshots, opened at the metadata of the first one."""
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    first = max(
        (tmp_path / "t" / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0])
    )
    table.append(table.write_data([{"id": 2}]))
    return fake_object(
        "pyiceberg.table",
        "Table",
        name=lambda: ("sales", "orders"),
        catalog=SimpleNamespace(name="prod", properties={}),
        metadata=SimpleNamespace(location=str(tmp_path / "t"), properties={}),
        metadata_location=str(first),
        io=SimpleNamespace(properties={}),
    )


@pytest.mark.parametrize(
    ("source", "name"), [("deltalake_table", "deltalake.t"), ("pyiceberg_table", "prod.sales.orders")]
)
def test_a_table_is_read_at_its_open_version(request, source, name):
    source = request.getfixturevalue(source)
    table = harness.open_table(source)
    assert table.name == name
    assert table.snapshot().to_arrow()["id"].to_pylist() == [1]
    assert harness.sql("SELECT sum(id) FROM t", {"t": source}).fetchall() == [(1,)]
    assert harness.compare(source, pa.table({"id": pa.array([1], pa.int64())})).equal
    assert not harness.compare(pa.table({"id": pa.array([2], pa.int64())}), (source, "oracle")).equal


def test_what_is_no_table_is_refused():
    with pytest.raises(harness.RequestError, match=r"object of type int: expected a location, a name, or a table of P"):
        harness.open_table(3)


S3 = {"s3.endpoint": "http://localhost:1", "s3.access-key-id": "a", "s3.secret-access-key": "b"}
OURS = {"endpoint_url": "http://localhost:1", "key": "a", "secret": "b"}


@pytest.mark.parametrize(
    ("properties", "location", "expected"),
    [
        (S3 | {"uri": "http://catalog", "warehouse": "s3://lake", "token": "t"}, "s3://lake/t", OURS),
        pytest.param(S3, "s3a://lake/t", OURS, id="s3a-is-s3"),
        pytest.param(S3, "/lake/t", {}, id="local"),
        pytest.param(S3, "gs://lake/t", {}, id="of-another-kind-of-store"),
        ({"client.region": "eu-west-1"}, "s3://lake/t", {"client_kwargs": {"region_name": "eu-west-1"}}),
        ({"client.region": "eu-west-1", "s3.region": "x"}, "s3://lake/t", {"client_kwargs": {"region_name": "x"}}),
        ({"s3.path-style-access": "true"}, "s3://lake/t", {"config_kwargs": {"s3": {"addressing_style": "path"}}}),
        ({"s3.force-virtual-addressing": "True"}, "s3://x", {"config_kwargs": {"s3": {"addressing_style": "virtual"}}}),
        ({"s3.anonymous": "true", "s3.session-token": "t"}, "s3://lake/t", {"anon": True, "token": "t"}),
        pytest.param({"s3.signer": "x", "s3.session-token-expires-at-ms": "1"}, "s3://lake/t", {}, id="no-store-s"),
        pytest.param({"s3.region": None}, "s3://lake/t", {}, id="nothing-said"),
        ({"gcs.oauth2.token": "t", "gcs.no-auth": "x"}, "gs://lake/t", {"token": "t"}),
        (
            {"adls.sas-token.acc.dfs.core.windows.net": "mine", "adls.sas-token.other": "no"},
            "abfss://lake@acc.dfs.core.windows.net/t",
            {"sas_token": "mine", "account_name": "acc"},
        ),
    ],
)
def test_catalog_properties_become_store_options(properties, location, expected):
    assert options_of(properties, location) == expected
