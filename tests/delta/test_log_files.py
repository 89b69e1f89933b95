from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import TableNotFoundError
from harness.metadata.delta.log_files import LogListing, arrange, list_log
from harness.storage.clients import _FsspecClient
from harness.storage.stores import Entry, Storage

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


def v(number: int) -> str:
    return f"{number:020d}"


def part(version: int, number: int, count: int) -> str:
    return f"{v(version)}.checkpoint.{number:010d}.{count:010d}.parquet"


def listed(*names: str, empty: tuple[str, ...] = ()) -> LogListing:
    return arrange("/t", [*(Entry(name, 7, 1000) for name in names), *(Entry(name, 0, 1000) for name in empty)])


def found(listing: LogListing) -> list[str]:
    """The names of all files that were told apart."""
    files = [*listing.commits.values(), *listing.checksums.values(), *(c.file for c in listing.compactions)]
    return sorted(file.name for file in (*files, *(file for c in listing.checkpoints for file in c.files)))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("_last_checkpoint", id="hint"),
        pytest.param(f".{v(3)}.json.crc", id="Hadoop checksum"),
        pytest.param(f"{v(3)}.json.tmp", id="temporary"),
        pytest.param(f"_{v(3)}.json", id="underscore"),
        pytest.param(f"{3:019d}.json", id="19 digits"),
        pytest.param(f"{3:021d}.json", id="21 digits"),
        pytest.param("\u0660" * 20 + ".json", id="digits that are not ASCII"),
        pytest.param(f"{v(3)}.JSON", id="upper case"),
        pytest.param(f"{v(3)}.json\n", id="line feed"),
        pytest.param(f"{v(3)}.{UUID}.json", id="staged commit"),
        pytest.param(f"{v(3)}.checkpoint.json", id="classic checkpoint in JSON"),
        pytest.param(part(3, 0, 1), id="part 0"),
        pytest.param(part(3, 2, 1), id="part above the count"),
        pytest.param(f"{v(3)}.checkpoint.1.1.parquet", id="part with few digits"),
        pytest.param(f"{v(3)}.checkpoint.not-a-uuid.parquet", id="no UUID"),
        pytest.param(f"{v(3)}.{v(3)}.compacted.json", id="compaction of one version"),
        pytest.param(f"{v(4)}.{v(3)}.compacted.json", id="compaction backwards"),
    ],
)
def test_other_names_are_ignored(name: str) -> None:
    assert found(listed(name)) == []


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        pytest.param(None, "there is no such directory", id="no folder"),
        pytest.param(["data/x"], "it has no directory _delta_log; give the directory that contains it", id="no log"),
        pytest.param(["_delta_log/_sidecars/x"], "its _delta_log is empty", id="empty log"),
        (["_delta_log/_last_checkpoint"], "its _delta_log has neither a commit nor a complete checkpoint"),
    ],
)
def test_no_table(tmp_path: Path, names: list[str] | None, reason: str) -> None:
    root = tmp_path / "t"
    for name in names or ():
        (root / name).parent.mkdir(parents=True)
        (root / name).write_bytes(b"{}")
    with pytest.raises(TableNotFoundError) as raised:
        list_log(Storage(), str(root))
    assert str(raised.value) == f"Cannot find a Delta table: {reason} [TableNotFound; table {root}, rule delta L4]"


@pytest.mark.parametrize(
    ("info", "modified_ms"),
    [
        pytest.param({"mtime": 1.001}, 1001, id="seconds"),
        pytest.param({"updated": "1970-01-01T00:00:01.5Z"}, 1500, id="text"),
        pytest.param({"updated": "yesterday"}, None, id="other text"),
        pytest.param({}, None, id="none"),
    ],
)
def test_modification_times_of_file_systems(monkeypatch, info, modified_ms):
    class Store:
        def invalidate_cache(self, path: str) -> None: ...

        def ls(self, path: str, *, detail: bool) -> list[dict[str, object]]:
            return [{"name": "b/x", "size": 3, "type": "file", **info}, {"name": "b/d", "size": 0, "type": "directory"}]

    monkeypatch.setattr(Storage, "client", lambda self, path: _FsspecClient(Store(), "s3"))
    assert Storage().entries("s3://b") == (Entry("x", 3, modified_ms),)
