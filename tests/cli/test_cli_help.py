"""The help of commands: examples that parse, and options for opening tables folded to one line."""

from __future__ import annotations

import re
import shlex

import pytest
import typer

from harness.cli import main
from harness.cli.app import COMMANDS, command


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_come_first_and_are_commands_that_parse(name, capfd):
    assert main([*name.split(), "-h"]) == 0
    before = capfd.readouterr().out.partition("\nOptions:\n")[0].partition("\nArguments:\n")[0]
    summary, _, rest = before.partition("Examples:\n")
    assert len(summary.splitlines()) <= 7
    examples = re.findall(r"^      harness (.+)$", rest, re.MULTILINE)
    assert examples
    for example in examples:
        words = shlex.split(example.partition(" < ")[0])
        found = command(words)
        context = typer.Context(found, info_name="harness")
        for own in name.split():
            assert words.pop(0) == own
            found = found.commands[own]
        found.make_context(name, words, parent=context)


def test_options_for_opening_tables_are_one_line_until_all_are_asked_for(capfd):
    assert main(["plan", "-h"]) == 0
    short = capfd.readouterr().out
    assert "\nOpening tables: --help-all shows 10 options (catalogs, stores, roots, limits).\n" in short
    assert "--allow-root" not in short
    assert main(["plan", "--help-all"]) == 0
    whole = capfd.readouterr().out
    opening = whole.partition("\nOpening tables:\n")[2]
    assert re.findall(r"^  --([\w-]+)", opening, re.MULTILINE) == [
        *("catalog", "storage-option", "path-map", "allow-root", "outside", "prune", "cache-dir", "verbose"),
        *("untrusted", "set"),
    ]
    assert "\n  allow_version_guess " in opening
    for name in ("info", "metadata", "sql", "diff", "pull", "shell"):
        assert main([name, "--help-all"]) == 0
        assert capfd.readouterr().out.partition("\nOpening tables:\n")[2] == opening
