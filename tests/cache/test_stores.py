"""Manifests in stores are known again by what their list says, with no request; not where it says otherwise."""

import shutil
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

import harness
from harness.metadata.iceberg.manifests import ManifestFile
from harness.metadata.iceberg.table import IcebergTable as OpenedTable
from harness.storage.decoded import DECODED
from harness.testing.writing.iceberg import avro as store_of_tables
from harness.testing.writing.iceberg.builder import IcebergTable


class Asked(LocalFileSystem):
    """The local disk under `asked://`, which tells no versions: the manifests that it is asked for."""

    protocol = "asked"
    cachable = False

    @classmethod
    def _strip_protocol(cls, path: Any) -> str:
        return str(super()._strip_protocol(str(path).removeprefix("asked://")))

    manifests: ClassVar[list[str]] = []

    def _note(self, path: Any) -> None:
        name = path.rpartition("/")[2] if isinstance(path, str) else ""  # else an entry of a listing
        if name.endswith(".avro") and not name.startswith("snap-"):
            Asked.manifests.append(name)

    def info(self, path: Any, **more: Any) -> dict[str, Any]:
        self._note(path)
        return dict(super().info(path, **more))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **more: Any) -> bytes:
        self._note(path)
        return bytes(super().cat_file(path, start, end, **more))


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec.register_implementation("asked", Asked, clobber=True)
    monkeypatch.setattr(Asked, "manifests", [])


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names as other writers give them: with UUIDs that say of themselves that they are random."""
    monkeypatch.setattr(store_of_tables, "counted_uuid", lambda text: uuid.UUID(bytes=own(text).bytes, version=4))


own = store_of_tables.counted_uuid


def make(folder: Path, ids: tuple[int, ...]) -> IcebergTable:
    table = IcebergTable.create(folder, {"id": "long"})
    for id_ in ids:
        table.append(table.write_data([{"id": id_}]))
    return table


def asked_for(tmp_path: Path, where: str | None = "id > 1") -> tuple[int, int]:
    """Files of a plan in a process of its own, and the manifests that the store was asked for."""
    DECODED.clear()
    Asked.manifests.clear()
    table = harness.open_table(f"asked://{tmp_path}/t", cache_dir=str(tmp_path / "cache"))
    return table.snapshot().plan(where=where).files.num_rows, len(Asked.manifests)


@pytest.mark.usefixtures("drawn")
def test_the_second_process_asks_for_no_manifest(tmp_path):
    table = make(tmp_path / "t", (1, 2, 3))
    assert asked_for(tmp_path) == (2, 3)
    assert asked_for(tmp_path) == (2, 0)
    table.append(table.write_data([{"id": 4}]))
    assert asked_for(tmp_path) == (3, 1)  # the new one


def test_a_table_that_was_made_anew_with_the_same_names_is_read_anew(tmp_path):
    make(tmp_path / "t", (1, 2, 3))
    assert asked_for(tmp_path) == (2, 6)  # each for its version, which there is none of, and its bytes
    shutil.rmtree(tmp_path / "t")
    make(tmp_path / "t", (1, 0, 3))
    assert asked_for(tmp_path) == (1, 6)


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize(
    ("named", "value"), [("length", 17), ("length", None), ("length", 0), ("added_snapshot_id", None)]
)
def test_what_its_list_does_not_say_rightly_is_asked_for(tmp_path, monkeypatch, named, value):
    told = OpenedTable._listed_version

    def listed(source: OpenedTable, manifest: ManifestFile | None) -> Any:
        return told(source, None if manifest is None else replace(manifest, **{named: value}))

    make(tmp_path / "t", (1, 2, 3))
    monkeypatch.setattr(OpenedTable, "_listed_version", listed)
    assert asked_for(tmp_path)[0] == 2
    found, times = asked_for(tmp_path)
    assert (found, times >= 3) == (2, True)
