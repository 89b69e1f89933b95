"""A log in a store is listed once for opening its table, and afresh where that showed too little (delta L44)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

import harness
from harness.testing.writing.delta.builder import DeltaTable


class Listed(LocalFileSystem):
    """The local disk under `listed://`: which directories are looked at, and a commit that the first listing lacks."""

    protocol = "listed"
    cachable = False

    @classmethod
    def _strip_protocol(cls, path: Any) -> str:
        return str(super()._strip_protocol(str(path).removeprefix("listed://")))

    looked: ClassVar[list[str]] = []
    late: ClassVar[set[str]] = set()

    def ls(self, path: str, detail: bool = False, **more: Any) -> list[Any]:
        found = super().ls(path, detail=detail, **more)
        name = path.rpartition("/")[2]
        Listed.looked.append(name)
        shown = [entry for entry in found if entry["name"].rpartition("/")[2] not in Listed.late]
        if name == "_delta_log":
            Listed.late.clear()
        return shown

    def isdir(self, path: str) -> bool:
        Listed.looked.append(path.rpartition("/")[2])
        return bool(super().isdir(path))


@pytest.fixture
def location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    fsspec.register_implementation("listed", Listed, clobber=True)
    monkeypatch.setattr(Listed, "looked", [])
    table = DeltaTable.create(tmp_path / "t", {"id": "long"})
    for number in range(3):
        table.append(table.write_data([{"id": number}]))
    return f"listed://{tmp_path}/t"


@pytest.mark.parametrize(("late", "times"), [(set(), 1), ({"00000000000000000002.json"}, 2)])
def test_a_log_is_listed_once(location: str, late: set[str], times: int) -> None:
    Listed.late |= late
    assert harness.open_table(location).snapshot().id == 3
    assert Listed.looked.count("_delta_log") == times
