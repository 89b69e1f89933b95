"""The map of `tests/`: lines of each folder and the seconds of its tests, in the table of tests/README.md.

    python tests/house/folders.py [REPORT]

REPORT is what a run of pytest leaves with `--junitxml=REPORT`; without it, the seconds stay as they are. The seconds of
a folder are those of its tests one after the other, in all processes together.
"""

import re
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

TESTS = Path(__file__).parents[1]
PAGE = TESTS / "README.md"
HERE = "."
"""The name of the files that lie in no folder."""
_ROW = re.compile(r"\| `([\w.]+)/?` \|(.*)\| *([\d,]*) *\| *([\d,.]*) *\|")


def lines() -> dict[str, int]:
    """Lines of Python by folder."""
    found: Counter[str] = Counter()
    for file in TESTS.rglob("*.py"):
        inside = file.relative_to(TESTS).parts
        found[inside[0] if len(inside) > 1 else HERE] += len(file.read_text("utf-8").splitlines())
    return dict(found)


def rows() -> dict[str, re.Match[str]]:
    """The rows of the table by folder. Raises ValueError: a folder stands there twice."""
    found = [match for line in PAGE.read_text("utf-8").splitlines() if (match := _ROW.fullmatch(line))]
    by_folder = {match[1]: match for match in found}
    if len(by_folder) < len(found):
        raise ValueError(f"{PAGE} has a folder twice")
    return by_folder


def seconds(report: Path) -> dict[str, float]:
    """Seconds by folder, of the tests that a report of pytest has."""
    found: Counter[str] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        parts = case.attrib["classname"].split(".")
        found[parts[1] if len(parts) > 2 else HERE] += float(case.attrib["time"])
    return dict(found)


def write(report: Path | None) -> None:
    """Writes the figures into the table."""
    known, taken = lines(), None if report is None else seconds(report)

    def row(match: re.Match[str]) -> str:
        name = match[1]
        time = match[4] if taken is None else f"{taken[name]:.0f}" if name in taken else ""
        return f"| `{name}{'' if name == HERE else '/'}` |{match[2]}| {known.get(name, 0):,} | {time} |"

    text = PAGE.read_text("utf-8").split("\n")
    PAGE.write_text("\n".join(row(found) if (found := _ROW.fullmatch(line)) else line for line in text), "utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
