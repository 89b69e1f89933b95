"""Citations of numbered rules in files of the repository, in every form that occurs.

    iceberg 4.7    delta L38    delta trap 9    frontier F1.3        one rule; the format in any letter case
    iceberg 4.7, 4.8    delta W2 and W3    iceberg 5.6; delta T11    several; those after the first need no format
    iceberg 1.32 to 1.37    delta F5-F8                              a range, with the rules between its ends
    iceberg section 4a    delta sections 5 to 7 and 9                headings of a page

A list may go on over a line end, also in comments, and may stand in parentheses after its format. Where a file is about
one format, docstrings and comments leave the format out: `(4.7)`, `(L38, R3)`, `rules 4.6 and 4.8`; see `bare`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_NUMBERS = {"iceberg": r"(?:trap )?T\d+|\d+\.\d+b?", "delta": r"trap \d+|[A-Z]\d+", "frontier": r"F\d+\.\d+"}
_END = r"(?![\w%]|\.\d)"  # neither a longer word nor a version such as 1.5.5
_SPACE = r"[ \n](?:[ ]*(?:# )?)?"
_JOIN = rf"(?:,{_SPACE}(?:and )?|;{_SPACE}|{_SPACE}and |{_SPACE}or |{_SPACE}to{_SPACE}|-)"


def _list_of(number: str) -> str:
    return rf"(?:{number}){_END}(?:{_JOIN}(?:{number}){_END})*"


_CITATIONS = {
    page: re.compile(rf"(?i:\b{page}){_SPACE}\(?(?P<list>{_list_of(number)})") for page, number in _NUMBERS.items()
}
_SECTIONS = {
    page: re.compile(rf"(?i:\b{page}){_SPACE}sections?{_SPACE}(?P<list>{_list_of(r'[1-9][0-9]?[a-e]?')})")
    for page in ("iceberg", "delta")
}
_BARE = {
    page: re.compile(rf"(?:\((?P<list>{_list_of(number)})\)|\brules?{_SPACE}(?P<named>{_list_of(number)}))")
    for page, number in _NUMBERS.items()
}


@dataclass(frozen=True, slots=True)
class Citation:
    """A rule, by its name on the page, and the line that cites it."""

    rule: str
    line: int


def citations(text: str) -> Iterator[Citation]:
    """Every rule that a file cites with its format, ranges spelled out."""
    for page, pattern in _CITATIONS.items():
        for match in pattern.finditer(text):
            yield from _listed(page, match, "list")


def bare(page: str, text: str) -> Iterator[Citation]:
    """Rules that a file about one format cites without it: lists alone in parentheses, or after the word rule."""
    for match in _BARE[page].finditer(text):
        yield from _listed(page, match, "list" if match["list"] else "named")


def sections(text: str) -> Iterator[Citation]:
    """Sections that a file cites, such as `iceberg 4a`."""
    for page, pattern in _SECTIONS.items():
        for match in pattern.finditer(text):
            yield from _listed(page, match, "list")


def _listed(page: str, match: re.Match[str], group: str) -> Iterator[Citation]:
    number = re.compile(rf"(?P<join>{_JOIN})?(?:trap (?=T))?(?P<number>{_NUMBERS[page]}|\d+[a-e]?){_END}")
    before = None
    for found in number.finditer(match[group]):
        line = match.string.count("\n", 0, match.start(group) + found.start("number")) + 1
        this = found["number"].removeprefix("trap ") if page == "iceberg" else found["number"]
        join = (found["join"] or "").strip(" #\n")
        between = _between(before, this) if join in ("to", "-") and before is not None else ()
        for name in (*between, this):
            yield Citation(f"{page} {name}", line)
        before = this


def _between(first: str, last: str) -> Iterator[str]:
    prefix, low = re.fullmatch(r"(.*?)(\d+)[a-e]?", first).groups()
    other, high = re.fullmatch(r"(.*?)(\d+)[a-e]?", last).groups()
    if prefix != other:
        yield f"{first} to {last}"  # no such rule: a range has one section
        return
    yield from (f"{prefix}{number}" for number in range(int(low) + 1, int(high)))
