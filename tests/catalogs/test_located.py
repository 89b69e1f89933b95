"""What of a catalog's answer reaches the read of a table: roots, options, and a catalog of the user's own."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.writing.iceberg.builder import IcebergTable


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


def test_what_the_catalog_says_is_the_tables_is_a_root(orders):
    catalog = Own({"location": str(orders), "allowed_roots": (str(orders.parent / "archive"),)})
    table = harness.open_table("sales.orders", catalog=catalog, outside="refuse")
    assert (table.name, catalog.asked) == ("own.sales.orders", [("sales", "orders")])
    assert table.snapshot().to_arrow().num_rows == 2


@pytest.mark.parametrize("more", [{"outside": "refuse"}, {"untrusted": True}], ids=["nothing said", "a stranger's"])
def test_all_else_is_not(orders, more):
    roots = () if "outside" in more else (str(orders.parent / "archive"),)
    catalog = Own({"location": str(orders), "allowed_roots": roots})
    with pytest.raises(harness.OutsideTableError, match="beyond the table's roots"):
        harness.open_table("sales.orders", catalog=catalog, **more).snapshot().plan()


def test_the_metadata_file_that_the_catalog_names_is_read(orders):
    *_, first, last = sorted((orders / "metadata").glob("v*.metadata.json"))
    for file, rows in ((first, 0), (last, 2)):
        catalog = Own({"location": str(orders), "metadata_location": str(file), "format": "iceberg"})
        table = harness.open_table("sales.orders", catalog=catalog, allowed_roots=[orders.parent])
        snapshot = table.snapshot()
        assert (0 if snapshot.id is None else snapshot.to_arrow().num_rows) == rows


@pytest.mark.parametrize(
    ("vended", "own", "expected"),
    [
        ({"key": "a", "secret": "b"}, {}, {"key": "a", "secret": "b"}),
        pytest.param(
            {"key": "a", "secret": "b"}, {"key": "mine"}, {"key": "mine", "secret": "b"}, id="the caller's first"
        ),
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
