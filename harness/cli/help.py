"""The help of a command: a summary, examples, arguments, options.

`-h` folds the options for opening tables, which are the same for every command, into one line. `--help-all` shows them.
"""

from __future__ import annotations

import inspect
from typing import Any

from typer.core import TyperCommand

from harness.cli.settings import MEANINGS

OPENING = "Opening tables"
"""The group of options that `-h` folds."""
FEW = 3
"""So many options of the group stand among the others."""
_ALL = "--help-all"


class HelpfulCommand(TyperCommand):
    """A command whose help begins with examples. A paragraph with indented lines is printed as it is written."""

    shows_all = False

    def get_help_option_names(self, ctx: Any) -> list[str]:
        """The names of the option for help."""
        return ["-h", "--help", _ALL]

    def _folded(self) -> int:
        """The number of options that `-h` folds."""
        number = sum(getattr(each, "rich_help_panel", None) == OPENING for each in self.params)
        return number if number > FEW else 0

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
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], OPENING: []}
        folds = self._folded()
        for parameter in self.get_params(ctx):
            is_argument = parameter.param_type_name == "argument"
            is_opening = folds and getattr(parameter, "rich_help_panel", None) == OPENING
            if (record := parameter.get_help_record(ctx)) is not None:
                groups["Arguments" if is_argument else OPENING if is_opening else "Options"].append(record)
        folded = groups.pop(OPENING)
        if self.shows_all:
            has_settings = any("--set" in parameter.opts for parameter in self.params)
            groups |= {OPENING: folded, "Names for --set": list(MEANINGS.items()) if has_settings else []}
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        if folds and not self.shows_all:
            formatter.write(f"\n{OPENING}: {_ALL} shows {folds} options (catalogs, stores, roots, limits).\n")
