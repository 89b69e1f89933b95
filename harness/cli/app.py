"""The commands, put together."""

from __future__ import annotations

import enum
import importlib
import inspect
import os
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Annotated, Any, Literal, cast, get_args, get_origin

import typer
from typer import Context
from typer.core import TyperCommand, TyperGroup

import harness
from harness.cli.options import MEANINGS, OPENING, RARE


def take_plain_values(command: TyperCommand | TyperGroup, parent: Context | None = None) -> None:
    """Lets the parameters of a command and of its subcommands take plain values, such as texts, as they are.

    Typer builds an adapter of Pydantic for each parameter, given or not (0.29), whose import takes 0.08 s: a fifth of
    `harness sql` on a small table. Other versions of Typer convert as they do. parent: the context of the group.
    """
    context = Context(command, parent=parent, info_name=command.name, **command.context_settings)
    for parameter in command.get_params(context):  # its own, and the one for help
        converter = getattr(parameter, "get_runtime_param", None)
        descriptor = getattr(parameter, "type_descriptor", None)
        if converter is not None and descriptor is not None and descriptor.parameter_info.parser is None:
            first = SimpleNamespace(coerce=partial(_plain, descriptor.annotation, converter))
            vars(parameter)["get_runtime_param"] = lambda first=first: first
    for subcommand in getattr(command, "commands", {}).values():
        take_plain_values(subcommand, context)


def _plain(annotation: Any, converter: Callable[[], Any], value: Any, param: Any, ctx: Any) -> Any:
    """The value for the command, as it is, or else as Typer's converter gives it or raises typer.BadParameter."""
    several = param.multiple or param.nargs == -1
    literals = get_args(annotation) if get_origin(annotation) is Literal else ()
    if value is None:
        return () if several else None
    if several:
        is_listed = annotation == list[str] and isinstance(value, list | tuple)
        if is_listed and all(isinstance(item, str) for item in value):
            return list(value)
    elif value in literals or (annotation is str and isinstance(value, str)):
        return value
    elif isinstance(annotation, enum.EnumMeta):
        for choice in list[enum.Enum](annotation):
            if value in (choice, choice.value):
                return choice
    return converter().coerce(value, param=param, ctx=ctx)


_SECTIONS = {
    "Look at a table": {
        "info": "looking:info",
        "head": "looking:head",
        "count": "looking:count",
        "schema": "looking:schema",
        "history": "looking:history",
        "list": "listing:list_",
        "metadata": "looking:metadata",
        "plan": "looking:plan",
    },
    "Query and compare": {
        "sql": "query:sql",
        "shell": "shell.command:shell",
        "diff": "diff:diff",
    },
    "Test": {
        "check": "check:check",
        "pull": "pull:pull",
        "scenarios list": "scenarios:list_",
        "scenarios run": "scenarios:run",
        "scenarios build": "scenarios:build",
        "scenarios script": "scenarios:script",
        "scenarios site": "scenarios:site",
        "judge": "judge:judge",
        "demo": "demo:demo",
    },
    "Find out": {
        "doctor": "doctor:doctor",
        "rule": "rule:rule",
        "cache": "cache:cache",
    },
}
"""The module in this package and the function, by section of the help and name of the command."""
COMMANDS = {name: function for commands in _SECTIONS.values() for name, function in commands.items()}
"""The module in this package and the function, by name of the command."""
_GROUPS = {"scenarios": "List, run, build and hand on scenarios: tables with expected rows."}


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
    # Typer's scripts for completion hand over the words in the environment.
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    words = arguments or (line.split()[1:] if "_HARNESS_COMPLETE" in os.environ else [])
    app = typer.Typer(
        name="harness",
        cls=_GroupedCommands,
        help="Read Iceberg and Delta tables exactly: plan, query, compare and inspect them.",
        no_args_is_help=True,
        add_completion=True,
        rich_markup_mode=None,  # help and usage errors as plain text, the same in a log as on a terminal
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_global_options)
    groups = {"": app}
    for name in [name for name in COMMANDS if name.split()[:1] == list(words[:1])] or COMMANDS:
        module, _, function = COMMANDS[name].partition(":")
        group, _, own = name.rpartition(" ")
        if group not in groups:
            groups[group] = typer.Typer(help=_GROUPS[group], no_args_is_help=True, rich_markup_mode=None)
            app.add_typer(groups[group], name=group)
        run = getattr(importlib.import_module(f"harness.cli.{module}"), function)
        groups[group].command(own, cls=HelpfulCommand)(run)
    return app


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
    """Defines the options of `harness` itself."""


# The help of a command: a summary, examples, arguments, options.
#
# `-h` folds the options for opening tables, which are the same for every command, into one line, and rare ones to their
# names. `--help-all` shows them.


class _GroupedCommands(TyperGroup):
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the summaries of the commands and groups, section by section."""
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                names = dict.fromkeys(name.partition(" ")[0] for name in commands)
                short = {name: self.commands[name].get_short_help_str(limit=80) for name in names}
                formatter.write_dl([(f"{name:<9}", text) for name, text in short.items()])


FEW = 3
"""So many options of a group stand among the others."""
_ALL = "--help-all"


class HelpfulCommand(TyperCommand):
    """A command whose help begins with examples. A paragraph with indented lines is printed as it is written."""

    shows_all = False

    def get_help_option_names(self, ctx: Any) -> list[str]:
        """The names of the option for help."""
        return ["-h", "--help", _ALL]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the words of the command line."""
        self.shows_all = _ALL in args
        return super().parse_args(ctx, args)

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Writes the paragraphs of the help."""
        for paragraph in inspect.cleandoc(self.help or "").split("\n\n"):
            formatter.write_paragraph()
            with formatter.indentation():
                if "\n " in paragraph:
                    formatter.write("".join(f"  {line}\n" for line in paragraph.split("\n")))
                else:
                    formatter.write_text(paragraph)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes arguments and options by group."""
        titled = {
            title: [each for each in self.params if getattr(each, "rich_help_panel", None) == title]
            for title in (RARE, OPENING)
        }
        folded = {title: options for title, options in titled.items() if len(options) > FEW}
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], **{title: [] for title in folded}}
        for parameter in self.get_params(ctx):
            usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
            panel = getattr(parameter, "rich_help_panel", None)
            if (record := parameter.get_help_record(ctx)) is not None:
                groups[panel if panel in folded else usual].append(record)
        if self.shows_all and any("--set" in parameter.opts for parameter in self.params):
            groups["Names for --set"] = list(MEANINGS.items())
        for title, records in groups.items():
            if records and (self.shows_all or title not in folded):
                with formatter.section(title):
                    formatter.write_dl(records)
        for title, options in () if self.shows_all else folded.items():
            names = ", ".join(each.opts[0] for each in options)
            meant = "catalogs, stores, roots, limits" if title == OPENING else names
            formatter.write("\n")
            formatter.write_text(f"{title}: {_ALL} shows {len(options)} options ({meant}).")
