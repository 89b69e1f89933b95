"""The help of a command: a summary, examples, arguments, options.

`-h` folds the options for opening tables, which are the same for every command, into one line, and rare ones to their
names. `--help-all` shows them.
"""

from __future__ import annotations

import inspect
from typing import Any

from typer.core import TyperCommand

from harness.cli.options import MEANINGS, OPENING, RARE

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
