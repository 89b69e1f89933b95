"""Slices: their content, omissions, and the state after an interrupted or refused pull."""

import errno
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

import harness
from harness.cli import main
from harness.slices import directory as copying
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

EU, US = [{"id": i, "region": "eu"} for i in range(4)], [{"id": i + 10, "region": "us"} for i in range(4)]


def iceberg(place: Path) -> IcebergTable:
    """Create two files, a position delete file for both, an equality delete of id 3, and the tag `first`."""
    table = IcebergTable.create(place, {"id": "long", "region": "string"})
    eu, us = table.write_data(EU), table.write_data(US)
    table.append(eu, us)
    table.create_tag("first")
    table.commit(add=[table.write_position_deletes([(eu, 1), (us, 2)])])
    table.commit(add=[table.write_equality_deletes(["id"], [{"id": 3}])])
    return table


def delta(place: Path) -> DeltaTable:
    """Create two files in versions 1 and 2, and a deletion vector for the first file in version 3."""
    table = DeltaTable.create(place, {"id": "long", "region": "string"}, features=["deletionVectors"])
    eu, us = table.write_data(EU), table.write_data(US)
    table.append(eu)
    table.append(us)
    table.delete(eu, [1])
    return table


def rows(location: Path, where: str | None = None, at: int | None = None) -> Counter[str]:
    return Counter(map(repr, harness.open_table(location).snapshot(at).to_arrow(where=where).to_pylist()))


def files(place: Path) -> set[str]:
    return {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}


def metadata(place: Path) -> dict:
    return json.loads((place / "metadata/v1.metadata.json").read_text("utf-8"))


@pytest.mark.filterwarnings("ignore:Slice")
def test_metadata_names_only_what_is_there(tmp_path):
    table = iceberg(tmp_path / "source")
    table.set_properties(**{"write.data.path": "s3://elsewhere", "owner": "me"})
    pulled = harness.open_table(tmp_path / "source").pull(tmp_path / "slice")
    document = metadata(tmp_path / "slice")
    assert document["location"] == str(tmp_path / "slice")
    assert [s["snapshot-id"] for s in document["snapshots"]] == [table.snapshot_id] == list(pulled.snapshots)
    assert "parent-snapshot-id" not in document["snapshots"][0]
    assert document["refs"].keys() == {"main"}
    assert document["properties"] == {"owner": "me"}
    assert pulled.notes == ("Left out branches and tags: first", "Left out properties: write.data.path")
    recorded = harness.open_table(tmp_path / "slice").metadata("files").to_arrow()["file_path"].to_pylist()
    assert all(Path(path).is_file() and path.startswith(str(tmp_path / "slice")) for path in recorded)


@pytest.mark.filterwarnings("ignore:Slice")
@pytest.mark.parametrize("make", [iceberg, delta])
def test_a_slice_of_several_snapshots_travels_in_time(make, tmp_path):
    make(tmp_path / "source")
    pulled = harness.open_table(tmp_path / "source").pull(tmp_path / "slice", last=2)
    assert len(pulled.snapshots) == 2
    for point in pulled.snapshots:
        assert rows(tmp_path / "slice", at=point) == rows(tmp_path / "source", at=point)
    source, slice_ = harness.open_table(tmp_path / "source"), harness.open_table(tmp_path / "slice")
    for point in source.snapshots()[-2:]:
        at = f"timestamp={point['timestamp_ms']}"
        assert slice_.snapshot(at).id == source.snapshot(at).id


@pytest.mark.filterwarnings("ignore:Slice")
@pytest.mark.parametrize(
    ("options", "warned"),
    [
        (["--where", "id >= 0"], True),
        (["--where", "id >= 10"], False),
        (["--where", "id >= 0", "--exact"], False),
        ([], False),
    ],
)
@pytest.mark.parametrize("make", [iceberg, delta])
def test_a_filter_that_skips_no_file_is_reported(make, tmp_path, capsys, options, warned):
    make(tmp_path / "source")
    assert main(["pull", str(tmp_path / "source"), str(tmp_path / "slice"), *options]) == 0
    assert ("the filter skipped 0 of 2 files" in capsys.readouterr().err) is warned


def test_a_directory_that_holds_something_is_refused(tmp_path, capsys):
    delta(tmp_path / "source")
    (tmp_path / "slice").mkdir()
    (tmp_path / "slice/mine.txt").write_text("mine", "utf-8")
    assert main(["pull", str(tmp_path / "source"), str(tmp_path / "slice")]) == 2
    assert "it is not empty" in capsys.readouterr().err
    assert files(tmp_path / "slice") == {"mine.txt"}


@pytest.mark.filterwarnings("ignore:Slice")
@pytest.mark.parametrize("make", [iceberg, delta])
def test_an_interrupted_pull_leaves_no_table_and_goes_on(make, tmp_path, monkeypatch):
    make(tmp_path / "source")
    fetched = copying._FetchState.fetch
    calls = []

    def interrupted(self, file):
        calls.append(file)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return fetched(self, file)

    monkeypatch.setattr(copying, "FETCHES_AT_ONCE", 1)
    with monkeypatch.context() as patch:
        patch.setattr(copying._FetchState, "fetch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            harness.open_table(tmp_path / "source").pull(tmp_path / "slice")
    with pytest.raises(harness.TableNotFoundError):
        harness.open_table(tmp_path / "slice")
    with pytest.raises(harness.RequestError, match="a different pull"):
        harness.open_table(tmp_path / "source").pull(tmp_path / "slice", where="id > 1")
    assert harness.open_table(tmp_path / "source").pull(tmp_path / "slice").reused == 1
    assert rows(tmp_path / "slice") == rows(tmp_path / "source")
    assert not (tmp_path / "slice/_harness_pull").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="no signal is sent to a thread there")
def test_no_further_file_is_fetched_after_ctrl_c(tmp_path, monkeypatch):
    delta(tmp_path / "source")
    fetched = copying._FetchState.fetch
    begun = []

    def interrupting(self, file):
        begun.append(self)
        time.sleep(0.1)  # until the main thread waits
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        for _ in range(300):
            if self.failure is not None:
                break
            time.sleep(0.01)
        return fetched(self, file)

    monkeypatch.setattr(copying, "FETCHES_AT_ONCE", 1)
    monkeypatch.setattr(copying._FetchState, "fetch", interrupting)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            harness.open_table(tmp_path / "source").pull(tmp_path / "slice")
    finally:
        signal.signal(signal.SIGINT, before)
    assert [type(work.failure) for work in begun] == [KeyboardInterrupt]


@pytest.mark.filterwarnings("ignore:Slice")
@pytest.mark.parametrize("make", [iceberg, delta])
def test_a_full_disk_is_named_whatever_is_written(make, tmp_path, monkeypatch):
    make(tmp_path / "source")
    opened, left = Path.open, 0

    def until_it_is_full(self, mode="r", *arguments, **more):
        nonlocal left
        left -= mode[0] in "wax" and tmp_path / "slice" in self.parents
        if left == -1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))
        return opened(self, mode, *arguments, **more)

    monkeypatch.setattr(copying, "FETCHES_AT_ONCE", 1)
    monkeypatch.setattr(Path, "open", until_it_is_full)
    for fitting in range(6):  # files that still fit
        left = fitting
        with pytest.raises(harness.StorageError, match="Cannot write the slice: No space left on device"):
            harness.open_table(tmp_path / "source").pull(tmp_path / "slice")
        with pytest.raises(harness.TableNotFoundError):
            harness.open_table(tmp_path / "slice")
        shutil.rmtree(tmp_path / "slice", ignore_errors=True)


@pytest.mark.filterwarnings("ignore:Slice")
def test_a_file_that_changed_since_it_was_fetched_is_fetched_again(tmp_path, monkeypatch):
    delta(tmp_path / "source")
    with monkeypatch.context() as patch:
        patch.setattr("harness.slices.directory.SliceDirectory.publish", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            harness.open_table(tmp_path / "source").pull(tmp_path / "slice")
    damaged = next((tmp_path / "slice").glob("*.parquet"))
    content = bytearray(damaged.read_bytes())
    content[10] ^= 1
    damaged.write_bytes(content)
    pulled = harness.open_table(tmp_path / "source").pull(tmp_path / "slice")
    assert pulled.reused == pulled.files - 1
    assert rows(tmp_path / "slice") == rows(tmp_path / "source")


def _interrupt(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "path", ["../outside.parquet", "metadata/v9.metadata.json", "_hidden/x.parquet", "a\\b.parquet"]
)
def test_files_of_hostile_names_stay_inside_under_other_names(path, tmp_path):
    table = IcebergTable.create(tmp_path / "source/table", {"id": "long"})
    recorded = f"{tmp_path}/source/table/{path}"
    table.append(table.write_data([{"id": 1}], path=recorded))
    source = harness.open_table(tmp_path / "source/table", allowed_roots=[str(tmp_path / "source")])
    source.pull(tmp_path / "slice")
    assert rows(tmp_path / "slice") == Counter([repr({"id": 1})])
    (data,) = harness.open_table(tmp_path / "slice").metadata("files").to_arrow()["file_path"].to_pylist()
    assert Path(data).parent == tmp_path / "slice/data"


@pytest.mark.filterwarnings("ignore:Slice")
@pytest.mark.parametrize("make", [iceberg, delta])
@pytest.mark.parametrize("how", [{}, {"where": "id < 9"}, {"where": "id < 9", "exact": True}], ids=str)
def test_a_file_that_a_link_leads_to_is_copied_with_a_warning(make, how, tmp_path):
    make(tmp_path / "source")
    (tmp_path / "elsewhere").mkdir()
    for file in list((tmp_path / "source").rglob("*.parquet")):
        file.rename(tmp_path / "elsewhere" / file.name)
        file.symlink_to(tmp_path / "elsewhere" / file.name)
    with pytest.warns(harness.HarnessWarning, match=f"Files outside of the table are read, in {tmp_path}/elsewhere"):
        harness.open_table(tmp_path / "source").pull(tmp_path / "slice", **how)
    with pytest.raises(harness.OutsideTableError):
        harness.open_table(tmp_path / "source", outside="refuse").pull(tmp_path / "refused", **how)
