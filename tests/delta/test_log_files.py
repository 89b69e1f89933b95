from pathlib import Path

import pytest

from harness.errors import TableNotFoundError
from harness.metadata.delta.log_files import list_log
from harness.storage.clients import _FsspecClient
from harness.storage.stores import Entry, Storage


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
