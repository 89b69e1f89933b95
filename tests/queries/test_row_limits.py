"""Queries that open few files: those that need only a few rows, and those in files_planned.md and files_joined.md."""

import datetime
from collections import Counter
from pathlib import Path

import pytest

import harness
from harness.errors import MissingFileError
from harness.metadata.model.schema import Field, IntegerType, ListType, Schema, StringType
from harness.queries.inputs import plan_reference
from harness.queries.rewrite import rewrite
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable

SCHEMA = Schema(
    fields=(
        Field(id=1, name="id", type=IntegerType(64)),
        Field(id=2, name="s", type=StringType()),
        Field(id=3, name="items", type=ListType(Field(id=4, name="element", type=IntegerType(64)))),
    )
)


@pytest.mark.parametrize(
    ("query", "enough"),
    [
        ("SELECT * FROM t LIMIT 5", 5),
        ("SELECT id + 1 AS n, CAST(s AS VARCHAR), t.*, 'x' FROM t AS t LIMIT 5 OFFSET 2", 7),
        ("EXPLAIN SELECT * FROM t LIMIT 5", 5),
        ("SELECT * FROM t", None),
        ("SELECT * FROM t WHERE id > 1 LIMIT 5", None),
        ("SELECT DISTINCT id FROM t LIMIT 5", None),
        ("SELECT id FROM t ORDER BY id LIMIT 5", None),
        ("SELECT id FROM t GROUP BY id LIMIT 5", None),
        ("SELECT count(*) FROM t LIMIT 5", None),
        ("SELECT any_function(id) FROM t LIMIT 5", None),
        ("SELECT id FROM t QUALIFY row_number() OVER () = 1 LIMIT 5", None),
        ("SELECT unnest(items) FROM t LIMIT 5", None),
        ("SELECT * REPLACE (sum(id) AS id) FROM t LIMIT 5", None),
        ("SELECT (SELECT max(x.id) FROM t AS x) FROM t AS y LIMIT 5", None),
        ("SELECT * FROM t USING SAMPLE 5 LIMIT 5", None),
        ("SELECT * FROM t, t AS u LIMIT 5", None),
        ("SELECT * FROM (SELECT count(*) FROM t) LIMIT 5", None),
        ("SELECT * FROM t UNION ALL SELECT * FROM t LIMIT 5", None),
        ("WITH c AS (SELECT * FROM t LIMIT 5) SELECT count(*) FROM c", None),
        ("SELECT * FROM t LIMIT 5%", None),
        ("SELECT * FROM t LIMIT 5 OFFSET (SELECT 1)", None),
    ],
)
def test_how_many_rows_a_query_needs(query: str, enough: int | None) -> None:
    assert {reference.enough for reference in rewrite(query, {"t": SCHEMA}).references} == {enough}


DELETED = (1, 4, 7, 10, 13)


def table_of(directory: Path, kind: str) -> harness.Table:
    """Create five files of three rows each, with ids from 0. The second row of each file may be deleted."""
    place, ids = directory / "t", [[{"id": 3 * i + j} for j in range(3)] for i in range(5)]
    if kind.startswith("delta"):
        delta = DeltaTable.create(place, {"id": "long"})
        delta.append(*(files := [delta.write_data(rows) for rows in ids]))
        for file in files if kind == "delta vectors" else ():
            delta.delete(file, [1])
        return harness.open_table(str(place))
    table = IcebergTable.create(place, {"id": "long"}, format_version=3 if kind == "vectors" else 2)
    table.append(*(handles := [table.write_data(rows) for rows in ids]))
    match kind:
        case "positions":
            table.commit(add=[table.write_position_deletes([(file, 1) for file in handles])])
        case "vectors":
            table.commit(add=table.write_deletion_vectors({file: [1] for file in handles}))
        case "keys":
            table.commit(add=[table.write_equality_deletes(["id"], [{"id": i} for i in DELETED])])
    return harness.open_table(str(place))


@pytest.mark.parametrize("kind", ["none", "positions", "vectors", "keys", "delta", "delta vectors"])
def test_the_rows_are_rows_of_the_table(kind: str, tmp_path: Path) -> None:
    table = table_of(tmp_path, kind)
    live = Counter(range(15)) - Counter(DELETED if kind not in ("none", "delta") else [])
    for limit in (0, 1, 2, 3, 7, 10, 15, 16):
        for offset in (0, 1, 12):
            rows = harness.sql(f"SELECT id FROM t LIMIT {limit} OFFSET {offset}", {"t": table}).fetchall()
            assert len(rows) == max(0, min(limit, live.total() - offset))
            assert Counter(id_ for (id_,) in rows) <= live


@pytest.mark.parametrize(
    ("kind", "limit", "opened"),
    [
        ("none", 3, 1),
        ("none", 4, 3),
        ("positions", 2, 1),
        ("positions", 3, 3),
        ("vectors", 2, 1),
        ("vectors", 3, 3),
        ("keys", 1, 5),
        ("delta", 3, 1),
        ("delta vectors", 2, 1),
        ("delta vectors", 3, 3),
    ],
)
def test_files_are_opened_until_there_are_enough(kind: str, limit: int, opened: int, tmp_path: Path) -> None:
    """One file is opened, then two more, then all. The other files may be missing."""
    snapshot = table_of(tmp_path, kind).snapshot()
    files = snapshot.plan().files.column("physical").to_pylist()
    for file in files[opened:]:
        Path(file).unlink()
    assert len(harness.sql(f"SELECT * FROM t LIMIT {limit}", {"t": snapshot}).fetchall()) == limit
    if opened < len(files):
        with pytest.raises(MissingFileError):
            harness.sql("SELECT * FROM t LIMIT 10", {"t": snapshot}).fetchall()


def test_recorded_counts_are_not_trusted(tmp_path: Path) -> None:
    """Spec: iceberg 7.2. The first file records a thousand rows but has three."""
    table = IcebergTable.create(tmp_path / "t", {"id": "long"})
    file = table.write_data([{"id": i} for i in range(3)])
    file.data_file["record_count"] = 1000
    table.append(file, table.write_data([{"id": 3}]))
    with pytest.warns(UserWarning, match="row counts"):
        rows = harness.sql("SELECT id FROM t LIMIT 4", {"t": harness.open_table(str(tmp_path / "t"))}).fetchall()
    assert sorted(rows) == [(0,), (1,), (2,), (3,)]


PLANNED, JOINED = (
    [
        line.strip("| ").removeprefix("`").split("` | ")
        for line in Path(__file__).with_name(f"files_{name}.md").read_text("utf-8").splitlines()[2:]
    ]
    for name in ("planned", "joined")
)
"""Queries with the number of files that each of their tables reads. docs/reference/files-read.md includes both pages.
"""
COLUMNS = {"id": "long", "k": "int", "day": "date", "at": "timestamp", "seen": "date", "s": "string"}
EPOCH = datetime.date(1970, 1, 1)


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, harness.Snapshot]:
    """The tables of the page. All files of `f` (also named `g`) except the sixth are damaged."""
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
    plans = [plan_reference(reference, snapshots[reference.table]) for reference in rewritten.references]
    assert ", ".join(str(len(plan.files)) for plan in plans) == files


@pytest.mark.parametrize(("query", "files"), JOINED)
def test_rows_of_one_file_are_read(snapshots: dict[str, harness.Snapshot], query: str, files: str) -> None:
    assert files == "1"
    assert harness.sql(query, {"f": snapshots["f"], "dim": snapshots["dim"]}).fetchall() == [(5,)]


def _damage(place: Path) -> None:
    """Replace the rows of a file by garbage, keeping the footer at its end."""
    content = bytearray(place.read_bytes())
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    content[4:end] = b"\xff" * (end - 4)
    place.write_bytes(content)
