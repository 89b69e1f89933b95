"""docs/reference/files-read.md, query by query."""

import datetime
import re
from pathlib import Path

import pytest

import harness
from harness.queries.inputs import planned
from harness.queries.rewrite import rewrite
from harness.testing.writing.iceberg.builder import IcebergTable

PAGE = (Path(__file__).parents[2] / "docs/reference/files-read.md").read_text("utf-8")
PLANNED, JOINED = (
    re.findall(r"^\| `(.+)` \| ([0-9, ]+) \|$", part, re.MULTILINE) for part in PAGE.split("\n## Joins\n")
)
COLUMNS = {"id": "long", "k": "int", "day": "date", "at": "timestamp", "seen": "date", "s": "string"}
EPOCH = datetime.date(1970, 1, 1)


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, harness.Snapshot]:
    """The tables of the page; in the files of `f`, which is `g` too, but for the sixth, there are no rows any more."""
    place = tmp_path_factory.mktemp("read")
    table = IcebergTable.create(place / "f", COLUMNS, format_version=2)
    first = (datetime.date(2020, 1, 1) - EPOCH).days
    today = (datetime.datetime.now(datetime.UTC).date() - EPOCH).days
    files = []
    for i in range(20):
        day = first + 30 * i
        row = {"id": i, "k": i, "day": day, "at": day * 86_400_000_000, "seen": today - 10 * (19 - i), "s": chr(97 + i)}
        files.append(table.write_data([row]))
    table.append(*files)
    for i, path in enumerate(sorted((place / "f/data").iterdir())):
        if i != 5:
            _damage(path)
    small = IcebergTable.create(place / "dim", {"k": "int", "name": "string"}, format_version=2)
    small.append(small.write_data([{"k": 5, "name": "five"}]))
    large = harness.open_table(str(place / "f")).snapshot()
    return {"f": large, "g": large, "dim": harness.open_table(str(place / "dim")).snapshot()}


@pytest.mark.parametrize(("query", "files"), PLANNED)
def test_so_many_files_are_planned(snapshots: dict[str, harness.Snapshot], query: str, files: str) -> None:
    rewritten = rewrite(
        query,
        {name: snapshot.schema for name, snapshot in snapshots.items()},
        now=lambda: datetime.datetime.now(datetime.UTC).replace(tzinfo=None),
    )
    plans = [planned(reference, snapshots[reference.table]) for reference in rewritten.references]
    assert ", ".join(str(len(plan.files)) for plan in plans) == files


@pytest.mark.parametrize(("query", "files"), JOINED)
def test_rows_of_one_file_are_read(snapshots: dict[str, harness.Snapshot], query: str, files: str) -> None:
    assert files == "1"
    assert harness.sql(query, f=snapshots["f"], dim=snapshots["dim"]).fetchall() == [(5,)]


def _damage(place: Path) -> None:
    """Puts nonsense in place of the rows; the file's end, which says what is in it, stays."""
    content = bytearray(place.read_bytes())
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    content[4:end] = b"\xff" * (end - 4)
    place.write_bytes(content)
