"""Links in the README and the pages work, and their examples are run."""

import contextlib
import json
import os
import re
import shlex
from pathlib import Path

import pages
import pytest

from harness.cli import main


@pytest.fixture(scope="module")
def documents(demo) -> list[dict[str, object]]:
    """One JSON document of each kind. Descriptions have one for each table format."""
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
            "rule ICE-201",
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


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_links_into_the_repository_lead_somewhere(name):
    text = (pages.ROOT / name).read_text("utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in link]
    assert [link for link in links if not os.path.exists(pages.ROOT / link)] == []


@pytest.mark.parametrize("page", sorted((pages.ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_copies_of_files_are_the_files(page):
    text = page.read_text("utf-8")
    assert pages.with_files(text) == text


_MARKED = pages.marked()
_FIRST_PAGES = ("README.md", "docs/index.md", "docs/tour.md")
"""Pages that start in an empty directory, because newcomers run them block after block."""


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
)  # a warning of SQLAlchemy
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
