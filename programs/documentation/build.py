"""Write the sources of the site: the pages of docs/ with their tables, and the scripts of reports, into build/docs.

    python programs/documentation/build.py

Files outside docs/ that pages include go to build/included, if they have tables.
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
    for place in (BUILD / "docs", BUILD / "included"):
        shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(ROOT / "docs", BUILD / "docs")
    for name, written in WRITTEN.items():
        target = BUILD / name if name.startswith("docs/") else BUILD / "included" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(written((ROOT / name).read_text("utf-8")), "utf-8")


def write_root_pages() -> None:
    """Copy the files of ROOT_PAGES into the site, and adjust the links to and from them."""
    for file, page in ROOT_PAGES.items():
        (BUILD / "docs" / page).write_text((ROOT / file).read_text("utf-8").replace("](docs/", "]("), "utf-8")
    for page in (BUILD / "docs").rglob("*.md"):
        text = page.read_text("utf-8")
        linked = re.sub(
            r"\]\(\.\./((?:\.\./)*)(CHANGELOG|SECURITY)\.md", lambda link: f"]({link[1]}{link[2].lower()}.md", text
        )
        if linked != text:
            page.write_text(linked, "utf-8")


def write_scripts(folder: Path) -> None:
    """Write a script next to each scenario of a report. The script writes the scenario's table wherever it runs."""
    for scenario in sorted(folder.glob("*.yaml")):
        if harness(["scenarios", "script", str(scenario), "--output", str(scenario.with_suffix(".py"))]) != 0:
            raise SystemExit(f"{scenario} has no script")


if __name__ == "__main__":
    write_pages()
    write_root_pages()
    write_scripts(BUILD / "docs/suite/reports")
