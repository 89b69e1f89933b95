"""click commands that are built from the signatures of functions.

Each parameter of a function is annotated with an `Option` or an `Argument`, or is a group: a dataclass whose fields are
annotated in the same way.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import click


class Option:
    """An option, for use in an annotation.

    Args:
        names: The names with dashes. If there are none, the name comes from the parameter.
        metavar: The placeholder for the value in the help, if the type does not provide one.
        help: The help text.
        min: The minimum of a number.
        panel: The section of the help.
    """

    def __init__(
        self, *names: str, metavar: str | None = None, help: str = "", min: float | None = None, panel: str = "Options"
    ) -> None:
        self.names, self.metavar, self.help, self.min, self.panel = names, metavar, help, min, panel

    def parameter(self, name: str, hint: Any, default: object) -> click.Option:
        """Return click's option for a parameter."""
        return click.Option(
            [name, *(self.names or [f"--{name.replace('_', '-')}"])],
            is_flag=hint is bool,
            multiple=get_origin(hint) is list,
            metavar=self.metavar,
            help=self.help,
            show_default=True,
            **_settings(hint, self.min, default),
        )

    def record(self, parameter: click.Parameter, context: click.Context) -> tuple[str, str] | None:
        """Return the option's line in the help."""
        return parameter.get_help_record(context)


class Argument:
    """An argument, for use in an annotation. See `Option`."""

    panel = "Arguments"

    def __init__(self, *, metavar: str, help: str = "", min: float | None = None) -> None:
        self.metavar, self.help, self.min = metavar, help, min

    def parameter(self, name: str, hint: Any, default: object) -> click.Argument:
        """Return click's argument for a parameter."""
        several, required = get_origin(hint) is list, default is inspect.Parameter.empty
        metavar = self.metavar if required else f"[{self.metavar}]"
        return click.Argument(
            [name],
            nargs=-1 if several else 1,
            required=required,
            metavar=f"{metavar}..." if several else metavar,
            **_settings(hint, self.min, default),
        )

    def record(self, parameter: click.Parameter, context: click.Context) -> tuple[str, str]:
        """Return the argument's line in the help."""
        return self.metavar, self.help


class Command(click.Command):
    """A command whose help has sections.

    Args:
        name: The name.
        function: The function. Its docstring is the help.
    """

    def __init__(self, name: str, function: Callable[..., None]) -> None:
        self.declared: dict[str, Option | Argument] = {}
        contexts: list[str] = []
        groups: dict[str, Any] = {}
        parameters: list[click.Parameter] = []

        def add(name: str, hint: Any, default: object) -> None:
            if hint is click.Context:
                contexts.append(name)
            else:
                annotated, self.declared[name] = get_args(hint)
                parameters.append(self.declared[name].parameter(name, _non_none(annotated), default))

        hints = get_type_hints(function, include_extras=True)
        for each in inspect.signature(function).parameters.values():
            if not dataclasses.is_dataclass(hint := hints[each.name]):
                add(each.name, hint, each.default)
                continue
            groups[each.name], inner = hint, get_type_hints(hint, include_extras=True)
            for field in dataclasses.fields(hint):
                is_required = field.default is dataclasses.MISSING
                add(field.name, inner[field.name], inspect.Parameter.empty if is_required else field.default)

        def run(**values: Any) -> None:
            values |= dict.fromkeys(contexts, click.get_current_context())
            for name, group in groups.items():
                values[name] = group(**{field.name: values.pop(field.name) for field in dataclasses.fields(group)})
            function(**values)

        paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
        # click rewraps a paragraph unless it begins with the character \b.
        text = "\n\n".join(f"\b\n{each}" if "\n " in each else each for each in paragraphs)
        super().__init__(name, callback=run, params=parameters, help=text)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write arguments and options by section."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            declared = self.declared.get(parameter.name or "", Option())  # click's own help option is not declared
            if (record := declared.record(parameter, ctx)) is not None:
                sections.setdefault(declared.panel, []).append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class _Choice(click.Choice[enum.Enum]):
    """A choice of the values of an enumeration."""

    def normalize_choice(self, choice: Any, ctx: click.Context | None) -> str:
        return str(choice.value if isinstance(choice, enum.Enum) else choice)


class _File(click.Path):
    """A path. A dash does not mean standard output, and empty text does not mean the current directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value in ("", "-"):
            self.fail(f"{value!r} is not a path. Without a path, results go to standard output.", param, ctx)
        return super().convert(value, param, ctx)


def _non_none(hint: Any) -> Any:
    remaining = [each for each in get_args(hint) if each is not type(None)]
    return remaining[0] if type(None) in get_args(hint) else hint


def _settings(hint: Any, least: float | None, default: object) -> dict[str, Any]:
    """Return the type, default, and callback of a parameter. An empty list becomes None."""
    if get_origin(hint) is list:
        return {"type": _type(get_args(hint)[0], least), "callback": lambda _, __, value: list(value) or None}
    if default is inspect.Parameter.empty:
        return {"type": _type(hint, least)}
    return {"type": _type(hint, least), "default": default.value if isinstance(default, enum.Enum) else default}


@functools.cache
def _type(hint: Any, least: float | None) -> Any:
    if issubclass(hint, enum.Enum):
        return _Choice(hint)
    if issubclass(hint, Path):
        return _File(path_type=hint)
    if least is None:
        return hint
    return click.IntRange(min=int(least)) if hint is int else click.FloatRange(min=least)
