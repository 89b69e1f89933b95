"""`harness rule`: what a rule says that an error or a warning cites.

A command and not an option of `doctor`: that one looks at the installation, and its exit code says whether DuckDB reads
work; a rule is looked up wherever an error is read.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from harness import errors
from harness.cli import options, results
from harness.cli.document import print_document
from harness.errors import RequestError

# The numbered rules that errors, warnings and scenarios cite, from their pages in `docs/rules`.
#
# The pages are the one place where the rules are written down: people read them there, and `harness rule` prints them
# from there. They are read when a rule is asked for, and come with an installed wheel.


PAGES = ("iceberg", "delta", "frontier")
"""The pages in order, each the first word of its rules' names."""

_HEADING = re.compile(r'### <a id="(?P<anchor>[^"]+)"></a>(?P<name>[^:]+): (?P<title>.+)\n')
_PARTS = re.compile(r"(?P<section>\D*(?:\d+\.)?)(?P<number>\d+)")
_NEAR = 3


@dataclass(frozen=True, slots=True)
class Rule:
    """A numbered rule.

    name: as errors cite it, such as `iceberg 4.7`, `delta L38` or `delta trap 9`.
    title: a few words.
    source: the section of a specification that says so, or that none does.
    text: what a reader must do, why harness refuses or warns, and what to do; lines as on the page.
    anchor: of the rule on its page, `docs/rules/<format>.md`.
    """

    name: str
    title: str
    source: str
    text: str
    anchor: str

    @property
    def page(self) -> str:
        """The place of the rule in the repository."""
        return f"docs/rules/{self.name.split()[0]}.md#{self.anchor}"


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
        raise RequestError(f"Unknown rule {text!r}: the nearest are {', '.join(_nearest(name, page))}")
    return known[name]


def rules() -> tuple[Rule, ...]:
    """All rules, in the order of the pages."""
    return tuple(each for page in PAGES for each in _page(page))


def parse_page(text: str) -> tuple[Rule, ...]:
    """The rules of one page, in its order.

    text: Markdown; each rule is a heading of the third level with an anchor, a line in italics that names the source,
        and paragraphs up to the next heading.
    """
    chunks = re.split(r"^(?=#)", text, flags=re.MULTILINE)
    return tuple(_parse(heading, chunk[heading.end() :]) for chunk in chunks if (heading := _HEADING.match(chunk)))


def _pages_directory() -> Path:
    """The folder of the pages: in the package of an installed wheel, beside it in a checkout."""
    package = Path(errors.__file__).parent
    for candidate in (package / "docs" / "rules", package.parent / "docs" / "rules"):
        if candidate.is_dir():
            return candidate
    raise RequestError(f"No rules beside {package}: install lakeharness from its wheel, or use a checkout")


def _parse(heading: re.Match[str], body: str) -> Rule:
    source, _, rest = body.strip().partition("\n\n")
    return Rule(
        name=heading["name"],
        title=heading["title"],
        source=" ".join(source.split()).strip("*").removesuffix("."),
        text=rest,
        anchor=heading["anchor"],
    )


@functools.cache
def _page(page: str) -> tuple[Rule, ...]:
    return parse_page((_pages_directory() / f"{page}.md").read_text(encoding="utf-8"))


def _nearest(name: str, page: str) -> list[str]:
    """Names of rules of the page, those of the same section first, then by number."""
    section, number = _place(name)

    def distance(known: str) -> tuple[bool, int]:
        other, other_number = _place(known.lower())
        return other != section, abs(other_number - number)

    return sorted((each.name for each in _page(page)), key=distance)[:_NEAR]


def _place(name: str) -> tuple[str, int]:
    """Section and number: `4.` and 7 of `iceberg 4.7`, `l` and 38 of `delta l38`; else nothing and 0."""
    parts = _PARTS.match(name.partition(" ")[2])
    return (parts["section"], int(parts["number"])) if parts else ("", 0)


Words = Annotated[
    list[str],
    typer.Argument(
        metavar="RULE", help="The name of a rule, such as delta L38 or iceberg 4.7; with or without quotes."
    ),
]


def rule(words: Words, format_: options.Format = None, output: results.Output = None) -> None:
    """Show the text of a rule that an error or warning cites.

    Examples:
        harness rule delta L38
        harness rule iceberg 4.7

    Exits with 2 if there is no such rule; the error names the nearest ones.
    """
    form = results.form(format_, output, options.Document)
    found = find_rule(" ".join(words))
    text = f"{found.name}: {found.title}\n{found.source}\n\n{found.text}\n"  # as on its page, without markup
    print_document("rule", _as_dict(found), form, output, text=lambda: [text])


def _as_dict(found: Rule) -> dict[str, str]:
    """The rule's parts; the text as one line per paragraph."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in found.text.split("\n\n"))
    return {
        "rule": found.name,
        "title": found.title,
        "source": found.source,
        "text": "\n".join(paragraphs),
        "page": found.page,
    }
