"""What of a catalog's answer reaches the read of a table: roots, options, and a catalog of the user's own."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.testing.writing.iceberg.builder import IcebergTable


@dataclass
class Own:
    """A catalog with one table, as a user may write it."""

    answer: dict[str, Any]
    name: str = "own"
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def namespaces(self, parent: tuple[str, ...] = ()) -> tuple[tuple[str, ...], ...]:
        return () if parent else (("sales",),)

    def tables(self, namespace: tuple[str, ...] = ()) -> tuple[tuple[str, ...], ...]:
        return (("sales", "orders"),) if namespace == ("sales",) else ()

    def locate(self, name: tuple[str, ...]) -> harness.Located:
        self.asked.append(name)
        return harness.Located(catalog=self.name, name=name, **self.answer)


@pytest.fixture
def orders(tmp_path) -> Path:
    """A table whose data is in `archive`, beside it, where a link leads to."""
    table = IcebergTable.create(tmp_path / "orders", {"id": "long"})
    table.append(table.write_data([{"id": 1}, {"id": 2}]))
    shutil.move(tmp_path / "orders" / "data", tmp_path / "archive")
    (tmp_path / "orders" / "data").symlink_to("../archive")
    return tmp_path / "orders"


def test_the_location_of_the_catalog_and_what_the_user_allows_are_read(orders):
    catalog = Own({"location": str(orders)})
    roots = [orders.parent / "archive"]
    table = harness.open_table("sales.orders", catalog=catalog, outside="refuse", allowed_roots=roots)
    assert (table.name, catalog.asked) == ("own.sales.orders", [("sales", "orders")])
    assert table.snapshot().to_arrow().num_rows == 2


@pytest.mark.parametrize("metadata", [False, True], ids=["the directory", "a metadata file"])
@pytest.mark.parametrize("more", [{"outside": "refuse"}, {"untrusted": True}], ids=["refused", "a stranger's"])
def test_all_else_is_not(orders, more, metadata):
    """Nor is the location that goes with a metadata file: the catalog may name any."""
    answer = {"location": str(orders)}
    if metadata:
        answer = {"location": "/", "metadata_location": str(max((orders / "metadata").glob("v*.metadata.json")))}
    catalog = Own(answer)
    with pytest.raises(harness.OutsideTableError, match="beyond the table's roots"):
        harness.open_table("sales.orders", catalog=catalog, **more).snapshot().plan()


def test_options_for_another_bucket_go_there_where_the_user_allows_to_read_it():
    both = {"key": "a", "s3://archive": {"key": "b"}, "s3://evil": {"key": "c"}}
    found = harness.Located(catalog="own", name=("t",), location="s3://lake/t", storage_options=both)
    assert found.lent({}, ()) == {"key": "a"}
    assert found.lent({"secret": "mine"}, ["s3a://archive/t"]) == {
        "key": "a", "s3://archive": {"key": "b"}, "secret": "mine"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("vended", "own", "expected"),
    [
        ({"key": "a", "secret": "b"}, {}, {"key": "a", "secret": "b"}),
        ({"key": "a", "secret": "b"}, {"key": "mine"}, {"key": "mine", "secret": "b"}),
    ],
)
def test_options_of_the_catalog_go_to_the_store(orders, vended, own, expected):
    renewed = {"location": str(orders), "storage_options": {"key": "new"}, "expires_ms": None}
    catalog = Own({"location": str(orders), "storage_options": vended, "expires_ms": 0})
    catalog.answer["renew"] = lambda: harness.Located(catalog="own", name=("sales", "orders"), **renewed)
    table = harness.open_table("sales.orders", catalog=catalog, storage_options=own, allowed_roots=[orders.parent])
    storage = table.source.source.storage
    assert storage.options == expected
    assert storage.renewal.current() == {"key": "new", **own}
