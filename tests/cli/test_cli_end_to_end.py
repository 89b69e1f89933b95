"""The commands on a table on disk: three rows in two files, one row deleted by position, one by equality."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

import harness.testing.demo
from harness.cli import main


def test_demo(capfd, tmp_path):
    directory = tmp_path / "tables"
    assert main(["demo", "--directory", str(directory)]) == 0
    out, err = capfd.readouterr()
    assert "$ harness plan" in out
    assert "$ harness sql" in out
    assert "orders: 3610 rows, exactly those that it must hold" in out
    assert "events: 1798 rows, exactly those that it must hold" in out
    assert "clicks: 2113 rows, exactly those that it must hold" in out
    assert any(directory.iterdir())
    assert out.startswith("Three tables with deletes: ")
    assert "# clicks, Delta: deletion vectors" in out
    assert err == f"The tables are in {directory}; next: harness info {directory / 'orders'}\n"
    assert main(["demo", "--directory", str(directory)]) == 2
    assert capfd.readouterr().err.startswith("error: Cannot make the demo tables: the directory exists")


def test_demo_is_a_page_of_commands_that_run(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--directory", "demo-tables"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) <= 64
    assert max(map(len, lines)) <= 80
    assert """$ harness plan demo-tables/orders --where "region = 'eu'\"""" in lines
    commands = re.findall(r"^\$ harness (.*(?:\n    .*)?)$", "\n".join(lines), re.MULTILINE)
    assert len(commands) == 6
    for command in commands:
        assert main(shlex.split(command)) == 0
        shown = [
            line for line in capfd.readouterr().out.splitlines() if line.startswith(("files ", "rows ", "eu ", "buy "))
        ]
        assert set(shown) <= set(lines)


def test_demo_with_wrong_rows_exits_with_1(capfd, tmp_path, monkeypatch):
    build = harness.testing.demo.build_demo_tables

    def build_with_one_row_less(directory):
        tables = build(directory)
        return replace(tables, events=replace(tables.events, expected=tables.events.expected[1:]))

    monkeypatch.setattr(harness.testing.demo, "build_demo_tables", build_with_one_row_less)
    assert main(["demo"]) == 1
    assert "events: 1798 rows, but not the 1797 that it must hold" in capfd.readouterr().out


def test_format_hint_overrides_what_the_location_tells(capfd, tmp_path):
    assert main(["demo", "--directory", str(tmp_path / "tables")]) == 0
    capfd.readouterr()
    clicks = str(tmp_path / "tables" / "clicks")
    assert main(["info", clicks]) == 0
    assert capfd.readouterr().out.startswith("format: delta\n")
    assert main(["info", clicks, "--set", "format_hint=iceberg"]) == 2
    assert capfd.readouterr().err.startswith("error: Cannot find an Iceberg table")
    assert main(["sql", "SELECT count(*) AS n FROM c", "--table", f"c={clicks}", "--format", "csv"]) == 0
    assert capfd.readouterr().out == "n\n2113\n"
    assert main(["plan", clicks, "--at", "11"]) == 2
    assert "11" in capfd.readouterr().err
