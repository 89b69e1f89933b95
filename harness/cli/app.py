"""The commands, put together."""

from __future__ import annotations

import enum
import importlib
import inspect
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Annotated, Any, Literal, cast, get_args, get_origin

import typer
from typer import Context
from typer.core import TyperCommand, TyperGroup

from harness.cli import results


def take_plain_values(command: TyperCommand | TyperGroup) -> None:
    """Let the parameters of a command take plain values, such as texts, as they are.

    Typer builds an adapter of Pydantic for each parameter, given or not (0.29), whose import takes 0.08 s: a fifth of
    `harness sql` on a small table. Other versions of Typer convert as they do.
    """
    context = Context(command, info_name=command.name, **command.context_settings)
    for parameter in command.get_params(context):  # its own, and the one for help
        converter = getattr(parameter, "get_runtime_param", None)
        descriptor = getattr(parameter, "type_descriptor", None)
        if converter is not None and descriptor is not None and descriptor.parameter_info.parser is None:
            first = SimpleNamespace(coerce=partial(_plain, descriptor.annotation, converter))
            vars(parameter)["get_runtime_param"] = lambda first=first: first


def _plain(annotation: object, converter: Callable[[], Any], value: Any, param: Any, ctx: object) -> object:
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
        "info": ("looking:info", "Show format, rows, files, deletes and last commit."),
        "head": ("looking:head", "Show the first rows of a table."),
        "count": ("looking:count", "Count the rows of a table, deletes applied."),
        "schema": ("looking:schema", "Show the columns of a table, a field a line."),
        "history": ("looking:history", "Show snapshots or versions, the newest first."),
        "list": ("listing:list_", "List the tables of a catalog or namespace, or the catalogs."),
        "metadata": ("looking:metadata", "Show a metadata table, such as snapshots or files."),
        "plan": ("looking:plan", "Show the files and deletes of a read, without its rows."),
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
        "rule": ("rule:rule", "Show the text of a rule that an error or warning cites."),
    },
}
"""The place of the function (module in this package and name) and the summary, by section of the help and command."""
COMMANDS = {name: each for commands in _SECTIONS.values() for name, each in commands.items()}
"""The place and the summary by name of the command."""
_GROUPS = {"scenarios": "Test readers: scenarios, which are tables with expected rows, and reads that must agree."}
_SETTINGS = {"help_option_names": ["-h", "--help"]}


def application() -> TyperGroup:
    """Return the group of all commands, which imports the module of a command when that is called or completed."""
    app = typer.Typer(
        name="harness",
        cls=_SectionedCommands,
        help="Read Iceberg and Delta tables exactly: plan, query, compare and inspect them.",
        no_args_is_help=True,
        rich_markup_mode=None,  # help and usage errors as plain text, the same in a log as on a terminal
        context_settings=_SETTINGS,
    )
    app.callback()(_global_options)
    root = cast("TyperGroup", typer.main.get_command(app))
    take_plain_values(root)
    groups = {"": root}
    for name, (_, summary) in COMMANDS.items():
        group, _, own = name.rpartition(" ")
        if group not in groups:
            groups[group] = _Commands(
                name=group,
                help=_GROUPS[group],
                no_args_is_help=True,
                rich_markup_mode=None,
                context_settings=_SETTINGS,
                prefix=f"{group} ",
            )
            take_plain_values(groups[group])
            root.add_command(groups[group])
        groups[group].add_command(TyperCommand(own, help=summary, rich_markup_mode=None))
    return root


def imported(name: str) -> TyperCommand:
    """Return the command with its options, from its module."""
    module, _, function = COMMANDS[name][0].partition(":")
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    own = name.rpartition(" ")[2]
    app.command(own, cls=HelpfulCommand)(getattr(importlib.import_module(f"harness.cli.{module}"), function))
    command = cast("TyperCommand", typer.main.get_command(app))
    take_plain_values(command)
    return command


class _Commands(TyperGroup):
    """Commands by name and summary, which are imported when one is called or completed.

    prefix: what stands before their names in `COMMANDS`.
    """

    def __init__(self, prefix: str = "", **settings: Any) -> None:
        super().__init__(**settings)
        self._prefix = prefix

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Return the name, the command and the other words of a command line."""
        name, command, rest = super().resolve_command(ctx, args)
        if f"{self._prefix}{name}" in COMMANDS:
            command = imported(f"{self._prefix}{name}")
        return name, command, rest


class _SectionedCommands(_Commands):
    def format_commands(self, ctx: object, formatter: Any) -> None:
        """Write the summaries of the commands and groups, section by section."""
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                names = dict.fromkeys(name.partition(" ")[0] for name in commands)
                short = {name: self.commands[name].get_short_help_str(limit=80) for name in names}
                formatter.write_dl([(f"{name:<9}", text) for name, text in short.items()])


def _print_version(wanted: bool) -> None:  # a typer callback gets the option's value, nothing else
    if wanted:
        results.print_version()
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


FEW = 3
"""So many options of a group stand among the others."""
_ALL = "--help-all"


class HelpfulCommand(TyperCommand):
    """A command whose help begins with examples. A paragraph with indented lines is printed as it is written."""

    shows_all = False

    def get_help_option_names(self, ctx: object) -> list[str]:
        """The names of the option for help."""
        return ["-h", "--help", _ALL]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the words of the command line."""
        self.shows_all = _ALL in args
        return super().parse_args(ctx, args)

    def format_help_text(self, ctx: object, formatter: Any) -> None:
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
        from harness.cli.options import MEANINGS, OPENING, RARE  # a command's module has imported it

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
