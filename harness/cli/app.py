"""The commands and their groups."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any

import click

from harness.cli import DONE, results
from harness.cli.parameters import Command

_SECTIONS = {
    "Inspect tables": {
        "info": ("inspection:info", "Show a table's format, rows, files, deletes, and last commit."),
        "head": ("inspection:head", "Show the first rows of a table."),
        "count": ("inspection:count", "Count the rows of a table after deletes."),
        "schema": ("inspection:schema", "Show the columns of a table, one per line."),
        "history": ("inspection:history", "Show a table's snapshots or versions, newest first."),
        "list": ("listing:list_", "List catalogs, or the tables of a catalog or namespace."),
        "metadata": ("inspection:metadata", "Show a metadata table, for example snapshots or files."),
        "trace": ("trace:trace", "Show where rows came from, and why they are gone."),
        "plan": ("inspection:plan", "Show which files and deletes a read uses, without reading rows."),
    },
    "Query and compare": {
        "sql": ("query:sql", "Run a query on tables."),
        "shell": ("shell.command:shell", "Run SQL interactively, or from standard input."),
        "changes": ("changes:changes", "Show the rows that were inserted, deleted, and updated."),
        "diff": (
            "diff:diff",
            "Compare the rows of two tables, files, snapshots, or engines, or two plans of one table.",
        ),
    },
    "Test": {
        "check": ("check:check", "Check a table's metadata against the specification, its files, and its rows."),
        "pull": ("pull:pull", "Copy part of a table: a slice with the files that a filter needs."),
        "scenarios list": ("scenarios:list_", "List scenarios with their titles."),
        "scenarios run": ("scenarios:run", "Run scenarios on engines and report which engines read them correctly."),
        "scenarios build": (
            "scenarios:build",
            "Write scenarios as tables with expected rows, for readers in any language.",
        ),
        "scenarios script": ("scenarios:script", "Write a scenario as one Python file, for bug reports to readers."),
        "scenarios score": ("scenarios:score", "Score results that a reader in any language wrote to a folder."),
        "scenarios reread": ("scenarios:reread", "Read a table in many ways with one engine, and compare the results."),
        "demo": ("demo:demo", "Create example tables with deletes, then plan and query them."),
    },
    "Get help": {
        "doctor": ("doctor:doctor", "Show installed versions and how to install missing packages."),
        "rule": ("rule:rule", "Show the rule that an error, warning, or finding cites."),
    },
}
"""For each section of the help and each command: the function (module in this package and name) and the summary."""
COMMANDS = {name: each for commands in _SECTIONS.values() for name, each in commands.items()}
"""The function and the summary by name of the command."""
_GROUPS = {"scenarios": "Test readers with scenarios: small tables with expected rows."}


def run(words: Sequence[str]) -> int:
    """Run the command of a command line and return the exit code.

    Args:
        words: The words of the command line.

    Raises:
        click.ClickException: The words are not a command with valid options.
        HarnessError: The command failed.
    """
    root = application()
    if "_HARNESS_COMPLETE" in os.environ:
        root.main(prog_name="harness")  # prints completions for the shell, and ends the process
    try:
        # `main` would turn KeyboardInterrupt into another error and write an empty line to stderr.
        with root.make_context("harness", [*words]) as context:
            root.invoke(context)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    return DONE


def application() -> click.Group:
    """Return the group of all commands. A command's module is imported only if it is called or completed."""
    text = "Read Iceberg and Delta tables exactly: inspect, query, compare, and test them."
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
        group, _, command = name.rpartition(" ")
        groups.get(group, root).add_command(click.Command(command, help=summary))
    for inner in groups.values():
        root.add_command(inner)
    return root


def imported(name: str) -> Command:
    """Import a command's module and return the command with its options."""
    module, _, function = COMMANDS[name][0].partition(":")
    callback = getattr(importlib.import_module(f"harness.cli.{module}"), function)
    return Command(name.rpartition(" ")[2], callback)


class _Commands(click.Group):
    """A group of commands whose modules are imported only if they are called or completed.

    Args:
        name: The name of the group.
        prefix: The words before the names in `COMMANDS`.
        settings: Arguments of `click.Group`.
    """

    def __init__(self, name: str, prefix: str = "", **settings: Any) -> None:
        context = {"help_option_names": ["-h", "--help"], "max_content_width": 120}
        super().__init__(name, no_args_is_help=True, context_settings=context, **settings)
        self._prefix = prefix

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Return the name, the command, and the remaining words of a command line."""
        name, command, rest = super().resolve_command(ctx, args)
        whole = f"{self._prefix}{name}"
        return name, imported(whole) if whole in COMMANDS else command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the summaries of commands and groups by section."""
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
