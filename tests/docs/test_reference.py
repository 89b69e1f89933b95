"""The README and the pages say what there is: options, documents, errors, links; and their examples are run."""

import contextlib
import json
import os
import pkgutil
import re
import shlex
from pathlib import Path

import pages
import pytest
import tables
import yaml

import harness.errors
from harness.cli import main
from harness.testing.conformance import other_readers, readers

DOCS = pages.ROOT / "docs"
JSON_PAGE = (DOCS / "reference/json.md").read_text("utf-8")


@pytest.mark.parametrize(("name", "written"), tables.WRITTEN.items(), ids=tables.WRITTEN)
def test_a_page_has_what_is_written_from_the_code(name, written):
    page = (pages.ROOT / name).read_text("utf-8")
    assert "<!-- end -->" in page
    assert written(page) == page, "python tests/docs/refresh.py writes it"


def test_the_page_of_commands_has_all_of_them():
    page = (DOCS / "reference/cli.md").read_text("utf-8")
    assert re.findall(r"<!-- options of ([a-z ]+) -->", page) == list(tables.commands())
    assert re.findall(r"^## ([a-z ]+)$", page, re.MULTILINE) == list(tables.commands())
    overview = page.partition("\n\nResults go to")[0]
    assert sorted(re.findall(r"^\| \[`harness ([a-z ]+)`\]", overview, re.MULTILINE)) == sorted(tables.commands())


def test_no_code_in_a_table_has_an_escaped_bar():  # the builder shows the backslash
    shown = [
        (page.relative_to(DOCS).as_posix(), code)
        for page in DOCS.rglob("*.md")
        for line in page.read_text("utf-8").splitlines()
        if line.startswith("|")
        for code in re.findall(r"`[^`]*`", line)
        if "\\|" in code
    ]
    assert shown == []


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


def test_every_error_is_on_its_page():
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", (DOCS / "reference/errors.md").read_text("utf-8"), re.MULTILINE)
    classes = {
        (name, value.__bases__[0].__name__)
        for name, value in vars(harness.errors).items()
        if isinstance(value, type) and issubclass(value, harness.HarnessError) and value is not harness.HarnessError
    }
    assert set(rows) == classes


# -- JSON --------------------------------------------------------------------------------------------------------------


def keys_of(kind: str) -> set[str]:
    """The keys in the first column of the table of a kind."""
    section = re.search(rf"^## {kind}\n(.*?)(?=^## |\Z)", JSON_PAGE, re.MULTILINE | re.DOTALL).group(1)
    rows = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    return {key for row in rows for key in re.findall(r"`(\w+)`", row)}


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
            "cache info --cache-dir kept",
            "pull demo-tables/clicks document-slice --dry-run",
            "pull demo-tables/orders document-slices --follow orders.id=clicks.id",
            "doctor",
            "rule delta L1",
        ]
        found = [json.loads(pages.answer(f"{command} --format json")[0]) for command in printed]
        assert main(shlex.split("scenarios build iceberg/deletes/null-keys scenarios")) == 0
        place = Path("scenarios/iceberg/deletes/null-keys")
        files = ["scenarios/suite.json", place / "case.json"]
        return [*found, *(json.loads(Path(file).read_text("utf-8")) for file in files)]


def test_every_document_says_what_it_is_and_its_keys_are_on_the_page(documents):
    for document in documents:
        assert list(document)[:2] == ["format", "kind"]
        assert document["format"] == 1
        kind = document["kind"]
        assert document.keys() - {"format", "kind"} <= keys_of(kind), kind


def test_no_key_is_on_the_page_that_no_document_has(documents):
    kinds = {document["kind"] for document in documents}
    for kind in kinds:
        assert keys_of(kind) <= {key for document in documents if document["kind"] == kind for key in document}, kind
    assert set(re.findall(r"^## (\w+)$", JSON_PAGE, re.MULTILINE)) == {"Values", *kinds}


# -- pages and links ---------------------------------------------------------------------------------------------------


def navigation() -> set[str]:
    """The pages that mkdocs.yml names."""

    def leaves(node: object) -> list[str]:
        match node:
            case str():
                return [node]
            case dict():
                return [leaf for value in node.values() for leaf in leaves(value)]
            case list():
                return [leaf for value in node for leaf in leaves(value)]
        raise AssertionError(node)

    nav = (pages.ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]  # what stands above has tags
    return set(leaves(yaml.safe_load(nav)))


def test_every_page_is_in_the_navigation():
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert there <= navigation()


def test_objects_that_pages_document_are_there():  # the builder of the site is not among the default tests' packages
    named = [
        (page.name, name)
        for page in DOCS.rglob("*.md")
        for name in re.findall(r"(?m)^::: (\S+)$", page.read_text("utf-8"))
    ]
    assert len(named) > 30
    gone = []
    for page, name in named:
        try:
            pkgutil.resolve_name(name)
        except (ImportError, AttributeError):
            gone.append((page, name))
    assert gone == []


def test_files_that_pages_name_are_there():
    files = [*pages.ROOT.glob("*.py"), *pages.ROOT.glob("[ht]*/**/*.py")]
    there = [f"/{path.relative_to(pages.ROOT).as_posix()}" for path in files]
    named = {
        (page.relative_to(DOCS).as_posix(), name)
        for page in [*DOCS.glob("how-to/*.md"), *DOCS.glob("architecture/*.md"), *DOCS.glob("decisions/*.md")]
        for name in re.findall(r"`((?:\w+/)*\w+\.py)`", page.read_text("utf-8"))
    }
    lost = {(page, name) for page, name in named if not any(path.endswith(f"/{name}") for path in there)}
    assert lost == {("how-to/add-an-engine.md", "my_engine.py")}


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


def test_each_setting_of_another_reader_is_in_the_matrix():
    settings = {"spark.jars.packages", *other_readers._SETTINGS}
    settings |= {name for pinned in readers.PINNED.values() for name in pinned["settings"]}
    page = (DOCS / "matrix.md").read_text("utf-8")
    assert [name for name in sorted(settings) if f"`{name}" not in page] == []


def test_each_wrong_read_of_the_matrix_has_its_cause():
    lines = (pages.ROOT / "tests/conformance/readers-fail.txt").read_text("utf-8").splitlines()
    wrong = [name for name, _, reason in (line.partition("  # ") for line in lines) if reason.startswith("FAIL")]
    told = []
    for page in (pages.ROOT / "docs/reports/readers").glob("*.md"):
        text = page.read_text("utf-8")
        reads, causes = (re.findall(form, text, re.MULTILINE) for form in (r"^- `([^`]+)`", "^## "))
        counts = f"{len(reads)} reads? of the .* {len(causes)} causes?"
        assert re.search(counts, " ".join(text.split())), f"{page.name} says other counts than {counts}"
        told += [f"{page.stem}::{read}" for read in reads]
    assert sorted(told) == sorted(wrong)


@pytest.mark.parametrize("file", ["revenue/job.py", "test_revenue.py"])
def test_the_worked_example_of_jobs_is_what_is_run(file):
    """`tests/jobs/example` is run on Spark, by `nox -s tests-spark`."""
    page = (DOCS / "how-to/test-a-spark-job.md").read_text("utf-8")
    assert f"```python\n{(pages.ROOT / 'tests/jobs/example' / file).read_text('utf-8')}```" in page


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
