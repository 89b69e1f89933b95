"""Links of the README and the pages lead somewhere, and their examples are run."""

import contextlib
import json
import os
import re
import shlex
from pathlib import Path

import pages
import pytest

from harness.cli import main

DOCS = pages.ROOT / "docs"


@pytest.mark.parametrize("page", ["iceberg", "delta", "frontier"])
def test_links_of_rules_lead_to_the_section_that_they_name(page):
    """A heading's anchor is its words in small letters; appendices have longer headings than rules say."""
    found = links(page)
    assert len(found) > 20
    for rule, name, address in found:
        anchor = address.partition("#")[2]
        words = re.sub(r"[^\w\s-]", "", name.replace("`", "").lower()).replace(" ", "-")
        known = not anchor or name.startswith("Appendix A") or name == "Format version changes"
        assert known or anchor == words, f"{rule}: {address}"


@pytest.mark.parametrize("page", ["iceberg", "delta", "frontier"])
def test_links_of_rules_lead_to_sections_that_the_specifications_have(page):
    """The file names a page of a specification, the commit that its headings were read from, and their anchors."""
    known = json.loads((pages.ROOT / "tests/docs/specifications.json").read_text("utf-8"))
    lost = [
        (rule, address)
        for rule, name, address in links(page)
        for document, _, anchor in [address.partition("#")]
        if name != "proposed" and anchor not in ["", *known[document]["anchors"]]
    ]
    assert lost == []


def links(page: str) -> list[tuple[str, str, str]]:
    """The links in the sources of the rules of a page: rule, section, address."""
    text = (DOCS / f"rules/{page}.md").read_text("utf-8")
    sources = re.findall(r"^### <a id=\"([^\"]+)\".*\n\n(\*.*\*)$", text, re.MULTILINE)
    return [
        (rule, *link) for rule, source in sources for link in re.findall(r"\[([^]]+)\]\((https://[^)\s]+)\)", source)
    ]


@pytest.fixture(scope="module")
def documents(demo) -> list[dict[str, object]]:
    """A document of each kind; of a description one for each table format."""
    with contextlib.chdir(demo):
        printed = [
            "info demo-tables/orders",
            "info demo-tables/clicks",
            "count demo-tables/clicks",
            "schema demo-tables/clicks",
            "history demo-tables/clicks",
            "list",
            "list demo-tables",
            "plan demo-tables/orders --where \"region = 'eu'\"",
            "sql 'SELECT 1 AS x'",
            "diff demo-tables/orders --engines duckdb",
            "diff demo-tables demo-tables --engines duckdb",
            "check demo-tables/orders",
            "scenarios list iceberg/deletes/null-keys",
            "scenarios run iceberg/deletes/null-keys --engines duckdb",
            "pull demo-tables/clicks document-slice",
            "doctor",
            "rule delta L1",
        ]
        found = [json.loads(pages.answer(f"{command} --format json")[0]) for command in printed]
        assert main(shlex.split("scenarios build iceberg/deletes/null-keys scenarios")) == 0
        place = Path("scenarios/iceberg/deletes/null-keys")
        files = ["scenarios/suite.json", place / "case.json"]
        return [*found, *(json.loads(Path(file).read_text("utf-8")) for file in files)]


def test_every_document_says_what_it_is(documents):
    for document in documents:
        assert list(document)[:2] == ["format", "kind"]
        assert document["format"] == 1


# -- links -------------------------------------------------------------------------------------------------------------


def test_what_pages_include_has_no_relative_links():  # the builder does not check them there
    included = {
        found
        for page in DOCS.rglob("*.md")
        for found in re.findall(r'^--8<-- "([^":]+)', page.read_text("utf-8"), re.M)
    }
    assert {"SECURITY.md", "CHANGELOG.md", "fixtures/README.md"} <= included
    texts = {name: (pages.ROOT / name).read_text("utf-8") for name in included}
    links = re.compile(r"\]\((?!https?://)[^)]*\)")
    assert [(name, link) for name, text in texts.items() for link in links.findall(text)] == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_links_into_the_repository_lead_somewhere(name):
    text = (pages.ROOT / name).read_text("utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in link]
    assert [link for link in links if not os.path.exists(pages.ROOT / link)] == []


LISTED = (pages.ROOT / "tests" / "attacks.md").read_text("utf-8")


def test_each_attack_has_a_test_that_is_there():
    named = re.findall(r"`(tests/[\w/.]+|test_\w+…?)`", LISTED)
    assert len(named) > 60
    texts = [path.read_text("utf-8") for path in (pages.ROOT / "tests").rglob("test_*.py")]
    functions = set(re.findall(r"^(?:async )?def (test_\w+)", "\n".join(texts), re.M))
    lost = {
        name
        for name in named
        if not (
            (pages.ROOT / name).exists()
            or any(f == name or ("…" in name and f.startswith(name[:-1])) for f in functions)
        )
    }
    assert lost == set()


_MARKED = pages.marked()
_FIRST_PAGES = ("README.md", "docs/index.md", "docs/tour.md")
"""Pages that begin in an empty directory, in which a newcomer pastes block after block."""


def _name(page: Path) -> str:
    return page.relative_to(pages.ROOT).as_posix()


@pytest.mark.slow
@pytest.mark.filterwarnings("default::harness.HarnessWarning")
@pytest.mark.parametrize("page", _MARKED, ids=_name)
def test_the_examples_of_a_page_are_true(page, demo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path if _name(page) in _FIRST_PAGES else demo)
    assert pages.examples(page.read_text("utf-8")), "the page says that its examples are run, and has none"
    check(page)


@pytest.mark.external
@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)  # SQLAlchemy's
@pytest.mark.parametrize("page", [page for page in _MARKED if pages.wants_pyiceberg(page)], ids=_name)
def test_the_examples_with_pyiceberg_are_true(page, demo, tmp_path, monkeypatch):
    pytest.importorskip("pyiceberg", reason="PyIceberg is not installed: nox -s tests-external -- catalogs")
    (tmp_path / "demo-tables").symlink_to(demo / "demo-tables")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    check(page, with_pyiceberg=True)


def check(page: Path, **how: bool) -> None:
    for (command, _), shown, printed, code in pages.run(page, **how):
        assert printed == shown, f"$ harness {command}"
        assert code == pages.expected_code(shown), f"$ harness {command}"
