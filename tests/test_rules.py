"""The pages of rules, and that every rule which is cited anywhere is on them."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from citing import bare, citations, sections

import harness
from harness.cli import main
from harness.rules import PAGES, parse_page, rules

ROOT = Path(__file__).parents[1]
PAGE_FILES = [ROOT / "docs" / "rules" / f"{page}.md" for page in PAGES]
NAME = re.compile(r"(?:iceberg|delta|frontier) (?:trap )?[A-Z]*[0-9.]*[0-9][a-z]?")
TEXTS = {".java", ".md", ".py", ".toml", ".txt", ".yaml"}


def texts(*directories: str) -> Iterator[tuple[Path, str]]:
    """Path from the root, and content, of every text file in directories of the repository."""
    for directory in directories:
        for path in sorted((ROOT / directory).rglob("*")):
            if path.suffix in TEXTS and path.is_file():
                yield path.relative_to(ROOT), path.read_text("utf-8")


KNOWN = {each.name for each in rules()}


def test_every_anchor_is_unique_and_made_of_the_name():
    anchors = Counter(each.anchor for each in rules())
    assert {anchor: n for anchor, n in anchors.items() if n > 1} == {}
    assert all(each.anchor == each.name.replace(" ", "-") for each in rules())
    assert len({each.name.lower() for each in rules()}) == len(rules())


@pytest.mark.parametrize("page", PAGES)
def test_every_heading_of_the_third_level_is_a_rule_with_source_and_text(page):
    text = (ROOT / "docs" / "rules" / f"{page}.md").read_text("utf-8")
    found = parse_page(text)
    assert len(found) == len(re.findall("^###", text, re.MULTILINE))
    assert [each.name for each in found if not (each.name.startswith(f"{page} ") and each.source and each.text)] == []
    assert [each.name for each in found if not each.text.endswith(".")] == []


def test_numbers_of_a_section_have_no_holes():
    numbers: dict[str, list[int]] = {}
    for each in rules():
        section, number = re.fullmatch(r"(.*?)(\d+)b?", each.name).groups()
        numbers.setdefault(section, []).append(int(number))
    holes = {section: found for section, found in numbers.items() if set(found) != set(range(1, len(set(found)) + 1))}
    assert holes == {}


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("(iceberg 4.7)", ["iceberg 4.7"]),
        ("Rules: delta L14, L18.", ["delta L14", "delta L18"]),
        ("iceberg 1.35 to 1.37", ["iceberg 1.35", "iceberg 1.36", "iceberg 1.37"]),
        ("delta L32 to L34, L36", ["delta L32", "delta L33", "delta L34", "delta L36"]),
        ("for Delta (F5-F7)", ["delta F5", "delta F6", "delta F7"]),
        ("(delta W2, W3;\n    iceberg 5.18)", ["iceberg 5.18", "delta W2", "delta W3"]),
        ("# see delta\n# L38 and L39", ["delta L38", "delta L39"]),
        ("clauses: [delta D5, delta trap 14]", ["delta D5", "delta trap 14"]),
        ("iceberg 4.15, trap T2", ["iceberg 4.15", "iceberg T2"]),
        ("iceberg 4.1b.", ["iceberg 4.1b"]),
        ("frontier F1.6 to F1.8", ["frontier F1.6", "frontier F1.7", "frontier F1.8"]),
        ("duckdb-iceberg 1.5.5, Iceberg v3", []),
    ],
)
def test_citations_are_found_in_every_form(text, cited):
    assert [found.rule for found in citations(text)] == cited


def unknown(found, path: Path) -> list[str]:
    return [f"{path}:{cited.line}: {cited.rule}" for cited in found if cited.rule not in KNOWN]


def test_every_citation_is_a_rule():
    broken = []
    for path, text in (*texts("harness", "tests", "programs", "fixtures", "docs"), *root_texts()):
        if path != Path("tests/test_rules.py"):
            broken += unknown(citations(text), path)
    assert broken == []


def root_texts() -> Iterator[tuple[Path, str]]:
    for path in sorted(ROOT.glob("*.*")):
        if path.suffix in TEXTS:
            yield path.relative_to(ROOT), path.read_text("utf-8")


def test_every_citation_without_a_format_is_a_rule():
    broken = []
    for path, text in texts("harness", "docs"):
        for page in PAGES:
            if any(part.startswith(page) for part in path.parts[1:]):
                broken += unknown(bare(page, text), path)
    assert broken == []


def test_every_section_that_is_cited_is_on_a_page():
    known = {
        f"{page} {number}"
        for page, path in zip(PAGES, PAGE_FILES, strict=True)
        for number in re.findall(r"^## (\w+)\. ", path.read_text("utf-8"), re.MULTILINE)
    }
    assert [
        f"{path}:{cited.line}: {cited.rule}"
        for path, text in texts("harness", "tests", "programs", "fixtures", "docs")
        for cited in sections(text)
        if cited.rule not in known
    ] == []


def shown() -> set[str]:
    """Rules that code of harness puts into messages: whole constants, numbers given to `corrupt`, `[…]` in texts."""
    found = set()
    for path in sorted((ROOT / "harness").rglob("*.py")):
        text = path.read_text("utf-8")
        if not re.search(rf"""["'\[]{NAME.pattern}|corrupt\(""", text):
            continue  # to parse all takes seconds
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Constant(value=str(value)) if NAME.fullmatch(value):
                    found.add(value)
                case ast.Constant(value=str(value)):
                    found.update(re.findall(rf"\[({NAME.pattern})\]", value))
                case ast.Call(func=ast.Name(id="corrupt"), args=[*_, ast.Constant(value=str(value))]) if value[
                    0
                ].isdigit():
                    found.add(f"iceberg {value}")
    return found


def test_every_rule_that_users_are_shown_can_be_looked_up(capfd):
    names = sorted(shown())
    assert len(names) > 100
    assert KNOWN.issuperset(names)
    for name in names[:: len(names) // 5]:
        assert main(["rule", *name.split()]) == 0, name
        assert capfd.readouterr().out.startswith(f"{name}: ")


def test_the_pages_come_with_the_package(tmp_path):
    packed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert packed["packages"] == ["harness"]
    shutil.copytree(Path(harness.__file__).parent, tmp_path / "harness", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "docs" / "rules", tmp_path / packed["force-include"]["docs/rules"])
    printed = subprocess.run(
        [sys.executable, "-m", "harness", "rule", "delta", "L38"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        timeout=60,
    )
    assert printed.stdout.startswith("delta L38: ")
