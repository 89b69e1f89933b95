"""Slices refreshed to the newest snapshot of their source, and sources that they cannot follow."""

import contextlib
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

import harness
from harness.cli import main
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

SCHEMA = {"id": "long", "name": "string"}


def iceberg(place: Path) -> IcebergTable:
    table = IcebergTable.create(place, SCHEMA)
    table.append(file := table.write_data([{"id": i, "name": "a"} for i in range(3)]))
    table.commit(add=[table.write_position_deletes([(file, 0)])])
    return table


def delta(place: Path) -> DeltaTable:
    table = DeltaTable.create(place, SCHEMA, features=["deletionVectors"])
    table.append(file := table.write_data([{"id": i, "name": "a"} for i in range(3)]))
    table.delete(file, [0])
    return table


def rows(location: Path, where: str | None = None) -> Counter[str]:
    return Counter(map(repr, harness.open_table(location).snapshot().to_arrow(where=where).to_pylist()))


@pytest.mark.parametrize(("make", "options"), [(iceberg, {}), (delta, {}), (delta, {"exact": True})])
def test_a_refreshed_slice_is_as_if_it_were_pulled_anew(make, options, tmp_path):
    table = make(tmp_path / "source")
    first = harness.open_table(tmp_path / "source").pull(tmp_path / "slice", where="id <> 1", **options)
    assert harness.open_table(tmp_path / "source").pull(tmp_path / "slice", refresh=True).made is False
    for number in (3, 4) if options else (3,):
        table.append(table.write_data([{"id": number, "name": "b"}, {"id": 1, "name": "b"}]))
        pulled = harness.open_table(tmp_path / "source").pull(tmp_path / "slice", refresh=True)
        assert pulled.reused == (0 if options else pulled.files - 1)
        assert rows(tmp_path / "slice", "id <> 1") == rows(tmp_path / "source", "id <> 1")
    assert rows(tmp_path / "slice") == rows(tmp_path / "slice", "id <> 1") or not options
    assert pulled.snapshots != first.snapshots


def rolled_back(place: Path) -> None:
    table = iceberg(place)
    harness.open_table(place).pull(place.parent / "slice")
    table.set_ref("main", harness.open_table(place).snapshots()[0]["id"], "branch")


def replaced(place: Path) -> None:
    iceberg(place)
    harness.open_table(place).pull(place.parent / "slice")
    shutil.rmtree(place)
    delta(place)


def expired(place: Path) -> None:
    table = delta(place)
    harness.open_table(place).pull(place.parent / "slice")
    for number in range(3):
        table.append(table.write_data([{"id": number, "name": "c"}]))
    table.checkpoint()
    for version in range(4):
        table.log.commit_path(version).unlink()


def written_to(place: Path) -> None:
    table = iceberg(place)
    harness.open_table(place).pull(place.parent / "slice")
    metadata = place.parent / "slice/metadata"
    shutil.copy(metadata / "v1.metadata.json", metadata / "v2.metadata.json")
    text = (metadata / "v2.metadata.json").read_text("utf-8").replace(str(table.snapshot_id), "77")
    (metadata / "v2.metadata.json").write_text(text, "utf-8")
    table.append(table.write_data([{"id": 9, "name": "b"}]))


def no_slice(place: Path) -> None:
    iceberg(place)
    (place.parent / "slice").mkdir()


@pytest.mark.filterwarnings("ignore:Table .*:harness.errors.HarnessWarning")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (rolled_back, "is not an ancestor of the newest one; pull it again"),
        (replaced, "its format is iceberg, and the source's is delta; pull it again"),
        (expired, "has expired in the source"),
        (written_to, "it was written to since it was pulled; pull it again"),
        (no_slice, "it is not a slice"),
    ],
)
def test_a_source_that_a_slice_cannot_follow_is_an_error(make, message, tmp_path, capsys):
    make(tmp_path / "source")
    assert main(["pull", str(tmp_path / "source"), str(tmp_path / "slice"), "--refresh"]) == 2
    assert message in capsys.readouterr().err


def test_a_refresh_takes_no_other_request(tmp_path, capsys):
    iceberg(tmp_path / "source")
    assert main(["pull", str(tmp_path / "source"), str(tmp_path / "slice"), "--refresh", "--where", "id = 1"]) == 2
    assert "Cannot refresh a slice with other options" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="links are others there")
@pytest.mark.parametrize("link", ["{file}.part", "{file}", "_harness_slice_files.jsonl", "_harness_pull"])
def test_a_refresh_writes_through_no_link_of_the_slice(link, tmp_path):
    table, slice_ = delta(tmp_path / "source"), tmp_path / "slice"
    harness.open_table(tmp_path / "source").pull(slice_)
    before = set((tmp_path / "source").glob("*.parquet"))
    table.append(table.write_data([{"id": 3, "name": "b"}]))
    (new,) = set((tmp_path / "source").glob("*.parquet")) - before
    place, aside = slice_ / link.format(file=new.name), tmp_path / "aside"
    aside.mkdir()
    (aside / "file").write_text("")
    place.unlink(missing_ok=True)
    place.symlink_to(aside if link == "_harness_pull" else aside / "file")
    with contextlib.suppress(harness.RequestError, harness.StorageError):  # alternatively, the link is replaced
        harness.open_table(tmp_path / "source").pull(slice_, refresh=True)
    assert [path.name for path in aside.iterdir()] == ["file"]
    assert (aside / "file").read_text() == ""


@pytest.mark.parametrize("options", [{"where": "id > 1"}, {"at": "main"}, {"exact": True}, {"last": 2}], ids=str)
def test_a_slice_is_refreshed_as_it_was_pulled(tmp_path, options):
    table = IcebergTable.create(tmp_path / "source", {"id": "long"})
    table.append(table.write_data([{"id": 1}]))
    source = harness.open_table(table.location)
    source.pull(tmp_path / "slice")
    with pytest.raises(harness.RequestError, match="Cannot refresh a slice with other options"):
        source.pull(tmp_path / "slice", refresh=True, **options)
