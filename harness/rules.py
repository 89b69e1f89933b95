"""The rules that scenarios and errors cite, parsed from the pages below `docs/rules`."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from harness import errors
from harness.errors import RequestError

PAGES = ("iceberg", "delta", "frontier")
"""Names of the pages below `docs/rules`, in order. Each is the first word of the names of its rules."""

_HEADING = re.compile(r'### <a id="(?P<anchor>[^"]+)"></a>(?P<name>[^:]+): (?P<title>.+)\n')
_LINK = re.compile(r"\[([^]]+)\]\(([^)]+)\)")
_PARTS = re.compile(r"(?P<section>\D*(?:\d+\.)?)(?P<number>\d+)")
_NEAR = 3


@dataclass(frozen=True, slots=True)
class Rule:
    """A numbered rule.

    Attributes:
        name: The name that errors cite, like `iceberg 4.7`, `delta L38`, or `delta trap 9`.
        title: The heading.
        source: The section of a specification that states the rule, or a note that no section does.
        links: Links to these sections.
        text: The Markdown text of the rule.
        anchor: The anchor of the rule on its page.
    """

    name: str
    title: str
    source: str
    links: tuple[str, ...]
    text: str
    anchor: str

    @property
    def page(self) -> str:
        """The path and anchor of the rule in the repository."""
        return f"docs/rules/{self.name.split()[0]}.md#{self.anchor}"


def find_rule(text: str) -> Rule:
    """Return the rule with a name, for example `delta L38`.

    Args:
        text: The name in any letter case. Brackets and the word `rule` around it, as in error messages, are ignored.

    Returns:
        The rule.

    Raises:
        RequestError: There is no such rule. The message lists the nearest rules.
    """
    name = " ".join(text.strip(" []").lower().split()).removeprefix("rule ")
    by_name = {each.name.lower(): each for each in rules()}
    if name not in by_name:
        page = name.partition(" ")[0]
        if page not in PAGES:
            raise RequestError(
                f"Unknown rule {text!r}: expected a name like iceberg 4.7, delta L38, frontier F1.3, or ICE-201"
            )
        section, number = _section_and_number(name)
        places = [(each.name, *_section_and_number(each.name)) for each in _rules_of_page(page)]
        near = sorted(places, key=lambda place: (place[1] != section, abs(place[2] - number)))
        nearest = [each for each, *_ in near[:_NEAR]]
        raise RequestError(f"Unknown rule {text!r}: the nearest are {', '.join(nearest)}")
    return by_name[name]


def rules() -> tuple[Rule, ...]:
    """Return all rules, in the order of the pages."""
    return tuple(each for page in PAGES for each in _rules_of_page(page))


def parse_page(text: str) -> tuple[Rule, ...]:
    """Parse the rules of one page.

    Args:
        text: The page in Markdown. Each rule has a heading with an anchor, its linked source in italics, and
            paragraphs.

    Returns:
        The rules in the order of the page.
    """
    rules_ = []
    for chunk in re.split(r"^(?=#)", text, flags=re.MULTILINE):
        if heading := _HEADING.match(chunk):
            source, _, rest = chunk[heading.end() :].strip().partition("\n\n")
            source = " ".join(source.split()).strip("*").removesuffix(".")
            links = tuple(address for _, address in _LINK.findall(source))
            source = _LINK.sub(r"\1", source)
            rules_.append(Rule(heading["name"], heading["title"], source, links, rest, heading["anchor"]))
    return tuple(rules_)


@functools.cache
def _rules_of_page(page: str) -> tuple[Rule, ...]:
    """Return the rules of a page, which is inside the package in a wheel, and next to the package in a checkout."""
    package = Path(errors.__file__).parent
    for candidate in (package / "docs" / "rules", package.parent / "docs" / "rules"):
        if candidate.is_dir():
            return parse_page((candidate / f"{page}.md").read_text(encoding="utf-8"))
    raise RequestError(
        f"Cannot find the rule pages next to {package}: install lakeharness from its wheel, or use a checkout"
    )


def _section_and_number(name: str) -> tuple[str, int]:
    """Return the section and number of a rule: `4.` and 7 for `iceberg 4.7`, `l` and 38 for `delta l38`.

    A name of another form yields an empty section and 0.
    """
    parts = _PARTS.match(name.lower().partition(" ")[2])
    return (parts["section"], int(parts["number"])) if parts else ("", 0)
