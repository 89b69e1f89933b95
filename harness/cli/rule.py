"""`harness rule`: the text of a rule that an error or a warning cites."""

from __future__ import annotations

import functools
import importlib.metadata
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from harness import errors
from harness.cli import options, results
from harness.cli.document import print_document
from harness.errors import RequestError

PAGES = ("iceberg", "delta", "frontier")
"""The pages below `docs/rules` in order, each the first word of its rules' names."""

_HEADING = re.compile(r'### <a id="(?P<anchor>[^"]+)"></a>(?P<name>[^:]+): (?P<title>.+)\n')
_LINK = re.compile(r"\[([^]]+)\]\(([^)]+)\)")
_PARTS = re.compile(r"(?P<section>\D*(?:\d+\.)?)(?P<number>\d+)")
_NEAR = 3


@dataclass(frozen=True, slots=True)
class Rule:
    """A numbered rule.

    name: as errors cite it, such as `iceberg 4.7`, `delta L38` or `delta trap 9`.
    source: the section of a specification, or a note that none says so. links: the addresses of those sections.
    text: lines as on the page.
    """

    name: str
    title: str
    source: str
    links: tuple[str, ...]
    text: str
    anchor: str

    @property
    def page(self) -> str:
        """The place of the rule in the repository."""
        return f"docs/rules/{self.name.split()[0]}.md#{self.anchor}"


def address(name: str) -> str | None:
    """The address of a rule in the documentation that the package's metadata name; None: they name none.

    name: as errors cite it. Only a release knows its repository.
    """
    try:
        urls = importlib.metadata.metadata("lakeharness").get_all("Project-URL") or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    documentation = dict(url.split(", ", 1) for url in urls).get("Documentation")
    return documentation and f"{documentation}/rules/{name.partition(' ')[0]}.md#{name.replace(' ', '-')}"


def find_rule(text: str) -> Rule:
    """The rule of a name.

    text: such as `delta L38`, in any letter case; brackets around it and a leading `rule`, as in messages, do no harm.

    Raises:
        RequestError: there is no such rule; the message names the nearest ones.
    """
    name = " ".join(text.strip(" []").lower().split()).removeprefix("rule ")
    known = {each.name.lower(): each for each in rules()}
    if name not in known:
        page = name.partition(" ")[0]
        if page not in PAGES:
            raise RequestError(f"Unknown rule {text!r}: expected one such as iceberg 4.7, delta L38 or frontier F1.3")
        section, number = _place(name)

        def distance(other: str) -> tuple[bool, int]:
            own, own_number = _place(other)
            return own != section, abs(own_number - number)

        nearest = sorted((each.name for each in _page(page)), key=distance)[:_NEAR]
        raise RequestError(f"Unknown rule {text!r}: the nearest are {', '.join(nearest)}")
    return known[name]


def rules() -> tuple[Rule, ...]:
    """All rules, in the order of the pages."""
    return tuple(each for page in PAGES for each in _page(page))


def parse_page(text: str) -> tuple[Rule, ...]:
    """The rules of one page, in its order.

    text: Markdown; each rule is a heading of the third level with an anchor, a line in italics that names and links the
        source, and paragraphs up to the next heading.
    """
    found = []
    for chunk in re.split(r"^(?=#)", text, flags=re.MULTILINE):
        if heading := _HEADING.match(chunk):
            source, _, rest = chunk[heading.end() :].strip().partition("\n\n")
            source = " ".join(source.split()).strip("*").removesuffix(".")
            links = tuple(address for _, address in _LINK.findall(source))
            source = _LINK.sub(r"\1", source)
            found.append(Rule(heading["name"], heading["title"], source, links, rest, heading["anchor"]))
    return tuple(found)


@functools.cache
def _page(page: str) -> tuple[Rule, ...]:
    """The rules of a page, which is in the package of an installed wheel, and beside the package in a checkout."""
    package = Path(errors.__file__).parent
    for candidate in (package / "docs" / "rules", package.parent / "docs" / "rules"):
        if candidate.is_dir():
            return parse_page((candidate / f"{page}.md").read_text(encoding="utf-8"))
    raise RequestError(f"No rules beside {package}: install lakeharness from its wheel, or use a checkout")


def _place(name: str) -> tuple[str, int]:
    """Section and number: `4.` and 7 of `iceberg 4.7`, `l` and 38 of `delta l38`; else nothing and 0."""
    parts = _PARTS.match(name.lower().partition(" ")[2])
    return (parts["section"], int(parts["number"])) if parts else ("", 0)


def rule(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="RULE", help="The name of a rule, such as delta L38 or iceberg 4.7; with or without quotes."
        ),
    ],
    format_: options.Format = None,
    output: results.Output = None,
) -> None:
    """Show the text of a rule that an error or warning cites.

    Examples:
        harness rule delta L38
        harness rule iceberg 4.7

    Exits with 2 if there is no such rule; the error names the nearest ones.
    """
    form = results.form(format_, output, options.Document)
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
    print_document("rule", content, form, output, text=lambda: [text])
