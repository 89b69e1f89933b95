"""Commands that inspect a table: head, count, schema, and info, and the width and colors of a terminal."""

import re
import shlex
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.cli import main
from harness.errors import size_text
from harness.metadata.model.text_tables import cell_width
from harness.writing.delta.builder import DeltaTable
from harness.writing.iceberg.builder import IcebergTable


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A table of each format with rows 1 to 4. Row 1 is deleted, but the branch `old` still has it."""
    root = tmp_path_factory.mktemp("looking")
    columns = {"id": "long not null", "at": "struct<x: int>", "u": "uuid"}
    rows = [{"id": i, "at": {"x": i * 10}, "u": None} for i in (1, 2, 3, 4)]
    ice = IcebergTable.create(root / "ice", columns)
    data = ice.write_data(rows)
    ice.append(data)
    ice.create_branch("old")
    ice.commit(add=[ice.write_equality_deletes(["id"], [{"id": 1}])])
    dlt = DeltaTable.create(root / "dlt", {name: type_ for name, type_ in columns.items() if name != "u"})
    dlt.append(file := dlt.write_data([{key: row[key] for key in ("id", "at")} for row in rows]))
    dlt.delete(file, [0], info={"engineInfo": "x/1\x1b"})
    return {"ice": ice.location, "dlt": str(dlt.directory)}


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ("head dlt -n 2", '    id  at\nbigint  struct\n------  --------\n     2  {"x":20}\n     3  {"x":30}\n'),
        (
            "head ice -n 1 --columns id,_pos --at old",
            "    id    _pos\nbigint  bigint\n------  ------\n     1       0\n",
        ),
        ("head ice --where id>3 --columns id --format csv", "id\n4\n"),
        ("head ice --max-rows 0 --columns id", "    id\nbigint\n------\n"),
        ("count ice", "3\n"),
        ("count ice --at old", "4\n"),
        ("count dlt --where id<3 --at 1", "2\n"),
        ("head ice -n 1 --columns id --at old", "    id\nbigint\n------\n     1\n"),
        ("head ice -n 0 --columns id --format csv", "id\n"),
        ("head ice -n all --columns id --at old --format csv", "id\n1\n2\n3\n4\n"),
        ("schema ice", "id   long    required\nat   struct  nullable\n  x  int     nullable\nu    uuid    nullable\n"),
    ],
)
def test_text(words: str, printed: str, places: dict[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    command, name, *more = words.split()
    assert main([command, places[name], *more]) == 0
    assert capfd.readouterr() == (printed, "")


def test_info_is_short_first(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ice = IcebergTable.create(
        tmp_path / "ice", {"id": "long", "at": "string"}, partition_spec=[("id", "bucket[4]"), ("at", "identity")]
    )
    data = ice.write_data([{"id": 1, "at": "x"}] * 4)
    ice.append(data)
    deletes = ice.write_position_deletes([(data, 0)])
    keys = ice.write_equality_deletes(["id", "at"], [{"id": 1, "at": "x"}])
    ice.commit(add=[deletes, keys], summary={"engine-name": "x"})
    dlt = DeltaTable.create(tmp_path / "dlt", {"id": "long", "p": "string"}, partition_columns=["p"])
    dlt.append(file := dlt.write_data([{"id": 1, "p": "a"}] * 1000, partition={"p": "a"}))
    dlt.delete(file, [0])
    sizes = [data.file.stat().st_size, file.file.stat().st_size]
    expected = {
        ice.location: [
            "format: iceberg",
            f"location: {ice.location}",
            f"snapshot: {ice.snapshot_id}",
            "rows: 4 before deletes",
            "files: 1",
            f"bytes: {size_text(sizes[0])}",
            "deletes: 1 by position on 1 data file, 1 by key on 1 data file",
            "columns: 2",
            "partitioning: bucket[4](id), at",
            "last commit: 2023-11-14T22:13:22.000Z, delete by x",
            "branches and tags: main",
            "layout: 1 partition, 4 rows, 1 row deleted",
            f"  id_bucket=0, at='x'  {'█' * 13}{'▒' * 4}  4 rows  25 % deleted, equality deletes",
            "  █ read  ▒ deleted",
        ],
        str(dlt.directory): [
            "format: delta",
            f"location: {dlt.directory}",
            "version: 2",
            "rows: 999",
            "files: 1",
            f"bytes: {size_text(sizes[1])}",
            "deletes: 1 by position on 1 data file",
            "columns: 2",
            "partitioning: p",
            "last commit: 2023-11-14T22:13:22.000Z, DELETE by harness",
            "layout: 1 partition, 1,000 rows, 1 row deleted",
            f"  p='a'  {'█' * 43}▒  1,000 rows  < 1 % deleted",
            "  █ read  ▒ deleted",
        ],
    }
    for location, lines in expected.items():
        assert main(["info", location]) == 0
        assert capfd.readouterr().out.splitlines() == lines
        assert main(["info", location, "--full"]) == 0
        assert "properties:" in capfd.readouterr().out


def test_info_of_a_table_whose_manifests_are_gone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ice = IcebergTable.create(tmp_path / "t", {"id": "long"})
    assert main(["info", ice.location]) == 0
    assert "snapshot: none\nrows: 0\nfiles: 0\n" in capfd.readouterr().out
    ice.append(ice.write_data([{"id": 1}]))
    for manifest in Path(ice.location).glob("metadata/*.avro"):
        manifest.unlink()
    assert main(["info", ice.location]) == 0
    out, err = capfd.readouterr()
    assert re.search(r"^rows: unknown: Cannot .*\nfiles: unknown\nbytes: unknown\ndeletes: unknown$", out, re.MULTILINE)
    assert err == ""


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr("harness.cli.results.ByteStream.isatty", lambda self: True)
    monkeypatch.setattr("harness.cli.results.is_terminal_output", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    return monkeypatch


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables with files by month and hour, without deletes, and with each kind of delete, and two files to compare."""
    lake = tmp_path_factory.mktemp("lake")
    columns = {"id": "long", "region": "string", "at": "timestamptz", "note": "string"}
    spec = [("region", "identity"), ("at", "month"), ("at", "hour")]
    table = IcebergTable.create(lake / "orders", columns, partition_spec=spec)
    day = datetime(2024, 3, 1, 5, tzinfo=UTC)
    rows = [{"id": n, "region": "eu", "at": day, "note": "日本 and words " * 9} for n in range(20)]
    first = table.write_data(rows)
    table.append(first, table.write_data([row | {"region": "us"} for row in rows]))
    partition = {"region": "eu", "at_month": 650, "at_hour": 474_797}
    table.append(
        table.write_position_deletes([(first, 3)]),
        table.write_equality_deletes(["id", "region"], [{"id": 5, "region": "eu"}], partition=partition),
    )
    for name, changed in (("a", 0), ("b", 1)):
        found = [row | {"at": None, "note": f"{row['note']}{changed if row['id'] == 7 else ''}"} for row in rows]
        pq.write_table(pa.Table.from_pylist(found[changed:]), lake / f"{name}.parquet")
    return lake


COMMANDS = [
    "info orders",
    "info orders --full",
    "schema orders",
    "history orders",
    "head orders",
    "sql 'FROM range(3)'",
    *(f"metadata orders {name}" for name in ("files", "partitions", "entries", "snapshots", "manifests", "refs")),
    "plan orders --where id<3",
    "plan orders --where \"region = 'eu'\"",
    "diff a.parquet b.parquet --keys id",
    "diff a.parquet b.parquet",
    "doctor",
    "list .",
    "scenarios list iceberg/deletes/*",
    "scenarios run iceberg/deletes/cut-path-bounds --engines duckdb",
]


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("command", COMMANDS)
def test_output_fits_the_terminal(lake, terminal, capfd, command, width):
    terminal.chdir(lake)
    terminal.setenv("COLUMNS", str(width))
    assert main(shlex.split(command)) in (0, 1)
    lines = capfd.readouterr().out.splitlines()
    assert lines
    too_wide = [line for line in lines if cell_width(line) > width]
    # A path that is wider than a line is not broken.
    assert [line for line in too_wide if max(map(len, line.split())) < width - 30] == []


@pytest.mark.parametrize(
    ("command", "painted"),
    [
        ("sql 'SELECT NULL AS n'", ["\x1b[2minteger", "\x1b[2m   NULL\x1b[0m"]),
        ("diff a.parquet b.parquet --columns id", ["\x1b[31mdifferent: 1 row only on the left\x1b[0m", "[31m  -  0"]),
        ("diff a.parquet a.parquet", ["\x1b[32mequal: no difference in 20 rows\x1b[0m"]),
        ("plan orders --where \"region = 'us'\"", ["  partition\x1b[0m\n", "\x1b[2m  "]),
        ("plan orders --where \"region = 'eu'\"", ["\x1b[33mdeletes 1 positional on 1 files"]),
    ],
)
@pytest.mark.parametrize("no_colour", [True, False])
def test_colours_are_those_of_a_terminal(lake, terminal, capfd, command, painted, no_colour):
    terminal.chdir(lake)
    terminal.setenv("TERM", "xterm")
    terminal.setenv("COLUMNS", "200")
    if not no_colour:
        terminal.delenv("NO_COLOR")
    main(shlex.split(command))
    out = capfd.readouterr().out
    if no_colour:
        assert "\x1b" not in out
    else:
        assert [text for text in painted if text not in out] == []
