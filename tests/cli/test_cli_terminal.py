"""What commands print on a terminal: tables that fit it, lines that fold between words, and colours."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.cli import main
from harness.metadata.model.text_tables import cell_width
from harness.testing.writing.iceberg.builder import IcebergTable


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr("harness.cli.results.ByteStream.isatty", lambda self: True)
    monkeypatch.setattr("harness.cli.results.is_terminal_output", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    return monkeypatch


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with files by month and hour, one without deletes, one with each kind; and two files to compare."""
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
    *("info orders", "info orders --full", "schema orders", "history orders", "head orders", "sql 'FROM range(3)'"),
    *(f"metadata orders {name}" for name in ("files", "partitions", "entries", "snapshots", "manifests", "refs")),
    "plan orders --where id<3",
    "plan orders --where \"region = 'eu'\"",
    "diff a.parquet b.parquet --keys id",
    *("diff a.parquet b.parquet", "doctor", "list ."),
    "scenarios list iceberg/deletes/*",
    "scenarios run iceberg/deletes/cut-path-bounds --engines duckdb",
]


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_printed_fits_the_terminal(lake, terminal, capfd, command, width):
    terminal.chdir(lake)
    terminal.setenv("COLUMNS", str(width))
    assert main(shlex.split(command)) in (0, 1)
    lines = capfd.readouterr().out.splitlines()
    assert lines
    too_wide = [line for line in lines if cell_width(line) > width]
    # A path that no line holds is never broken.
    assert [line for line in too_wide if max(map(len, line.split())) < width - 30] == []


@pytest.mark.parametrize(
    ("command", "painted"),
    [
        ("sql 'SELECT NULL AS n'", ["\x1b[2minteger", "\x1b[2m   NULL\x1b[0m"]),
        (
            "diff a.parquet b.parquet --columns id",
            ["\x1b[31mdifferent: 1 row only on the left\x1b[0m", "\x1b[31m  -  0"],
        ),
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
