"""The commands, put together."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any

import click

from harness.cli import DONE, results
from harness.cli.parameters import Command

_SECTIONS = {
    "Look at a table": {
        "info": ("inspection:info", "Show format, rows, files, deletes and last commit."),
        "head": ("inspection:head", "Show the first rows of a table."),
        "count": ("inspection:count", "Count the rows of a table, deletes applied."),
        "schema": ("inspection:schema", "Show the columns of a table, a field a line."),
        "history": ("inspection:history", "Show snapshots or versions, the newest first."),
        "list": ("listing:list_", "List the tables of a catalog or namespace, or the catalogs."),
        "metadata": ("inspection:metadata", "Show a metadata table, such as snapshots or files."),
        "plan": ("inspection:plan", "Show the files and deletes of a read, without its rows."),
    },
    "Query and compare": {
        "sql": ("query:sql", "Run a query on tables."),
        "shell": ("shell.command:shell", "Run statements as they are typed, or are piped in."),
        "diff": ("diff:diff", "Compare the rows of two tables, files, snapshots or engines."),
    },
    "Test": {
        "check": ("check:check", "Check a table's metadata against the specification, its files and its rows."),
        "pull": ("pull:pull", "Copy a slice of a table, with the files that a filter needs."),
        "scenarios list": ("scenarios:list_", "List scenarios by name, with their titles."),
        "scenarios run": ("scenarios:run", "Run scenarios on engines, and report who reads them rightly."),
        "scenarios build": (
            "scenarios:build",
            "Write the tables of scenarios, each beside its expected rows: a suite for programs in any language.",
        ),
        "scenarios script": ("scenarios:script", "Write a scenario as one Python file, for maintainers of readers."),
        "scenarios score": ("scenarios:score", "Score the results that a program in any language left in a folder."),
        "scenarios reread": ("scenarios:reread", "Read one table by one engine in many ways that must agree."),
        "demo": ("demo:demo", "Make tables with deletes, plan and query them."),
    },
    "Find out": {
        "doctor": ("doctor:doctor", "Show versions, and commands that install missing packages."),
        "rule": ("rule:rule", "Show the text of a rule that an error, a warning or a finding cites."),
    },
}
"""The place of the function (module in this package and name) and the summary, by section of the help and command."""
COMMANDS = {name: each for commands in _SECTIONS.values() for name, each in commands.items()}
"""The place and the summary by name of the command."""
_GROUPS = {"scenarios": "Test readers: scenarios, which are tables with expected rows, and reads that must agree."}


def run(words: Sequence[str]) -> int:
    """Run the command of a command line and return the exit code.

    Raises:
        click.ClickException: The words are not a command with its options.
        HarnessError: The command failed.
    """
    root = application()
    if "_HARNESS_COMPLETE" in os.environ:
        root.main(prog_name="harness")  # prints words for the shell, and ends the process
    try:
        # `main` would make KeyboardInterrupt another error, and write an empty line to stderr.
        with root.make_context("harness", [*words]) as context:
            root.invoke(context)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    return DONE


def application() -> click.Group:
    """Return the group of all commands, which imports the module of a command when that is called or completed."""
    text = "Read Iceberg and Delta tables exactly: plan, query, compare and inspect them."
    version = click.Option(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_version,
        help="Print the version and exit.",
    )
    root = _Commands("harness", help=text, params=[version])
    groups = {name: _Commands(name, f"{name} ", help=text) for name, text in _GROUPS.items()}
    for name, (_, summary) in COMMANDS.items():
        group, _, own = name.rpartition(" ")
        groups.get(group, root).add_command(click.Command(own, help=summary))
    for inner in groups.values():
        root.add_command(inner)
    return root


def imported(name: str) -> Command:
    """Return the command with its options, from its module."""
    module, _, function = COMMANDS[name][0].partition(":")
    found = getattr(importlib.import_module(f"harness.cli.{module}"), function)
    return Command(name.rpartition(" ")[2], found)


class _Commands(click.Group):
    """Commands by name and summary, which are imported when one is called or completed.

    Args:
        prefix: The words before the names in `COMMANDS`.
    """

    def __init__(self, name: str, prefix: str = "", **settings: Any) -> None:
        context = {"help_option_names": ["-h", "--help"], "max_content_width": 120}
        super().__init__(name, no_args_is_help=True, context_settings=context, **settings)
        self._prefix = prefix

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Return the name, the command and the other words of a command line."""
        name, command, rest = super().resolve_command(ctx, args)
        whole = f"{self._prefix}{name}"
        return name, imported(whole) if whole in COMMANDS else command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries of the commands and groups, section by section."""
        for title, commands in _SECTIONS.items():
            subcommands = [name.removeprefix(self._prefix) for name in commands if name.startswith(self._prefix)]
            names = dict.fromkeys(name.partition(" ")[0] for name in subcommands)
            if names:
                with formatter.section("Commands" if self._prefix else title):
                    formatter.write_dl([(f"{name:<9}", self.commands[name].help or "") for name in names])


def _print_version(context: click.Context, option: click.Parameter, is_requested: bool) -> None:
    if is_requested:
        results.print_version()
        context.exit()
