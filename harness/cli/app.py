"""The commands, put together."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, cast

import typer

import harness
from harness.cli.plain_values import take_plain_values

if TYPE_CHECKING:
    from typer.core import TyperCommand, TyperGroup

COMMANDS = {
    "info": "info:info",
    "list": "listing:list_",
    "metadata": "metadata:metadata",
    "plan": "plan:plan",
    "sql": "query:sql",
    "shell": "shell.command:shell",
    "diff": "diff:diff",
    "pull": "pull:pull",
    "run": "run:run",
    "build": "build:build",
    "demo": "demo:demo",
    "cache": "cache:cache",
    "doctor": "doctor:doctor",
    "rule": "rule:rule",
}
"""By name of a command: its module in this package, and the function."""


def command(arguments: Sequence[str]) -> TyperCommand | TyperGroup:
    """The command that parses these arguments of the command line and runs what they ask for."""
    called = cast("TyperCommand | TyperGroup", typer.main.get_command(application(arguments)))
    take_plain_values(called)
    return called


def application(arguments: Sequence[str]) -> typer.Typer:
    """The application for these arguments of the command line.

    Where they begin with a command, it has no other: each costs its imports and its many options. Without any, those
    count that a shell wants to be completed.
    """
    words = arguments or _completed_words()
    app = typer.Typer(
        name="harness",
        help="Read Iceberg and Delta tables exactly: plan, query, compare and inspect them.",
        no_args_is_help=True,
        add_completion=True,
        rich_markup_mode=None,  # help and usage errors as plain text, the same in a log as on a terminal
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_global_options)
    for name in [name for name in COMMANDS if name in words[:1]] or COMMANDS:
        module, _, function = COMMANDS[name].partition(":")
        app.command(name)(getattr(importlib.import_module(f"harness.cli.{module}"), function))
    return app


def _completed_words() -> list[str]:
    """What is typed so far behind `harness`, where a shell asks for completion; Typer's scripts tell it so."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    return line.split()[1:] if "_HARNESS_COMPLETE" in os.environ else []


def _print_version(wanted: bool) -> None:  # a typer callback gets the option's value, nothing else
    if wanted:
        from harness.cli import results

        results.print_result(f"harness {harness.__version__}\n")
        raise typer.Exit


def _global_options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Read Iceberg and Delta tables exactly: plan, query, compare and inspect them."""
