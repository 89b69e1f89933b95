"""Values of parameters that are what they must be as they come, such as text and defaults.

Typer builds an adapter of Pydantic for each parameter of a command, given or not (0.29), whose import takes 0.08 s: a
fifth of `harness sql` on a small table. Whatever is not plain goes its way.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from typer import Context

if TYPE_CHECKING:
    from typer.core import TyperCommand, TyperGroup


def take_plain_values(command: TyperCommand | TyperGroup, parent: Context | None = None) -> None:
    """Lets the parameters of a command and of its subcommands take plain values as they are.

    Changes nothing where Typer, of another version, converts in another way. parent: the context of the group.
    """
    context = Context(command, parent=parent, info_name=command.name, **command.context_settings)
    for parameter in command.get_params(context):  # its own, and the one for help
        converter = getattr(parameter, "get_runtime_param", None)
        descriptor = getattr(parameter, "type_descriptor", None)
        if converter is not None and descriptor is not None and descriptor.parameter_info.parser is None:
            first = _PlainFirst(descriptor.annotation, converter)
            vars(parameter)["get_runtime_param"] = partial(_same, first)
    for subcommand in getattr(command, "commands", {}).values():
        take_plain_values(subcommand, context)


class _PlainFirst:
    """What converts the values of one parameter, as Typer calls it.

    Args:
        annotation: the type of the parameter, without None.
        converter: gives what Typer converts by.
    """

    def __init__(self, annotation: Any, converter: Callable[[], Any]) -> None:
        self._annotation, self._converter = annotation, converter

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value for the command.

        Raises:
            typer.BadParameter: it cannot be converted.
        """
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        plain = _texts(value) if several and self._annotation == list[str] else self._single(value, several)
        return self._converter().coerce(value, param=param, ctx=ctx) if plain is None else plain

    def _single(self, value: Any, several: bool) -> Any:
        """The value of a text or a choice; None: it has to be converted."""
        if several:
            return None
        if self._annotation is str:
            return value if isinstance(value, str) else None
        if isinstance(self._annotation, enum.EnumMeta):
            choices: list[enum.Enum] = list(self._annotation)
            return next((choice for choice in choices if value in (choice, choice.value)), None)
        return None


def _texts(value: Any) -> list[str] | None:
    is_plain = isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
    return list(value) if is_plain else None


def _same(converter: _PlainFirst) -> _PlainFirst:
    return converter
