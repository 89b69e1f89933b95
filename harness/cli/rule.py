"""`harness rule`: what a rule says that an error or a warning cites.

A command and not an option of `doctor`: that one looks at the installation, and its exit code says whether DuckDB reads
work; a rule is looked up wherever an error is read.
"""

from __future__ import annotations

from typing import Annotated

import typer

from harness import rules
from harness.cli import options, results
from harness.cli.document import json_document

Words = Annotated[
    list[str],
    typer.Argument(metavar="RULE", help="As errors cite it, such as delta L38 or iceberg 4.7; with or without quotes."),
]


def rule(words: Words, format_: options.Format = options.Document.TEXT) -> None:
    """Show what a rule says: what a reader must do, and what to do about a table that breaks it.

    Exits with 2 if there is no such rule; the error names the nearest ones.
    """
    found = rules.rule(" ".join(words))
    match format_:
        case options.Document.TEXT:
            results.print_result(text_of(found))
        case options.Document.JSON:
            results.print_result(json_document("rule", as_dict(found)))


def text_of(found: rules.Rule) -> str:
    """The rule as on its page, without markup of headings and links."""
    return f"{found.name}: {found.title}\n{found.source}\n\n{found.text}\n"


def as_dict(found: rules.Rule) -> dict[str, str]:
    """The rule's parts; the text as one line per paragraph."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in found.text.split("\n\n"))
    return {
        "rule": found.name,
        "title": found.title,
        "source": found.source,
        "text": "\n".join(paragraphs),
        "page": found.page,
    }
