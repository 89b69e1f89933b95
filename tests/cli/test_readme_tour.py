"""The README's tour shows what the commands print: each `$ harness …` in it is run, and its lines compared."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import duckdb

from harness.cli import main

README = Path(__file__).parents[2] / "README.md"


def tour() -> list[tuple[str, str]]:
    """Commands and what the README prints under them."""
    blocks = re.findall(r"^```console\n(.*?)^```$", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [
        (command, shown)
        for block in blocks
        for command, shown in re.findall(r"^\$ harness (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    ]


def test_the_tour_shows_what_the_commands_print(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--directory", "demo-tables"]) == 0
    capfd.readouterr()
    commands = tour()
    assert len(commands) >= 5
    for command, shown in commands:
        code = main(shlex.split(command))
        out, err = capfd.readouterr()
        out = out.replace(f"duckdb {duckdb.__version__},", "duckdb 2.0.0,")
        assert out + err == shown, command
        assert code == (2 if err else int("different: " in out)), command
