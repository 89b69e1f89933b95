"""The parts of the reference that are written from the code: the options of each command."""

from __future__ import annotations

import enum
import re
from typing import Any

import typer

from harness.cli.app import app


def commands() -> dict[str, Any]:
    """The commands of `harness` by name."""
    return dict(typer.main.get_command(app).commands)


def options_table(command: Any) -> str:
    """Arguments and options of a command as a Markdown table."""
    rows = [_row(parameter) for parameter in command.params]
    return "\n".join(["| Argument or option | What it says |", "|---|---|", *rows]) + "\n"


def with_tables(page: str) -> str:
    """The page of commands with the tables as they must be now, between `<!-- options of … -->` and `<!-- end -->`."""
    return re.sub(
        r"(<!-- options of (\w+) -->\n).*?(<!-- end -->)",
        lambda found: f"{found[1]}\n{options_table(commands()[found[2]])}\n{found[3]}",
        page,
        flags=re.DOTALL,
    )


def _row(parameter: Any) -> str:
    choices = _choices(parameter)
    option = parameter.opts[0].startswith("--")
    value = parameter.metavar or "|".join(choices)
    words = [*([parameter.opts[0]] if option else []), *([] if getattr(parameter, "is_flag", False) else [value])]
    shown = " ".join(words).replace("|", "\\|")
    default = parameter.default.value if isinstance(parameter.default, enum.Enum) else parameter.default
    said = "" if default in (None, False, "") or parameter.required else f" Default: `{default}`."
    meaning = parameter.help if parameter.help.endswith(".") else f"{parameter.help}."
    return f"| `{shown}` | {meaning}{said} |".replace("<", "&lt;")


def _choices(parameter: Any) -> list[str]:
    kind = parameter.type_descriptor.annotation
    return [each.value for each in kind] if isinstance(kind, type) and issubclass(kind, enum.Enum) else ["VALUE"]
