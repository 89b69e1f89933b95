"""`harness rule`: the text of a rule that an error or a warning cites."""

from __future__ import annotations

import importlib.metadata
from typing import Annotated
from urllib.parse import urljoin

from harness.cli.document import Printed
from harness.cli.parameters import Argument
from harness.rules import find_rule


def address(name: str) -> str | None:
    """The address of a rule in the documentation; None: the package's metadata, as before a release, name none."""
    try:
        urls = importlib.metadata.metadata("lakeharness").get_all("Project-URL") or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    documentation = dict(url.split(", ", 1) for url in urls).get("Documentation")
    return documentation and urljoin(documentation, f"rules/{name.partition(' ')[0]}.md#{name.replace(' ', '-')}")


def rule(
    words: Annotated[
        list[str],
        Argument(metavar="RULE", help="The name of a rule, such as delta L38 or iceberg 4.7; with or without quotes."),
    ],
    *,
    out: Printed,
) -> None:
    """Show the text of a rule that an error or warning cites.

    Examples:
        harness rule delta L38
        harness rule iceberg 4.7

    Exits with 2 if there is no such rule; the error names the nearest ones.
    """
    found = find_rule(" ".join(words))
    place = address(found.name)
    head = "\n".join((f"{found.name}: {found.title}", found.source, *found.links, *([place] if place else ())))
    text = f"{head}\n\n{found.text}\n"  # as on its page, without markup
    content = {
        "rule": found.name,
        "title": found.title,
        "source": found.source,
        "links": list(found.links),
        "text": "\n".join(" ".join(paragraph.split()) for paragraph in found.text.split("\n\n")),
        "page": found.page,
        "address": place,
    }
    out.show("rule", content, lambda: [text])
