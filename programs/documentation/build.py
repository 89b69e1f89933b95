"""Write the sources of the site: the pages of docs/ with their tables, and the scripts of reports, into build/docs.

python programs/documentation/build.py
"""

import re
import shutil
from pathlib import Path

from tables import ROOT, WRITTEN

from harness.cli import main as harness

BUILD = ROOT / "build"
ROOT_PAGES = {"CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}
"""Files outside docs/ that are pages of the site, and their names there."""


def write_pages() -> None:
    """Copy docs/, and write the tables into the copies of the pages."""
    shutil.rmtree(BUILD / "docs", ignore_errors=True)
    shutil.copytree(ROOT / "docs", BUILD / "docs")
    for name, written in WRITTEN.items():
        (BUILD / name).write_text(written((ROOT / name).read_text("utf-8")), "utf-8")


def write_root_pages() -> None:
    """Copy the files of ROOT_PAGES into the site, and adjust the links to and from them."""
    for file, page in ROOT_PAGES.items():
        (BUILD / "docs" / page).write_text((ROOT / file).read_text("utf-8").replace("](docs/", "]("), "utf-8")
    for path in (BUILD / "docs").rglob("*.md"):
        text = path.read_text("utf-8")
        linked = links_to_copies(text)
        if linked != text:
            path.write_text(linked, "utf-8")


def links_to_copies(text: str) -> str:
    """Return a page whose links to the files of ROOT_PAGES, which are above docs/, point to their copies in docs/."""
    names = "|".join(map(re.escape, ROOT_PAGES))
    link = re.compile(rf"\]\(\.\./(?P<folders>(?:\.\./)*)(?P<file>{names})")
    return link.sub(lambda match: f"]({match['folders']}{ROOT_PAGES[match['file']]}", text)


def write_scripts(folder: Path) -> None:
    """Write a script next to each scenario of a report. The script writes the scenario's table wherever it runs."""
    for scenario in sorted(folder.glob("*.yaml")):
        if harness(["scenarios", "script", str(scenario), "--output", str(scenario.with_suffix(".py"))]) != 0:
            raise SystemExit(f"{scenario} has no script")


if __name__ == "__main__":
    write_pages()
    write_root_pages()
    write_scripts(BUILD / "docs/suite/reports")
