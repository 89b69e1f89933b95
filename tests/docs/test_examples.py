"""The README and the pages show what happens: their examples are run, and what they show is compared with it."""

from __future__ import annotations

import os
from pathlib import Path
from unittest import mock

import pages
import pytest

_MARKED = pages.marked()


def _name(page: Path) -> str:
    return page.relative_to(pages.ROOT).as_posix()


@pytest.mark.slow
@pytest.mark.filterwarnings("default::harness.HarnessWarning")
@pytest.mark.parametrize("page", _MARKED, ids=_name)
def test_the_examples_of_a_page_are_true(page, demo, monkeypatch):
    monkeypatch.chdir(demo)
    text = page.read_text("utf-8")
    found = pages.examples(text)
    assert found, "the page says that its examples are run, and has none"
    _run(page, text, found)


@pytest.mark.catalog
@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)  # SQLAlchemy's
@pytest.mark.parametrize("page", [page for page in _MARKED if pages.wants_pyiceberg(page)], ids=_name)
def test_the_examples_with_pyiceberg_are_true(page, demo, tmp_path, monkeypatch):
    pytest.importorskip("pyiceberg", reason="PyIceberg is not installed: nox -s tests-catalogs")
    (tmp_path / "demo-tables").symlink_to(demo / "demo-tables")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    text = page.read_text("utf-8")
    _run(page, text, pages.examples(text, with_pyiceberg=True))


def _run(page: Path, text: str, examples: list[pages.Example]) -> None:
    namespace: dict[str, object] = {}
    with mock.patch.dict(os.environ):
        for example in examples:
            if example.kind == "python":
                line = text[: example.start].count("\n")
                exec(compile("\n" * line + example.text, str(page), "exec"), namespace)
                continue
            pages.export(example.text)
            for command, typed, shown in pages.commands(example.text):
                printed, code = pages.answer(command, typed)
                assert printed == shown, f"$ harness {command}"
                assert code == pages.expected_code(shown), f"$ harness {command}"
