"""The commands on a table on disk: three rows in two files, one row deleted by position, one by equality."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

import harness.testing.demo
from harness.cli import main


def test_demo_is_a_page_of_commands_that_run(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--directory", "demo-tables"]) == 0
    out, err = capfd.readouterr()
    for rows in ("orders: 3610 rows", "events: 1798 rows", "clicks: 2113 rows"):
        assert f"{rows}, exactly those that it must hold" in out
    assert err == "The tables are in demo-tables; next: harness info demo-tables/orders\n"
    lines = out.splitlines()
    assert (len(lines) <= 64, max(map(len, lines)) <= 80) == (True, True)
    commands = re.findall(r"^\$ harness (.*(?:\n    .*)?)$", out, re.MULTILINE)
    assert len(commands) == 6
    for command in commands:
        assert main(shlex.split(command)) == 0
        printed = capfd.readouterr().out.splitlines()
        assert {line for line in printed if line.startswith(("files ", "rows ", "eu ", "buy "))} <= set(lines)
    assert main(["demo", "--directory", "demo-tables"]) == 2
    assert capfd.readouterr().err.startswith("error: Cannot make the demo tables: the directory exists")


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
